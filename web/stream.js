/* A streamed response: event lines to chunks, chunks into a message. Pure but for streamChat. */
import { connectionError, responseError } from './errors.js';

function headers(settings) {
  const h = { 'Content-Type': 'application/json' };
  if (settings.key) h.Authorization = 'Bearer ' + settings.key;
  return h;
}

/* Splits a stream of text into the data of its events, wherever the text is divided. */
export class EventLines {
  rest = '';

  push(text) {
    const lines = (this.rest + text).split(/\r?\n/);
    this.rest = lines.pop();
    return lines.filter((l) => l.startsWith('data:')).map((l) => l.slice(5).trim());
  }
}

function addText(m, key, text, drafted) {
  const from = m[key].length;
  m[key] += text;
  if (key !== 'content' || !drafted) return;
  const last = m.marks[m.marks.length - 1];
  if (last && last[1] === from) last[1] = m.content.length;
  else m.marks.push([from, m.content.length]);
}

function addCalls(m, list) {
  for (const c of list) {
    const at = Number.isInteger(c.index) && c.index >= 0 && c.index <= m.calls.length ? c.index : m.calls.length;
    const call = (m.calls[at] ??= { id: '', name: '', args: '' });
    if (c.id) call.id = c.id;
    if (c.function?.name) call.name = c.function.name;
    if (c.function?.arguments) call.args += c.function.arguments;
  }
}

/* Adds a chunk to the message. */
export function addChunk(m, chunk) {
  if (chunk.error) throw responseError(chunk.error.status ?? 500, chunk);
  const choice = chunk.choices?.[0];
  const delta = choice?.delta ?? {};
  if (delta.reasoning_content) addText(m, 'reasoning', delta.reasoning_content, false);
  if (delta.content) addText(m, 'content', delta.content, chunk.drafted);
  if (delta.tool_calls) addCalls(m, delta.tool_calls);
  if (choice?.finish_reason) m.finish = choice.finish_reason;
  if (chunk.timings) m.timings = chunk.timings;
  if (chunk.model) m.model = chunk.model;
  m.progress = chunk.prompt_progress ?? null; /* while the prompt is processed */
}

async function bodyOf(response) {
  try {
    return await response.json();
  } catch {
    return null;
  }
}

/* fetch that throws a described error (errors.js) if there is no response or an error status. */
export async function request(path, settings, options = {}) {
  let response;
  try {
    response = await fetch(path, { ...options, headers: headers(settings) });
  } catch (e) {
    throw e.name === 'AbortError' ? e : connectionError(false);
  }
  if (!response.ok) throw responseError(response.status, await bodyOf(response));
  return response;
}

export const getJson = async (path, settings) => (await request(path, settings)).json();
export const postJson = async (path, settings, body) => (await request(path, settings, { method: 'POST', body: JSON.stringify(body) })).json();

/* Sends `body` and adds what arrives to m, calling changed() each time. */
export async function streamChat(body, settings, m, changed, signal) {
  const response = await request('v1/chat/completions', settings, { method: 'POST', body: JSON.stringify(body), signal });
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  const lines = new EventLines();
  for (;;) {
    let part;
    try {
      part = await reader.read();
    } catch (e) {
      throw e.name === 'AbortError' ? e : connectionError(true);
    }
    if (part.done) {
      if (!m.finish) throw connectionError(true);
      return;
    }
    for (const data of lines.push(part.value)) {
      if (data === '[DONE]') return;
      addChunk(m, JSON.parse(data));
      changed();
    }
  }
}
