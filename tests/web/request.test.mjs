import assert from 'node:assert/strict';
import { connectionError, plainError, responseError } from '../../web/errors.js';
import { apiMessages, requestBody, toolsProblem, userText } from '../../web/request.js';
import { addChunk, EventLines } from '../../web/stream.js';
import { newMessage } from '../../web/tree.js';
import { test } from './test.mjs';

const user = (text) => newMessage('user', text);
const model = (text) => newMessage('assistant', text);

test('a failed response is not sent, and the roles still alternate', () => {
  const list = apiMessages([user('a'), model(''), user('b'), model('c')]);
  assert.deepEqual(list, [{ role: 'user', content: 'a\n\nb' }, { role: 'assistant', content: 'c' }]);
});

test('settings become fields; empty ones are left out', () => {
  const b = requestBody([user('a')], { temperature: '0', top_k: '', draft_max: '4', system: 'S', thinking: 'off', model: 'm' });
  assert.equal(b.temperature, 0);
  assert.equal('top_k' in b, false);
  assert.deepEqual(b.speculative, { n_max: 4 });
  assert.deepEqual(b.messages[0], { role: 'system', content: 'S' });
  assert.deepEqual(b.chat_template_kwargs, { enable_thinking: false });
  assert.equal(b.model, 'm');
});

test('a change for one request wins over the settings', () => {
  const b = requestBody([user('a')], { temperature: '0.7', model: 'm' }, { temperature: '0.1', model: 'n' });
  assert.equal(b.temperature, 0.1);
  assert.equal(b.model, 'n');
});

test('files: text in a fence that it cannot close, images as parts', () => {
  const m = user('look');
  m.files = [{ kind: 'text', name: 'a.md', text: '```\nx\n```' }];
  assert.equal(userText(m), 'File a.md:\n````\n```\nx\n```\n````\n\nlook');
  m.files.push({ kind: 'image', name: 'p.png', url: 'data:image/png;base64,AA' });
  const [sent] = apiMessages([m]);
  assert.deepEqual(sent.content.map((p) => p.type), ['image_url', 'text']);
});

test('tool calls and their results go back', () => {
  const call = model('');
  call.calls = [{ id: 'c1', name: 'add', args: '{}' }];
  const result = Object.assign(newMessage('tool', '2'), { call: 'c1' });
  const list = apiMessages([user('x'), call, result]);
  assert.equal(list[1].tool_calls[0].function.name, 'add');
  assert.deepEqual(list[2], { role: 'tool', tool_call_id: 'c1', content: '2' });
});

test('tools: an array, or a sentence that says so', () => {
  assert.equal(toolsProblem(''), null);
  assert.equal(toolsProblem('[]'), null);
  assert.match(toolsProblem('{}'), /JSON array/);
  assert.match(toolsProblem('{'), /JSON array/);
});

test('event lines, however they are cut', () => {
  const text = 'data: {"a":1}\r\n\r\n:\n\ndata:{"b":2}\n\ndata: [DONE]\n\n';
  for (let n = 1; n < text.length; n++) {
    const lines = new EventLines(), out = [];
    for (let i = 0; i < text.length; i += n) out.push(...lines.push(text.slice(i, i + n)));
    assert.deepEqual(out, ['{"a":1}', '{"b":2}', '[DONE]']);
  }
});

test('chunks become a message with marks, calls and timings', () => {
  const m = model('');
  const chunk = (delta, more = {}) => addChunk(m, { choices: [{ delta, finish_reason: more.finish ?? null }], ...more });
  chunk({ content: 'ab' });
  chunk({ content: 'cd' }, { drafted: true });
  chunk({ content: 'e' }, { drafted: true });
  chunk({ content: 'f' }, { drafted: false, timings: { predicted_n: 4 } });
  chunk({ tool_calls: [{ index: 0, id: 'c', function: { name: 'f', arguments: '{' } }] });
  chunk({ tool_calls: [{ index: 0, function: { arguments: '}' } }] }, { finish: 'tool_calls' });
  assert.equal(m.content, 'abcdef');
  assert.deepEqual(m.marks, [[2, 5]]);
  assert.deepEqual(m.calls, [{ id: 'c', name: 'f', args: '{}' }]);
  assert.equal(m.finish, 'tool_calls');
  assert.equal(m.timings.predicted_n, 4);
  assert.throws(() => addChunk(m, { error: { message: 'the device has failed', code: 500 } }), /The device has failed\./);
});

test('a call index out of order makes no hole', () => {
  const m = model('');
  addChunk(m, { choices: [{ delta: { tool_calls: [{ index: 5000000, id: 'x', function: { name: 'f' } }] } }] });
  assert.deepEqual(m.calls, [{ id: 'x', name: 'f', args: '' }]);
});

test('errors in words', () => {
  assert.equal(responseError(401, null).kind, 'key');
  const full = responseError(400, { error: { type: 'exceed_context_size_error', message: 'x', n_prompt_tokens: 9000, n_ctx: 8192 } });
  assert.equal(full.kind, 'context');
  assert.match(full.message, /9000 tokens and the context holds 8192/);
  assert.equal(responseError(503, { error: { message: 'the model is loading' } }).kind, 'loading');
  assert.equal(responseError(429, {}).kind, 'busy');
  assert.equal(responseError(500, { error: { message: 'the tensor is bad' } }).message, 'The tensor is bad.');
  assert.equal(responseError(502, null).message, 'The server answered with status 502.');
  assert.equal(responseError(400, { error: 'plain' }).message, 'Plain.');
  assert.equal(connectionError(false).kind, 'down');
  assert.equal(connectionError(true).kind, 'broken');
  assert.equal(plainError(new Error('x')).kind, 'page');
});
