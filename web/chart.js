/* A small line chart of tokens per second. */
import { chartPoints } from './format.js';

const SVG = 'http://www.w3.org/2000/svg';
const WIDTH = 120, HEIGHT = 24;

export function chart(label) {
  const svg = document.createElementNS(SVG, 'svg');
  svg.setAttribute('viewBox', `0 -1 ${WIDTH} ${HEIGHT + 2}`);
  svg.setAttribute('preserveAspectRatio', 'none');
  svg.setAttribute('role', 'img');
  svg.setAttribute('aria-label', label);
  svg.classList.add('chart');
  svg.append(document.createElementNS(SVG, 'polygon'), document.createElementNS(SVG, 'polyline'));
  return svg;
}

export function plot(svg, values) {
  const points = values.length > 1 ? chartPoints(values, WIDTH, HEIGHT) : [];
  const line = points.map((p) => p.join(',')).join(' ');
  svg.lastChild.setAttribute('points', line);
  svg.firstChild.setAttribute('points', line && `0,${HEIGHT} ${line} ${WIDTH},${HEIGHT}`);
  svg.toggleAttribute('hidden', points.length < 2);
}
