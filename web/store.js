/* Storage in the browser: conversations in IndexedDB, settings in localStorage. */
import { validChat } from './tree.js';

const DATABASE = 'foretoken', CHATS = 'chats';
const SETTINGS = 'foretoken.settings', SHOWN = 'foretoken.shown';
const OLD_PREFIX = 'foretoken.chat.'; /* conversations of earlier versions, in localStorage */

let database = null;

const result = (request) => new Promise((resolve, reject) => {
  request.onsuccess = () => resolve(request.result);
  request.onerror = () => reject(request.error);
});

async function open() {
  if (database) return database;
  const request = indexedDB.open(DATABASE, 1);
  request.onupgradeneeded = () => request.result.createObjectStore(CHATS, { keyPath: 'id' });
  database = await result(request);
  database.onclose = () => { database = null; };
  return database;
}

async function write(act) {
  const tx = (await open()).transaction(CHATS, 'readwrite');
  const done = new Promise((resolve, reject) => {
    tx.oncomplete = resolve;
    tx.onerror = tx.onabort = () => reject(tx.error ?? new Error('the write was aborted'));
  });
  act(tx.objectStore(CHATS));
  return done;
}

/* Rejects if the storage is full or disabled. */
export const saveChat = (chat) => write((chats) => chats.put(structuredClone(chat)));
export const dropChat = (id) => write((chats) => chats.delete(id));

export async function loadChat(id) {
  const tx = (await open()).transaction(CHATS);
  return validChat(await result(tx.objectStore(CHATS).get(id)));
}

function parse(text) {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

/* Moves conversations of earlier versions into the database. */
async function adoptOld() {
  const keys = Object.keys(localStorage).filter((k) => k.startsWith(OLD_PREFIX));
  for (const key of keys) {
    const chat = validChat(parse(localStorage.getItem(key)));
    if (chat) await saveChat({ ...chat, named: !!chat.title });
    localStorage.removeItem(key);
  }
}

export async function loadChats() {
  await adoptOld();
  const tx = (await open()).transaction(CHATS);
  const all = await result(tx.objectStore(CHATS).getAll());
  return all.map(validChat).filter((c) => c?.messages.length);
}

/* If the browser does not allow storage, settings last until the page is closed. */
function quietly(act) {
  try {
    return act();
  } catch {
    return null;
  }
}

export function loadSettings() {
  const s = parse(quietly(() => localStorage.getItem(SETTINGS)));
  return s && typeof s === 'object' ? s : {};
}

export function saveSettings(settings) {
  quietly(() => localStorage.setItem(SETTINGS, JSON.stringify(settings)));
}

/* The conversation that this tab shows, for a reload. */
export const loadShown = () => quietly(() => sessionStorage.getItem(SHOWN));
export const saveShown = (id) => quietly(() => sessionStorage.setItem(SHOWN, id));
