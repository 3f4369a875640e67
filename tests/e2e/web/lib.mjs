// How the tests open the page and look at it.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
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

export async function test(name, options, body) {
  if (wanted.length && !wanted.some((w) => name.includes(w))) return;
  const stub = await startStub(address);
  const context = await browser.newContext({ ...DESKTOP, ...LIGHT, ...options });
  const page = await context.newPage();
  page.setDefaultTimeout(20000);
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

export const done = (page) => page.waitForSelector('#send:not([hidden])', { timeout: 60000 });
export const response = (page) => page.locator('article.assistant').last();
export const bodyText = (page) => response(page).locator('.body').innerText();

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
  await page.waitForTimeout(250); // transitions
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
