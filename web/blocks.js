/* Where Markdown can be cut so that each piece renders on its own, as it would inside the whole. While a
 * response grows, only the text after the last cut can still change. Pure functions. */

const FENCE = /^\s*(`{3,}|~{3,})/;
const ITEM = /^\s{0,3}([-*+]|\d{1,9}[.)])(\s|$)/;
const ITEM_BEGUN = /^\d{1,9}$/; /* the last line may become "12. text" */

/* Offsets of the blocks of src that begin after `from`, itself the beginning of a block. A cut follows
 * an empty line outside of code, before a line that is neither indented nor an item of the same list. */
export function cuts(src, from = 0) {
  const out = [];
  let fence = '', list = false, empty = false;
  for (let a = from; a < src.length;) {
    let b = src.indexOf('\n', a);
    if (b < 0) b = src.length;
    const line = src.slice(a, b);
    const mark = FENCE.exec(line);
    if (fence) {
      if (mark && mark[1][0] === fence[0] && mark[1].length >= fence.length && !line.slice(mark[0].length).trim()) fence = '';
    } else if (!line.trim()) {
      empty = true;
    } else {
      const item = ITEM.test(line) || (b === src.length && ITEM_BEGUN.test(line));
      if (empty && a > from && !/^\s/.test(line) && !(item && list)) {
        out.push(a);
        list = false;
      }
      empty = false;
      list ||= item;
      if (mark) fence = mark[1];
    }
    a = b + 1;
  }
  return out;
}

/* Is the last line of the block that begins at `from` inside a code fence? Then its language and the
 * offset where the code begins; else null. Only for a block whose first line opens the fence. */
export function openFence(src, from) {
  const head = /^ {0,3}(`{3,}|~{3,})[ \t]*([^`\n]*)\n/.exec(src.slice(from, from + 400));
  if (!head) return null;
  const end = new RegExp(`^ {0,3}${head[1][0]}{${head[1].length},}[ \\t]*$`, 'm');
  const code = from + head[0].length;
  return end.test(src.slice(code)) ? null : { language: head[2].trim().split(/\s/)[0], code };
}

/* Does any part of the text define what another part refers to (links by name, footnotes)? */
export const hasDefinitions = (src) => /^ {0,3}\[[^\]\n]+\]:/m.test(src);

const MAX_NESTING = 30;
const MARKER = /[ \t]{0,3}(?:>|(?:[-*+]|\d{1,9}[.)])(?=[ \t]|$))/y;

/* Are quotes and lists nested so deeply that a parser would give up and drop the text? */
export function tooDeep(src) {
  return src.split('\n').some((line) => {
    let n = 0;
    for (MARKER.lastIndex = 0; n <= MAX_NESTING && MARKER.test(line);) n++;
    return n > MAX_NESTING || /^[ \t]{100,}([-*+>]|\d{1,9}[.)])/.test(line);
  });
}
