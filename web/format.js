/* Formats numbers: the statistics of a response. Pure functions. */

const whole = (n) => Math.round(n).toLocaleString('en-US');

export function rate(n) {
  return n >= 100 ? whole(n) : n.toFixed(1);
}

export function seconds(ms) {
  return ms < 1000 ? `${Math.round(ms)} ms` : `${(ms / 1000).toFixed(ms < 10000 ? 2 : 1)} s`;
}

/* In per cent, or null where nothing was drafted. */
export function acceptance(t) {
  return t?.draft_n > 0 ? Math.round((100 * (t.draft_n_accepted ?? 0)) / t.draft_n) : null;
}

const ENDS = { length: 'stopped at the token limit', stopped: 'stopped by you', interrupted: 'interrupted' };

/* The line below a response. */
export function summary(m) {
  const t = m.timings, out = [];
  if (t?.predicted_n) out.push(`${whole(t.predicted_n)} token${t.predicted_n === 1 ? '' : 's'}`);
  if (t?.predicted_per_second) out.push(`${rate(t.predicted_per_second)} tokens/s`);
  if (m.firstMs) out.push(`first token ${seconds(m.firstMs)}`);
  const a = acceptance(t);
  if (a !== null) out.push(`draft acceptance ${a} %`);
  if (ENDS[m.finish]) out.push(ENDS[m.finish]);
  return out.join(' \u00b7 ');
}

/* Shown until the first token arrives. */
export function waitingText(m) {
  const p = m.progress;
  if (!(p?.total > 0)) return 'Waiting for the first token\u2026';
  return `Processing the prompt: ${whole(p.processed)} of ${whole(p.total)} tokens\u2026`;
}

/* Name and value of each figure, for the expanded view. */
export function figures(m) {
  const t = m.timings, out = [];
  if (m.model) out.push(['Model', m.model]);
  if (!t) return out;
  out.push(['Response', `${whole(t.predicted_n ?? 0)} tokens`]);
  if (t.predicted_per_second) out.push(['Speed', `${rate(t.predicted_per_second)} tokens/s`]);
  if (m.firstMs) out.push(['Time to first token', seconds(m.firstMs)]);
  if (t.prompt_n) out.push(['Prompt', `${whole(t.prompt_n)} tokens` + (t.prompt_per_second ? `, ${rate(t.prompt_per_second)} tokens/s` : '')]);
  if (t.cache_n) out.push(['Prompt tokens from the cache', whole(t.cache_n)]);
  const a = acceptance(t);
  if (a !== null) out.push(['Draft acceptance', `${a} % (${whole(t.draft_n_accepted ?? 0)} of ${whole(t.draft_n)})`]);
  if (t.draft_accept_len) out.push(['Tokens per step', t.draft_accept_len.toFixed(2)]);
  return out;
}

/* Tokens in the context after a response. */
export function contextUsed(m) {
  const t = m?.timings;
  return t ? (t.cache_n ?? 0) + (t.prompt_n ?? 0) + (t.predicted_n ?? 0) : 0;
}

/* Points of a line chart of `values`, `width` x `height`, the largest value at the top. */
export function chartPoints(values, width, height) {
  const top = Math.max(...values, 1e-9);
  const step = values.length > 1 ? width / (values.length - 1) : 0;
  return values.map((v, i) => [Math.round(i * step * 10) / 10, Math.round((height - (height * Math.max(0, v)) / top) * 10) / 10]);
}

/* Halves a list of samples by averaging neighbours when it is longer than `most`. */
export function thin(values, most) {
  if (values.length <= most) return values;
  const out = [];
  for (let i = 0; i + 1 < values.length; i += 2) out.push((values[i] + values[i + 1]) / 2);
  return out;
}

export function size(bytes) {
  return bytes < 1024 ? `${bytes} B` : bytes < 1048576 ? `${(bytes / 1024).toFixed(0)} kB` : `${(bytes / 1048576).toFixed(1)} MB`;
}
