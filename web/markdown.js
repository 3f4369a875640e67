/* Markdown to DOM nodes without any library: the renderer of builds that found none (rich.js is the
 * other). Nothing that a model writes is parsed as HTML: every node is made here, every text is a text
 * node. */

const MAX_DEPTH = 24; /* nesting limit of quotes and lists; deeper ones are shown as text */

const el = (name, ...children) => {
  const e = document.createElement(name);
  e.append(...children);
  return e;
};

export function renderPlain(src) {
  const out = document.createDocumentFragment();
  const lines = [];
  for (let a = 0; a <= src.length;) {
    let b = src.indexOf('\n', a);
    if (b < 0) b = src.length;
    lines.push({ a, b });
    a = b + 1;
  }
  blocks({ src, depth: 0 }, out, lines);
  return out;
}

const textOf = (c, l) => c.src.slice(l.a, l.b);
const indentOf = (s) => s.length - s.trimStart().length;
const FENCE = /^\s{0,3}(`{3,}|~{3,})\s*([^`]*)$/;
const HEADING = /^\s{0,3}(#{1,6})\s+(.*?)\s*#*\s*$/;
const RULE = /^\s{0,3}([-*_])(\s*\1){2,}\s*$/;
const ITEM = /^(\s*)([-*+]|\d{1,9}[.)])(\s+|$)/;
const QUOTE = /^\s{0,3}> ?/;
const DIVIDER = /^\s*\|?\s*:?-+:?\s*(\|\s*:?-+:?\s*)*\|?\s*$/;

function starts(s) {
  return FENCE.test(s) || HEADING.test(s) || RULE.test(s) || QUOTE.test(s) || ITEM.test(s);
}

function blocks(c, out, lines) {
  for (let i = 0; i < lines.length;) {
    const s = textOf(c, lines[i]);
    if (!s.trim()) i++;
    else if (c.depth >= MAX_DEPTH) i = paragraph(c, out, lines, i);
    else if (FENCE.test(s)) i = fence(c, out, lines, i, FENCE.exec(s));
    else if (HEADING.test(s)) i = heading(c, out, lines, i, HEADING.exec(s));
    else if (RULE.test(s)) out.append(el('hr')), i++;
    else if (QUOTE.test(s)) i = quote(c, out, lines, i);
    else if (ITEM.test(s)) i = list(c, out, lines, i);
    else if (isTable(c, lines, i)) i = table(c, out, lines, i);
    else i = paragraph(c, out, lines, i);
  }
}

function fence(c, out, lines, i, m) {
  const end = new RegExp('^\\s{0,3}' + m[1][0] + '{' + m[1].length + ',}\\s*$');
  let j = i + 1;
  while (j < lines.length && !end.test(textOf(c, lines[j]))) j++;
  const code = el('code', lines.slice(i + 1, j).map((l) => textOf(c, l)).join('\n'));
  const name = m[2].trim().split(/\s/)[0];
  if (name) code.className = 'language-' + name;
  out.append(el('pre', code));
  return j + 1;
}

function heading(c, out, lines, i, m) {
  const h = el('h' + m[1].length);
  const at = lines[i].a + textOf(c, lines[i]).indexOf(m[2], m[1].length);
  inline(c, h, [{ a: at, b: at + m[2].length }]);
  out.append(h);
  return i + 1;
}

function quote(c, out, lines, i) {
  const inner = [];
  for (; i < lines.length && QUOTE.test(textOf(c, lines[i])); i++)
    inner.push({ a: lines[i].a + QUOTE.exec(textOf(c, lines[i]))[0].length, b: lines[i].b });
  const q = el('blockquote');
  blocks({ ...c, depth: c.depth + 1 }, q, inner);
  out.append(q);
  return i;
}

function list(c, out, lines, i) {
  const first = ITEM.exec(textOf(c, lines[i]));
  const ordered = /\d/.test(first[2]);
  const box = el(ordered ? 'ol' : 'ul');
  if (ordered) box.start = parseInt(first[2], 10);
  while (i < lines.length) {
    const m = ITEM.exec(textOf(c, lines[i]));
    if (!m || m[1].length > first[1].length + 3 || /\d/.test(m[2]) !== ordered || m[1].length < first[1].length) break;
    const width = m[0].length;
    const inner = [{ a: lines[i].a + width, b: lines[i].b }];
    for (i++; i < lines.length; i++) {
      const s = textOf(c, lines[i]);
      const deep = indentOf(s) >= Math.min(width, m[1].length + 2);
      if (s.trim() && !deep && (starts(s) || !textOf(c, lines[i - 1]).trim())) break;
      if (!s.trim() && !(i + 1 < lines.length && indentOf(textOf(c, lines[i + 1])) >= 2)) { i++; break; }
      inner.push({ a: Math.min(lines[i].b, lines[i].a + Math.min(width, indentOf(s))), b: lines[i].b });
    }
    const li = el('li');
    blocks({ ...c, depth: c.depth + 1 }, li, inner);
    if (li.children.length === 1 && li.firstChild.tagName === 'P') li.replaceChildren(...li.firstChild.childNodes);
    box.append(li);
  }
  out.append(box);
  return i;
}

function isTable(c, lines, i) {
  return i + 1 < lines.length && textOf(c, lines[i]).includes('|') && textOf(c, lines[i + 1]).includes('-') &&
    DIVIDER.test(textOf(c, lines[i + 1]));
}

function cells(c, l) {
  const s = textOf(c, l), out = [];
  let a = 0, tick = false;
  for (let i = 0; i <= s.length; i++) {
    if (s[i] === '\\') i++;
    else if (s[i] === '`') tick = !tick;
    else if (i >= s.length || (s[i] === '|' && !tick)) {
      const cut = s.slice(a, Math.min(i, s.length));
      const lead = indentOf(cut);
      out.push({ a: l.a + a + lead, b: l.a + a + lead + cut.trim().length });
      a = i + 1;
    }
  }
  if (s.trimStart().startsWith('|')) out.shift();
  if (out.length > 1 && s.trimEnd().endsWith('|')) out.pop();
  return out;
}

function table(c, out, lines, i) {
  const side = cells(c, lines[i + 1]).map((l) => {
    const s = textOf(c, l);
    return s.endsWith(':') ? (s.startsWith(':') ? 'center' : 'right') : '';
  });
  const row = (l, name) => {
    const tr = el('tr');
    cells(c, l).forEach((cell, k) => {
      const td = el(name);
      if (side[k]) td.className = side[k];
      inline(c, td, [cell]);
      tr.append(td);
    });
    return tr;
  };
  const body = el('tbody');
  const t = el('table', el('thead', row(lines[i], 'th')), body);
  for (i += 2; i < lines.length && textOf(c, lines[i]).includes('|'); i++) body.append(row(lines[i], 'td'));
  out.append(t);
  return i;
}

function paragraph(c, out, lines, i) {
  const part = [];
  for (; i < lines.length; i++) {
    const s = textOf(c, lines[i]);
    if (!s.trim() || (part.length && (starts(s) || isTable(c, lines, i)))) break;
    part.push({ a: lines[i].a + indentOf(s), b: lines[i].b });
  }
  const p = el('p');
  inline(c, p, part);
  out.append(p);
  return i;
}

/* ---- inside a block ---- */

function inline(c, to, part) {
  const text = part.map((p) => c.src.slice(p.a, p.b)).join('\n');
  run({ text }, to, 0, text.length, 0);
}

/* Text [i, j); two spaces before the end of a line break it. */
function plain(c, to, i, j) {
  for (let k = i; k < j;) {
    let e = c.text.indexOf('\n', k);
    if (e < 0 || e > j) e = j;
    if (e > k) to.append(c.text.slice(k, e));
    if (e < j) to.append(/ {2}$/.test(c.text.slice(i, e)) ? el('br') : '\n');
    k = e + 1;
  }
}

const LINK = /^!?\[((?:[^\[\]\\]|\\.|\[[^\]]*\])*)\]\(\s*<?([^\s()<>]*(?:\([^\s()]*\))?[^\s()<>]*)>?(?:\s+"[^"]*")?\s*\)/;
const URL_START = /^(https?:\/\/[^\s<>"'`]*[^\s<>"'`.,;:!?)\]}])/;
const SAFE = /^(https?:|mailto:|#)/i;
const PAIRS = [['**', 'strong'], ['__', 'strong'], ['~~', 's'], ['*', 'em'], ['_', 'em']];

/* The next character that may be markup. */
function next(text, i) {
  const sign = /[\\`[!h*_~]/g;
  sign.lastIndex = i;
  const m = sign.exec(text);
  return m ? m.index : text.length;
}

function run(c, to, i, end, depth) {
  let from = i;
  const flush = (upto) => { plain(c, to, from, upto); };
  while (depth < 16 && (i = next(c.text, i)) < end) {
    const found = special(c, c.text.slice(i, end), i, end, depth);
    if (!found) { i++; continue; }
    flush(i);
    to.append(...found.nodes);
    i += found.length;
    from = i;
  }
  flush(end);
}

function special(c, rest, i, end, depth) {
  const ch = rest[0];
  if (ch === '\\' && /^\\[!-/:-@[-`{-~]/.test(rest)) return { nodes: [rest[1]], length: 2 };
  if (ch === '`') return codeSpan(c, rest, i);
  if (ch === '[' || (ch === '!' && rest[1] === '[')) return link(c, rest, i, depth);
  if (ch === 'h' && !/\w/.test(c.text[i - 1] || ' ')) {
    const m = URL_START.exec(rest);
    return m && { nodes: [anchor(m[1], (a) => plain(c, a, i, i + m[1].length))], length: m[1].length };
  }
  for (const [sign, name] of PAIRS)
    if (rest.startsWith(sign)) return pair(c, rest, i, sign, name, depth);
  return null;
}

function codeSpan(c, rest, i) {
  const n = /^`+/.exec(rest)[0].length;
  const m = new RegExp('^`{' + n + '}([^`](?:[\\s\\S]*?[^`])?)`{' + n + '}(?!`)').exec(rest);
  if (!m) return { nodes: [rest.slice(0, n)], length: n };
  const code = el('code');
  const lead = /^ .*\S.* $/.test(m[1]) ? 1 : 0;
  plain(c, code, i + n + lead, i + n + m[1].length - lead);
  return { nodes: [code], length: m[0].length };
}

function anchor(href, fill) {
  const a = el('a');
  a.href = href;
  fill(a);
  return a;
}

function link(c, rest, i, depth) {
  const m = LINK.exec(rest);
  if (!m || !SAFE.test(m[2])) return null;
  const at = i + (rest[0] === '!' ? 2 : 1);
  return { nodes: [anchor(m[2], (a) => run(c, a, at, at + m[1].length, depth + 1))], length: m[0].length };
}

function pair(c, rest, i, sign, name, depth) {
  if (/\s/.test(rest[sign.length] || ' ')) return null;
  if (sign[0] === '_' && /\w/.test(c.text[i - 1] || ' ')) return null;
  for (let j = rest.indexOf(sign, sign.length + 1); j > 0; j = rest.indexOf(sign, j + 1)) {
    if (/\s/.test(rest[j - 1]) || rest[j - 1] === '\\') continue;
    if (sign.length === 1 && (rest[j + 1] === sign || rest[j - 1] === sign)) { j++; continue; }
    if (sign[0] === '_' && /\w/.test(rest[j + sign.length] || ' ')) continue;
    const e = el(name);
    run(c, e, i + sign.length, i + j, depth + 1);
    return { nodes: [e], length: j + sign.length };
  }
  return null;
}
