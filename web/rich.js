/* Markdown by markdown-it, made safe by DOMPurify, where the build found both; else by markdown.js. */
import { tooDeep } from './blocks.js';
import { make } from './dom.js';
import { has, load } from './load.js';
import { renderPlain } from './markdown.js';
import { configured } from './rules.js';

let md = null;

/* Loads the libraries. Rendering works before and without it. */
export async function prepare() {
  if (!has('markdown-it.js', 'purify.js')) return false;
  try {
    await Promise.all([load('markdown-it.js'), load('purify.js')]);
    if (purifierWorks()) md = configured(window.markdownit);
  } catch (e) {
    console.error('the plain renderer is used:', e);
  }
  return md !== null;
}

/* Debian 12's DOMPurify (2.4.1+dfsg+~2.4.0-2+deb12u1) reads a variable that it does not declare, and so fails on
 * every text; with the variable there, and without a depth, it works as intended. */
function purifierWorks() {
  window.shadowNode ??= {};
  const probe = safe('<strong>x</strong><script>y</script><a href="javascript:z()">a</a>');
  return probe.querySelector('strong')?.textContent === 'x' && !probe.querySelector('script, [href]');
}

/* HTML that a library made of a model's text, as a safe fragment. No style, no forms, no media. */
export function safe(html) {
  return window.DOMPurify.sanitize(html, {
    RETURN_DOM_FRAGMENT: true,
    ALLOWED_TAGS: ['p', 'br', 'hr', 'h1', 'h2', 'h3', 'h4', 'h5', 'h6', 'ul', 'ol', 'li', 'blockquote', 'pre', 'code', 'strong', 'em', 's',
      'a', 'table', 'thead', 'tbody', 'tr', 'th', 'td', 'sup', 'div', 'span'],
    ALLOWED_ATTR: ['href', 'title', 'class', 'id', 'start', 'align', 'aria-label'],
  });
}

export const canHighlight = () => md !== null && has('highlight.js');

/* env is shared by the blocks of a message: link definitions, footnote numbers. */
export function renderMarkdown(src, env) {
  if (tooDeep(src)) return make('div', 'plain', src.trim());
  if (!md) return renderPlain(src);
  /* alignment of table cells: markdown-it writes it as a style, which the page's policy forbids */
  const html = md.render(src, env).replace(/ style="text-align:(left|center|right)"/g, ' class="$1"');
  return safe(html);
}
