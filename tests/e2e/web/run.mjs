// usage: node run.mjs ADDRESS CHROMIUM FOLDER [NAME...] - drives the page as a person would.
import { end } from './lib.mjs';

for (const part of ['work', 'text', 'messages', 'chats', 'settings', 'errors', 'access']) await import(`./${part}.mjs`);
await end();
