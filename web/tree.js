/* A conversation: messages that form a tree. Editing a message or generating again adds a sibling, so
 * nothing is lost; `leaf` is the last message of the branch that is shown. Pure functions, no DOM.
 *
 *   chat:    { id, title, named, pinned, created, changed, leaf, messages: [message] }
 *   message: { id, parent, role, content, reasoning, marks, calls, files, model, timings, speeds,
 *              firstMs, finish, error, streaming, progress }                  (parent null: a first message) */

const ROLES = ['user', 'assistant', 'tool'];
const MAX_MESSAGES = 100000;

const newId = () => Date.now().toString(36) + Math.random().toString(36).slice(2, 10);

export function newChat() {
  const now = Date.now();
  return { id: newId(), title: '', named: false, pinned: false, created: now, changed: now, leaf: null, messages: [] };
}

export function newMessage(role, content = '') {
  return {
    id: newId(), parent: null, role, content, reasoning: '', marks: [], calls: [], files: [], model: '',
    timings: null, speeds: [], firstMs: 0, finish: '', error: null, streaming: false, progress: null,
  };
}

/* The messages from the first one down to `leaf`. */
export function path(chat, leaf = chat.leaf) {
  const byId = new Map(chat.messages.map((m) => [m.id, m]));
  const out = [];
  for (let m = byId.get(leaf); m; m = byId.get(m.parent)) {
    out.push(m);
    byId.delete(m.id); /* ends at a cycle in damaged data */
  }
  return out.reverse();
}

export const before = (chat, m) => (m.parent ? path(chat, m.parent) : []);

export const siblings = (chat, m) => chat.messages.filter((x) => x.parent === m.parent);

/* Adds m below `parent` (an id or null) and shows it. */
export function add(chat, parent, m) {
  m.parent = parent;
  chat.messages.push(m);
  chat.leaf = m.id;
  return m;
}

/* Shows the branch of m: down to the newest message below it. */
export function select(chat, m) {
  let at = m;
  for (;;) {
    const below = chat.messages.filter((x) => x.parent === at.id);
    if (!below.length) break;
    at = below[below.length - 1];
  }
  chat.leaf = at.id;
}

/* Removes m and all that follows it; a sibling is shown instead, or the parent. Returns what was
 * removed, for restore(). */
export function remove(chat, m) {
  const gone = new Set([m.id]);
  for (let grown = true; grown;) {
    grown = false;
    for (const x of chat.messages) {
      if (gone.has(x.id) || !gone.has(x.parent)) continue;
      gone.add(x.id);
      grown = true;
    }
  }
  const old = { messages: chat.messages.slice(), leaf: chat.leaf };
  const others = siblings(chat, m).filter((x) => x !== m);
  chat.messages = chat.messages.filter((x) => !gone.has(x.id));
  if (others.length) select(chat, others[others.length - 1]);
  else chat.leaf = m.parent;
  return old;
}

export function restore(chat, old) {
  chat.messages = old.messages;
  chat.leaf = old.leaf;
}

/* Default title of a conversation: the beginning of its first message. */
export function titleOf(chat) {
  if (chat.named) return chat.title;
  const first = path(chat)[0] ?? chat.messages[0];
  const text = first?.content.trim() || first?.files[0]?.name || '';
  const line = text.split('\n')[0];
  return line.length > 60 ? line.slice(0, 59).trimEnd() + '\u2026' : line;
}

const text = (x) => (typeof x === 'string' ? x : x === undefined || x === null ? '' : String(x));
const list = (x) => (Array.isArray(x) ? x : []);

function validCall(c) {
  return c && typeof c === 'object' ? { id: text(c.id), name: text(c.name), args: text(c.args) } : null;
}

function validFile(f) {
  if (!f || typeof f !== 'object') return null;
  if (f.kind === 'image' && /^data:image\/(png|jpeg|webp|gif);base64,/.test(f.url)) return { kind: 'image', name: text(f.name), url: f.url };
  return f.kind === 'text' ? { kind: 'text', name: text(f.name), text: text(f.text) } : null;
}

const validMark = (r) => Array.isArray(r) && Number.isInteger(r[0]) && Number.isInteger(r[1]) && r[0] < r[1];

function validError(e) {
  if (!e) return null;
  return typeof e === 'string' ? { text: e, kind: '' } : { text: text(e.text), kind: text(e.kind) };
}

function validMessage(m, parent) {
  return {
    ...newMessage(m.role, text(m.content)),
    id: text(m.id) || newId(),
    parent: m.parent === undefined ? parent : m.parent,
    reasoning: text(m.reasoning),
    marks: list(m.marks).filter(validMark),
    calls: list(m.calls).map(validCall).filter(Boolean),
    files: list(m.files).map(validFile).filter(Boolean),
    call: text(m.call), name: text(m.name), model: text(m.model),
    timings: m.timings && typeof m.timings === 'object' ? m.timings : null,
    speeds: list(m.speeds).filter(Number.isFinite).slice(0, 200),
    firstMs: Number(m.firstMs) || 0,
    finish: m.streaming ? 'interrupted' : text(m.finish), /* the page was closed while it streamed */
    error: validError(m.error),
  };
}

/* A conversation as this page writes it, or null. A file or a stored record may hold anything; the
 * linear lists of earlier versions (messages without ids) become a tree of one branch. */
export function validChat(c) {
  if (!c || typeof c !== 'object' || typeof c.id !== 'string' || !Array.isArray(c.messages)) return null;
  const chat = { ...newChat(), id: c.id, title: text(c.title), named: !!c.named, pinned: !!c.pinned };
  chat.changed = Number(c.changed) || 0;
  chat.created = Number(c.created) || chat.changed;
  const ids = new Set();
  let last = null;
  for (const m of c.messages.slice(0, MAX_MESSAGES)) {
    if (!m || !ROLES.includes(m.role)) continue;
    const good = validMessage(m, last);
    if (ids.has(good.id)) continue;
    if (good.parent !== null && !ids.has(good.parent)) good.parent = last;
    ids.add(good.id);
    chat.messages.push(good);
    last = good.id;
  }
  chat.leaf = ids.has(c.leaf) ? c.leaf : last;
  return chat;
}
