// What goes wrong is said on the page, in words.
import assert from 'node:assert/strict';
import { done, exchange, reload, response, says, send, shot, shows, test } from './lib.mjs';
import { sleep } from './stub.mjs';

await test('the server goes away and comes back', {}, async (page, stub) => {
  await page.waitForFunction(() => document.getElementById('state').dataset.state === 'ready');
  await stub.down();
  await send(page, 'hello');
  await done(page);
  await says(page, /The server cannot be reached/);
  await page.waitForFunction(() => /The page keeps trying/.test(document.getElementById('banner').innerText));
  assert.equal(await page.innerText('#state-text'), 'Not connected');
  await shot(page, 'down');
  await stub.up();
  await page.waitForFunction(() => document.getElementById('state').dataset.state === 'ready');
  assert.equal(await page.locator('#banner').isVisible(), false);
  stub.chat = (s) => { s.text('back'); s.end(); };
  await page.getByLabel('Try again to generate this response').click();
  await shows(page, 'back');
  assert.equal(await page.locator('article.assistant').count(), 1);
});

await test('the connection breaks in the middle: the text stays, Continue goes on', {}, async (page, stub) => {
  stub.chat = (s) => { s.text('half of'); setTimeout(() => s.res.destroy(), 100); };
  await send(page, 'x');
  await done(page);
  await says(page, /half of\s+The connection to the server broke/);
  stub.chat = (s) => { s.text(' it'); s.end(); };
  await page.getByLabel('Continue this response').click();
  await shows(page, 'half of it');
});

await test('a failed response is not sent back', {}, async (page, stub) => {
  stub.chat = (s) => s.fail(500, { message: 'the device has failed' });
  await send(page, 'first');
  await done(page);
  await says(page, /The device has failed\./);
  await exchange(page, stub, 'second', 'fine');
  assert.deepEqual(stub.chats.at(-1).messages, [{ role: 'user', content: 'first\n\nsecond' }]);
});

await test('401 leads to the settings', {}, async (page, stub) => {
  const refuse = (req) => (req.headers.authorization === 'Bearer sesame' ? { data: [{ id: 'm', meta: null, status: { value: 'loaded' } }] } : { status: 401, json: { error: { message: 'no key' } } });
  stub.answers.set('/v1/models', refuse);
  stub.chat = (s, body, req) => { if (req.headers.authorization === 'Bearer sesame') { s.text('open'); s.end(); } else s.fail(401, { message: 'no key' }); };
  await reload(page);
  await page.waitForFunction(() => /wants an API key/.test(document.getElementById('banner').innerText));
  assert.equal(await page.innerText('#state-text'), 'API key needed');
  await send(page, 'x');
  await done(page);
  assert.match(await response(page).locator('.error').innerText(), /The server wants an API key/);
  await shot(page, 'key');
  await response(page).getByRole('button', { name: 'Open settings' }).click();
  assert.equal(await page.evaluate(() => document.activeElement.name), 'key');
  await page.keyboard.type('sesame');
  await page.click('#settings-save');
  await page.waitForFunction(() => document.getElementById('state').dataset.state === 'ready');
  await page.getByLabel('Try again to generate this response').click();
  await shows(page, 'open');
});

await test('a full context says what to do', {}, async (page, stub) => {
  stub.chat = (s) => s.fail(400, { message: 'too long', type: 'exceed_context_size_error', n_prompt_tokens: 9001, n_ctx: 8192 });
  await send(page, 'x');
  await done(page);
  await says(page, /no longer fits in the model's context\. It has 9001 tokens and the context holds 8192/);
});

await test('a busy server, and words of its own', {}, async (page, stub) => {
  stub.chat = (s) => s.fail(429, { message: 'queue' });
  await send(page, 'x');
  await done(page);
  await says(page, /The server is busy/);
});

await test('a model that is loading is waited for', {}, async (page, stub) => {
  let ready = false;
  stub.chat = (s) => { if (ready) { s.text('now'); s.end(); } else s.fail(503, { message: 'the model is loading' }); };
  await send(page, 'x');
  await page.waitForFunction(() => /The model is loading\. The response begins when it is ready/.test(document.querySelector('article.assistant .extra')?.innerText));
  await sleep(300);
  ready = true;
  await shows(page, 'now');
  await done(page);
  assert.equal(await response(page).locator('.error').count(), 0);
});
