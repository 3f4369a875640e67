/* The list of conversations, with search, and the dialog that renames one. */
import { deleteChat, exportJson, exportMarkdown, openChat, pinChat, renameChat } from './chats.js';
import { $, button, icon, iconButton, make } from './dom.js';
import { isRunning } from './generate.js';
import { menuButton, openMenu } from './menu.js';
import { grouped, ordered, search } from './search.js';
import { app, on } from './state.js';
import { titleOf } from './tree.js';

let renamed = null;

/* On a narrow screen the list lies over the messages, which then cannot be reached. */
export function showSide(open) {
  const narrow = getComputedStyle($('menu')).display !== 'none';
  const inside = $('side').contains(document.activeElement);
  document.body.classList.toggle('side', open && narrow);
  document.querySelector('main').inert = open && narrow;
  $('menu').setAttribute('aria-expanded', String(open));
  if (open) $(matchMedia('(pointer: coarse)').matches ? 'new' : 'search').focus();
  else if (inside && narrow) $('menu').focus();
}

function chatMenu(chat) {
  return [
    ['Rename', () => rename(chat)],
    [chat.pinned ? 'Unpin' : 'Pin', () => pinChat(chat)],
    ['Export as Markdown', () => exportMarkdown(chat)],
    ['Export as JSON', () => exportJson(chat)],
    ['Delete', () => deleteChat(chat)],
  ];
}

function rename(chat) {
  renamed = chat;
  $('rename-title').value = titleOf(chat);
  $('rename').returnValue = '';
  $('rename').showModal();
  $('rename-title').select();
}

function item(chat, snippet) {
  const title = titleOf(chat) || 'New conversation';
  const name = button('', '', () => { showSide(false); openChat(chat); $('input').focus(); }, 'name');
  name.append(...(chat.pinned ? [icon('pin')] : []), make('span', 'label', title));
  if (snippet) name.append(make('span', 'snippet', snippet));
  if (chat === app.chat) name.setAttribute('aria-current', 'true');
  if (isRunning(chat)) {
    const busy = make('span', 'busy-dot');
    busy.append(make('span', 'hidden', '(a response is arriving)'));
    name.append(busy);
  }
  const more = menuButton(iconButton('more', `Actions for ${title}`, () => openMenu(more, chatMenu(chat))));
  return make('li', '', name, more);
}

function draw() {
  const query = $('search').value.trim();
  if (query) {
    const hits = search(app.chats, query);
    const list = make('ul', '', ...hits.map((h) => item(h.chat, h.snippet)));
    $('chats').replaceChildren(make('h2', '', hits.length ? `${hits.length} found` : 'Nothing found'), ...(hits.length ? [list] : []));
    return;
  }
  $('chats').replaceChildren(...grouped(app.chats, Date.now()).flatMap(([heading, chats]) => [
    make('h2', '', heading), make('ul', '', ...chats.map((c) => item(c, ''))),
  ]));
}

/* Conversations in the order in which they are shown. */
export const shownOrder = () => grouped(app.chats, Date.now()).flatMap((g) => ordered(g[1]));

export function start() {
  $('menu').addEventListener('click', () => showSide(!document.body.classList.contains('side')));
  $('shade').addEventListener('click', () => showSide(false));
  $('search').addEventListener('input', draw);
  $('search').addEventListener('keydown', (e) => {
    if (e.key !== 'Escape' || !$('search').value) return;
    e.stopPropagation();
    $('search').value = '';
    draw();
  });
  menuButton($('chat-menu')).addEventListener('click', () => openMenu($('chat-menu'), chatMenu(app.chat)));
  on('chats', () => { $('chat-menu').hidden = !app.chats.includes(app.chat); });
  $('rename').addEventListener('close', () => {
    if ($('rename').returnValue === 'save') renameChat(renamed, $('rename-title').value);
  });
  addEventListener('resize', () => { if (getComputedStyle($('menu')).display === 'none') document.querySelector('main').inert = false; });
  on('chats', draw);
  on('running', draw);
}
