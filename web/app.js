/* Starts the page. The modules: tree, request, stream, errors, format, search, export, blocks, align (pure
 * functions); store, chats, generate, server (data); view, message, log, compose, sidebar, settings, keys
 * (what is seen). They meet in state.js. */
import * as attach from './attach.js';
import { exportAll, importFile, openChat, openNew, start as startChats } from './chats.js';
import * as compose from './compose.js';
import { $ } from './dom.js';
import { isRunning } from './generate.js';
import * as keys from './keys.js';
import * as log from './log.js';
import { prepare } from './rich.js';
import * as server from './server.js';
import * as settings from './settings.js';
import * as sidebar from './sidebar.js';
import { app, on } from './state.js';
import { loadSettings, loadShown, saveShown } from './store.js';

app.settings = loadSettings();
settings.applyTheme();
for (const part of [log, compose, attach, sidebar, settings, keys]) part.start();
on('server', server.draw);
$('export').addEventListener('click', exportAll);
$('import').addEventListener('click', () => $('import-file').click());
$('import-file').addEventListener('change', (e) => {
  if (e.target.files[0]) importFile(e.target.files[0]);
  e.target.value = '';
});
server.start();
await Promise.all([startChats(isRunning), prepare()]);
/* a reload shows the same conversation again; a new tab begins with an empty one */
const last = app.chats.find((c) => c.id === loadShown());
on('chat', () => saveShown(app.chat.id));
if (last) openChat(last);
else openNew();
document.body.dataset.ready = 'true';
