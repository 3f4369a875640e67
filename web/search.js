/* The list of conversations: order, groups by day, search. Pure functions. */
import { titleOf } from './tree.js';

const DAY = 86400000;

export const ordered = (chats) => chats.slice().sort((a, b) => b.changed - a.changed);

function dayStart(now) {
  const d = new Date(now);
  d.setHours(0, 0, 0, 0);
  return d.getTime();
}

/* [[heading, chats]]: the pinned ones, then by the day of the last change. */
export function grouped(chats, now) {
  const today = dayStart(now);
  const groups = [['Pinned', []], ['Today', []], ['Yesterday', []], ['Last 7 days', []], ['Older', []]];
  for (const c of ordered(chats)) {
    const at = c.pinned ? 0 : c.changed >= today ? 1 : c.changed >= today - DAY ? 2 : c.changed >= today - 7 * DAY ? 3 : 4;
    groups[at][1].push(c);
  }
  return groups.filter((g) => g[1].length);
}

/* The words around the first occurrence of `query`. */
export function snippet(text, query) {
  const at = text.toLowerCase().indexOf(query);
  if (at < 0) return '';
  const from = Math.max(0, at - 24), to = Math.min(text.length, at + query.length + 40);
  return (from ? '\u2026' : '') + text.slice(from, to).replace(/\s+/g, ' ').trim() + (to < text.length ? '\u2026' : '');
}

/* [{ chat, snippet }] of the conversations whose title or text has all of `query`. */
export function search(chats, query) {
  const q = query.trim().toLowerCase();
  const out = [];
  for (const chat of ordered(chats)) {
    const hit = chat.messages.find((m) => m.content.toLowerCase().includes(q));
    if (hit) out.push({ chat, snippet: snippet(hit.content, q) });
    else if (titleOf(chat).toLowerCase().includes(q)) out.push({ chat, snippet: '' });
  }
  return out;
}
