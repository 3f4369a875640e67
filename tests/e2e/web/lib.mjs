// How the tests open the page and look at it.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { chromium } from 'playwright-core';
import { startStub } from './stub.mjs';

const [address, executablePath, folder, ...wanted] = process.argv.slice(2);
const browser = await chromium.launch({ executablePath, args: ['--no-sandbox'] });
export const results = { passed: 0, failed: 0 };
export const realAddress = address;

export const DESKTOP = { viewport: { width: 1280, height: 800 } };
export const PHONE = { viewport: { width: 390, height: 800 }, hasTouch: true, isMobile: true };
export const LIGHT = { colorScheme: 'light' };
export const DARK = { colorScheme: 'dark' };

// What the browser says of requests that a test makes fail.
const EXPECTED = /Failed to load resource|net::ERR_/;

function watch(page, stub) {
  page.faults = [];
  page.on('pageerror', (e) => page.faults.push(String(e)));
  page.on('console', (m) => { if (m.type() === 'error' && !EXPECTED.test(m.text())) page.faults.push(m.text()); });
  page.on('request', (r) => { if (!/^(data|blob):/.test(r.url()) && !r.url().startsWith(stub.address)) page.faults.push('requests ' + r.url()); });
}

export async function visit(page, stub) {
  await page.goto(stub.address + '/');
  await page.waitForSelector('body[data-ready]');
}

// Waits until what the page has begun to store is stored: a transaction comes after those that were begun before it.
export const stored = (page) => page.evaluate(() => new Promise((resolve) => {
  const open = indexedDB.open('foretoken', 1);
  open.onupgradeneeded = () => open.transaction.abort();
  open.onerror = resolve;
  open.onsuccess = () => {
    const tx = open.result.transaction('chats', 'readwrite');
    tx.oncomplete = tx.onerror = tx.onabort = () => { open.result.close(); resolve(); };
    tx.objectStore('chats').count();
  };
}));

export async function reload(page) {
  await stored(page);
  await page.reload();
  await page.waitForSelector('body[data-ready]');
}

// Waits until look() gives this value, and says what it gives otherwise.
export async function becomes(look, value) {
  let found;
  for (const end = Date.now() + 60000; Date.now() < end; await new Promise((r) => setTimeout(r, 50))) {
    found = await look();
    if (isDeepStrictEqual(found, value)) return;
  }
  assert.deepEqual(found, value);
}

// Waits until nothing moves any more.
export const still = (page) => becomes(() => page.evaluate(() => new Promise((resolve) => {
  requestAnimationFrame(() => requestAnimationFrame(() => resolve(document.getAnimations().some((a) => a.playState === 'running' && a.effect.getComputedTiming().endTime !== Infinity))));
})), false);

export async function test(name, options, body) {
  if (wanted.length && !wanted.some((w) => name.includes(w))) return;
  const stub = await startStub(address);
  const context = await browser.newContext({ ...DESKTOP, ...LIGHT, ...options });
  const page = await context.newPage();
  page.setDefaultTimeout(60000); // long: a loaded machine is slow, not wrong
  watch(page, stub);
  try {
    await visit(page, stub);
    await body(page, stub, context);
    assert.deepEqual(page.faults, []);
    results.passed++;
    console.log(`ok   ${name}`);
  } catch (e) {
    results.failed++;
    console.log(`FAIL ${name}: ${e.message}\n     ${page.faults.join('\n     ')}`);
    await page.screenshot({ path: path.join(folder, `fail-${results.failed}.png`) }).catch(() => {});
  }
  await context.close();
  await stub.down();
}

export const shot = (page, name) => page.screenshot({ path: path.join(folder, `${name}.png`) });

export async function send(page, text) {
  await page.fill('#input', text);
  await page.click('#send');
}

export const done = (page) => page.waitForSelector('#send:not([hidden])', { timeout: 180000 });
export const response = (page) => page.locator('article.assistant').last();
export const bodyText = (page) => response(page).locator('.body').innerText();

// Waits until the last response has this text; it is rendered a little after it has arrived.
export async function says(page, wanted) {
  let text = '';
  for (const end = Date.now() + 60000; Date.now() < end && !wanted.test(text); await new Promise((r) => setTimeout(r, 50))) text = await bodyText(page);
  assert.match(text, wanted);
}

// Waits until the first response that is shown has this text.
export const shows = (page, text) => page.waitForFunction((t) => document.querySelector('article.assistant .text')?.textContent.trim() === t, text);

// Sends a message and answers it with this text.
export async function exchange(page, stub, question, text, more = {}) {
  stub.chat = (s) => { s.text(text, more); s.end(more.end ?? {}); };
  await send(page, question);
  await done(page);
  await page.waitForFunction(() => !document.querySelector('article.streaming'));
}

const axeSource = fs.readFileSync(new URL('node_modules/axe-core/axe.min.js', import.meta.url), 'utf8');

// WCAG 2.1 A and AA by axe; an empty list is wanted.
export async function accessible(page, what) {
  await still(page);
  await page.evaluate(axeSource);
  const found = await page.evaluate(() => window.axe.run(document, { runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'best-practice'] }));
  const list = found.violations.map((v) => `${v.id}: ${v.nodes.slice(0, 3).map((n) => n.target.join(' ') + ' ' + (n.failureSummary ?? '').split('\n').at(-1)).join('; ')}`);
  assert.deepEqual(list, [], what);
}

export async function end() {
  await browser.close();
  console.log(`${results.passed} passed, ${results.failed} failed`);
  process.exit(results.failed ? 1 : 0);
}
