/* Rules that markdown-it does not have: LaTeX and footnotes. md is a markdown-it object. What they
 * produce is text in elements of known classes; decorate.js draws the formulas. */

/* $..$ holds a formula when it touches its text on both sides and no digit follows: "$5 and $6" is money. */
function dollar(src, at) {
  const double = src.startsWith('$$', at);
  const mark = double ? '$$' : '$';
  const from = at + mark.length;
  if (!double && /\s/.test(src[from] ?? ' ')) return null;
  for (let end = src.indexOf(mark, from); end > 0; end = src.indexOf(mark, end + 1)) {
    if (src[end - 1] === '\\') continue;
    if (end === from) return null;
    if (!double && (/\s/.test(src[end - 1]) || /\d/.test(src[end + 1] ?? ''))) continue;
    return { tex: src.slice(from, end), end: end + mark.length, display: double };
  }
  return null;
}

function bracket(src, at) {
  const display = src[at + 1] === '[';
  const end = src.indexOf(display ? '\\]' : '\\)', at + 2);
  return end < 0 ? null : { tex: src.slice(at + 2, end), end: end + 2, display };
}

/* The formula that begins at `at`, or null. */
export function formula(src, at) {
  if (src[at] === '$') return dollar(src, at);
  if (src[at] === '\\' && (src[at + 1] === '(' || src[at + 1] === '[')) return bracket(src, at);
  return null;
}

function inlineMath(state, silent) {
  const found = formula(state.src.slice(0, state.posMax), state.pos);
  if (!found || !found.tex.trim()) return false;
  if (!silent) {
    const token = state.push('math', '', 0);
    token.content = found.tex.trim();
    token.meta = { display: found.display };
  }
  state.pos = found.end;
  return true;
}

/* A formula on lines of its own: from a line that begins with $$ or \[ to one that ends it; an empty line
 * ends the search. */
function blockMath(state, first, last, silent) {
  const begin = state.bMarks[first] + state.tShift[first];
  const open = state.src.slice(begin, begin + 2);
  if ((open !== '$$' && open !== '\\[') || state.sCount[first] - state.blkIndent >= 4) return false;
  const close = open === '$$' ? '$$' : '\\]';
  let line = first;
  let text = state.src.slice(begin + 2, state.eMarks[first]);
  while (!text.trimEnd().endsWith(close)) {
    if (text.includes(close) || ++line >= last || state.isEmpty(line)) return false;
    text += '\n' + state.src.slice(state.bMarks[line] + state.tShift[line], state.eMarks[line]);
  }
  const tex = text.trimEnd().slice(0, -2).trim();
  if (!tex || tex.includes(close)) return false;
  if (silent) return true;
  const token = state.push('math', '', 0);
  token.block = true;
  token.content = tex;
  token.meta = { display: true };
  state.line = line + 1;
  return true;
}

/* ---- footnotes: [^name] in the text, [^name]: at the beginning of a line ---- */

function number(env, name) {
  env.notes ??= new Map();
  if (!env.notes.has(name)) env.notes.set(name, env.notes.size + 1);
  return env.notes.get(name);
}

function noteRef(state, silent) {
  const m = /^\[\^([^\]\s]{1,60})\](?!:)/.exec(state.src.slice(state.pos, Math.min(state.posMax, state.pos + 70)));
  if (!m) return false;
  if (!silent) state.push('note_ref', '', 0).meta = { n: number(state.env, m[1]) };
  state.pos += m[0].length;
  return true;
}

function noteBlock(state, first, last, silent) {
  const begin = state.bMarks[first] + state.tShift[first];
  const m = /^\[\^([^\]\s]{1,60})\]:[ \t]*/.exec(state.src.slice(begin, state.eMarks[first]));
  if (!m || state.env.inNote || state.sCount[first] - state.blkIndent >= 4) return false;
  if (silent) return true;
  let line = first + 1;
  while (line < last && (state.sCount[line] > state.blkIndent || state.isEmpty(line))) line++;
  while (line > first + 1 && state.isEmpty(line - 1)) line--;
  const n = number(state.env, m[1]);
  state.push('note_open', 'aside', 1).meta = { n };
  const head = state.src.slice(begin + m[0].length, state.eMarks[first]);
  const more = [];
  for (let i = first + 1; i < line; i++) more.push(state.src.slice(state.bMarks[i] + Math.min(state.tShift[i], 4), state.eMarks[i]));
  state.env.inNote = true; /* a note within a note is text */
  state.md.block.parse([head, ...more].join('\n'), state.md, state.env, state.tokens);
  state.env.inNote = false;
  state.push('note_close', 'aside', -1);
  state.line = line;
  return true;
}

function addRules(md) {
  const text = md.utils.escapeHtml;
  md.inline.ruler.before('escape', 'math', inlineMath);
  md.block.ruler.before('fence', 'math', blockMath, { alt: ['paragraph', 'list', 'blockquote'] });
  md.inline.ruler.before('link', 'note_ref', noteRef);
  md.block.ruler.before('reference', 'note', noteBlock, { alt: ['paragraph'] });
  md.renderer.rules.math = (tokens, i) => {
    const display = tokens[i].meta.display;
    const box = display ? 'div' : 'span';
    /* a display formula inside a paragraph must not be a block element there */
    const name = display && !tokens[i].block ? 'span' : box;
    return `<${name} class="math${display ? ' display' : ''}">${text(tokens[i].content)}</${name}>`;
  };
  /* an image from another server would reveal the reader to that server, so it becomes a link */
  md.renderer.rules.image = (tokens, i) => {
    const src = tokens[i].attrGet('src');
    return `<a href="${text(src)}">${text(tokens[i].content || src)}</a>`;
  };
  const id = (env, n) => `${env.prefix ?? 'note'}-${n}`;
  md.renderer.rules.note_ref = (tokens, i, options, env) => {
    const n = tokens[i].meta.n;
    return `<sup class="note-ref"><a href="#${text(id(env, n))}" aria-label="Footnote ${n}">${n}</a></sup>`;
  };
  md.renderer.rules.note_open = (tokens, i, options, env) => {
    const n = tokens[i].meta.n;
    return `<div class="note" id="${text(id(env, n))}"><span class="note-number">${n}.</span><div>`;
  };
  md.renderer.rules.note_close = () => '</div></div>';
}

/* A markdown-it with our options: no HTML from the text, bounded nesting, links made of addresses. */
export function configured(markdownit) {
  const md = markdownit({ html: false, linkify: true, typographer: false, maxNesting: 100 });
  addRules(md);
  return md;
}
