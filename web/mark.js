/* Marks the text of accepted draft tokens in a rendered block; never in code or formulas. */
import { align, pieces } from './align.js';
import { make } from './dom.js';

function markText(node, at, ranges) {
  const parts = pieces(at, ranges);
  if (!parts.some((p) => p[2])) return;
  node.replaceWith(...parts.map(([from, to, on]) => (on ? make('mark', 'accepted', node.data.slice(from, to)) : node.data.slice(from, to))));
}

/* ranges: sorted, disjoint [from, to) of src; the block shows src from `from` on. */
export function markAccepted(root, src, from, ranges) {
  if (!ranges.length) return;
  const walker = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
  const nodes = [];
  while (walker.nextNode()) nodes.push(walker.currentNode);
  let p = from;
  for (const node of nodes) {
    const parent = node.parentElement;
    if (parent?.closest('.code-head, .note-number, .note-ref')) continue;
    const { at, end } = align(node.data, src, p);
    p = end;
    if (node.data.trim() && !parent?.closest('code, .math')) markText(node, at, ranges);
  }
}
