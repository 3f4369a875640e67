// Messages: edit, branches, regenerate, tools, attachments, statistics, highlighting.
import assert from 'node:assert/strict';
import { done, exchange, reload, response, says, send, shot, shows, test } from './lib.mjs';

await test('edit makes a branch; arrows go between branches', {}, async (page, stub) => {
  await exchange(page, stub, 'first question', 'first answer');
  stub.chat = (s) => { s.text('second answer'); s.end(); };
  await page.getByLabel('Edit this message').click();
  await page.getByLabel('Edit the message').fill('second question');
  await page.keyboard.press('Enter');
  await shows(page, 'second answer');
  assert.equal(stub.chats.at(-1).messages.at(-1).content, 'second question');
  assert.equal(await page.locator('article.user .branches span').innerText(), '2 / 2');
  await page.locator('article.user').getByLabel('Previous version').click();
  await says(page, /first answer/);
  assert.equal(await page.locator('article.user .plain').innerText(), 'first question');
  await reload(page);
  await says(page, /first answer/);
  await page.locator('article.user').getByLabel('Next version').click();
  await says(page, /second answer/);
  assert.equal(await page.locator('#chats .label').innerText(), 'second question');
  await shot(page, 'branches');
});

await test('regenerate, also with another temperature and model', {}, async (page, stub) => {
  const model = (id, value) => ({ id, object: 'model', status: { value }, meta: { size: id } });
  stub.answers.set('/v1/models', { data: [model('small', 'loaded'), model('large', 'loaded')] });
  stub.answers.set('/models/load', {});
  await reload(page);
  await page.waitForSelector('#picker:not([hidden])');
  await exchange(page, stub, 'q', 'one');
  stub.chat = (s) => { s.text('two', { model: 'large' }); s.end(); };
  await page.getByLabel('Regenerate this response').click();
  await shows(page, 'two');
  await done(page);
  assert.equal(await response(page).locator('.branches span').innerText(), '2 / 2');
  await response(page).getByLabel('More actions').click();
  await page.getByRole('menuitem', { name: 'Regenerate with' }).click();
  await page.selectOption('#again-model', 'large');
  await page.fill('#again-temperature', '0.25');
  await shot(page, 'regenerate-with');
  stub.chat = (s) => { s.text('three'); s.end(); };
  await page.getByRole('button', { name: 'Regenerate', exact: true }).click();
  await shows(page, 'three');
  assert.equal(stub.chats.at(-1).temperature, 0.25);
  assert.equal(stub.chats.at(-1).model, 'large');
  assert.deepEqual(stub.chats.at(-1).messages, [{ role: 'user', content: 'q' }]);
});

await test('delete from here, and undo', {}, async (page, stub) => {
  await exchange(page, stub, 'one', 'two');
  await response(page).getByLabel('More actions').click();
  await page.getByRole('menuitem', { name: 'Delete from here' }).click();
  assert.equal(await page.locator('article').count(), 1);
  await page.getByRole('button', { name: 'Undo' }).click();
  assert.equal(await page.locator('article').count(), 2);
  await says(page, /two/);
});

await test('progress of a long prompt', {}, async (page, stub) => {
  let stream = null;
  stub.chat = (s) => { stream = s; s.send({}, { prompt_progress: { total: 8000, cache: 0, processed: 2048, time_ms: 5 } }); };
  await send(page, 'x');
  await page.waitForFunction(() => /Processing the prompt: 2,048 of 8,000 tokens/.test(document.querySelector('.waiting')?.innerText));
  stream.text('done');
  stream.end();
  await shows(page, 'done');
  assert.equal(await page.locator('.waiting').count(), 0);
});

await test('a thought is folded', {}, async (page, stub) => {
  stub.chat = (s) => { s.send({ reasoning_content: 'let me see' }); s.text('Yes.'); s.end(); };
  await send(page, 'x');
  await done(page);
  assert.equal(await response(page).locator('.thought').getAttribute('open'), null);
  assert.equal(await response(page).locator('.thought .plain').textContent(), 'let me see');
});

await test('a tool call is shown, and its result goes back', {}, async (page, stub) => {
  stub.chat = (s) => {
    s.send({ tool_calls: [{ index: 0, id: 'c1', type: 'function', function: { name: 'add', arguments: '{"a":' } }] });
    s.send({ tool_calls: [{ index: 0, function: { arguments: '1}' } }] });
    s.end({ finish: 'tool_calls' });
  };
  await send(page, 'x');
  await done(page);
  assert.match(await response(page).locator('.call pre').innerText(), /"a": 1/);
  await shot(page, 'tool-call');
  stub.chat = (s) => { s.text('It is 2.'); s.end(); };
  await response(page).getByLabel('Result of add').fill('2');
  await response(page).getByText('Send result').click();
  await page.waitForFunction(() => document.querySelectorAll('article.assistant').length === 2);
  await done(page);
  assert.deepEqual(stub.chats.at(-1).messages.map((m) => m.role), ['user', 'assistant', 'tool']);
  assert.equal(stub.chats.at(-1).messages[2].tool_call_id, 'c1');
});

await test('statistics: live figures and a chart, then the details', {}, async (page, stub) => {
  stub.chat = async (s) => {
    await s.slowly('word '.repeat(120), 5, 12);
    s.end({ timings: { predicted_n: 120, predicted_per_second: 81.5, prompt_n: 12, prompt_per_second: 900, draft_n: 90, draft_n_accepted: 72, draft_accept_len: 2.6, cache_n: 4 } });
  };
  await send(page, 'x');
  await page.waitForFunction(() => /tokens · .*tokens\/s/.test(document.getElementById('live-text').textContent));
  await page.waitForFunction(() => document.querySelector('#live .chart polyline').getAttribute('points').includes(' '));
  await shot(page, 'live');
  await done(page);
  const line = await response(page).locator('.stats summary').innerText();
  assert.match(line, /120 tokens · 81\.5 tokens\/s · first token .* · draft acceptance 80 %/);
  await response(page).locator('.stats summary').click();
  assert.match(await response(page).locator('.stats dl').innerText(), /Draft acceptance\s+80 % \(72 of 90\)[\s\S]*Tokens per step\s+2\.60/);
  assert.ok(await response(page).locator('.speed .chart polyline').isVisible());
  await shot(page, 'statistics');
});

await test('accepted draft tokens are highlighted on demand, never in code', {}, async (page, stub) => {
  stub.chat = (s) => {
    s.text('plain **bo');
    s.text('ld** and', { drafted: true });
    s.text(' end `in');
    s.text('line` $x', { drafted: true });
    s.text('^2$\n\n```js\n', { drafted: false });
    s.text('let a = 1;\n```\n', { drafted: true });
    s.end();
  };
  await send(page, 'x');
  await done(page);
  assert.equal(await page.locator('article mark').count(), 0);
  await page.click('#settings-open');
  await page.getByLabel('Highlight text that came from accepted draft tokens').check();
  await page.click('#settings-save');
  await page.waitForFunction(() => document.querySelectorAll('.text mark.accepted').length > 0);
  assert.deepEqual(await response(page).locator('.text mark.accepted').allTextContents(), ['ld', ' and']);
  assert.equal(await response(page).locator('code mark, .math mark').count(), 0);
  assert.match(await response(page).locator('.legend').innerText(), /came from accepted draft tokens/);
  await shot(page, 'highlight');
});

/* ---- attachments ---- */

const text = (name, content) => ({ name, mimeType: 'text/plain', buffer: Buffer.from(content) });
const GIF = Buffer.from('R0lGODlhAQABAIAAAP8AAP///yH5BAAAAAAALAAAAAABAAEAAAICRAEAOw==', 'base64');
const PNG = Buffer.from('iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==', 'base64');

function pdf(words) {
  const body = `BT /F1 24 Tf 72 700 Td (${words}) Tj ET`;
  const objects = ['<< /Type /Catalog /Pages 2 0 R >>', '<< /Type /Pages /Kids [3 0 R] /Count 1 >>',
    '<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 4 0 R /Resources << /Font << /F1 5 0 R >> >> >>',
    `<< /Length ${body.length} >>\nstream\n${body}\nendstream`, '<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>'];
  let out = '%PDF-1.4\n';
  const at = objects.map((o, i) => { const p = out.length; out += `${i + 1} 0 obj\n${o}\nendobj\n`; return p; });
  const xref = out.length;
  out += `xref\n0 6\n0000000000 65535 f \n${at.map((p) => `${String(p).padStart(10, '0')} 00000 n \n`).join('')}trailer\n<< /Size 6 /Root 1 0 R >>\nstartxref\n${xref}\n%%EOF\n`;
  return Buffer.from(out);
}

await test('text files and PDFs go with the message', {}, async (page, stub) => {
  await page.setInputFiles('#attach-file', [text('notes.txt', 'remember the milk'), { name: 'paper.pdf', mimeType: 'application/pdf', buffer: pdf('Words of a page') }]);
  await page.waitForFunction(() => document.querySelectorAll('#attached li').length === 2);
  await shot(page, 'attached');
  await exchange(page, stub, 'What is in them?', 'Milk.');
  const sent = stub.chats.at(-1).messages[0].content;
  assert.match(sent, /File notes\.txt:\n```\nremember the milk\n```/);
  assert.match(sent, /File paper\.pdf:\n```\nWords of a page\n```/);
  assert.match(sent, /What is in them\?$/);
  assert.equal(await page.locator('#attached li').count(), 0);
  assert.deepEqual(await page.locator('article.user .file summary').allInnerTexts(), ['notes.txt', 'paper.pdf']);
});

await test('files that cannot be used are refused with a reason', {}, async (page) => {
  await page.setInputFiles('#attach-file', [{ name: 'program', mimeType: 'application/octet-stream', buffer: Buffer.from([0, 1, 2, 255]) }]);
  await page.waitForFunction(() => document.getElementById('toasts').innerText.includes('program is not a text file'));
  await page.setInputFiles('#attach-file', [text('big.txt', 'x'.repeat(1 << 21))]);
  await page.waitForFunction(() => document.getElementById('toasts').innerText.includes('the maximum is'));
  await page.setInputFiles('#attach-file', [{ name: 'broken.pdf', mimeType: 'application/pdf', buffer: Buffer.from('%PDF-nothing') }]);
  await page.waitForFunction(() => document.getElementById('toasts').innerText.includes('broken.pdf cannot be read as a PDF'));
  await page.setInputFiles('#attach-file', [{ name: 'p.png', mimeType: 'image/png', buffer: PNG }]);
  await page.waitForFunction(() => document.getElementById('toasts').innerText.includes('does not take images'));
  assert.equal(await page.locator('#attached li').count(), 0);
});

await test('images by button, paste and drop, where the model takes them', {}, async (page, stub) => {
  const props = await (await page.request.get(stub.address + '/props')).json();
  stub.answers.set('/props', { ...props, modalities: { vision: true, audio: false } });
  await reload(page);
  await page.waitForFunction(() => document.getElementById('state').dataset.state === 'ready');
  await page.setInputFiles('#attach-file', [{ name: 'button.png', mimeType: 'image/png', buffer: PNG }]);
  await page.waitForFunction(() => document.querySelectorAll('#attached li').length === 1);
  await page.evaluate((bytes) => {
    const files = (name) => { const d = new DataTransfer(); d.items.add(new File([new Uint8Array(bytes)], name, { type: 'image/png' })); return d; };
    document.getElementById('input').dispatchEvent(new ClipboardEvent('paste', { clipboardData: files('paste.png'), bubbles: true, cancelable: true }));
    document.getElementById('log').dispatchEvent(new DragEvent('drop', { dataTransfer: files('drop.png'), bubbles: true, cancelable: true }));
  }, [...PNG]);
  await page.waitForFunction(() => document.querySelectorAll('#attached li').length === 3);
  await page.setInputFiles('#attach-file', [{ name: 'moving.gif', mimeType: 'image/gif', buffer: GIF }]);
  await page.waitForFunction(() => document.querySelectorAll('#attached li').length === 4);
  await page.waitForFunction(() => [...document.querySelectorAll('#attached li img.thumbnail')].filter((i) => i.complete && i.naturalWidth > 0).length === 4);
  await page.getByRole('button', { name: 'Remove paste.png' }).click();
  assert.deepEqual(await page.locator('#attached li').allInnerTexts(), ['button.png', 'drop.png', 'moving.gif']);
  await exchange(page, stub, 'Look.', 'I see.');
  const parts = stub.chats.at(-1).messages[0].content;
  assert.deepEqual(parts.map((p) => p.type), ['image_url', 'image_url', 'image_url', 'text']);
  for (const p of parts.slice(0, 3)) assert.match(p.image_url.url, /^data:image\/png;base64,/); /* a GIF is converted */
  assert.equal(await page.locator('article.user img').count(), 3);
  assert.equal(await page.locator('#attached li').count(), 0);
});

await test('images reach a model that sees', {}, async (page, stub) => {
  stub.target = process.env.SEEING_ADDRESS;
  await reload(page);
  await page.waitForFunction(() => document.getElementById('state').dataset.state === 'ready');
  await page.setInputFiles('#attach-file', [{ name: 'seen.png', mimeType: 'image/png', buffer: PNG }]);
  await page.waitForFunction(() => document.querySelectorAll('#attached li').length === 1);
  await send(page, 'What is it?');
  await done(page);
  await page.waitForFunction(() => document.querySelector('article.assistant') && !document.querySelector('article.streaming'));
  assert.equal(stub.chats.at(-1).messages[0].content[0].type, 'image_url');
  assert.equal(await page.locator('article.assistant .error').count(), 0);
});
