/* Responses that are arriving. Each belongs to its conversation and goes on when another one is shown. */
import { keep } from './chats.js';
import { announce } from './dom.js';
import { plainError } from './errors.js';
import { thin } from './format.js';
import { requestBody } from './request.js';
import { app, emit, on } from './state.js';
import { streamChat } from './stream.js';
import { add, before, newMessage, path } from './tree.js';

const SAVE_MS = 1000, SAMPLE_MS = 150, MAX_SAMPLES = 120;
const runs = new Set();

export const runOf = (chat) => [...runs].find((r) => r.chat === chat);
export const isRunning = (chat) => runOf(chat) !== undefined;
export const runOfMessage = (m) => [...runs].find((r) => r.m === m);

/* Tokens per second since the last sample. */
function sample(run) {
  const n = run.m.timings?.predicted_n, now = performance.now();
  if (!n || now - run.sampled < SAMPLE_MS) return;
  if (run.sampledN) run.m.speeds = thin([...run.m.speeds, (1000 * (n - run.sampledN)) / (now - run.sampled)], MAX_SAMPLES);
  run.sampled = now;
  run.sampledN = n;
}

function arrived(run) {
  const m = run.m;
  if (!run.first && (m.content.length > run.from || m.reasoning || m.calls.length)) {
    run.first = true;
    m.firstMs = Math.max(1, Math.round(performance.now() - run.begun));
  }
  run.waiting = '';
  sample(run);
  emit('message', m);
}

const pause = (ms, signal) => new Promise((resolve, reject) => {
  const stop = () => reject(new DOMException('stopped', 'AbortError'));
  if (signal.aborted) return stop();
  signal.addEventListener('abort', stop, { once: true });
  setTimeout(resolve, ms);
});

/* Waits while the model is loading. */
async function attempt(run, body) {
  for (;;) {
    try {
      return await streamChat(body, app.settings, run.m, () => arrived(run), run.abort.signal);
    } catch (e) {
      if (e.kind !== 'loading') throw e;
      run.waiting = 'The model is loading. The response begins when it is ready.';
      emit('message', run.m);
      await pause(1000, run.abort.signal);
    }
  }
}

async function finish(run, e) {
  const m = run.m;
  if (e?.name === 'AbortError') m.finish = 'stopped';
  else if (e) m.error = plainError(e);
  m.streaming = false;
  m.progress = null;
  clearInterval(run.saver);
  runs.delete(run);
  emit('message', m);
  emit('running');
  announce(m.error?.text ?? (m.finish === 'stopped' ? 'Stopped.' : 'The response is complete.'));
  await keep(run.chat);
  if (m.error?.kind === 'down' || m.error?.kind === 'key') emit('trouble');
}

/* Fills m from a request with `messages`. */
async function fill(chat, m, messages, change) {
  const body = requestBody(messages, app.settings, change);
  Object.assign(m, { streaming: true, error: null, finish: '', speeds: [] });
  const run = { chat, m, abort: new AbortController(), begun: performance.now(), from: m.content.length, first: false, waiting: '', sampled: 0, sampledN: 0 };
  runs.add(run);
  run.saver = setInterval(() => keep(chat, false), SAVE_MS);
  keep(chat);
  emit('running');
  announce('The model is generating a response.');
  try {
    await attempt(run, body);
    await finish(run, null);
  } catch (e) {
    await finish(run, e);
  }
}

/* A new response below the message `parent`. change: settings for this response alone. */
export function respond(chat, parent, change = {}) {
  if (isRunning(chat)) return;
  const m = add(chat, parent.id, newMessage('assistant'));
  m.model = change.model ?? app.settings.model ?? '';
  if (chat === app.chat) emit('chat');
  fill(chat, m, before(chat, m), change);
}

/* Generates a response to the same message again; the old one stays as a branch. */
export function regenerate(chat, m, change = {}) {
  const question = before(chat, m).at(-1);
  if (question) respond(chat, question, change);
}

/* Continues an interrupted response. */
export function proceed(chat, m) {
  if (isRunning(chat)) return;
  if (!m.content) return fill(chat, m, before(chat, m), {});
  fill(chat, m, path(chat, m.id), {});
}

export function stop(chat) {
  runOf(chat)?.abort.abort();
}

on('deleted', stop);
