/* Additions to rendered Markdown: code boxes with a label, a copy button and colours, formulas,
 * tables that scroll, task lists, links that open in a new tab. Works on nodes, after either renderer. */
import { button, copyText, make } from './dom.js';
import { has, load } from './load.js';
import { canHighlight, safe } from './rich.js';

const MAX_HIGHLIGHT = 60000; /* characters; longer code stays plain, so that the page does not pause */

async function highlight(code, language) {
  if (!language || !canHighlight() || code.textContent.length > MAX_HIGHLIGHT) return;
  await load('highlight.js');
  if (!window.hljs.getLanguage(language)) return;
  const text = code.textContent;
  const html = window.hljs.highlight(language, text, true).value;
  const colored = safe(html);
  if (colored.textContent === text) code.replaceChildren(colored);
}

/* `live`: the code still grows, so colours wait. Returns the <code> element. */
export function codeBox(code, language, live) {
  const copy = button('Copy', 'Copy this code', () => copyText(code.textContent, copy));
  const pre = make('pre', '', code);
  pre.tabIndex = 0; /* it may scroll: reachable by keyboard */
  pre.setAttribute('role', 'region');
  pre.setAttribute('aria-label', `Code${language ? ` (${language})` : ''}`);
  if (!live) highlight(code, language).catch(() => {});
  return make('div', 'code', make('div', 'code-head', make('span', '', language || 'text'), copy), pre);
}

function decorateCode(root) {
  for (const pre of root.querySelectorAll('pre')) {
    const code = pre.querySelector('code') ?? make('code', '', pre.textContent);
    const language = /language-(\S+)/.exec(code.className)?.[1] ?? '';
    if (code.lastChild?.nodeType === Node.TEXT_NODE) code.lastChild.data = code.lastChild.data.replace(/\n$/, '');
    pre.replaceWith(codeBox(code, language.toLowerCase(), false));
  }
}

async function drawFormula(box) {
  if (!has('katex.js', 'katex.css')) return;
  await Promise.all([load('katex.js'), load('katex.css')]);
  const tex = box.dataset.tex;
  window.katex.render(tex, box, {
    displayMode: box.classList.contains('display'), throwOnError: false, errorColor: 'var(--bad)', strict: 'ignore',
    trust: false, maxSize: 40, maxExpand: 200,
  });
}

function decorateMath(root) {
  for (const box of root.querySelectorAll('.math')) {
    box.dataset.tex = box.textContent;
    if (box.classList.contains('display')) box.tabIndex = 0; /* it may scroll */
    drawFormula(box).catch(() => {});
  }
}

function decorateTables(root) {
  for (const table of root.querySelectorAll('table')) {
    const box = make('div', 'table');
    box.tabIndex = 0;
    box.setAttribute('role', 'region');
    box.setAttribute('aria-label', 'Table');
    table.replaceWith(box);
    box.append(table);
  }
}

function decorateTasks(root) {
  for (const item of root.querySelectorAll('li')) {
    const at = item.firstElementChild?.tagName === 'P' ? item.firstElementChild : item;
    const text = at.firstChild;
    const m = text?.nodeType === Node.TEXT_NODE && /^\s*\[([ xX])\]\s+/.exec(text.data);
    if (!m) continue;
    text.data = text.data.slice(m[0].length);
    const box = make('input');
    box.type = 'checkbox';
    box.checked = m[1] !== ' ';
    box.disabled = true;
    box.setAttribute('aria-label', box.checked ? 'done' : 'to do');
    item.classList.add('task');
    at.prepend(box, ' ');
  }
}

function decorateLinks(root) {
  for (const a of root.querySelectorAll('a[href]')) {
    if (a.getAttribute('href').startsWith('#')) continue;
    a.target = '_blank';
    a.rel = 'noopener noreferrer';
  }
}

/* The headings in a message are placed below the heading of the message, an h2, without skipping a level; the
 * class has the level that was written. above: the written levels above the next heading. Returns the new list. */
function decorateHeadings(root, above) {
  let open = above;
  for (const h of root.querySelectorAll('h1, h2, h3, h4, h5, h6')) {
    const level = Number(h.tagName[1]);
    open = [...open.filter((l) => l < level), level];
    h.replaceWith(make(`h${Math.min(6, open.length + 2)}`, `level-${level}`, ...h.childNodes));
  }
  return open;
}

export function decorate(root, above) {
  const open = decorateHeadings(root, above);
  decorateCode(root);
  decorateTables(root);
  decorateTasks(root);
  decorateLinks(root);
  decorateMath(root);
  return open;
}
