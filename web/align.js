/* Which characters of the Markdown source a rendered text shows. Pure functions. */

/* Matches `text` (rendered) with `src` from `from` on: for each character its offset in src, or -1. Markup
 * that does not show is skipped; a character that the source does not have nearby is left out. */
const REACH = 400;

export function align(text, src, from) {
  const at = new Array(text.length);
  let p = from;
  for (let i = 0; i < text.length; i++) {
    const ch = text[i];
    let q = p;
    const space = /\s/.test(ch);
    while (q < src.length && q - p < REACH && !(src[q] === ch || (space && /\s/.test(src[q])))) q++;
    if (q >= src.length || q - p >= REACH) {
      at[i] = -1;
      continue;
    }
    at[i] = q;
    p = q + 1;
  }
  return { at, end: p };
}

/* Is the offset inside one of the sorted, disjoint ranges [from, to)? */
export function inside(ranges, offset) {
  let lo = 0, hi = ranges.length;
  while (lo < hi) {
    const mid = (lo + hi) >> 1;
    if (ranges[mid][1] <= offset) lo = mid + 1;
    else hi = mid;
  }
  return lo < ranges.length && ranges[lo][0] <= offset;
}

/* [[from, to, marked]] of `text`, given the offsets of its characters. */
export function pieces(at, ranges) {
  const out = [];
  for (let i = 0; i < at.length; i++) {
    const on = at[i] >= 0 && inside(ranges, at[i]);
    const last = out[out.length - 1];
    if (last && last[2] === on) last[1] = i + 1;
    else out.push([i, i + 1, on]);
  }
  return out;
}
