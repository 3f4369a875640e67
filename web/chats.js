/* Actions on conversations: open, save, delete, import, export. */
import { download, toast } from './dom.js';
import { fileName, toJson, toMarkdown } from './export.js';
import { app, emit } from './state.js';
import { dropChat, loadChat, loadChats, saveChat } from './store.js';
import { newChat, titleOf, validChat } from './tree.js';

const deleted = new Set(); /* a response that is still arriving must not restore its conversation */
const tabs = 'BroadcastChannel' in window ? new BroadcastChannel('foretoken') : null;
let warned = false;

function storageProblem(e) {
  if (warned) return;
  warned = true;
  toast(e?.name === 'QuotaExceededError'
    ? 'The storage of this browser is full: new messages are not kept. Export or delete conversations.'
    : 'This browser does not let the page store anything: conversations last until the page is closed.', null, 0);
}

/* Stores the conversation and puts it on the list. `touch`: sets its time of last change. */
export async function keep(chat, touch = true) {
  if (deleted.has(chat)) return;
  if (touch) chat.changed = Date.now();
  if (!app.chats.includes(chat)) app.chats.push(chat);
  if (touch) emit('chats');
  try {
    await saveChat(chat);
    warned = false;
    if (!chat.messages.some((m) => m.streaming)) tabs?.postMessage(chat.id);
  } catch (e) {
    storageProblem(e);
  }
}

export function openChat(chat) {
  app.chat = chat;
  emit('chat');
  emit('chats');
}

export const openNew = () => openChat(newChat());

/* The next conversation on the list, `step` places further down. */
export function openNeighbour(list, step) {
  const at = list.indexOf(app.chat);
  const next = list[at < 0 ? 0 : at + step];
  if (next) openChat(next);
}

export function deleteChat(chat) {
  deleted.add(chat);
  emit('deleted', chat);
  app.chats = app.chats.filter((c) => c !== chat);
  dropChat(chat.id).then(() => tabs?.postMessage(chat.id), storageProblem);
  if (chat === app.chat) openNew();
  else emit('chats');
  toast(`Deleted "${titleOf(chat)}".`, { label: 'Undo', act: () => undelete(chat) });
}

function undelete(chat) {
  deleted.delete(chat);
  keep(chat, false);
  openChat(chat);
}

export function renameChat(chat, title) {
  chat.title = title.trim();
  chat.named = chat.title !== '';
  keep(chat, false);
  emit('chats');
}

export function pinChat(chat) {
  chat.pinned = !chat.pinned;
  keep(chat, false);
  emit('chats');
}

export const exportMarkdown = (chat) => download(fileName(chat, 'md'), 'text/markdown', toMarkdown(chat));
export const exportJson = (chat) => download(fileName(chat, 'json'), 'application/json', toJson([chat]));
export const exportAll = () => download('foretoken-conversations.json', 'application/json', toJson(app.chats));

export async function importFile(file) {
  let list;
  try {
    list = JSON.parse(await file.text());
  } catch {
    list = null;
  }
  const good = (Array.isArray(list) ? list : [list]).map(validChat).filter((c) => c?.messages.length);
  if (!good.length) {
    toast(`${file.name} has no conversations: want a JSON file that this page exported.`);
    return;
  }
  for (const c of good) {
    app.chats = app.chats.filter((x) => x.id !== c.id);
    await keep(c, false);
  }
  openChat(good[0]);
  toast(`Imported ${good.length} conversation${good.length === 1 ? '' : 's'}.`);
}

/* Another tab has written or deleted this conversation. */
async function changedElsewhere(id, isRunning) {
  const mine = app.chats.find((c) => c.id === id);
  if (mine && isRunning(mine)) return;
  const chat = await loadChat(id);
  app.chats = app.chats.filter((c) => c.id !== id);
  if (chat?.messages.length) app.chats.push(chat);
  if (app.chat.id === id && chat) openChat(chat);
  else emit('chats');
}

/* Reads the stored conversations. isRunning(chat): whether a response to it is arriving in this
 * tab. */
export async function start(isRunning) {
  try {
    app.chats = await loadChats();
  } catch (e) {
    storageProblem(e);
  }
  if (tabs) tabs.onmessage = (e) => changedElsewhere(String(e.data), isRunning).catch(() => {});
}
