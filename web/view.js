/* The text of one message on the page. It is cut into blocks; a block that is complete is rendered once
 * and left alone, so that text stays selected and code stays scrolled while the message grows. */
import { cuts, hasDefinitions, openFence } from './blocks.js';
import { codeBox, decorate } from './decorate.js';
import { make } from './dom.js';
import { markAccepted } from './mark.js';
import { renderMarkdown } from './rich.js';

const BUDGET = 12; /* milliseconds of work in one frame */
let views = 0;

export class TextView {
  /* marks(): the ranges to highlight; painted(): called after the nodes have changed. */
  constructor(marks, painted = () => {}) {
    this.box = make('div', 'text');
    this.marks = marks;
    this.painted = painted;
    this.prefix = `note${++views}`;
    this.frame = 0;
    this.reset();
  }

  reset() {
    this.src = '';
    this.starts = [0]; /* of the blocks of src that were found so far */
    this.done = 0; /* blocks that are rendered for good */
    this.live = null; /* the node of the last block, while it may change */
    this.headings = []; /* levels that are open after these blocks */
    this.env = { prefix: this.prefix };
    this.wait = 0;
    this.box.replaceChildren();
  }

  /* Shows src; `complete`: nothing will be added. */
  set(src, complete) {
    if (!src.startsWith(this.src)) this.reset();
    /* definitions may follow their use: now all of them are known */
    if (complete && this.done && hasDefinitions(src)) this.reset();
    const from = this.starts[this.starts.length - 1];
    this.src = src;
    this.complete = complete;
    this.starts.push(...cuts(src, from));
    if (complete && hasDefinitions(src)) this.collect();
    this.schedule();
  }

  /* Draws everything again: the renderer or the marks have changed. */
  refresh() {
    const { src, complete } = this;
    this.reset();
    this.set(src, complete);
  }

  /* Renders once without showing the result, to collect definitions. */
  collect() {
    try {
      renderMarkdown(this.src, this.env);
    } catch { /* shown as plain text, block by block */ }
    this.env = { prefix: this.prefix, references: this.env.references, notes: this.env.notes };
  }

  schedule() {
    if (!this.frame) this.frame = requestAnimationFrame(() => { this.frame = 0; this.paint(); });
  }

  paint() {
    const start = performance.now();
    if (start < this.wait) return this.schedule();
    const last = this.starts.length - 1;
    while (this.done < last && performance.now() - start < BUDGET) {
      const node = this.block(this.starts[this.done], this.starts[this.done + 1]);
      this.replaceLive(node);
      this.headings = node.headings;
      this.live = null;
      this.done++;
    }
    if (this.done < last) this.schedule();
    else this.paintLast(this.starts[last]);
    /* a last block that takes long is drawn less often, so that the page stays responsive */
    const cost = performance.now() - start;
    this.wait = cost > BUDGET && !this.complete ? start + 6 * cost : 0;
    this.painted();
  }

  replaceLive(node) {
    if (this.live) this.live.replaceWith(node);
    else this.box.append(node);
  }

  paintLast(from) {
    const fence = this.complete ? null : openFence(this.src, from);
    if (fence && this.live?.code) {
      this.live.code.append(this.src.slice(this.live.upTo));
      this.live.upTo = this.src.length;
      return;
    }
    let node;
    if (fence) {
      const code = make('code', '', this.src.slice(fence.code));
      node = make('div', 'block', codeBox(code, fence.language, true));
      node.code = code;
      node.upTo = this.src.length;
    } else {
      node = this.block(from, this.src.length);
    }
    this.replaceLive(node);
    this.live = node;
  }

  /* A block that cannot be rendered is shown as source text. */
  block(from, to) {
    const src = this.src.slice(from, to);
    const box = make('div', 'block');
    box.headings = this.headings;
    try {
      box.append(renderMarkdown(src, this.env));
      box.headings = decorate(box, this.headings);
      markAccepted(box, this.src, from, this.marks());
    } catch (e) {
      console.error('a block cannot be rendered:', e);
      box.replaceChildren(make('div', 'plain', src.trim()));
    }
    return box;
  }
}
