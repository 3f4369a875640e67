/* State that the modules of the page share, and events that announce changes. */
import { newChat } from './tree.js';

export const app = {
  settings: {},
  chats: [], /* all conversations with messages */
  chat: newChat(), /* the one that is shown */
};

const listeners = new Map();

/* Events: chats (the list), chat (another one is shown), message (m), running, deleted (chat),
 * settings, server, and requests to another module: send, open-settings, regenerate-with, trouble. */
export function on(name, act) {
  if (!listeners.has(name)) listeners.set(name, []);
  listeners.get(name).push(act);
}

export function emit(name, ...args) {
  for (const act of listeners.get(name) ?? []) act(...args);
}
