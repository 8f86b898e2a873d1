// Small charts over time, drawn as SVG: lines, bars, and the spans of ticks.

import { clock, draw, make } from './words.js';

const HIGH = 132, LEFT = 52, LOW = 18;

/** A chart with a title, a legend and a readout; draw(spec) redraws it. */
export class Chart {
  constructor(title, { format, names = [] }) {
    this.format = format;
    this.legend = make('span', { class: 'legend' });
    this.readout = make('p', { class: 'readout' });
    this.svg = draw('svg', { role: 'img', height: HIGH, 'aria-label': title });
    this.title = title;
    this.element = make('section', { class: 'card chart' }, make('header', {}, make('h2', {}, title), this.legend), this.svg, this.readout);
    this.svg.addEventListener('pointermove', (event) => this.point(event));
    this.svg.addEventListener('pointerleave', () => { this.cross = null; this.begun = null; this.paint(); });
    this.svg.addEventListener('pointerdown', (event) => { this.begun = this.timeAt(event); });
    this.svg.addEventListener('pointerup', (event) => this.release(event));
    this.name(names);
  }

  name(names) {
    if (this.names?.join() === names.join()) return;
    this.names = names;
    this.legend.replaceChildren(...(names.length > 1 ? names.map((name, number) => make('span', {}, make('i', { class: `s${number % 6}` }), name)) : []));
  }

  /** points: [{at, values: [..]}]; events: times to mark; bars instead of lines where bars is true. */
  draw({ points, from, to, events = [], bars = false, areas = false }) {
    Object.assign(this, { points, from, to, events, bars, areas });
    this.paint();
  }

  paint() {
    const wide = this.svg.clientWidth;
    if (!wide || !this.points) return;
    const { points, from, to } = this;
    const most = nice(Math.max(0, ...points.flatMap((point) => point.values.filter((value) => value !== null))));
    const x = (at) => LEFT + ((at - from) / (to - from)) * (wide - LEFT - 6);
    const y = (value) => 8 + (1 - value / most) * (HIGH - LOW - 8);
    const parts = [];
    for (const share of [0, 0.5, 1]) {
      parts.push(draw('line', { class: 'axis', x1: LEFT, x2: wide - 6, y1: y(most * share), y2: y(most * share) }));
      parts.push(draw('text', { x: LEFT - 8, y: y(most * share) + 3.5, 'text-anchor': 'end' }, this.format(most * share)));
    }
    parts.push(...axis(from, to, x, HIGH));
    this.names.forEach((_, number) => parts.push(...(this.bars ? this.barsOf(number, x, y, wide) : this.linesOf(number, x, y, most))));
    for (const at of this.events.filter((each) => each >= from)) {
      parts.push(draw('line', { class: 'event', x1: x(at), x2: x(at), y1: 4, y2: HIGH - LOW }));
    }
    if (this.begun && this.cross) parts.push(draw('rect', { class: 'dragged', x: Math.min(x(this.begun), x(this.cross.at)), width: Math.abs(x(this.cross.at) - x(this.begun)), y: 4, height: HIGH - LOW - 4 }));
    if (this.cross) parts.push(draw('line', { class: 'cross', x1: x(this.cross.at), x2: x(this.cross.at), y1: 4, y2: HIGH - LOW }));
    this.svg.replaceChildren(...parts);
    const shown = this.cross ?? points[points.length - 1];
    const words = shown ? this.names.map((name, number) => `${this.names.length > 1 ? `${name} ` : ''}${shown.values[number] === null || shown.values[number] === undefined ? '–' : this.format(shown.values[number])}`).join(' · ') : 'nothing yet';
    this.readout.textContent = shown ? `${clock(shown.at)}  ${shown.words ?? words}` : words;
    this.svg.setAttribute('aria-label', `${this.title}: ${this.readout.textContent}`);
  }

  linesOf(number, x, y, most) {
    let path = '', gap = true, area = '', begin = 0, last = 0;
    for (const point of this.points) {
      const value = point.values[number];
      if (value === null || value === undefined) { if (!gap) area += ` L${last},${y(0)} L${begin},${y(0)} Z`; gap = true; continue; }
      const at = x(point.at).toFixed(1), high = y(Math.min(value, most)).toFixed(1);
      path += gap ? ` M${at},${high} h0.01` : ` L${at},${high}`;
      area += gap ? ` M${at},${high}` : ` L${at},${high}`;
      if (gap) begin = at;
      last = at;
      gap = false;
    }
    if (!gap) area += ` L${last},${y(0)} L${begin},${y(0)} Z`;
    const kind = `s${number % 6}`;
    const parts = [draw('path', { class: `line ${kind}`, d: path || 'M0,0', fill: 'none', 'stroke-linecap': 'round' })];
    if (this.areas) parts.unshift(draw('path', { class: `area ${kind}`, d: area || 'M0,0' }));
    parts.at(-1).style.fill = 'none';
    return parts;
  }

  barsOf(number, x, y, wide) {
    const width = Math.max(2, Math.min(9, (wide - LEFT) / Math.max(20, this.points.length) - 2));
    return this.points.filter((point) => point.values[number]).map((point) => draw('rect', {
      class: `s${number % 6}`, x: x(point.at) - width / 2, y: y(point.values[number]), width, height: Math.max(1, y(0) - y(point.values[number])), rx: 1,
    }));
  }

  timeAt(event) {
    const box = this.svg.getBoundingClientRect();
    return this.from + ((event.clientX - box.x - LEFT) / (box.width - LEFT - 6)) * (this.to - this.from);
  }

  /** Zoom to a dragged range, unless it is too short. */
  release(event) {
    const { begun } = this, end = this.timeAt(event);
    this.begun = null;
    if (begun === null || begun === undefined || Math.abs(end - begun) < (this.to - this.from) / 50) return;
    this.onzoom?.(Math.max(this.from, Math.min(begun, end)), Math.min(this.to, Math.max(begun, end)));
  }

  point(event) {
    const at = this.timeAt(event);
    this.cross = (this.points ?? []).reduce((best, each) => (best && Math.abs(best.at - at) <= Math.abs(each.at - at) ? best : each), null);
    this.paint();
  }
}

/** Ticks as bars with three parts: until complete, saved and published. */
export function ticksDrawing(ticks, from, to, wide, now) {
  const step = ticks.length > 24 ? 6 : ticks.length > 12 ? 9 : 13, high = Math.max(40, ticks.length * step + LOW + 6);
  const x = (at) => LEFT + ((Math.max(at, from) - from) / (to - from)) * (wide - LEFT - 6);
  const parts = axis(from, to, x, high);
  const every = Math.max(1, Math.ceil(ticks.length / 12));
  ticks.forEach((tick, row) => {
    const y = 4 + row * step;
    if (row % every === 0 && step >= 5) parts.push(draw('text', { x: LEFT - 8, y: y + Math.min(step, 9), 'text-anchor': 'end' }, tick.last > tick.first ? `${tick.first}–${tick.last}` : String(tick.first)));
    const stops = [['s0', tick.ticked, tick.complete], ['s1', tick.complete, tick.saved], ['s2', tick.saved, tick.published]];
    const words = `epoch ${tick.first}${tick.last > tick.first ? ` to ${tick.last}` : ''}: ${tick.published ? `published after ${(tick.published - tick.ticked).toFixed(3)} s` : 'in flight'}${tick.rounds ? `, ${tick.rounds} rounds` : ''}`;
    for (const [kind, begin, end] of stops) {
      if (begin === null || (end !== null && end < from)) continue;
      parts.push(draw('rect', {
        class: end === null ? `${kind} open` : kind, x: x(begin), y, width: Math.max(1.5, x(end ?? now) - x(begin)), height: step - 2, rx: 1,
      }, draw('title', {}, words)));
      if (end === null) break;
    }
  });
  return { parts, high };
}

function axis(from, to, x, high) {
  const steps = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900], step = steps.find((each) => (to - from) / each <= 7) ?? 900;
  const parts = [draw('line', { class: 'axis', x1: x(from), x2: x(to), y1: high - LOW, y2: high - LOW })];
  for (let at = Math.ceil(from / step) * step; at <= to - step * 0.15; at += step) {
    parts.push(draw('text', { x: x(at), y: high - 4, 'text-anchor': 'middle' }, clock(at)));
  }
  return parts;
}

function nice(number) {
  if (!(number > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(number));
  return [1, 2, 2.5, 5, 10].map((each) => each * power).find((each) => each >= number * 0.999);
}
