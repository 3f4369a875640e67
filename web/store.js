/* What the browser keeps: conversations, each under a key of its own, and the settings. */

const PREFIX = 'foretoken.chat.';
const SETTINGS = 'foretoken.settings';

function read(key) {
  try {
    return JSON.parse(localStorage.getItem(key));
  } catch {
    return null;
  }
}

export function loadChats() {
  const chats = [];
  for (let i = 0; i < localStorage.length; i++) {
    const key = localStorage.key(i);
    if (!key.startsWith(PREFIX)) continue;
    const c = valid(read(key));
    if (c) chats.push(c);
  }
  return chats.sort((a, b) => b.changed - a.changed);
}

/* false: the browser has no room left. */
export function saveChat(chat) {
  try {
    localStorage.setItem(PREFIX + chat.id, JSON.stringify(chat));
    return true;
  } catch {
    return false;
  }
}

export const dropChat = (chat) => localStorage.removeItem(PREFIX + chat.id);

export function newChat() {
  return { id: Date.now().toString(36) + Math.random().toString(36).slice(2, 8), title: '', changed: Date.now(), messages: [] };
}

const ROLES = ['user', 'assistant', 'tool'];

/* A conversation as we wrote it, or null: imported files may hold anything. */
export function valid(c) {
  if (!c || typeof c.id !== 'string' || !Array.isArray(c.messages)) return null;
  const messages = c.messages.filter((m) => m && ROLES.includes(m.role)).map((m) => ({
    ...m,
    content: String(m.content ?? ''),
    reasoning: String(m.reasoning ?? ''),
    marks: Array.isArray(m.marks) ? m.marks : [],
    calls: Array.isArray(m.calls) ? m.calls : [],
  }));
  return { id: c.id, title: String(c.title ?? ''), changed: Number(c.changed) || 0, messages };
}

export const loadSettings = () => read(SETTINGS) || {};
export const saveSettings = (s) => localStorage.setItem(SETTINGS, JSON.stringify(s));
