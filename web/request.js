/* The body of a chat request, from messages and settings. Pure functions. */

/* Settings that go into the request as numbers, under the same name. */
const NUMBERS = [
  'temperature', 'top_k', 'top_p', 'min_p', 'max_tokens', 'seed', 'typical_p', 'repeat_penalty', 'repeat_last_n',
  'presence_penalty', 'frequency_penalty',
];

/* A fence longer than any run of backticks in the text. */
function fence(text) {
  const runs = text.match(/`+/g) ?? [];
  return '`'.repeat(Math.max(3, ...runs.map((r) => r.length + 1)));
}

/* The content of a user message for the model: its text files, then its text. */
export function userText(m) {
  const files = m.files.filter((f) => f.kind === 'text').map((f) => {
    const mark = fence(f.text);
    return `File ${f.name}:\n${mark}\n${f.text}\n${mark}`;
  });
  return [...files, m.content].filter(Boolean).join('\n\n');
}

function userMessage(m) {
  const images = m.files.filter((f) => f.kind === 'image');
  const text = userText(m);
  if (!images.length) return { role: 'user', content: text };
  const parts = images.map((f) => ({ type: 'image_url', image_url: { url: f.url } }));
  if (text) parts.push({ type: 'text', text });
  return { role: 'user', content: parts };
}

function assistantMessage(m) {
  const out = { role: 'assistant', content: m.content };
  if (m.reasoning) out.reasoning_content = m.reasoning;
  if (m.calls.length)
    out.tool_calls = m.calls.map((c) => ({ id: c.id, type: 'function', function: { name: c.name, arguments: c.args } }));
  return out;
}

const isEmpty = (m) => m.role === 'assistant' && !m.content && !m.calls.length;

/* Messages as the API takes them. A response that failed before its first word is left out, and two
 * user messages that then follow each other become one: many templates want the roles to alternate. */
export function apiMessages(messages) {
  const out = [];
  for (const m of messages) {
    if (isEmpty(m)) continue;
    if (m.role === 'tool') {
      out.push({ role: 'tool', tool_call_id: m.call, content: m.content });
      continue;
    }
    if (m.role === 'assistant') {
      out.push(assistantMessage(m));
      continue;
    }
    const next = userMessage(m), last = out[out.length - 1];
    if (last?.role === 'user' && typeof last.content === 'string' && typeof next.content === 'string') last.content += '\n\n' + next.content;
    else out.push(next);
  }
  return out;
}

const isSet = (v) => v !== undefined && v !== null && v !== '';

/* `change`: settings for this request alone, such as another temperature. */
export function requestBody(messages, settings, change = {}) {
  const s = { ...settings, ...change };
  const list = apiMessages(messages);
  if (s.system) list.unshift({ role: 'system', content: s.system });
  const body = { messages: list, stream: true, stream_options: { include_usage: true }, timings_per_token: true, return_drafted: true, return_progress: true };
  for (const k of NUMBERS) if (isSet(s[k])) body[k] = Number(s[k]);
  if (isSet(s.draft_max)) body.speculative = { n_max: Number(s.draft_max) };
  if (s.thinking) body.chat_template_kwargs = { enable_thinking: s.thinking === 'on' };
  if (s.tools) body.tools = JSON.parse(s.tools);
  if (s.model) body.model = s.model;
  return body;
}

/* Returns null, or what is wrong with the text of the tools field. */
export function toolsProblem(text) {
  if (!text.trim()) return null;
  try {
    return Array.isArray(JSON.parse(text)) ? null : 'The tools must be a JSON array.';
  } catch (e) {
    return `The tools must be a JSON array: ${e.message}`;
  }
}
