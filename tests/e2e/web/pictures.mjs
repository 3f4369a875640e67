// usage: node pictures.mjs ADDRESS CHROMIUM FOLDER - the pictures of README.md and docs/web.md. The first
// two show conversations with the embedded model, as it answers at temperature 0; in the others the text
// and the figures are scripted here.
import path from 'node:path';
import { chromium } from 'playwright-core';
import { sleep, startStub } from './stub.mjs';

const [address, executablePath, folder] = process.argv.slice(2);
const browser = await chromium.launch({ executablePath, args: ['--no-sandbox'] });
const DESKTOP = { viewport: { width: 1280, height: 800 }, colorScheme: 'light' };
const PHONE = { viewport: { width: 390, height: 800 }, colorScheme: 'dark', hasTouch: true, isMobile: true };

async function open(options, at, settings = {}) {
  const context = await browser.newContext(options);
  const page = await context.newPage();
  await page.addInitScript((s) => localStorage.setItem('foretoken.settings', JSON.stringify(s)), settings);
  await page.goto(at + '/');
  await page.waitForSelector('body[data-ready]');
  return page;
}

async function say(page, text) {
  const n = await page.locator('article.assistant').count();
  await page.fill('#input', text);
  await page.click('#send');
  await page.waitForFunction((m) => document.querySelectorAll('article.assistant:not(.streaming)').length > m, n);
}

async function picture(page, name) {
  await page.evaluate(() => document.querySelector('dialog[open]') || document.activeElement.blur());
  await sleep(800); // colours of code, formulas, transitions
  await page.screenshot({ path: path.join(folder, `${name}.png`) });
}

/* ---- README.md ---- */

const CHATS = [
  ['What is 8 x 7?'],
  ['List all containers with docker'],
  ['Show running processes with ps'],
  ['How do I count the lines of a file with wc?', 'What is 12 x 12?', 'How do I start the server?'],
];
for (const [name, options] of [['web-light', DESKTOP], ['web-phone', PHONE]]) {
  const page = await open(options, address, { temperature: '0' });
  for (const [i, questions] of CHATS.entries()) {
    if (i) await page.keyboard.press('Alt+KeyN');
    for (const q of questions) await say(page, q);
  }
  await picture(page, name);
  await page.context().close();
}

/* ---- docs/web.md ---- */

const TEXT = `## Rejection sampling

A draft token $x$ with draft probability $q(x)$ is **accepted** with probability

$$ \\min\\left(1, \\frac{p(x)}{q(x)}\\right) $$

where $p$ is the distribution of the model itself. Otherwise the token is drawn from the normalised difference $\\max(0, p - q)$, so that the result is distributed as $p$.[^1]

| Acceptance rate | 1 draft token | 3 draft tokens |
|:--|--:|--:|
| 60 % | 1.60 tokens per step | 2.18 tokens per step |
| 90 % | 1.90 tokens per step | 3.44 tokens per step |

\`\`\`python
def verify(p, q, x, rng):
    """Returns x, or a token in its place."""
    if rng.random() < min(1.0, p[x] / q[x]):
        return x
    rest = np.maximum(p - q, 0)
    return rng.choice(len(p), p=rest / rest.sum())
\`\`\`

- [x] the output is unchanged
- [ ] the speed-up depends on the text

[^1]: Greedy decoding is the special case in which $p$ has a single token.`;
const TIMINGS = { predicted_n: 312, predicted_per_second: 148.2, prompt_n: 24, prompt_per_second: 1904, cache_n: 96, draft_n: 291, draft_n_accepted: 233, draft_accept_len: 3.14 };

const stub = await startStub(address);
const words = (s) => s.match(/\s*\S+/g);
stub.chat = async (s) => {
  for (const [i, w] of words(TEXT).entries()) {
    s.text(w, { drafted: i % 4 > 0, model: 'scripted' });
    if (i % 6 === 0) await sleep(15 + 40 * Math.abs(Math.sin(i / 40)));
  }
  s.end({ timings: TIMINGS });
};
const QUESTION = 'How does speculative decoding keep the output unchanged?';

for (const [name, options] of [['web-text', { ...DESKTOP, colorScheme: 'dark' }], ['web-statistics', DESKTOP]]) {
  const marked = name === 'web-statistics';
  const page = await open(options, stub.address, { mark_accepted: marked });
  await say(page, QUESTION);
  if (marked) await page.locator('.stats summary').click();
  await page.keyboard.press('Alt+KeyN');
  await page.getByRole('button', { name: 'How does', exact: false }).first().click();
  if (marked) await page.locator('.stats summary').click();
  await sleep(500);
  await page.evaluate((end) => { const l = document.getElementById('log'); l.scrollTop = end ? l.scrollHeight : 95; }, marked);
  await picture(page, name);
  await page.context().close();
}

const page = await open(DESKTOP, stub.address);
await page.waitForFunction(() => document.getElementById('state').dataset.state === 'ready');
await page.click('#settings-open');
await picture(page, 'web-settings');
await page.keyboard.press('Escape');
await stub.down();
await say(page, QUESTION);
await page.waitForSelector('#banner.down');
await picture(page, 'web-error');
await browser.close();
