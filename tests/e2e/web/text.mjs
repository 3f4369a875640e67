// Markdown, streaming that leaves the reader alone, long responses.
import assert from 'node:assert/strict';
import { becomes, DARK, done, exchange, PHONE, reload, response, send, shot, test } from './lib.mjs';
import { sleep } from './stub.mjs';

const SAMPLE = `# First level

###### Sixth level

Some **bold**, \`code\`, [a link](https://example.org), https://example.com/x and a formula $e^{i\\pi} + 1 = 0$ or \\(a^2\\); it costs $5 or $6.[^1]

$$
\\int_0^1 \\frac{x^4(1-x)^4}{1+x^2}\\,dx = \\frac{22}{7} - \\pi
$$

\\[ \\sum_{k=1}^n k = \\frac{n(n+1)}{2} \\]

- [x] done
- [ ] to do
  - nested

| Name | Value | A long heading that does not break | Another heading |
|:--|--:|---|---|
| alpha | 1 | extraordinarilylongwordthatmustnotbebroken | incomprehensibilities |

\`\`\`python
def fib(n):
    return n if n < 2 else fib(n - 1) + fib(n - 2)  # slow
\`\`\`

> A quote.

<script>alert(1)</script><img src=x onerror=alert(2)> [bad](javascript:alert(3)) ![picture](https://example.org/p.png)

[^1]: The *note*.`;

for (const [name, options] of [['light', {}], ['dark', DARK], ['phone', PHONE], ['phone-dark', { ...PHONE, ...DARK }]]) {
  await test(`Markdown, ${name}`, options, async (page, stub) => {
    await exchange(page, stub, 'Show Markdown.', SAMPLE);
    const a = response(page);
    await a.locator('.katex').first().waitFor();
    await a.locator('.hljs-keyword').first().waitFor();
    assert.equal(await a.locator('h3.level-1').innerText(), 'First level');
    const sizes = await a.locator('h3, h6, .block > p').evaluateAll((all) => all.map((e) => [e.tagName, parseFloat(getComputedStyle(e).fontSize)]));
    const body = sizes.find((s) => s[0] === 'P')[1];
    for (const [tag, px] of sizes) assert.ok(px >= body, `${tag} has ${px} px, the text ${body}`);
    await becomes(() => a.locator('.math .katex').count(), 4);
    assert.equal(await a.locator('.math.display').count(), 2);
    assert.match(await a.innerText(), /it costs \$5 or \$6/);
    assert.deepEqual(await a.locator('li.task input').evaluateAll((all) => all.map((e) => e.checked)), [true, false]);
    assert.equal(await a.locator('.code-head span').innerText(), 'python');
    assert.equal(await a.locator('td').nth(1).evaluate((e) => getComputedStyle(e).textAlign), 'right');
    assert.equal(await a.locator('.note em').innerText(), 'note');
    assert.equal(await a.locator('.note-ref a').getAttribute('href'), '#' + await a.locator('.note').getAttribute('id'));
    assert.equal(await a.locator('script, img').count(), 0);
    assert.deepEqual(await a.locator('.text a[target]').evaluateAll((all) => all.map((e) => e.getAttribute('href'))), ['https://example.org', 'https://example.com/x', 'https://example.org/p.png']);
    const table = await a.locator('.table').evaluate((e) => [e.scrollWidth, e.clientWidth]);
    if (name.startsWith('phone')) assert.ok(table[0] > table[1], 'the table scrolls by itself');
    const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
    assert.ok(wide <= 0, `the page is ${wide} px too wide`);
    await shot(page, `markdown-${name}-end`);
    await page.evaluate(() => document.querySelector('article.assistant').scrollIntoView());
    await shot(page, `markdown-${name}`);
  });
}

await test('Markdown without any library', {}, async (page, stub) => {
  stub.answers.set('/web/libs.js', { type: 'text/javascript', text: 'export const FOUND = [];' });
  stub.requests.length = 0;
  await reload(page);
  await exchange(page, stub, 'Show Markdown.', SAMPLE);
  const a = response(page);
  assert.equal(await a.locator('h3.level-1').innerText(), 'First level');
  assert.equal(await a.locator('strong').innerText(), 'bold');
  assert.equal(await a.locator('li').count(), 3);
  assert.match(await a.locator('.code pre').innerText(), /def fib/);
  assert.equal(await a.locator('.table td').count(), 4);
  assert.equal(await a.locator('script, img').count(), 0);
  await shot(page, 'markdown-plain');
  for (const text of ['> '.repeat(3000) + 'deep', '- '.repeat(3000) + 'deep']) {
    await exchange(page, stub, 'nest', text);
    await page.waitForFunction(() => [...document.querySelectorAll('article.assistant .text')].at(-1).textContent.includes('deep'));
  }
  assert.deepEqual(stub.requests.filter((r) => /markdown-it|purify|katex|highlight/.test(r)), []);
});

await test('formulas of many kinds, within the policy of the page', {}, async (page, stub) => {
  const tex = ['\\sqrt[3]{x}', '\\color{red}{a}\\colorbox{yellow}{b}', '\\begin{pmatrix}1&2\\\\3&4\\end{pmatrix}', '\\underbrace{x+y}_{n}\\overrightarrow{AB}', '\\begin{aligned}a&=b\\\\&=c\\end{aligned}', '\\cancel{x}\\boxed{y}\\rule{1em}{1em}', '\\mathbb{R}\\mathcal{L}\\mathfrak{g}', '\\href{javascript:alert(1)}{x}', '\\notacommand{x}'];
  await exchange(page, stub, 'x', tex.map((t) => `$$${t}$$`).join('\n\n'));
  await page.waitForFunction((n) => document.querySelectorAll('.math .katex, .math .katex-error').length === n, tex.length);
  assert.equal(await page.locator('.math a').count(), 0);
  await shot(page, 'formulas');
});

await test('copy buttons', { permissions: ['clipboard-read', 'clipboard-write'] }, async (page, stub) => {
  await exchange(page, stub, 'x', 'text\n\n```c\nint x;\n```');
  await response(page).getByLabel('Copy this code').click();
  assert.equal(await page.evaluate(() => navigator.clipboard.readText()), 'int x;');
  await response(page).getByLabel('Copy this message').click();
  assert.equal(await page.evaluate(() => navigator.clipboard.readText()), 'text\n\n```c\nint x;\n```');
});

await test('while a response grows, a selection and the place in code stay', {}, async (page, stub) => {
  const gate = () => { let open; const wait = new Promise((r) => { open = r; }); return { wait, open }; };
  const [step, end] = [gate(), gate()];
  stub.chat = async (s) => {
    await s.slowly(`The first paragraph.\n\n\`\`\`js\nconst wide = "${'x'.repeat(400)}";\n`, 40, 5);
    await step.wait;
    await s.slowly('const more = 1;\n'.repeat(20), 16, 5);
    await end.wait;
    await s.slowly('```\n\nThe last paragraph, which grows word by word.', 8, 5);
    s.end();
  };
  await send(page, 'x');
  await page.waitForFunction(() => document.querySelector('.code code')?.textContent.includes('x";'));
  await page.evaluate(() => {
    const p = document.querySelector('article.assistant .text p');
    getSelection().selectAllChildren(p);
    const pre = document.querySelector('.code pre');
    pre.scrollLeft = 200;
    window.marked = { p, pre };
  });
  step.open();
  await page.waitForFunction(() => document.querySelector('.code code').textContent.split('more').length > 15);
  const now = await page.evaluate(() => ({ selection: String(getSelection()), same: document.querySelector('.code pre') === window.marked.pre, left: window.marked.pre.scrollLeft }));
  assert.deepEqual(now, { selection: 'The first paragraph.', same: true, left: 200 });
  end.open();
  await done(page);
  assert.equal(await page.evaluate(() => document.querySelector('article.assistant .text p') === window.marked.p), true);
  assert.equal(await page.evaluate(() => String(getSelection())), 'The first paragraph.');
});

await test('the end is followed until the reader scrolls up', {}, async (page, stub) => {
  let stop = false;
  stub.chat = async (s) => {
    for (let i = 0; !stop && !s.closed; i++) {
      s.text(`Paragraph ${i} with some words.\n\n`);
      await sleep(15);
    }
    s.end();
  };
  const place = () => page.evaluate(() => { const l = document.getElementById('log'); return { top: l.scrollTop, rest: l.scrollHeight - l.scrollTop - l.clientHeight }; });
  await send(page, 'x');
  await page.waitForFunction(() => document.getElementById('log').scrollTop > 300);
  assert.equal(await page.locator('#down').isVisible(), false);
  await page.mouse.move(700, 400);
  await page.mouse.wheel(0, -250);
  await page.waitForSelector('#down:not([hidden])');
  let before = await place();
  await page.waitForFunction((n) => document.querySelectorAll('.block').length > n + 10, await page.locator('.block').count());
  before = await place(); // the wheel has come to rest
  await page.waitForFunction((n) => document.querySelectorAll('.block').length > n + 20, await page.locator('.block').count());
  const after = await place();
  assert.ok(Math.abs(after.top - before.top) < 2, `the page moved from ${before.top} to ${after.top}`);
  await shot(page, 'scrolled-up');
  await page.click('#down');
  await page.waitForFunction(() => { const l = document.getElementById('log'); return l.scrollHeight - l.scrollTop - l.clientHeight < 30; });
  await page.waitForFunction((t) => document.getElementById('log').scrollTop > t + 200, after.top);
  await page.waitForFunction(() => { const l = document.getElementById('log'); return l.scrollHeight - l.scrollTop - l.clientHeight < 60; });
  stop = true;
  await done(page);
});

const LONG = Array.from({ length: 550 }, (_, i) => `## Part ${i}\n\nSome **text** with \`code\` and [links](https://example.org/${i}) that goes on for a while, so that a paragraph has about two hundred characters in it, like this one.\n\n- item one of ${i}\n- item two\n`).join('\n');

await test('a response of 100 kB', {}, async (page, stub) => {
  assert.ok(LONG.length > 95000);
  await page.evaluate(() => {
    window.pauses = [];
    new PerformanceObserver((l) => window.pauses.push(...l.getEntries().map((e) => Math.round(e.duration)))).observe({ type: 'longtask' });
  });
  stub.chat = async (s) => { await s.slowly(LONG, 400, 2); s.end(); };
  await send(page, 'long');
  await done(page);
  await page.waitForFunction(() => document.querySelectorAll('h3.level-2').length === 550);
  console.log(`     longest pauses while streaming: ${(await page.evaluate(() => window.pauses ?? [])).sort((a, b) => b - a).slice(0, 3).join(', ') || 'none over 50'} ms`);
  await reload(page);
  await page.waitForFunction(() => document.querySelectorAll('h3.level-2').length === 550);
  await exchange(page, stub, 'next', 'short');
});

await test('100 kB in a single block', {}, async (page, stub) => {
  stub.chat = async (s) => { await s.slowly('```text\n' + 'a line of code\n'.repeat(7000) + '```\n', 1000, 2); s.end(); };
  await send(page, 'code');
  await done(page);
  await page.waitForFunction(() => document.querySelector('.code code').textContent.split('\n').length === 7000);
  stub.chat = async (s) => { await s.slowly('- an item of a list\n'.repeat(5000), 1000, 2); s.end(); };
  await send(page, 'list');
  await done(page);
  await page.waitForFunction(() => document.querySelectorAll('li').length >= 5000);
});
