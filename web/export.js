/* Conversations as files. Pure functions. */
import { path, titleOf } from './tree.js';

const NAMES = { user: 'You', assistant: 'Model', tool: 'Tool' };

/* The branch that is shown, as Markdown. */
export function toMarkdown(chat) {
  const parts = [`# ${titleOf(chat) || 'Conversation'}`];
  for (const m of path(chat)) {
    parts.push(`## ${m.role === 'tool' && m.name ? `Tool: ${m.name}` : NAMES[m.role]}`);
    for (const f of m.files) parts.push(`*Attached: ${f.name}*`);
    if (m.content) parts.push(m.content);
    for (const c of m.calls) parts.push(`Tool call \`${c.name}\`:\n\n\`\`\`json\n${c.args}\n\`\`\``);
  }
  return parts.join('\n\n') + '\n';
}

/* Conversations with all their branches; the import reads this. */
export const toJson = (chats) => JSON.stringify(chats, null, 1);

export function fileName(chat, ending) {
  const base = titleOf(chat).toLowerCase().replace(/[^a-z0-9]+/g, '-').replace(/^-+|-+$/g, '').slice(0, 40);
  return `${base || 'conversation'}.${ending}`;
}
