/* Small helpers for elements, messages to the reader, files and the clipboard. */

export const $ = (id) => document.getElementById(id);

export function make(name, className = '', ...children) {
  const e = document.createElement(name);
  if (className) e.className = className;
  e.append(...children);
  return e;
}

export function button(text, label, act, className = '') {
  const b = make('button', className, text);
  b.type = 'button';
  if (label) b.setAttribute('aria-label', label);
  b.addEventListener('click', act);
  return b;
}

const ICONS = {
  more: 'M3 8h.01M8 8h.01M13 8h.01',
  close: 'M4 4l8 8M12 4l-8 8',
  previous: 'M10 3L5 8l5 5',
  next: 'M6 3l5 5-5 5',
  pin: 'M6 2h4l-.6 5L12 9.5H4L6.6 7zM8 9.5V14',
  file: 'M4 2h5l3 3v9H4zM9 2v3h3',
};

export function icon(name) {
  const svg = document.createElementNS('http://www.w3.org/2000/svg', 'svg');
  const p = document.createElementNS('http://www.w3.org/2000/svg', 'path');
  svg.setAttribute('viewBox', '0 0 16 16');
  svg.setAttribute('aria-hidden', 'true');
  svg.classList.add('icon');
  p.setAttribute('d', ICONS[name]);
  svg.append(p);
  return svg;
}

export function iconButton(name, label, act, className = '') {
  const b = button(icon(name), label, act, `icon-button ${className}`);
  b.title = label;
  return b;
}

/* Calls act at most once per frame for each value. */
export function perFrame(act) {
  const values = new Set();
  let frame = 0;
  return (value) => {
    values.add(value);
    frame ||= requestAnimationFrame(() => {
      const all = [...values];
      frame = 0;
      values.clear();
      for (const v of all) act(v);
    });
  };
}

/* Announces text to screen readers. */
export function announce(text) {
  $('status').textContent = text;
}

/* A notice at the bottom of the page with at most one button; removed after `ms` milliseconds, or
 * kept if ms is 0. */
export function toast(text, action = null, ms = 7000) {
  const box = make('div', 'toast', make('span', '', text));
  const close = () => box.remove();
  if (action) box.append(button(action.label, '', () => { close(); action.act(); }));
  box.append(iconButton('close', 'Close this notice', close));
  $('toasts').append(box);
  while ($('toasts').children.length > 3) $('toasts').firstChild.remove();
  if (ms) setTimeout(close, ms);
  announce(text);
  return close;
}

export async function copyText(text, b) {
  try {
    await navigator.clipboard.writeText(text);
  } catch { /* there is no clipboard interface over plain HTTP */
    const t = make('textarea', 'hidden');
    t.value = text;
    document.body.append(t);
    t.select();
    document.execCommand('copy');
    t.remove();
  }
  announce('Copied.');
  if (!b || b.classList.contains('copied')) return;
  const was = b.textContent;
  b.textContent = 'Copied';
  b.classList.add('copied');
  setTimeout(() => { b.textContent = was; b.classList.remove('copied'); }, 1200);
}

export function download(name, type, text) {
  const a = make('a');
  a.href = URL.createObjectURL(new Blob([text], { type }));
  a.download = name;
  a.click();
  setTimeout(() => URL.revokeObjectURL(a.href), 10000);
}
