/* Keyboard shortcuts; the sheet that "?" opens lists the same. */
import { openNeighbour, openNew } from './chats.js';
import { $, copyText, make } from './dom.js';
import { isRunning, stop } from './generate.js';
import { lastResponse, regenerateLast } from './log.js';
import { openSettings } from './settings.js';
import { showSide, shownOrder } from './sidebar.js';
import { app } from './state.js';

function startNew() {
  openNew();
  showSide(false);
  $('input').focus();
}

function copyLast() {
  const m = lastResponse();
  if (m) copyText(m.content, null);
}

function findChat() {
  showSide(true);
  $('search').focus();
}

/* code: the key with Alt, independent of what the layout makes of the two together */
const ALT = [
  ['KeyN', 'Alt + N', 'New conversation', startNew],
  ['KeyK', 'Alt + K', 'Search conversations', findChat],
  ['ArrowUp', 'Alt + \u2191', 'Previous conversation', () => openNeighbour(shownOrder(), -1)],
  ['ArrowDown', 'Alt + \u2193', 'Next conversation', () => openNeighbour(shownOrder(), 1)],
  ['KeyR', 'Alt + R', 'Regenerate the last response', regenerateLast],
  ['KeyC', 'Alt + C', 'Copy the last response', copyLast],
  ['Comma', 'Alt + ,', 'Settings', () => openSettings()],
];

const OTHER = [
  ['Enter', 'Send the message'],
  ['Shift + Enter', 'New line'],
  ['\u2191', 'Edit your last message (in an empty field)'],
  ['/', 'Go to the message field'],
  ['Esc', 'Stop the response, or close what is open'],
  ['?', 'Show these shortcuts'],
];

function openSheet() {
  $('keys').showModal();
}

const typing = (e) => e.target.closest?.('input, textarea, select, [contenteditable]');

function key(e) {
  if (document.querySelector('dialog[open]')) return;
  if (e.key === 'Escape') {
    if (document.body.classList.contains('side')) showSide(false);
    else if (isRunning(app.chat)) stop(app.chat);
    return;
  }
  if (e.altKey && !e.ctrlKey && !e.metaKey) {
    const found = ALT.find((k) => k[0] === e.code);
    if (!found) return;
    e.preventDefault();
    found[3]();
    return;
  }
  if (typing(e) || e.ctrlKey || e.metaKey) return;
  if (e.key === '?') openSheet();
  else if (e.key === '/') {
    e.preventDefault();
    $('input').focus();
  }
}

export function start() {
  const rows = [...OTHER, ...ALT.map((k) => [k[1], k[2]])];
  $('keys-list').append(...rows.flatMap(([k, text]) => [make('dt', '', make('kbd', '', k)), make('dd', '', text)]));
  $('keys-open').addEventListener('click', openSheet);
  for (const b of document.querySelectorAll('[data-close]')) b.addEventListener('click', () => b.closest('dialog').close(''));
  $('new').addEventListener('click', startNew);
  document.addEventListener('keydown', key);
}
