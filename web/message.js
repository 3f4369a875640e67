/* One message on the page: its text, thought, tool calls, files, error, statistics and buttons. */
import { chart, plot } from './chart.js';
import { button, icon, iconButton, copyText, make } from './dom.js';
import { figures, summary, waitingText } from './format.js';
import { runOfMessage } from './generate.js';
import { menuButton, openMenu } from './menu.js';
import { app } from './state.js';
import { siblings } from './tree.js';
import { TextView } from './view.js';

const NAMES = { user: 'You', assistant: 'Model', tool: 'Tool' };

function pretty(args) {
  try {
    return JSON.stringify(JSON.parse(args), null, 2);
  } catch {
    return args;
  }
}

function fileChip(f) {
  if (f.kind === 'image') {
    const img = make('img', 'picture');
    img.src = f.url;
    img.alt = f.name || 'attached image';
    return img;
  }
  const box = make('details', 'file', make('summary', '', icon('file'), f.name), make('pre', '', f.text));
  box.lastChild.tabIndex = 0;
  return box;
}

export class MessageBox {
  /* acts: edit(m), regenerate(m, anchor), proceed(m), remove(m), branch(m, step), result(m, call, text), settings() */
  constructor(m, acts, painted) {
    this.m = m;
    this.acts = acts;
    this.body = make('div', 'body');
    this.thought = null;
    this.extra = make('div', 'extra');
    this.foot = make('footer');
    this.view = m.role === 'assistant' ? new TextView(() => (app.settings.mark_accepted ? m.marks : []), painted) : null;
    const name = m.role === 'tool' ? `Tool: ${m.name}` : NAMES[m.role];
    this.element = make('article', m.role, make('h2', 'hidden', name), this.body, this.foot);
    if (this.view) this.body.append(this.view.box, this.extra);
    else this.body.append(...m.files.map(fileChip), ...(m.content ? [make('div', 'plain', m.content)] : []));
    this.update();
  }

  /* Draws what has changed. */
  update() {
    if (this.view) {
      this.drawThought();
      this.view.set(this.m.content, !this.m.streaming);
      this.drawExtra();
    }
    this.drawFoot();
    this.element.classList.toggle('streaming', this.m.streaming);
  }

  drawThought() {
    const { m } = this;
    if (!m.reasoning) return;
    if (!this.thought) {
      this.thoughtText = document.createTextNode('');
      this.thought = make('details', 'thought', make('summary'), make('div', 'plain', this.thoughtText));
      this.body.prepend(this.thought);
    }
    const busy = m.streaming && !m.content && !m.calls.length;
    this.thought.firstChild.textContent = busy ? 'Thinking\u2026' : 'Thought';
    this.thought.classList.toggle('busy', busy);
    this.thoughtText.appendData(m.reasoning.slice(this.thoughtText.length)); /* it only grows */
  }

  /* Calls, errors and waiting: few, so they are made again only when they differ. */
  drawExtra() {
    const { m } = this, run = runOfMessage(m);
    const waiting = m.streaming && !m.content && !m.reasoning && !m.calls.length;
    const key = JSON.stringify([m.calls, m.error, m.streaming, waiting, run?.waiting, waiting && m.progress, m.finish, this.acts.answered(m)]);
    if (key === this.extraKey) return;
    this.extraKey = key;
    const parts = m.calls.map((c) => this.callBox(c));
    if (waiting) parts.push(make('p', 'waiting', run?.waiting || waitingText(m)));
    if (m.error) parts.push(this.errorBox());
    else if (!m.streaming && m.finish === 'interrupted') parts.push(this.note('This response was interrupted.'));
    else if (!m.streaming && !m.content && !m.calls.length)
      parts.push(make('p', 'waiting', m.finish === 'stopped' ? 'Stopped before the first token.' : 'The response is empty.'));
    this.extra.replaceChildren(...parts);
  }

  note(text) {
    return make('div', 'notice', make('span', '', text), button('Continue', 'Continue this response', () => this.acts.proceed(this.m)));
  }

  errorBox() {
    const { error, content } = this.m;
    const box = make('div', 'notice error', make('span', '', error.text));
    box.setAttribute('role', 'alert');
    if (error.kind === 'key') box.append(button('Open settings', '', () => this.acts.settings()));
    if (content) box.append(button('Continue', 'Continue this response', () => this.acts.proceed(this.m)));
    else if (error.kind !== 'context') box.append(button('Try again', 'Try again to generate this response', () => this.acts.proceed(this.m)));
    return box;
  }

  callBox(c) {
    const { m } = this;
    const box = make('details', 'call', make('summary', '', `Tool call: ${c.name}`), make('pre', '', pretty(c.args)));
    box.children[1].tabIndex = 0;
    box.open = true;
    if (m.streaming || this.acts.answered(m).includes(c.id)) return box;
    const field = make('textarea');
    field.rows = 2;
    field.placeholder = 'Result of this call';
    field.setAttribute('aria-label', `Result of ${c.name}`);
    box.append(field, button('Send result', '', () => this.acts.result(m, c, field.value)));
    return box;
  }

  drawFoot() {
    const { m } = this;
    const key = JSON.stringify([m.streaming, m.timings, m.finish, siblings(app.chat, m).length, app.settings.mark_accepted]);
    if (m.streaming) {
      if (this.footKey !== 'streaming') this.foot.replaceChildren();
      this.footKey = 'streaming';
      return;
    }
    if (key === this.footKey) return;
    this.footKey = key;
    this.foot.replaceChildren(...this.stats(), this.buttons());
  }

  stats() {
    const { m } = this, line = m.role === 'assistant' ? summary(m) : '';
    if (!line) return [];
    const list = make('dl', '', ...figures(m).flatMap(([k, v]) => [make('dt', '', k), make('dd', '', v)]));
    const box = make('details', 'stats', make('summary', '', line), list);
    if (m.speeds.length > 1) {
      const c = chart('Tokens per second over the response');
      plot(c, m.speeds);
      box.append(make('div', 'speed', c, make('span', '', `tokens/s, highest ${Math.round(Math.max(...m.speeds))}`)));
    }
    const legend = make('p', 'legend', make('mark', 'accepted', 'highlighted'), ' text came from accepted draft tokens');
    return app.settings.mark_accepted && m.marks.length ? [legend, box] : [box];
  }

  buttons() {
    const { m, acts } = this;
    const box = make('div', 'acts');
    const all = siblings(app.chat, m);
    if (all.length > 1) {
      const at = all.indexOf(m);
      const step = (name, label, by) => {
        const b = iconButton(name, label, () => acts.branch(m, by));
        b.disabled = !all[at + by];
        return b;
      };
      const place = make('span', '', `${at + 1} / ${all.length}`);
      box.append(make('span', 'branches', step('previous', 'Previous version', -1), place, step('next', 'Next version', 1)));
    }
    if (m.content) {
      const copy = button('Copy', 'Copy this message', () => copyText(m.content, copy));
      box.append(copy);
    }
    if (m.role === 'user') box.append(button('Edit', 'Edit this message', () => acts.edit(m)));
    if (m.role === 'assistant') box.append(button('Regenerate', 'Regenerate this response', () => acts.regenerate(m)));
    const items = [];
    if (m.role === 'assistant') items.push(['Regenerate with\u2026', () => acts.regenerateWith(m)]);
    if (m.role === 'assistant' && m.content && ['length', 'stopped', 'interrupted'].includes(m.finish)) items.push(['Continue', () => acts.proceed(m)]);
    items.push(['Delete from here', () => acts.remove(m)]);
    const more = menuButton(iconButton('more', 'More actions', () => openMenu(more, items)));
    box.append(more);
    return box;
  }

  /* The renderer or the marks have changed. */
  refresh() {
    this.view?.refresh();
    this.footKey = '';
    this.update();
  }
}
