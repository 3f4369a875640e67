// usage: node web.mjs ADDRESS CHROMIUM FOLDER - drives the page as a person would. Where a reply must
// be exact (thoughts, calls, marks), the stream is scripted here; the rest is the server's own.
import assert from 'node:assert/strict';
import path from 'node:path';
import { chromium } from 'playwright-core';

const [address, executablePath, folder] = process.argv.slice(2);
const browser = await chromium.launch({ executablePath, args: ['--no-sandbox'] });
let passed = 0, failed = 0;

async function open(options = {}) {
  const context = await browser.newContext({ viewport: { width: 1200, height: 800 }, ...options });
  const page = await context.newPage();
  page.faults = [];
  page.on('pageerror', (e) => page.faults.push(String(e)));
  page.on('console', (m) => { if (m.type() === 'error') page.faults.push(m.text()); });
  page.on('request', (r) => { if (!r.url().startsWith(address) && !r.url().startsWith('data:') && !r.url().startsWith('blob:')) page.faults.push('asks ' + r.url()); });
  await page.goto(address + '/');
  return page;
}

async function test(name, options, body) {
  const page = await open(options);
  try {
    await body(page);
    assert.deepEqual(page.faults, []);
    passed++;
  } catch (e) {
    failed++;
    console.log(`FAIL ${name}: ${e.message}`);
    await page.screenshot({ path: path.join(folder, `fail-${failed}.png`) });
  }
  await page.context().close();
}

const chunk = (delta, more = {}) => 'data: ' + JSON.stringify({ choices: [{ index: 0, delta, finish_reason: more.finish ?? null }], ...more }) + '\n\n';

/* Answers the next requests with these chunks; keeps what was asked. */
async function script(page, ...replies) {
  const asked = [];
  await page.route('**/v1/chat/completions', (route) => {
    asked.push(route.request().postDataJSON());
    const body = replies[Math.min(asked.length, replies.length) - 1].join('') + 'data: [DONE]\n\n';
    return route.fulfill({ status: 200, contentType: 'text/event-stream', body });
  });
  return asked;
}

async function say(page, text) {
  await page.fill('#input', text);
  await page.keyboard.press('Enter');
}

const done = (page) => page.waitForSelector('#send:not([hidden])', { timeout: 60000 });
const answer = (page) => page.locator('article.assistant').last();

await test('a reply from the model', {}, async (page) => {
  await page.waitForFunction(() => document.getElementById('model').textContent.includes('foretoken'));
  await say(page, 'What is the sun?');
  await done(page);
  assert.ok((await answer(page).locator('.body').textContent()).length > 3);
  assert.match(await answer(page).locator('.numbers').textContent(), /tokens/);
  await page.screenshot({ path: path.join(folder, 'reply.png') });
});

await test('stop keeps what came', {}, async (page) => {
  await say(page, 'Count from one to one thousand, one number a line, and leave none out.');
  await page.waitForFunction(() => document.querySelector('article.assistant .body')?.textContent.length > 0);
  if (await page.locator('#stop').isVisible()) await page.keyboard.press('Escape');
  await done(page);
  assert.ok((await answer(page).locator('.body').textContent()).length > 0);
});

await test('Markdown, code and a copy button', { colorScheme: 'dark' }, async (page) => {
  await script(page, [chunk({ content: '# Head\n\nSome **bold**, `code` and [a link](https://example.org).\n\n| a | b |\n|---|--:|\n| 1 | 2 |\n\n- one\n- two\n  - three\n\n```c\nint x;\n```\n<script>alert(1)</script>' }, { finish: 'stop' })]);
  await say(page, 'x');
  await done(page);
  const a = answer(page);
  assert.equal(await a.locator('h3').textContent(), 'Head');
  assert.equal(await a.locator('strong').textContent(), 'bold');
  assert.equal(await a.locator('td').count(), 2);
  assert.equal(await a.locator('li').count(), 3);
  assert.equal(await a.locator('pre code').textContent(), 'int x;');
  assert.equal(await a.locator('.code button').textContent(), 'Copy');
  assert.equal(await a.locator('script').count(), 0);
  assert.equal(await a.locator('a').getAttribute('href'), 'https://example.org');
  await page.screenshot({ path: path.join(folder, 'markdown.png') });
});

await test('drafted tokens are marked, also inside bold', {}, async (page) => {
  await script(page, [chunk({ content: 'plain **bo' }, { drafted: false }), chunk({ content: 'ld** and' }, { drafted: true }), chunk({ content: ' end' }, { drafted: false, finish: 'stop' })]);
  await say(page, 'x');
  await done(page);
  assert.deepEqual(await answer(page).locator('mark.drafted').allTextContents(), ['ld', ' and']);
});

await test('a thought is folded', {}, async (page) => {
  await script(page, [chunk({ reasoning_content: 'let me see' }), chunk({ content: 'Yes.' }, { finish: 'stop' })]);
  await say(page, 'x');
  await done(page);
  assert.equal(await answer(page).locator('.thought').getAttribute('open'), null);
  assert.equal(await answer(page).locator('.thought div').textContent(), 'let me see');
});

await test('a tool call is shown, and its result goes back', {}, async (page) => {
  const asked = await script(page,
    [chunk({ tool_calls: [{ index: 0, id: 'c1', type: 'function', function: { name: 'add', arguments: '{"a":' } }] }), chunk({ tool_calls: [{ index: 0, function: { arguments: '1}' } }] }, { finish: 'tool_calls' })],
    [chunk({ content: 'It is 2.' }, { finish: 'stop' })]);
  await say(page, 'x');
  await done(page);
  assert.match(await answer(page).locator('.call pre').textContent(), /"a": 1/);
  await page.screenshot({ path: path.join(folder, 'call.png') });
  await answer(page).locator('.call textarea').fill('2');
  await answer(page).getByText('Give result').click();
  await page.waitForFunction(() => document.querySelectorAll('article.assistant').length === 2);
  await done(page);
  assert.deepEqual(asked[1].messages.map((m) => m.role), ['user', 'assistant', 'tool']);
  assert.equal(asked[1].messages[2].tool_call_id, 'c1');
});

await test('edit, retry and delete', {}, async (page) => {
  const asked = await script(page, [chunk({ content: 'one' }, { finish: 'stop' })], [chunk({ content: 'two' }, { finish: 'stop' })], [chunk({ content: 'three' }, { finish: 'stop' })]);
  await say(page, 'first');
  await done(page);
  await answer(page).getByLabel('Ask for this reply again').click();
  await page.waitForFunction(() => document.querySelector('article.assistant .body')?.textContent === 'two');
  await page.getByLabel('Edit this message').click();
  await page.getByLabel('Edit the message').fill('second');
  await page.keyboard.press('Enter');
  await page.waitForFunction(() => document.querySelector('article.assistant .body')?.textContent === 'three');
  assert.equal(asked[2].messages.at(-1).content, 'second');
  await page.locator('article.user').getByLabel('Delete this message and all below').click();
  assert.equal(await page.locator('article').count(), 0);
});

await test('conversations stay', {}, async (page) => {
  await script(page, [chunk({ content: 'kept' }, { finish: 'stop' })]);
  await say(page, 'alpha');
  await done(page);
  await page.click('#new');
  await say(page, 'beta');
  await done(page);
  await page.reload();
  assert.deepEqual(await page.locator('#chats .name').allTextContents(), ['beta', 'alpha']);
  await page.getByText('alpha').first().click();
  assert.equal(await answer(page).locator('.body').textContent(), 'kept');
});

await test('settings reach the request; bad tools are refused', {}, async (page) => {
  const asked = await script(page, [chunk({ content: 'ok' }, { finish: 'stop' })]);
  await page.click('#settings-open');
  await page.fill('[name=temperature]', '0');
  await page.fill('[name=draft_max]', '2');
  await page.fill('[name=system]', 'Be brief.');
  await page.fill('[name=tools]', '{');
  await page.click('#settings-save');
  assert.match(await page.textContent('#settings-error'), /JSON array/);
  await page.fill('[name=tools]', '');
  await page.screenshot({ path: path.join(folder, 'settings.png') });
  await page.click('#settings-save');
  await say(page, 'x');
  await done(page);
  assert.equal(asked[0].temperature, 0);
  assert.equal(asked[0].speculative.n_max, 2);
  assert.deepEqual(asked[0].messages[0], { role: 'system', content: 'Be brief.' });
});

await test('one of several models is chosen', {}, async (page) => {
  const model = (id, value) => ({ id, object: 'model', status: { value }, meta: null });
  await page.route('**/v1/models', (route) => route.fulfill({ json: { object: 'list', data: [model('small', 'unloaded'), model('large', 'unloaded')] } }));
  await page.reload();
  await page.waitForFunction(() => document.getElementById('model').textContent === 'small (unloaded)');
  const asked = await script(page, [chunk({ content: 'ok' }, { finish: 'stop' })]);
  await page.click('#settings-open');
  await page.selectOption('[name=model]', 'large');
  await page.screenshot({ path: path.join(folder, 'models.png') });
  await page.click('#settings-save');
  await page.waitForFunction(() => document.getElementById('model').textContent === 'large (unloaded)');
  await say(page, 'x');
  await done(page);
  assert.equal(asked[0].model, 'large');
  await page.reload();
  await page.waitForFunction(() => document.getElementById('model').textContent === 'large (unloaded)');
});

await test('an error of the server is shown in its words', {}, async (page) => {
  await page.route('**/v1/chat/completions', (r) => r.fulfill({ status: 429, contentType: 'application/json', body: '{"error":{"message":"the queue is full"}}' }));
  await say(page, 'x');
  await done(page);
  assert.equal(await page.textContent('.error'), 'the queue is full');
  page.faults = page.faults.filter((f) => !f.includes('429'));
});

await test('on a phone, in the dark', { viewport: { width: 390, height: 780 }, colorScheme: 'dark', hasTouch: true, isMobile: true }, async (page) => {
  await script(page, [chunk({ content: '```\n' + 'wide '.repeat(80) + '\n```' }, { finish: 'stop' })]);
  await page.fill('#input', 'x');
  await page.click('#send');
  await done(page);
  const wide = await page.evaluate(() => document.documentElement.scrollWidth);
  assert.ok(wide <= 390, `the page is ${wide} wide`);
  await page.screenshot({ path: path.join(folder, 'phone-reply.png') });
  await page.click('#menu');
  assert.equal(await page.getAttribute('#menu', 'aria-expanded'), 'true');
  await page.waitForTimeout(300); /* it slides in */
  await page.screenshot({ path: path.join(folder, 'phone.png') });
});

await browser.close();
console.log(`${passed} passed, ${failed} failed`);
process.exit(failed ? 1 : 0);
