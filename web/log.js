/* The messages of the conversation that is shown: drawing, following the end, actions on messages. */
import { keep } from './chats.js';
import { $, button, make, perFrame, toast } from './dom.js';
import { isRunning, proceed, regenerate, respond } from './generate.js';
import { MessageBox } from './message.js';
import { app, emit, on } from './state.js';
import { add, newMessage, path, remove, restore, select, siblings, titleOf } from './tree.js';

let boxes = new Map(); /* by message id */
let follow = true; /* the end stays in view while a response grows */
let lastTop = 0;

/* ---- scrolling ---- */

const distance = () => $('log').scrollHeight - $('log').scrollTop - $('log').clientHeight;

function toEnd() {
  $('log').scrollTop = $('log').scrollHeight;
}

function updateDown() {
  $('down').hidden = follow || distance() < 80;
}

/* Scrolling up stops following the end; scrolling to the end starts it again. */
function scrolled() {
  const top = $('log').scrollTop;
  if (top < lastTop - 2 && distance() > 4) follow = false;
  else if (distance() < 24) follow = true;
  lastTop = top;
  updateDown();
}

function painted() {
  if (follow) toEnd();
  lastTop = $('log').scrollTop;
  updateDown();
}

export function followEnd() {
  follow = true;
  toEnd();
  updateDown();
}

/* ---- drawing ---- */

/* A conversation with damaged data still shows its other messages. */
function boxFor(m) {
  let box = boxes.get(m.id);
  if (box && box.m === m) return box;
  try {
    box = new MessageBox(m, actions, painted);
  } catch {
    box = { m, element: make('article', m.role, make('div', 'plain', m.content)), update() {}, refresh() {} };
  }
  return box;
}

const EXAMPLES = [
  'What can you do?', 'What is 17 + 25?', 'Explain speculative decoding in two sentences.',
  'Write a shell command that lists the largest files.',
];

function emptyPage() {
  const chips = make('div', 'chips', ...EXAMPLES.map((t) => button(t, '', () => emit('send', t))));
  return make('div', 'empty', make('p', 'hello', 'How can I help?'), chips, make('p', 'soft', 'Conversations are stored in this browser only.'));
}

let shownChat = null;

/* Makes `nodes` the children, without moving those that are in place: they keep selection and scroll. */
function setChildren(parent, nodes) {
  const stay = new Set(nodes);
  for (const child of [...parent.childNodes]) if (!stay.has(child)) child.remove();
  nodes.forEach((node, i) => {
    if (parent.childNodes[i] !== node) parent.insertBefore(node, parent.childNodes[i] ?? null);
  });
}

function drawLog() {
  const list = path(app.chat);
  if (shownChat !== app.chat) boxes = new Map();
  const next = new Map(list.map((m) => [m.id, boxFor(m)]));
  boxes = next;
  const nodes = [...next.values()].map((b) => b.element);
  setChildren($('messages'), nodes.length ? nodes : [emptyPage()]);
  for (const b of next.values()) b.update();
  $('title').textContent = titleOf(app.chat) || 'New conversation';
  document.title = `${titleOf(app.chat) || 'New conversation'} - foretoken`;
  $('log').setAttribute('aria-busy', String(isRunning(app.chat)));
  if (shownChat !== app.chat) {
    shownChat = app.chat;
    follow = true;
  }
  painted();
}

/* ---- actions ---- */

const idle = () => {
  if (!isRunning(app.chat)) return true;
  toast('A response is arriving. Stop it first.');
  return false;
};

function edit(m) {
  if (!idle()) return;
  const box = boxes.get(m.id);
  const field = make('textarea', 'edit');
  field.value = m.content;
  field.setAttribute('aria-label', 'Edit the message');
  const close = () => { boxes.delete(m.id); drawLog(); };
  const send = () => {
    const text = field.value;
    close();
    if (!text.trim() && !m.files.length) return;
    const next = add(app.chat, m.parent, Object.assign(newMessage('user', text), { files: m.files }));
    followEnd();
    respond(app.chat, next);
  };
  field.addEventListener('keydown', (e) => {
    if (e.key === 'Enter' && !e.shiftKey && !e.isComposing) {
      e.preventDefault();
      send();
    } else if (e.key === 'Escape') {
      e.stopPropagation();
      close();
      $('input').focus();
    }
  });
  box.body.replaceChildren(field, make('div', 'edit-acts', button('Cancel', '', close), button('Send', 'Send the edited message', send, 'primary')));
  box.element.classList.add('editing');
  field.focus();
}

function removeFrom(m) {
  if (!idle()) return;
  const chat = app.chat;
  const old = remove(chat, m);
  keep(chat);
  drawLog();
  toast('Deleted the message and what followed it.', { label: 'Undo', act: () => { restore(chat, old); keep(chat); drawLog(); } });
}

function branch(m, by) {
  if (!idle()) return;
  const all = siblings(app.chat, m);
  const next = all[all.indexOf(m) + by];
  if (!next) return;
  select(app.chat, next);
  follow = false;
  keep(app.chat, false);
  drawLog();
  emit('chats'); /* the title may have changed */
}

/* Ids of the calls of m that have a result on this branch. */
const answered = (m) => path(app.chat).filter((x) => x.role === 'tool' && m.calls.some((c) => c.id === x.call)).map((x) => x.call);

function result(m, call, text) {
  if (!idle()) return;
  const last = path(app.chat).at(-1);
  add(app.chat, last.id, Object.assign(newMessage('tool', text), { call: call.id, name: call.name }));
  keep(app.chat);
  drawLog();
  if (m.calls.every((c) => answered(m).includes(c.id))) respond(app.chat, path(app.chat).at(-1));
}

/* Generates again with another model or temperature. */
function regenerateWith(m) {
  if (idle()) emit('regenerate-with', m);
}

const actions = {
  edit, branch, result, answered, regenerateWith,
  remove: removeFrom,
  regenerate: (m) => { if (idle()) { followEnd(); regenerate(app.chat, m); } },
  proceed: (m) => { if (idle()) proceed(app.chat, m); },
  settings: () => emit('open-settings', 'key'),
};

export function editLast() {
  const last = path(app.chat).findLast((m) => m.role === 'user');
  if (last) edit(last);
}

export const lastResponse = () => path(app.chat).findLast((m) => m.role === 'assistant');

export function regenerateLast() {
  const m = lastResponse();
  if (m) actions.regenerate(m);
}

export function start() {
  $('log').addEventListener('scroll', scrolled, { passive: true });
  $('down').addEventListener('click', followEnd);
  /* formulas and coloured code arrive after the text, and the window changes */
  const sizes = new ResizeObserver(painted);
  sizes.observe($('log'));
  sizes.observe($('messages'));
  on('chat', drawLog);
  on('chats', () => { $('title').textContent = titleOf(app.chat) || 'New conversation'; });
  on('message', perFrame((m) => boxes.get(m.id)?.update()));
  on('running', drawLog);
  on('settings', () => { for (const b of boxes.values()) b.refresh(); });
}
