/* The message field, Send and Stop, and the live figures of a response that is arriving. */
import { attached, takeAttached } from './attach.js';
import { chart, plot } from './chart.js';
import { $, perFrame } from './dom.js';
import { contextUsed, rate } from './format.js';
import { isRunning, respond, runOf, stop } from './generate.js';
import { editLast, followEnd, lastResponse } from './log.js';
import { server } from './server.js';
import { app, on } from './state.js';
import { add, newMessage } from './tree.js';

const drafts = new Map(); /* text that was not sent yet, by conversation */
let shown = null;
let live = null;

function grow() {
  const t = $('input');
  t.style.height = 'auto';
  t.style.height = `${Math.min(t.scrollHeight + 2, innerHeight * 0.4)}px`;
}

function send(text) {
  if ((!text.trim() && !attached().length) || isRunning(app.chat)) return false;
  const m = add(app.chat, app.chat.leaf, newMessage('user', text));
  m.files = takeAttached();
  followEnd();
  respond(app.chat, m);
  return true;
}

function submit() {
  if (!send($('input').value)) return;
  $('input').value = '';
  grow();
}

function key(e) {
  /* on a touch keyboard Enter makes a new line; the button sends */
  if (e.key === 'Enter' && !e.shiftKey && !e.isComposing && !matchMedia('(pointer: coarse)').matches) {
    e.preventDefault();
    submit();
  } else if (e.key === 'ArrowUp' && !$('input').value && !isRunning(app.chat) && app.chat.leaf) {
    e.preventDefault();
    editLast();
  }
}

function drawLive() {
  const run = runOf(app.chat);
  $('send').hidden = !!run;
  $('stop').hidden = !run;
  $('live').hidden = !run;
  const m = run?.m ?? lastResponse();
  const t = run?.m.timings;
  const speed = t?.predicted_per_second ? `${rate(t.predicted_per_second)} tokens/s` : '';
  $('live-text').textContent = t ? `${t.predicted_n} tokens${speed ? ` \u00b7 ${speed}` : ''}` : '';
  plot(live, run?.m.speeds ?? []);
  const size = server.props?.default_generation_settings?.n_ctx, used = contextUsed(m);
  $('context').textContent = size && used ? `Context: ${used.toLocaleString('en-US')} of ${size.toLocaleString('en-US')} tokens` : '';
}

/* Stores the unsent text of each conversation. */
function switched() {
  if (shown === app.chat) return;
  if (shown) drafts.set(shown.id, $('input').value);
  shown = app.chat;
  $('input').value = drafts.get(shown.id) ?? '';
  grow();
}

export function start() {
  live = chart('Tokens per second');
  $('live').append(live);
  $('form').addEventListener('submit', (e) => { e.preventDefault(); submit(); });
  $('stop').addEventListener('click', () => { stop(app.chat); $('input').focus(); });
  $('input').addEventListener('input', grow);
  $('input').addEventListener('keydown', key);
  on('chat', () => { switched(); drawLive(); });
  on('running', drawLive);
  on('message', perFrame((m) => { if (runOf(app.chat)?.m === m) drawLive(); }));
  on('server', drawLive);
  on('send', send);
}
