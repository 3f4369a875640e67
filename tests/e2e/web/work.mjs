// No work is lost: background streaming, reloads, damaged messages, full storage.
import assert from 'node:assert/strict';
import { becomes, DARK, done, exchange, PHONE, reload, response, says, send, shot, test, visit } from './lib.mjs';
import { sleep } from './stub.mjs';

for (const [size, options] of [['desktop', {}], ['phone', { ...PHONE, ...DARK }]]) {
  await test(`a response of the embedded model, ${size}`, options, async (page) => {
    await page.waitForFunction(() => document.getElementById('state').dataset.state === 'ready');
    assert.match(await page.textContent('#model-name'), /foretoken/);
    await shot(page, `empty-${size}`);
    await send(page, 'What is 17 + 25?');
    await done(page);
    await says(page, /\S/);
    assert.match(await response(page).locator('.stats summary').innerText(), /tokens\/s · first token .* · draft acceptance \d+ %/);
    assert.match(await page.textContent('#context'), /^Context: [\d,]+ of [\d,]+ tokens$/);
    await response(page).locator('.stats summary').click();
    assert.match(await response(page).locator('.stats dl').innerText(), /Time to first token/);
    await shot(page, `response-${size}`);
  });
}

await test('Stop keeps what has arrived', {}, async (page, stub) => {
  stub.chat = async (s) => { s.text('One, two'); while (!s.closed) await sleep(20); };
  await send(page, 'Count.');
  await page.waitForFunction(() => document.querySelector('article.assistant .text')?.textContent.includes('two'));
  await page.keyboard.press('Escape');
  await done(page);
  await says(page, /One, two/);
  assert.match(await response(page).locator('.stats summary').innerText(), /stopped by you/);
});

await test('a response goes on while another conversation is open', {}, async (page, stub) => {
  let stream = null;
  stub.chat = (s) => { stream = s; s.text('first half'); };
  await send(page, 'alpha');
  await page.waitForFunction(() => document.querySelector('article.assistant .text')?.textContent.includes('first half'));
  await page.click('#new');
  assert.equal(await page.locator('#chats .busy-dot').count(), 1);
  assert.equal(await page.locator('#send').isVisible(), true);
  await exchange(page, stub, 'beta', 'other response');
  assert.deepEqual(await page.locator('#chats .label').allInnerTexts(), ['beta', 'alpha']);
  stream.text(' and second half');
  stream.end();
  await page.waitForFunction(() => !document.querySelector('.busy-dot'));
  await page.getByRole('button', { name: 'alpha', exact: true }).click();
  await page.waitForFunction(() => document.querySelector('article.assistant .text')?.textContent.includes('first half and second half'));
  await reload(page);
  assert.deepEqual((await page.locator('#chats .label').allInnerTexts()).sort(), ['alpha', 'beta']);
  await page.getByRole('button', { name: 'alpha', exact: true }).click();
  await says(page, /first half and second half/);
});

await test('a reload in the middle keeps the text, and Continue goes on', {}, async (page, stub) => {
  stub.chat = async (s) => { s.text('It was a dark and'); while (!s.closed) await sleep(20); };
  await send(page, 'Tell.');
  await page.waitForFunction(() => document.querySelector('article.assistant .text')?.textContent.includes('dark'));
  await becomes(() => page.evaluate(() => new Promise((resolve) => { // it is saved every second
    const open = indexedDB.open('foretoken', 1);
    open.onsuccess = () => {
      const all = open.result.transaction('chats').objectStore('chats').getAll();
      all.onsuccess = () => { open.result.close(); resolve(JSON.stringify(all.result).includes('dark and')); };
    };
  })), true);
  await reload(page);
  await says(page, /It was a dark and\s+This response was interrupted/);
  await shot(page, 'interrupted');
  stub.chat = (s) => { s.text(' stormy night.'); s.end(); };
  await page.getByRole('button', { name: 'Continue this response' }).click();
  await page.waitForFunction(() => document.querySelector('article.assistant .text')?.textContent.includes('dark and stormy night.'));
  assert.deepEqual(stub.chats.at(-1).messages.at(-1), { role: 'assistant', content: 'It was a dark and' });
});

await test('what is written but not sent stays with its conversation', {}, async (page, stub) => {
  await exchange(page, stub, 'one', 'x');
  await page.fill('#input', 'half a thought');
  await page.click('#new');
  assert.equal(await page.inputValue('#input'), '');
  await page.getByRole('button', { name: 'one', exact: true }).click();
  assert.equal(await page.inputValue('#input'), 'half a thought');
});

const NESTED = { quotes: '> '.repeat(3000) + 'deep', lists: '- '.repeat(3000) + 'deep', notes: '[^a]: '.repeat(3000) + 'deep' };
for (const [kind, text] of Object.entries(NESTED)) {
  await test(`3,000 nested ${kind} do not break the page`, {}, async (page, stub) => {
    await exchange(page, stub, 'nest', text);
    await reload(page);
    await page.waitForFunction(() => document.querySelector('article.assistant .text')?.textContent.includes('deep'));
    await exchange(page, stub, 'again', 'still here');
    await says(page, /still here/);
  });
}

await test('a damaged record does not hide the others', {}, async (page, stub) => {
  await exchange(page, stub, 'good', 'fine');
  await page.evaluate(() => new Promise((resolve) => {
    const open = indexedDB.open('foretoken');
    open.onsuccess = () => {
      const tx = open.result.transaction('chats', 'readwrite');
      tx.objectStore('chats').put({ id: 'bad1', messages: 7 });
      tx.objectStore('chats').put({ id: 'bad2', title: 'odd', changed: 'x', messages: [{ id: 'm', parent: 'm', role: 'assistant', content: { no: 1 }, marks: 'x', calls: [1], timings: 'x', speeds: [null, 'y'] }] });
      tx.oncomplete = resolve;
    };
  }));
  await reload(page);
  await says(page, /fine/);
  assert.equal(await page.locator('#chats li').count(), 2);
  await page.locator('#chats .name').last().click();
  assert.equal(await page.locator('article').count(), 1);
});

await test('conversations of earlier versions are taken over', {}, async (page, stub) => {
  await page.evaluate(() => localStorage.setItem('foretoken.chat.old', JSON.stringify({ id: 'old', title: 'From before', changed: 5, messages: [{ role: 'user', content: 'q' }, { role: 'assistant', content: 'kept answer' }] })));
  await visit(page, stub);
  await page.getByRole('button', { name: 'From before', exact: true }).click();
  await page.waitForFunction(() => document.querySelector('article.assistant .text')?.textContent.includes('kept answer'));
  assert.equal(await page.evaluate(() => localStorage.getItem('foretoken.chat.old')), null);
});

await test('a full storage is said', {}, async (page, stub) => {
  await page.evaluate(() => { IDBObjectStore.prototype.put = () => { throw new DOMException('full', 'QuotaExceededError'); }; });
  await exchange(page, stub, 'x', 'shown all the same');
  assert.match(await page.innerText('#toasts'), /The storage of this browser is full/);
  await says(page, /shown all the same/);
});

await test('a browser that forbids storage can still chat', {}, async (page, stub) => {
  await page.addInitScript(() => {
    for (const name of ['localStorage', 'sessionStorage']) Object.defineProperty(window, name, { get() { throw new DOMException('no', 'SecurityError'); } });
    IDBFactory.prototype.open = () => { throw new DOMException('no', 'SecurityError'); };
  });
  await visit(page, stub);
  await page.waitForFunction(() => /does not let the page store anything/.test(document.getElementById('toasts').innerText));
  await exchange(page, stub, 'x', 'an answer');
  await says(page, /an answer/);
});

await test('a conversation that is deleted while it streams stays deleted', {}, async (page, stub) => {
  await exchange(page, stub, 'stays', 'x');
  await page.click('#new');
  let closed = false;
  stub.chat = async (s) => { while (!s.closed) { s.text('more '); await sleep(20); } closed = true; };
  await send(page, 'goes');
  await page.waitForFunction(() => document.querySelector('article.assistant .text')?.textContent.includes('more'));
  await page.getByLabel('Actions for goes', { exact: true }).click();
  await page.getByRole('menuitem', { name: 'Delete' }).click();
  await becomes(async () => closed, true);
  await becomes(() => page.locator('#chats .label').allInnerTexts(), ['stays']);
  await reload(page);
  assert.deepEqual(await page.locator('#chats .label').allInnerTexts(), ['stays']);
});

await test('two tabs see each other', {}, async (page, stub, context) => {
  await exchange(page, stub, 'from the first tab', 'one');
  const second = await context.newPage();
  await visit(second, stub);
  await exchange(second, stub, 'from the second tab', 'two');
  await page.getByRole('button', { name: 'from the second tab', exact: true }).waitFor();
  await second.close();
});
