/* One request to the server, and its reply as it arrives. */

const NUMBERS = ['temperature', 'top_k', 'top_p', 'min_p', 'repeat_penalty', 'presence_penalty', 'frequency_penalty', 'seed', 'max_tokens'];

export function headers(settings) {
  const h = { 'Content-Type': 'application/json' };
  if (settings.key) h.Authorization = 'Bearer ' + settings.key;
  return h;
}

function sent(m) {
  if (m.role === 'tool') return { role: 'tool', tool_call_id: m.call, content: m.content };
  if (m.role === 'user') return { role: 'user', content: m.content };
  const out = { role: 'assistant', content: m.content };
  if (m.reasoning) out.reasoning_content = m.reasoning;
  if (m.calls.length)
    out.tool_calls = m.calls.map((c) => ({ id: c.id, type: 'function', function: { name: c.name, arguments: c.args } }));
  return out;
}

function body(messages, settings) {
  const list = messages.map(sent);
  if (settings.system) list.unshift({ role: 'system', content: settings.system });
  const b = { messages: list, stream: true, stream_options: { include_usage: true }, timings_per_token: true, return_drafted: true };
  for (const k of NUMBERS) if (settings[k] !== undefined && settings[k] !== '') b[k] = Number(settings[k]);
  if (settings.draft_max !== undefined && settings.draft_max !== '') b.speculative = { n_max: Number(settings.draft_max) };
  if (settings.thinking) b.chat_template_kwargs = { enable_thinking: settings.thinking === 'on' };
  if (settings.tools) b.tools = JSON.parse(settings.tools);
  if (settings.model) b.model = settings.model;
  return b;
}

/* The data lines of an event stream, one by one, however the bytes are cut. */
async function* events(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = '';
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const lines = (rest + value).split(/\r?\n/);
    rest = lines.pop();
    for (const l of lines) if (l.startsWith('data:')) yield l.slice(5).trim();
  }
}

/* What went wrong, in the server's own words where it has some. */
async function why(response) {
  const text = await response.text();
  try {
    const e = JSON.parse(text).error;
    return e.message || String(e);
  } catch {
    return `the server answered ${response.status}`;
  }
}

function addText(reply, key, text, drafted) {
  const from = reply[key].length;
  reply[key] += text;
  if (key !== 'content' || !drafted) return;
  const last = reply.marks[reply.marks.length - 1];
  if (last && last[1] === from) last[1] = reply.content.length;
  else reply.marks.push([from, reply.content.length]);
}

function addCalls(reply, list) {
  for (const c of list) {
    const call = (reply.calls[c.index] ??= { id: '', name: '', args: '' });
    if (c.id) call.id = c.id;
    if (c.function?.name) call.name = c.function.name;
    if (c.function?.arguments) call.args += c.function.arguments;
  }
}

/* Takes a chunk into the reply. */
export function take(reply, chunk) {
  if (chunk.error) throw new Error(chunk.error.message || 'the reply broke off');
  const choice = chunk.choices?.[0];
  const delta = choice?.delta ?? {};
  if (delta.reasoning_content) addText(reply, 'reasoning', delta.reasoning_content, false);
  if (delta.content) addText(reply, 'content', delta.content, chunk.drafted);
  if (delta.tool_calls) addCalls(reply, delta.tool_calls);
  if (choice?.finish_reason) reply.finish = choice.finish_reason;
  if (chunk.timings) reply.timings = chunk.timings;
}

/* Fills reply as it comes, calling changed(). Throws what the server says, or an AbortError. */
export async function ask(messages, settings, reply, changed, signal) {
  const response = await fetch('v1/chat/completions', {
    method: 'POST', headers: headers(settings), body: JSON.stringify(body(messages, settings)), signal,
  });
  if (!response.ok) throw new Error(await why(response));
  for await (const data of events(response)) {
    if (data === '[DONE]') return;
    take(reply, JSON.parse(data));
    changed();
  }
}

async function get(path, settings) {
  const response = await fetch(path, { headers: headers(settings) });
  if (!response.ok) throw new Error(await why(response));
  return response.json();
}

export const props = (settings) => get('props' + (settings.model ? '?model=' + encodeURIComponent(settings.model) : ''), settings);
export const models = async (settings) => (await get('v1/models', settings)).data;
