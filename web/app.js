/* The page: conversations at the side, messages in the middle, one reply at a time. */
import { render } from './markdown.js';
import { dropChat, loadChats, loadSettings, newChat, saveChat, saveSettings, valid } from './store.js';
import { ask, models, props } from './stream.js';

const $ = (id) => document.getElementById(id);
let settings = loadSettings();
let chats = loadChats();
let chat = chats[0] ?? newChat();
let running = null; /* { abort, message, box } of the reply that is arriving */

function make(name, className, ...children) {
  const e = document.createElement(name);
  if (className) e.className = className;
  e.append(...children);
  return e;
}

function button(text, label, act) {
  const b = make('button', '', text);
  b.type = 'button';
  if (label) b.setAttribute('aria-label', label);
  b.addEventListener('click', act);
  return b;
}

function say(text) { /* to a screen reader */
  $('status').textContent = text;
}

async function copy(text, b) {
  try {
    await navigator.clipboard.writeText(text);
  } catch { /* no clipboard on plain HTTP: the old way */
    const t = make('textarea', 'hidden');
    t.value = text;
    document.body.append(t);
    t.select();
    document.execCommand('copy');
    t.remove();
  }
  const was = b.textContent;
  b.textContent = 'Copied';
  setTimeout(() => { b.textContent = was; }, 1200);
}

/* ---- messages ---- */

function numbers(m) {
  const t = m.timings;
  if (!t) return '';
  const part = [`${t.predicted_n} tokens`];
  if (t.predicted_per_second) part.push(`${t.predicted_per_second.toFixed(1)} tokens/s`);
  if (t.prompt_n && t.prompt_per_second) part.push(`prompt ${t.prompt_n} at ${t.prompt_per_second.toFixed(0)}/s`);
  if (t.cache_n) part.push(`${t.cache_n} from the cache`);
  if (t.draft_n) {
    part.push(`${Math.round(100 * t.draft_n_accepted / t.draft_n)} % of ${t.draft_n} drafts agreed`);
    if (t.draft_accept_len) part.push(`${t.draft_accept_len.toFixed(2)} a round`);
  }
  if (m.finish === 'length') part.push('cut: token limit');
  if (m.finish === 'stopped') part.push('stopped');
  return part.join(' \u00b7 ');
}

function fillThought(box, m) {
  let d = box.querySelector('.thought');
  if (!m.reasoning) return d?.remove();
  if (!d) {
    d = make('details', 'thought', make('summary'), make('div'));
    box.querySelector('.body').before(d);
  }
  const busy = running?.message === m && !m.content && !m.calls.length;
  d.firstChild.textContent = busy ? 'Thinking' : 'Thought';
  d.classList.toggle('busy', busy);
  d.lastChild.textContent = m.reasoning;
}

function pretty(args) {
  try {
    return JSON.stringify(JSON.parse(args), null, 2);
  } catch {
    return args;
  }
}

function callBox(m, c) {
  const box = make('details', 'call', make('summary', '', `Tool call: ${c.name}`), make('pre', '', pretty(c.args)));
  box.open = true;
  const answered = chat.messages.some((x) => x.role === 'tool' && x.call === c.id);
  if (running?.message === m || answered) return box;
  const field = make('textarea');
  field.rows = 2;
  field.placeholder = 'Result of this call';
  field.setAttribute('aria-label', `Result of ${c.name}`);
  box.append(field, button('Give result', '', () => giveResult(m, c, field.value)));
  return box;
}

function giveResult(m, c, text) {
  if (running) return;
  const at = chat.messages.indexOf(m);
  let end = at + 1;
  while (chat.messages[end]?.role === 'tool') end++;
  chat.messages.splice(end, 0, { role: 'tool', call: c.id, name: c.name, content: text, reasoning: '', marks: [], calls: [] });
  keep();
  draw();
  const given = (x) => chat.messages.some((y) => y.role === 'tool' && y.call === x.id);
  if (m.calls.every(given)) reply();
}

function fill(box, m) {
  fillThought(box, m);
  const body = box.querySelector('.body');
  if (m.role === 'assistant') body.replaceChildren(render(m.content, settings.mark === false ? [] : m.marks, copy));
  else body.replaceChildren(make('div', 'plain', m.content));
  for (const c of m.calls) if (c) body.append(callBox(m, c));
  if (m.error) body.append(make('p', 'error', m.error));
  box.querySelector('.numbers').textContent = numbers(m);
}

const NAMES = { user: 'You', assistant: 'Model', tool: 'Tool' };

function messageBox(m) {
  const acts = make('div', 'acts', button('Copy', 'Copy this message', (e) => copy(m.content, e.target)));
  if (m.role === 'user') acts.append(button('Edit', 'Edit this message', () => edit(m)));
  if (m.role === 'assistant') acts.append(button('Retry', 'Ask for this reply again', () => retry(m)));
  acts.append(button('Delete', 'Delete this message and all below', () => cut(m)));
  const who = m.role === 'tool' ? `Tool: ${m.name}` : NAMES[m.role];
  const box = make('article', m.role, make('h2', 'who', who), make('div', 'body'), make('footer', '', make('span', 'numbers'), acts));
  box.message = m;
  fill(box, m);
  return box;
}

function draw() {
  const log = $('log');
  log.replaceChildren(...chat.messages.map(messageBox));
  if (!chat.messages.length) log.append(make('p', 'empty', 'Ask something. Conversations stay in this browser.'));
  $('title').textContent = chat.title || 'New conversation';
  drawChats();
  log.scrollTop = log.scrollHeight;
}

const boxOf = (m) => [...$('log').children].find((b) => b.message === m);

function edit(m) {
  if (running) return;
  const box = boxOf(m), field = make('textarea', 'edit');
  field.value = m.content;
  field.setAttribute('aria-label', 'Edit the message');
  const done = () => {
    const at = chat.messages.indexOf(m);
    chat.messages.length = at;
    chat.messages.push({ ...m, content: field.value });
    draw();
    reply();
  };
  field.addEventListener('keydown', (e) => {
    if (e.key === 'Enter' && !e.shiftKey && !e.isComposing) e.preventDefault(), done();
    if (e.key === 'Escape') e.stopPropagation(), draw();
  });
  box.querySelector('.body').replaceChildren(field, button('Send', '', done), button('Cancel', '', draw));
  field.focus();
}

function cut(m) {
  if (running) return;
  chat.messages.length = chat.messages.indexOf(m);
  keep();
  draw();
}

function retry(m) {
  if (running) return;
  chat.messages.length = chat.messages.indexOf(m);
  draw();
  reply();
}

/* ---- a reply ---- */

function keep() {
  chat.changed = Date.now();
  if (!chat.title) chat.title = (chat.messages[0]?.content ?? '').trim().split('\n')[0].slice(0, 60);
  if (!chats.includes(chat)) chats.unshift(chat);
  chats.sort((a, b) => b.changed - a.changed);
  if (!saveChat(chat)) say('This browser has no room left: the conversation is not kept.');
}

function setRunning(r) {
  running = r;
  $('send').hidden = !!r;
  $('stop').hidden = !r;
  $('log').setAttribute('aria-busy', String(!!r));
  if (!r) $('live').textContent = '';
}

/* Draws at most once a frame, and follows the end unless the reader has scrolled away. */
function painter(m, box) {
  let asked = false;
  return () => {
    if (asked) return;
    asked = true;
    requestAnimationFrame(() => {
      asked = false;
      if (!box.isConnected) return;
      const log = $('log');
      const follow = log.scrollHeight - log.scrollTop - log.clientHeight < 80;
      fill(box, m);
      if (running?.message === m) $('live').textContent = numbers(m);
      if (follow) log.scrollTop = log.scrollHeight;
    });
  };
}

async function reply() {
  const mine = chat;
  const m = { role: 'assistant', content: '', reasoning: '', marks: [], calls: [], timings: null, finish: '', error: '' };
  const before = mine.messages.slice();
  mine.messages.push(m);
  $('log').querySelector('.empty')?.remove();
  const box = messageBox(m);
  $('log').append(box);
  $('log').scrollTop = $('log').scrollHeight;
  const abort = new AbortController();
  setRunning({ abort, message: m });
  say('The model is replying.');
  try {
    await ask(before, settings, m, painter(m, box), abort.signal);
    say('The reply is complete.');
  } catch (e) {
    if (e.name === 'AbortError') m.finish = 'stopped';
    else m.error = e.message;
    say(m.error || 'Stopped.');
  }
  m.calls = m.calls.filter(Boolean);
  setRunning(null);
  if (box.isConnected) fill(box, m);
  keep();
  drawChats();
  $('input').focus();
}

function send() {
  const text = $('input').value;
  if (!text.trim() || running) return;
  chat.messages.push({ role: 'user', content: text, reasoning: '', marks: [], calls: [] });
  $('input').value = '';
  grow();
  keep();
  draw();
  reply();
}

/* ---- conversations ---- */

function open(c) {
  if (running) running.abort.abort();
  chat = c;
  showSide(false);
  draw();
  $('input').focus();
}

function drawChats() {
  $('chats').replaceChildren(...chats.map((c) => {
    const name = button(c.title || 'New conversation', '', () => open(c));
    name.className = 'name';
    if (c === chat) name.setAttribute('aria-current', 'true');
    const drop = button('\u00d7', `Delete conversation: ${c.title}`, () => {
      if (!confirm(`Delete "${c.title}"?`)) return;
      dropChat(c);
      chats = chats.filter((x) => x !== c);
      if (c === chat) open(chats[0] ?? newChat());
      else drawChats();
    });
    return make('li', '', name, drop);
  }));
}

function exportChats() {
  const a = make('a');
  a.href = URL.createObjectURL(new Blob([JSON.stringify(chats, null, 1)], { type: 'application/json' }));
  a.download = 'foretoken-conversations.json';
  a.click();
  URL.revokeObjectURL(a.href);
}

async function importChats(file) {
  try {
    const list = JSON.parse(await file.text());
    const good = (Array.isArray(list) ? list : [list]).map(valid).filter(Boolean);
    for (const c of good) {
      chats = chats.filter((x) => x.id !== c.id);
      chats.push(c);
      saveChat(c);
    }
    chats.sort((a, b) => b.changed - a.changed);
    say(`${good.length} conversations imported.`);
    drawChats();
  } catch {
    say(`${file.name} is no file of conversations.`);
    alert(`${file.name} is no file of conversations.`);
  }
}

function showSide(on) {
  document.body.classList.toggle('side', on);
  $('menu').setAttribute('aria-expanded', String(on));
}

/* ---- settings ---- */

function theme() {
  document.documentElement.dataset.theme = settings.theme || '';
}

function openSettings() {
  const f = $('settings').querySelector('form');
  for (const e of f.elements) {
    if (!e.name) continue;
    if (e.type === 'checkbox') e.checked = settings[e.name] !== false;
    else e.value = settings[e.name] ?? '';
  }
  $('settings-error').textContent = '';
  $('settings').showModal();
}

function takeSettings(event) {
  const f = $('settings').querySelector('form');
  if (f.elements.tools.value.trim()) {
    try {
      if (!Array.isArray(JSON.parse(f.elements.tools.value))) throw new Error('no array');
    } catch (e) {
      event.preventDefault();
      $('settings-error').textContent = `The tools must be a JSON array: ${e.message}`;
      return;
    }
  }
  for (const e of f.elements)
    if (e.name) settings[e.name] = e.type === 'checkbox' ? e.checked : e.value.trim();
  saveSettings(settings);
  theme();
  draw();
  about();
}

/* With several models one is chosen here; the choice is kept while the server has it. Returns what it
 * is doing, for one that need not be loaded to say its name. */
async function choose() {
  const list = await models(settings);
  const names = list.map((m) => m.id);
  const several = list.length > 1 && (list.some((m) => m.status?.value !== 'loaded') || new Set(list.map((m) => JSON.stringify(m.meta))).size > 1);
  $('choice').hidden = !several;
  if (!several) settings.model = '';
  else if (!names.includes(settings.model)) settings.model = (list.find((m) => m.status?.value === 'loaded') ?? list[0]).id;
  $('choice').querySelector('select').replaceChildren(...names.map((n) => new Option(n, n)));
  return several ? list.find((m) => m.id === settings.model).status?.value : 'loaded';
}

async function about() {
  try {
    const state = await choose();
    if (state !== 'loaded') {
      $('model').textContent = `${settings.model} (${state})`;
      return;
    }
    const p = await props(settings);
    const name = p.model_alias || (p.model_path || '').split('/').pop();
    const d = p.speculative;
    $('model').textContent = name + (d?.active ? ' \u00b7 drafting' : '');
    $('model').title = d?.active ? `Drafts: ${d.type}` : d?.reason ?? '';
  } catch (e) {
    $('model').textContent = e.message;
  }
}

/* ---- the page ---- */

function grow() {
  const t = $('input');
  t.style.height = 'auto';
  t.style.height = Math.min(t.scrollHeight, innerHeight * 0.4) + 'px';
}

function key(e) {
  if (e.key === 'Escape' && running && !$('settings').open) running.abort.abort();
  else if (e.key === 'Escape') showSide(false);
  if (e.altKey && e.code === 'KeyN') e.preventDefault(), open(newChat());
}

function inputKey(e) {
  if (e.key === 'Enter' && !e.shiftKey && !e.isComposing && !matchMedia('(pointer: coarse)').matches) {
    e.preventDefault();
    send();
  }
  const last = chat.messages.findLast((m) => m.role === 'user');
  if (e.key === 'ArrowUp' && !$('input').value && last && !running) e.preventDefault(), edit(last);
}

$('form').addEventListener('submit', (e) => { e.preventDefault(); send(); });
$('stop').addEventListener('click', () => running?.abort.abort());
$('input').addEventListener('input', grow);
$('input').addEventListener('keydown', inputKey);
$('new').addEventListener('click', () => open(newChat()));
$('menu').addEventListener('click', () => showSide(!document.body.classList.contains('side')));
$('export').addEventListener('click', exportChats);
$('import').addEventListener('change', (e) => { if (e.target.files[0]) importChats(e.target.files[0]); e.target.value = ''; });
$('settings-open').addEventListener('click', openSettings);
$('settings-save').addEventListener('click', takeSettings);
document.addEventListener('keydown', key);
theme();
draw();
about();
