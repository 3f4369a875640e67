/* The state of the server: reachable, key, models and their load state. Polls, and tells the page. */
import { $, button, make, toast } from './dom.js';
import { app, emit, on } from './state.js';
import { saveSettings } from './store.js';
import { getJson, postJson } from './stream.js';

const POLL_MS = 10000, LOADING_MS = 1000, MAX_RETRY_MS = 15000, REQUEST_MS = 20000;

/* state: connecting, ready, unloaded (the next message loads it), loading, key (one is wanted), down, failed */
export const server = { state: 'connecting', text: '', models: [], several: false, props: null };

let timer = 0, failures = 0, checks = 0;
let requested = { model: '', until: 0 }; /* model that the server was told to load, which takes a moment to begin */
let propsOf = null; /* model and load state that server.props belongs to */

const valueOf = (m) => m.status?.value ?? 'loaded';

/* One model with several names is shown as one. */
function isChoice(list) {
  return list.length > 1 && (list.some((m) => valueOf(m) !== 'loaded') || new Set(list.map((m) => JSON.stringify(m.meta))).size > 1);
}

export const chosenModel = () => server.models.find((m) => m.id === app.settings.model) ?? server.models[0];

/* Whether the selected model accepts images. */
export function takesImages() {
  const m = chosenModel();
  const named = [...(m?.capabilities ?? []), ...(m?.architecture?.input_modalities ?? [])];
  return server.props?.modalities?.vision === true || named.some((x) => /^(vision|multimodal|image)$/.test(x));
}

const isRequested = (m) => m.id === requested.model && Date.now() < requested.until;

async function look() {
  const list = (await getJson('v1/models', app.settings)).data ?? [];
  server.models = list;
  server.several = isChoice(list);
  if (!server.several) app.settings.model = '';
  else if (!list.some((m) => m.id === app.settings.model)) app.settings.model = (list.find((m) => valueOf(m) === 'loaded') ?? list[0]).id;
  const m = chosenModel();
  const state = !m || (valueOf(m) === 'unloaded' && isRequested(m)) ? 'loading' : valueOf(m);
  const key = `${app.settings.model}/${state}`;
  if (state === 'loaded' && key !== propsOf) {
    server.props = await getJson('props' + (app.settings.model ? '?model=' + encodeURIComponent(app.settings.model) : ''), app.settings);
    propsOf = key;
  }
  if (state !== 'loaded') propsOf = null;
  server.state = { loaded: 'ready', unloaded: 'unloaded', failed: 'failed' }[state] ?? 'loading';
  server.text = state === 'failed' ? `The model ${m.id} could not be loaded${m.status.error ? `: ${m.status.error}` : ''}.` : '';
}

const STATES = { key: 'key', loading: 'loading', down: 'down' };

export async function check() {
  clearTimeout(timer);
  const mine = ++checks;
  let wait = POLL_MS;
  try {
    await look();
    failures = 0;
    if (server.state === 'loading' || server.models.some((m) => valueOf(m).endsWith('loading'))) wait = LOADING_MS;
  } catch (e) {
    server.state = STATES[e.kind] ?? 'failed';
    server.text = e.message;
    propsOf = null;
    wait = server.state === 'loading' ? LOADING_MS : Math.min(MAX_RETRY_MS, 1000 * 2 ** failures++);
  }
  if (mine !== checks) return; /* a newer check has started */
  timer = setTimeout(check, wait);
  emit('server');
}

/* ---- the header and the banner ---- */

const WORDS = { unloaded: 'not loaded', loading: 'loading', unloading: 'unloading', failed: 'failed' };

function optionText(m) {
  const value = valueOf(m);
  const part = Number.isFinite(m.status?.progress) ? ` ${Math.round(100 * m.status.progress)} %` : '';
  return value === 'loaded' ? m.id : `${m.id} (${WORDS[value] ?? value}${part})`;
}

export function fillModels(select, value) {
  const options = server.models.map((m) => new Option(optionText(m), m.id, false, m.id === value));
  const same = select.options.length === options.length && options.every((o, i) => o.text === select.options[i].text && o.value === select.options[i].value);
  if (!same) select.replaceChildren(...options);
  select.value = value;
}

const STATE_WORDS = {
  connecting: 'Connecting', ready: 'Ready', unloaded: 'Not loaded', loading: 'Loading', key: 'API key needed', down: 'Not connected',
  failed: 'Failed',
};

/* Tooltip of the server state. */
function stateTitle() {
  const draft = server.props?.speculative;
  if (server.state === 'unloaded') return 'The next message loads the model';
  if (server.state !== 'ready') return server.text;
  return draft?.active ? `Speculative decoding: ${draft.type}` : 'No speculative decoding';
}

function drawHeader() {
  const m = chosenModel();
  $('picker').hidden = !server.several;
  $('model-name').hidden = server.several;
  if (server.several) fillModels($('picker-select'), app.settings.model);
  const known = m && m.id !== 'loading';
  $('model-name').textContent = known ? m.id : '';
  $('state').dataset.state = server.state;
  $('state-text').textContent = STATE_WORDS[server.state];
  $('state').title = stateTitle();
  const progress = m?.status?.progress;
  $('progress').hidden = server.state !== 'loading';
  if (Number.isFinite(progress)) $('progress').value = progress;
  else $('progress').removeAttribute('value');
}

const BANNERS = {
  down: () => [
    make('span', '', 'The server cannot be reached. The page keeps trying; your conversations are safe.'),
    button('Try now', '', check),
  ],
  key: () => [make('span', '', 'The server wants an API key.'), button('Open settings', '', () => emit('open-settings', 'key'))],
  loading: () => {
    const id = chosenModel()?.id;
    const name = id && id !== 'loading' ? `The model ${id}` : 'The model';
    return [make('span', '', `${name} is loading. You can write already.`)];
  },
  failed: () => [make('span', '', server.text), button('Try now', '', check)],
};

let shown = '';

function drawBanner() {
  const build = BANNERS[server.state];
  const key = build ? `${server.state}/${server.text}/${app.settings.model}` : '';
  if (key === shown) return;
  shown = key;
  $('banner').hidden = !build;
  $('banner').className = server.state;
  $('banner').replaceChildren(...(build ? build() : []));
}

export function draw() {
  drawHeader();
  drawBanner();
}

/* Selects this model and makes the server load it. */
async function choose(id) {
  app.settings.model = id;
  saveSettings(app.settings);
  propsOf = null;
  const m = chosenModel();
  draw();
  try {
    if (m && valueOf(m) === 'unloaded') {
      requested = { model: id, until: Date.now() + REQUEST_MS };
      await postJson('models/load', app.settings, { model: id });
    }
  } catch (e) {
    requested.until = 0;
    toast(e.message);
  }
  check();
}

export function start() {
  $('picker-select').addEventListener('change', (e) => choose(e.target.value));
  on('running', () => { if (server.state !== 'ready') check(); });
  on('trouble', check);
  addEventListener('online', check);
  addEventListener('offline', check);
  document.addEventListener('visibilitychange', () => { if (!document.hidden) check(); });
  check();
}
