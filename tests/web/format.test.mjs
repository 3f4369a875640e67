import assert from 'node:assert/strict';
import { fileName, toJson, toMarkdown } from '../../web/export.js';
import { acceptance, chartPoints, contextUsed, figures, seconds, summary, thin, waitingText } from '../../web/format.js';
import { grouped, search, snippet } from '../../web/search.js';
import { add, newChat, newMessage, validChat } from '../../web/tree.js';
import { test } from './test.mjs';

function answered(timings, more = {}) {
  return Object.assign(newMessage('assistant', 'x'), { timings, ...more });
}

test('the line below a response', () => {
  const m = answered({ predicted_n: 24, predicted_per_second: 1329.4, draft_n: 16, draft_n_accepted: 12 }, { firstMs: 210 });
  assert.equal(summary(m), '24 tokens \u00b7 1,329 tokens/s \u00b7 first token 210 ms \u00b7 draft acceptance 75 %');
  assert.equal(summary(answered({ predicted_n: 1 }, { finish: 'length' })), '1 token \u00b7 stopped at the token limit');
  assert.equal(summary(answered(null)), '');
});

test('the wait for the first token', () => {
  assert.match(waitingText(answered(null)), /^Waiting for the first token/);
  assert.match(waitingText(answered(null, { progress: { total: 8000, processed: 2048, cache: 0 } })), /^Processing the prompt: 2,048 of 8,000 tokens/);
});

test('acceptance is null where nothing was drafted', () => {
  assert.equal(acceptance(null), null);
  assert.equal(acceptance({ draft_n: 0 }), null);
  assert.equal(acceptance({ draft_n: 4 }), 0);
});

test('figures name their units', () => {
  const list = figures(answered({ predicted_n: 10, predicted_per_second: 50, prompt_n: 7, prompt_per_second: 100, cache_n: 3, draft_n: 8, draft_n_accepted: 4, draft_accept_len: 2.5 }, { firstMs: 1500 }));
  assert.deepEqual(Object.fromEntries(list)['Draft acceptance'], '50 % (4 of 8)');
  assert.deepEqual(Object.fromEntries(list)['Time to first token'], '1.50 s');
  assert.equal(Object.fromEntries(list).Prompt, '7 tokens, 100 tokens/s');
});

test('seconds, context, chart', () => {
  assert.equal(seconds(42.4), '42 ms');
  assert.equal(seconds(12345), '12.3 s');
  assert.equal(contextUsed(answered({ cache_n: 5, prompt_n: 3, predicted_n: 2 })), 10);
  assert.deepEqual(chartPoints([0, 10], 100, 20), [[0, 20], [100, 0]]);
  assert.deepEqual(thin([1, 3, 5, 7], 3), [2, 6]);
  assert.deepEqual(thin([1, 2], 3), [1, 2]);
});

function chatOf(text, changed, more = {}) {
  const c = Object.assign(newChat(), more);
  add(c, null, newMessage('user', text));
  c.changed = changed;
  return c;
}

test('groups: pinned first, then by day', () => {
  const now = new Date(2026, 5, 15, 12).getTime(), day = 86400000;
  const list = [chatOf('old', now - 30 * day), chatOf('today', now - 1000), chatOf('pinned', now - 9 * day, { pinned: true }), chatOf('yesterday', now - day), chatOf('week', now - 4 * day)];
  assert.deepEqual(grouped(list, now).map((g) => [g[0], g[1].length]), [['Pinned', 1], ['Today', 1], ['Yesterday', 1], ['Last 7 days', 1], ['Older', 1]]);
});

test('search looks at titles and texts', () => {
  const list = [chatOf('about Lisbon and its hills', 2), chatOf('else', 1, { title: 'Lisbon trip', named: true }), chatOf('nothing', 3)];
  const hits = search(list, ' lisbon ');
  assert.equal(hits.length, 2);
  assert.match(hits[0].snippet, /Lisbon/);
  assert.equal(hits[1].snippet, '');
  assert.equal(snippet('abc', 'x'), '');
});

test('export: Markdown of the branch, JSON that comes back', () => {
  const c = chatOf('Question?', 1);
  add(c, c.leaf, newMessage('assistant', '**Answer**'));
  assert.equal(toMarkdown(c), '# Question?\n\n## You\n\nQuestion?\n\n## Model\n\n**Answer**\n');
  const [again] = JSON.parse(toJson([c])).map(validChat);
  assert.deepEqual(again.messages.map((m) => m.content), ['Question?', '**Answer**']);
  assert.equal(fileName(c, 'md'), 'question.md');
  assert.equal(fileName(newChat(), 'json'), 'conversation.json');
});
