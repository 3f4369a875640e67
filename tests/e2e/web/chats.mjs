// The list of conversations: rename, search, pin, delete, export, import; keyboard.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import { becomes, DARK, exchange, PHONE, reload, response, says, send, shot, shows, still, test } from './lib.mjs';

const labels = (page) => page.locator('#chats .label').allInnerTexts();

async function three(page, stub) {
  await exchange(page, stub, 'Trip to Lisbon', 'Take the tram to the **Alfama**.');
  await page.keyboard.press('Alt+KeyN');
  await exchange(page, stub, 'Bread recipe', 'Flour, water, salt.');
  await page.keyboard.press('Alt+KeyN');
  await exchange(page, stub, 'Third one', 'Yes.');
}

async function act(page, title, name) {
  await page.getByLabel(`Actions for ${title}`, { exact: true }).click();
  await page.getByRole('menuitem', { name, exact: true }).click();
}

await test('rename, pin, search, delete and undo', {}, async (page, stub) => {
  await three(page, stub);
  await becomes(() => labels(page), ['Third one', 'Bread recipe', 'Trip to Lisbon']);
  await act(page, 'Bread recipe', 'Rename');
  await page.fill('#rename-title', 'Sourdough');
  await page.keyboard.press('Enter');
  await page.getByRole('button', { name: 'Sourdough', exact: true }).waitFor();
  await becomes(() => labels(page), ['Third one', 'Sourdough', 'Trip to Lisbon']);
  await act(page, 'Trip to Lisbon', 'Pin');
  await becomes(() => labels(page), ['Trip to Lisbon', 'Third one', 'Sourdough']);
  assert.deepEqual(await page.locator('#chats h2').allInnerTexts(), ['Pinned', 'Today']);
  await shot(page, 'list');
  await page.fill('#search', 'alfama');
  await becomes(() => labels(page), ['Trip to Lisbon']);
  assert.match(await page.locator('#chats .snippet').innerText(), /Alfama/);
  await shot(page, 'search');
  await page.fill('#search', 'no such words');
  assert.equal(await page.locator('#chats h2').innerText(), 'Nothing found');
  await page.fill('#search', '');
  await act(page, 'Third one', 'Delete');
  await becomes(() => labels(page), ['Trip to Lisbon', 'Sourdough']);
  await page.getByRole('button', { name: 'Undo' }).click();
  await becomes(() => labels(page), ['Trip to Lisbon', 'Third one', 'Sourdough']);
  await reload(page);
  await becomes(() => labels(page), ['Trip to Lisbon', 'Third one', 'Sourdough']);
});

await test('export as Markdown and JSON, import', {}, async (page, stub) => {
  await exchange(page, stub, 'Question?', '**Answer**');
  const get = async (name) => {
    const wait = page.waitForEvent('download');
    await act(page, 'Question?', name);
    const d = await wait;
    return { name: d.suggestedFilename(), text: fs.readFileSync(await d.path(), 'utf8') };
  };
  const md = await get('Export as Markdown');
  assert.equal(md.name, 'question.md');
  assert.match(md.text, /## You\n\nQuestion\?\n\n## Model\n\n\*\*Answer\*\*/);
  const json = await get('Export as JSON');
  await act(page, 'Question?', 'Delete');
  await page.setInputFiles('#import-file', { name: 'x.json', mimeType: 'application/json', buffer: Buffer.from(json.text) });
  await page.waitForFunction(() => document.querySelector('article.assistant .text')?.textContent.includes('Answer'));
  await page.setInputFiles('#import-file', { name: 'bad.json', mimeType: 'application/json', buffer: Buffer.from('{"no": 1}') });
  await page.waitForFunction(() => document.getElementById('toasts').innerText.includes('bad.json has no conversations'));
});

await test('everything by keyboard', {}, async (page, stub) => {
  await three(page, stub);
  await page.focus('#log');
  await page.keyboard.press('?');
  assert.equal(await page.locator('#keys').isVisible(), true);
  assert.match(await page.innerText('#keys-list'), /Alt \+ N\s+New conversation/);
  await shot(page, 'shortcuts');
  await page.keyboard.press('Escape');
  assert.equal(await page.locator('#keys').isVisible(), false);
  await page.keyboard.press('/');
  assert.equal(await page.evaluate(() => document.activeElement.id), 'input');
  await page.keyboard.type('?');
  assert.equal(await page.inputValue('#input'), '?');
  await page.fill('#input', '');
  await page.keyboard.press('Alt+ArrowDown');
  assert.equal(await page.innerText('#title'), 'Bread recipe');
  await page.keyboard.press('Alt+ArrowUp');
  assert.equal(await page.innerText('#title'), 'Third one');
  await page.keyboard.press('Alt+KeyK');
  assert.equal(await page.evaluate(() => document.activeElement.id), 'search');
  await page.keyboard.press('Alt+Comma');
  assert.equal(await page.locator('#settings').isVisible(), true);
  await page.keyboard.press('Escape');
  stub.chat = (s) => { s.text('again'); s.end(); };
  await page.keyboard.press('Alt+KeyR');
  await shows(page, 'again');
  await page.focus('#input');
  await page.keyboard.press('ArrowUp');
  assert.equal(await page.evaluate(() => document.activeElement.className), 'edit');
  await page.keyboard.press('Escape');
  /* a menu: open, walk, close; focus comes back */
  await page.focus('#chat-menu');
  await page.keyboard.press('Enter');
  assert.equal(await page.evaluate(() => document.activeElement.innerText), 'Rename');
  await page.keyboard.press('ArrowDown');
  assert.equal(await page.evaluate(() => document.activeElement.innerText), 'Pin');
  await page.keyboard.press('Escape');
  assert.equal(await page.evaluate(() => document.activeElement.id), 'chat-menu');
  /* Tab reaches every kind of control, and focus is always seen */
  const seen = new Set();
  await page.evaluate(() => document.activeElement.blur());
  for (let i = 0; i < 60; i++) {
    await page.keyboard.press('Tab');
    const at = await page.evaluate(() => {
      const e = document.activeElement, s = getComputedStyle(e);
      const box = e.id === 'input' ? getComputedStyle(document.getElementById('composer')) : s;
      return { id: e === document.body ? 'BODY' : e.id || e.getAttribute('aria-label') || e.innerText || e.tagName, shown: s.outlineStyle !== 'none' || box.boxShadow !== 'none' };
    });
    if (at.id !== 'BODY') assert.ok(at.shown, `focus on ${at.id} is not seen`);
    seen.add(at.id);
  }
  for (const id of ['new', 'search', 'settings-open', 'chat-menu', 'log', 'input', 'attach', 'send', 'Regenerate this response']) assert.ok(seen.has(id), `Tab does not reach ${id}`);
});

await test('on a phone: list, menu, tap targets of 44 px', { ...PHONE, ...DARK }, async (page, stub) => {
  await exchange(page, stub, 'Trip to Lisbon', 'Some text.\n\n```sh\n' + 'wide '.repeat(60) + '\n```\n\n- [ ] task');
  await page.click('#menu');
  assert.equal(await page.getAttribute('#menu', 'aria-expanded'), 'true');
  await still(page);
  await shot(page, 'phone-list');
  const small = () => page.evaluate(() => [...document.querySelectorAll('button, summary, select, input:not([type=checkbox]), textarea')]
    .filter((e) => e.checkVisibility({ visibilityProperty: true }) && e.getBoundingClientRect().width > 1)
    .map((e) => ({ what: e.id || e.getAttribute('aria-label') || e.innerText, r: e.getBoundingClientRect() }))
    .filter(({ r }) => r.width < 43.5 || r.height < 43.5).map(({ what, r }) => `${what} ${Math.round(r.width)}x${Math.round(r.height)}`));
  assert.deepEqual(await small(), []);
  await page.getByLabel('Actions for Trip to Lisbon').click();
  assert.deepEqual(await small(), []);
  await page.keyboard.press('Escape');
  await page.click('#settings-open');
  assert.deepEqual(await small(), []);
  await shot(page, 'phone-settings');
  await page.getByRole('button', { name: 'Cancel' }).click();
  await page.locator('#shade').click({ position: { x: 370, y: 400 } });
  assert.equal(await page.getAttribute('#menu', 'aria-expanded'), 'false');
  await says(page, /Some text/);
  assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth));
  await response(page).getByLabel('More actions').click();
  await page.getByRole('menuitem', { name: 'Delete from here' }).click();
  await send(page, 'x');
});
