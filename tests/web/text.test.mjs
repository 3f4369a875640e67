import assert from 'node:assert/strict';
import fs from 'node:fs';
import { createRequire } from 'node:module';
import { align, inside, pieces } from '../../web/align.js';
import { cuts, hasDefinitions, openFence, tooDeep } from '../../web/blocks.js';
import { configured, formula } from '../../web/rules.js';
import { test } from './test.mjs';

const parts = (src) => [0, ...cuts(src)].map((a, i, all) => src.slice(a, all[i + 1] ?? src.length));

test('cuts at empty lines, not inside code, lists or indented text', () => {
  assert.deepEqual(parts('a\nb\n\nc'), ['a\nb\n\n', 'c']);
  assert.deepEqual(parts('```\na\n\nb\n```\n\nc'), ['```\na\n\nb\n```\n\n', 'c']);
  assert.deepEqual(parts('- a\n\n- b\n\n  c\n\nd'), ['- a\n\n- b\n\n  c\n\n', 'd']);
  assert.deepEqual(parts('1. a\n\n2. b'), ['1. a\n\n2. b']);
  assert.deepEqual(parts('~~~\n```\n\nx\n~~~\n\ny'), ['~~~\n```\n\nx\n~~~\n\n', 'y']);
  assert.deepEqual(parts(''), ['']);
});

test('cuts of a growing text only ever grow', () => {
  const src = '# h\n\npara one\nmore\n\n- x\n- y\n\n  z\n\npara\n\n1. a\n\n2. b\n\n10) c\n\n```js\na\n\nb\n```\n\n> q\n\n| a |\n|---|\n| 1 |\n\nend';
  let last = [];
  for (let n = 0; n <= src.length; n++) {
    const now = cuts(src.slice(0, n));
    assert.deepEqual(now.slice(0, last.length), last, `at ${n}`);
    last = now;
  }
  assert.ok(last.length >= 5);
});

test('cuts from a known beginning are those of the whole', () => {
  const src = 'a\n\nb\n\n```\n\n```\n\nc\n\nd';
  const all = cuts(src);
  for (const [i, from] of all.entries()) assert.deepEqual(cuts(src, from), all.slice(i + 1));
});

test('cuts of 100 kB take little work', () => {
  const src = 'word '.repeat(20) + '\n\n';
  const big = src.repeat(1000);
  assert.equal(cuts(big).length, 999);
});

test('an open fence is known with its language', () => {
  assert.deepEqual(openFence('```c x\nint a;', 0), { language: 'c', code: 7 });
  assert.equal(openFence('```c\nint a;\n```', 0), null);
  assert.equal(openFence('text', 0), null);
  assert.notEqual(openFence('````\n```\n', 0), null);
});

test('definitions are noticed', () => {
  assert.ok(hasDefinitions('a [x]\n\n[x]: http://y'));
  assert.ok(hasDefinitions('[^1]: note'));
  assert.ok(!hasDefinitions('see [x](y): z'));
});

test('deep nesting is known; ordinary text is not deep', () => {
  assert.ok(tooDeep('text\n' + '> '.repeat(3000) + 'x'));
  assert.ok(tooDeep('- '.repeat(40) + 'x'));
  assert.ok(tooDeep('1. '.repeat(40) + 'x'));
  assert.ok(tooDeep(' '.repeat(200) + '- x'));
  assert.ok(!tooDeep('> '.repeat(20) + 'x'));
  assert.ok(!tooDeep('-'.repeat(80) + '\n' + '*'.repeat(80) + '\n' + ' '.repeat(200) + 'x'));
});

test('align finds the source of rendered text', () => {
  const src = 'plain **bold** and [link](http://x) end';
  const { at } = align('plain bold and link end', src, 0);
  const shown = (text, from) => at.slice(from, from + text.length).map((i) => src[i]).join('');
  assert.equal(shown('bold', 6), 'bold');
  assert.equal(src.slice(at[6], at[9] + 1), 'bold');
  assert.equal(src.slice(at[15], at[18] + 1), 'link');
  assert.deepEqual(align('x\u00a7y', 'xy', 0).at, [0, -1, 1]);
});

test('pieces are the marked and unmarked stretches', () => {
  assert.deepEqual(pieces([0, 1, 2, 5, 6], [[1, 3], [6, 9]]), [[0, 1, false], [1, 3, true], [3, 4, false], [4, 5, true]]);
  assert.ok(inside([[1, 3]], 2));
  assert.ok(!inside([[1, 3]], 3));
  assert.ok(!inside([], 0));
});

test('formulas: dollars that touch, brackets, not money', () => {
  assert.equal(formula('$x+1$ y', 0).tex, 'x+1');
  assert.equal(formula('$5 and $6', 0), null);
  assert.equal(formula('$ x $', 0), null);
  assert.equal(formula('$a\\$b$', 0).tex, 'a\\$b');
  assert.deepEqual(formula('$$x$$', 0), { tex: 'x', end: 5, display: true });
  assert.equal(formula('\\(x\\)', 0).tex, 'x');
  assert.equal(formula('\\[x\\]', 0).display, true);
  assert.equal(formula('\\(x', 0), null);
  assert.equal(formula('$$', 0), null);
});

/* with the library of the system, where it is installed */
const library = '/usr/share/javascript/markdown-it/markdown-it.js';
if (fs.existsSync(library)) {
  const md = configured(createRequire(import.meta.url)(library));
  test('markdown-it: HTML is text, formulas and footnotes are elements', () => {
    assert.match(md.render('<b>x</b>'), /&lt;b&gt;/);
    assert.match(md.render('a $x_1$ b'), /<span class="math">x_1<\/span>/);
    assert.match(md.render('\\(a*b*c\\)'), /<span class="math">a\*b\*c<\/span>/);
    assert.match(md.render('$$\nx\n$$'), /<div class="math display">x<\/div>/);
    assert.match(md.render('\\[ x \\]\nafter'), /<div class="math display">x<\/div>\s*<p>after/);
    assert.match(md.render('`$x$`'), /<code>\$x\$<\/code>/);
    assert.match(md.render('$$\nnever closed\n\nnext'), /<p>\$\$\nnever closed<\/p>/);
    const note = md.render('a[^n]\n\n[^n]: the *note*', { prefix: 'p' });
    assert.match(note, /href="#p-1"/);
    assert.match(note, /id="p-1"/);
    assert.match(note, /<em>note<\/em>/);
    assert.doesNotMatch(md.render('[x](javascript:alert(1))'), /href/);
    assert.match(md.render('![pic](https://x.org/a.png)'), /<a href="https:\/\/x.org\/a.png">pic<\/a>/);
  });
  test('markdown-it: what is not too deep keeps its text', () => {
    for (const mark of ['> ', '- ', '1. ']) assert.match(md.render(mark.repeat(30) + 'deep', {}), /deep/);
  });
  test('markdown-it: deep nesting is bounded', () => {
    for (const src of ['> '.repeat(3000) + 'x', '- '.repeat(3000) + 'x', '['.repeat(5000), '*'.repeat(20000) + 'x', '[^a]: '.repeat(3000), '$'.repeat(9999)])
      assert.equal(typeof md.render(src, {}), 'string');
  });
}
