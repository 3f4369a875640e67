// Settings, presets, the model picker.
import assert from 'node:assert/strict';
import { exchange, reload, shot, test } from './lib.mjs';

await test('settings reach the request; the server\'s values are placeholders', {}, async (page, stub) => {
  await page.waitForFunction(() => document.getElementById('state').dataset.state === 'ready');
  const p = (await (await page.request.get(stub.address + '/props')).json());
  await page.click('#settings-open');
  const shown = await page.getAttribute('[name=temperature]', 'placeholder');
  assert.ok(Math.abs(Number(shown) - p.default_generation_settings.params.temperature) < 0.001);
  assert.equal(await page.getAttribute('[name=draft_max]', 'placeholder'), String(p.speculative.n_max));
  assert.equal(await page.getByLabel('Maximum draft tokens per step').count(), 1);
  await page.fill('[name=temperature]', '0');
  await page.fill('[name=draft_max]', '2');
  await page.fill('[name=system]', 'Be brief.');
  await page.getByText('Tools', { exact: true }).click();
  await page.fill('[name=tools]', '{');
  await page.click('#settings-save');
  assert.match(await page.innerText('#settings-error'), /JSON array/);
  await page.fill('[name=tools]', '');
  await shot(page, 'settings');
  await page.click('#settings-save');
  await exchange(page, stub, 'x', 'ok');
  assert.equal(stub.chats[0].temperature, 0);
  assert.equal(stub.chats[0].speculative.n_max, 2);
  assert.deepEqual(stub.chats[0].messages[0], { role: 'system', content: 'Be brief.' });
  await reload(page);
  await page.click('#settings-open');
  assert.equal(await page.inputValue('[name=temperature]'), '0');
});

await test('presets of the system prompt', {}, async (page) => {
  await page.click('#settings-open');
  await page.fill('[name=system]', 'You are a pirate.');
  await page.click('#preset-save');
  assert.match(await page.innerText('#settings-error'), /Give the preset a name/);
  await page.fill('#preset-name', 'Pirate');
  await page.click('#preset-save');
  await page.fill('[name=system]', '');
  await page.selectOption('#preset', '');
  await page.selectOption('#preset', 'Pirate');
  assert.equal(await page.inputValue('[name=system]'), 'You are a pirate.');
  await shot(page, 'presets');
  await page.click('#settings-save');
  await reload(page);
  await page.click('#settings-open');
  assert.equal(await page.inputValue('[name=system]'), 'You are a pirate.');
  await page.selectOption('#preset', 'Pirate');
  await page.click('#preset-delete');
  assert.equal(await page.locator('#preset option').count(), 1);
});

await test('themes', {}, async (page) => {
  const back = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  const light = await back();
  await page.click('#settings-open');
  await page.selectOption('[name=theme]', 'dark');
  await page.click('#settings-save');
  assert.notEqual(await back(), light);
});

await test('the model picker shows load states and loads', {}, async (page, stub) => {
  const model = (id, value, more = {}) => ({ id, object: 'model', status: { value, ...more }, meta: { size: id } });
  let state = 'unloaded', progress = 0;
  stub.answers.set('/v1/models', () => ({ data: [model('small', 'loaded'), model('large', state, state === 'loading' ? { progress } : {})] }));
  stub.answers.set('/models/load', () => { state = 'loading'; progress = 0.4; return { success: true }; });
  await reload(page);
  await page.waitForSelector('#picker:not([hidden])');
  assert.deepEqual(await page.locator('#picker-select option').allInnerTexts(), ['small', 'large (not loaded)']);
  await page.selectOption('#picker-select', 'large');
  await page.waitForFunction(() => document.getElementById('state-text').textContent === 'Loading');
  await page.waitForFunction(() => document.querySelector('#picker-select option:checked').text === 'large (loading 40 %)');
  assert.equal(await page.locator('#progress').isVisible(), true);
  assert.match(await page.innerText('#banner'), /The model large is loading/);
  await shot(page, 'loading');
  state = 'loaded';
  await page.waitForFunction(() => document.getElementById('state-text').textContent === 'Ready');
  await exchange(page, stub, 'x', 'ok');
  assert.equal(stub.chats.at(-1).model, 'large');
  await reload(page);
  await page.waitForSelector('#picker:not([hidden])');
  assert.equal(await page.inputValue('#picker-select'), 'large');
  state = 'failed';
  stub.answers.set('/v1/models', { data: [model('small', 'loaded'), model('large', 'failed', { error: 'not enough memory' })] });
  await reload(page);
  await page.waitForFunction(() => /large could not be loaded: not enough memory/.test(document.getElementById('banner').innerText));
});
