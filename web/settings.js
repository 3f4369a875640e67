/* The settings dialog, the presets of the system prompt, and the dialog "Regenerate with". */
import { $ } from './dom.js';
import { regenerate } from './generate.js';
import { followEnd } from './log.js';
import { toolsProblem } from './request.js';
import { check, fillModels, server } from './server.js';
import { app, emit, on } from './state.js';
import { saveSettings } from './store.js';

const fields = () => [...$('settings-form').elements].filter((e) => e.name);

export function applyTheme() {
  document.documentElement.dataset.theme = app.settings.theme || '';
}

/* The server's value of each sampling field, shown where nothing is entered. */
function placeholders() {
  const p = server.props?.default_generation_settings?.params ?? {};
  const draft = server.props?.speculative;
  for (const e of fields()) {
    if (e.type !== 'number') continue;
    let v = p[e.name];
    if (e.name === 'draft_max') v = draft?.active ? draft.n_max : undefined;
    if (e.name === 'seed') v = undefined; /* a new one for each response */
    if (e.name === 'max_tokens' && !(v > 0)) v = undefined;
    e.placeholder = Number.isFinite(v) ? String(Math.round(v * 1000) / 1000) : { seed: 'random', max_tokens: 'no limit' }[e.name] ?? '';
  }
}

/* ---- presets ---- */

const presets = () => app.settings.presets ?? [];

function drawPresets(selected = '') {
  $('preset').replaceChildren(new Option(presets().length ? 'Choose a preset' : 'No presets yet', ''), ...presets().map((p) => new Option(p.name, p.name)));
  $('preset').value = selected;
  $('preset-delete').disabled = !selected;
}

function choosePreset() {
  const p = presets().find((x) => x.name === $('preset').value);
  if (p) $('settings-form').elements.system.value = p.text;
  $('preset-delete').disabled = !p;
}

function savePreset() {
  const text = $('settings-form').elements.system.value.trim();
  const name = $('preset-name').value.trim();
  if (!text || !name) {
    $('settings-error').textContent = text ? 'Give the preset a name.' : 'Write a system prompt first.';
    return;
  }
  $('settings-error').textContent = '';
  app.settings.presets = [...presets().filter((p) => p.name !== name), { name, text }].sort((a, b) => a.name.localeCompare(b.name));
  saveSettings(app.settings);
  $('preset-name').value = '';
  drawPresets(name);
}

function deletePreset() {
  app.settings.presets = presets().filter((p) => p.name !== $('preset').value);
  saveSettings(app.settings);
  drawPresets();
}

/* ---- the dialog ---- */

export function openSettings(focus = '') {
  for (const e of fields()) {
    if (e.type === 'checkbox') e.checked = app.settings[e.name] === true;
    else e.value = app.settings[e.name] ?? '';
  }
  for (const d of $('settings').querySelectorAll('details'))
    d.open = [...d.querySelectorAll('[name]')].some((e) => app.settings[e.name]);
  $('settings-error').textContent = '';
  drawPresets();
  placeholders();
  $('settings').showModal();
  if (focus) $('settings-form').elements[focus].focus();
}

function problem() {
  const f = $('settings-form');
  const tools = toolsProblem(f.elements.tools.value);
  if (tools) f.elements.tools.closest('details').open = true;
  return tools;
}

function take(event) {
  const wrong = problem();
  if (wrong) {
    event.preventDefault();
    $('settings-error').textContent = wrong;
    return;
  }
  for (const e of fields()) app.settings[e.name] = e.type === 'checkbox' ? e.checked : e.value.trim();
  saveSettings(app.settings);
  applyTheme();
  emit('settings');
  check();
}

/* ---- regenerate with another model or temperature ---- */

function openAgain(m) {
  fillModels($('again-model'), m.model || app.settings.model || '');
  $('again-model').closest('label').hidden = !server.several;
  const t = app.settings.temperature || server.props?.default_generation_settings?.params?.temperature;
  $('again-temperature').value = '';
  $('again-temperature').placeholder = Number.isFinite(Number(t)) ? String(Math.round(Number(t) * 1000) / 1000) : '';
  $('again').returnValue = '';
  $('again').showModal();
  $('again').onclose = () => {
    if ($('again').returnValue !== 'go') return;
    const change = {};
    if (server.several) change.model = $('again-model').value;
    if ($('again-temperature').value !== '') change.temperature = $('again-temperature').value;
    followEnd();
    regenerate(app.chat, m, change);
  };
}

export function start() {
  $('settings-open').addEventListener('click', () => openSettings());
  $('settings-save').addEventListener('click', take);
  $('preset').addEventListener('change', choosePreset);
  $('preset-save').addEventListener('click', savePreset);
  $('preset-delete').addEventListener('click', deletePreset);
  on('open-settings', openSettings);
  on('regenerate-with', openAgain);
}
