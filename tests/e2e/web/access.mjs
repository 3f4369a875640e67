// Accessibility: axe in both themes and sizes, reduced motion.
import assert from 'node:assert/strict';
import { accessible, DARK, done, exchange, LIGHT, PHONE, response, send, test } from './lib.mjs';

const TEXT = `## Heading

Text with **bold**, \`code\`, [a link](https://example.org), $x^2$ and a note[^1].

- [x] done
- [ ] to do

> A quote with a [link](https://example.org).

| a | b |
|---|--:|
| 1 | 2 |

$$ \\frac{a}{b} $$

\`\`\`python
@decorator
class A(Base):
    """Doc."""
    def f(self, n: int = 3) -> str:
        return f"{n}" if n > 2 else None  # comment
\`\`\`

\`\`\`html
<a href="x" class='y'>text</a> <!-- comment -->
\`\`\`

\`\`\`diff
- old
+ new
\`\`\`

[^1]: Note.`;

for (const [theme, colors] of [['light', LIGHT], ['dark', DARK]]) {
  for (const [size, options] of [['desktop', {}], ['phone', PHONE]]) {
    await test(`axe, ${theme}, ${size}`, { ...colors, ...options }, async (page, stub) => {
      await page.waitForFunction(() => document.getElementById('state').dataset.state === 'ready');
      await accessible(page, 'the empty page');
      await exchange(page, stub, 'Show everything.', TEXT, { drafted: true, end: { timings: { predicted_n: 9, predicted_per_second: 50, draft_n: 4, draft_n_accepted: 3 } } });
      await response(page).locator('.katex').first().waitFor();
      await response(page).locator('.hljs-keyword').first().waitFor();
      await response(page).locator('.stats summary').click();
      await accessible(page, 'a conversation');
      await page.evaluate(() => { document.getElementById('log').scrollTop = 0; });
      await accessible(page, 'the top of it');
      if (size === 'phone') await page.click('#menu');
      await page.click('#settings-open');
      await page.getByText('More sampling options').click();
      await page.getByText('Tools', { exact: true }).click();
      await page.getByLabel('Highlight text that came from accepted draft tokens').check();
      await accessible(page, 'the settings');
      await page.click('#settings-save');
      await accessible(page, 'highlighted text');
      await page.getByLabel('Actions for Show everything.').click();
      await accessible(page, 'a menu');
      await page.keyboard.press('Escape');
      if (size === 'phone') await page.keyboard.press('Escape');
      stub.chat = (s) => s.fail(500, { message: 'the device has failed' });
      await send(page, 'x');
      await done(page);
      await response(page).getByLabel('More actions').click();
      await page.getByRole('menuitem', { name: 'Delete from here' }).click();
      await accessible(page, 'a notice');
      await stub.down();
      await send(page, 'y');
      await page.waitForSelector('#banner.down');
      await accessible(page, 'an error');
      await stub.up();
    });
  }
}

await test('reduced motion', { reducedMotion: 'reduce' }, async (page, stub) => {
  stub.chat = (s) => { s.send({ reasoning_content: 'hm' }); };
  await send(page, 'x');
  await page.waitForSelector('.thought.busy');
  const moving = await page.evaluate(() => document.getAnimations().length);
  assert.equal(moving, 0);
});
