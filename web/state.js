/* What the parts of the page share, and how they tell each other that it changed. */
import { newChat } from './tree.js';

export const app = {
  settings: {},
  chats: [], /* all conversations with messages */
  chat: newChat(), /* the one that is shown */
};

const listeners = new Map();

/* Events: chats (the list), chat (another one is shown), message (m), running, deleted (chat),
 * settings, server, and requests of one part to another: send, open-settings, regenerate-with, trouble. */
export function on(name, act) {
  if (!listeners.has(name)) listeners.set(name, []);
  listeners.get(name).push(act);
}

export function emit(name, ...args) {
  for (const act of listeners.get(name) ?? []) act(...args);
}
