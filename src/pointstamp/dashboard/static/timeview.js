// The view of time: epochs from tick to publication, their latency, rows, snapshots, memory, restarts.

import { Chart, ticksDrawing } from './charts.js';
import { bytes, clock, count, draw, make, plural, seconds } from './words.js';

const WINDOWS = [[30, '30 s'], [120, '2 min'], [600, '10 min'], [3600, '1 h']];
const TICKS_SHOWN = 48, TICKS_KEPT = 400;

export class TimeView {
  constructor(history) {
    this.history = history;
    this.window = 120;
    this.drawn = 0;
    this.buttons = WINDOWS.map(([length, name]) => make('button', { 'aria-pressed': String(length === this.window), onclick: () => this.choose(length) }, name));
    this.ticks = draw('svg', { role: 'img', 'aria-label': 'Epochs' });
    this.note = make('p', { class: 'readout' });
    this.latency = new Chart('From tick to published', { format: seconds, names: ['p50', 'p95', 'p99'] });
    this.rows = new Chart('Rows read per second', { format: count, names: ['rows/s'] });
    this.sizes = new Chart('Snapshots', { format: bytes, names: ['incremental', 'full'] });
    this.memory = new Chart('Memory of workers', { format: bytes, names: ['worker 0'] });
    this.turns = new Chart('Rounds per epoch', { format: count, names: ['rounds'] });
    this.restarts = make('section', { class: 'card' });
    this.all = make('button', { hidden: true, onclick: () => this.zoom(null) }, 'Back to now');
    for (const chart of this.charts()) chart.onzoom = (from, to) => this.zoom({ from, to });
    const legend = make('span', { class: 'legend' }, ...['until complete', 'until saved', 'until published'].map((name, number) => make('span', {}, make('i', { class: `s${number}` }), name)));
    this.element = make('div', { class: 'page' },
      make('div', { class: 'row' }, make('span', { class: 'quiet' }, 'The last'), make('span', { class: 'choice', role: 'group', 'aria-label': 'Time range' }, ...this.buttons), this.all, make('span', { class: 'quiet' }, 'drag over a chart to zoom')),
      make('section', { class: 'card chart' }, make('header', {}, make('h2', {}, 'Epochs'), legend), this.ticks, this.note),
      make('div', { class: 'grid' }, this.latency.element, this.rows.element, this.turns.element, this.sizes.element, this.memory.element),
      this.restarts);
  }

  charts() { return [this.latency, this.rows, this.turns, this.sizes, this.memory]; }

  /** Show a fixed range of the past, or the last seconds again. */
  zoom(span) {
    this.span = span;
    this.all.hidden = !span;
    this.show();
  }

  choose(length) {
    this.window = length;
    this.span = null;
    this.all.hidden = true;
    WINDOWS.forEach(([each], number) => this.buttons[number].setAttribute('aria-pressed', String(each === length)));
    this.show();
  }

  show() { this.drawn = 0; this.update(this.moment ?? {}); }

  update(moment) {
    this.moment = moment;
    if (!this.element.isConnected || performance.now() - this.drawn < 900) return;
    this.drawn = performance.now();
    const now = moment.at ?? this.history.now, { from, to } = this.span ?? { from: now - this.window, to: now };
    const { history } = this, events = [...history.restarts.values()].map((each) => each.at);
    this.drawTicks(from, to, now);
    const hour = [...history.hour.values()].filter((span) => span.at + span.seconds >= from && span.at <= to);
    const common = { from, to, events };
    this.latency.draw({ ...common, points: hour.filter((span) => span.epochs).map((span) => ({ at: middle(span, to), values: span.latency })) });
    this.rows.draw({ ...common, areas: true, points: spans(hour, from, to).map((span) => ({ at: middle(span, to), values: [span.rows / elapsed(span, to)] })) });
    this.turns.draw({ ...common, bars: true, points: turns(history, hour, from, to) });
    const snapshots = [...history.snapshots.values()].filter((each) => each.done >= from && each.done <= to);
    this.sizes.draw({ ...common, bars: true, points: snapshots.map((each) => ({ at: each.done, words: taken(each), values: each.is_whole ? [null, each.size_bytes] : [each.size_bytes, null] })) });
    const workers = [...new Set(hour.flatMap((span) => Object.keys(span.memory)))].sort((a, b) => a - b);
    this.memory.name(workers.map((worker) => `worker ${worker}`));
    this.memory.draw({ ...common, points: hour.filter((span) => Object.keys(span.memory).length).map((span) => ({ at: middle(span, to), values: workers.map((worker) => span.memory[worker] ?? null) })) });
    this.drawRestarts(moment);
  }

  drawTicks(from, to, now) {
    const wide = this.ticks.clientWidth;
    if (!wide) return;
    const seen = [...this.history.ticks.values()].filter((tick) => (tick.published ?? now) >= from && tick.ticked <= to);
    const shown = seen.slice(-TICKS_SHOWN);
    const begin = shown.length < seen.length ? Math.max(from, shown[0].ticked) : from;
    const { parts, high } = ticksDrawing(shown, begin, to, wide, now);
    this.ticks.setAttribute('height', high);
    this.ticks.replaceChildren(...parts);
    const open = shown.filter((tick) => tick.published === null).length;
    this.note.textContent = shown.length ? `${plural(shown.length, 'tick')} shown${shown.length < seen.length ? ', the last ones' : ''}; ${open ? `${count(open)} in flight` : 'all are published'}` : 'no ticks in this time range';
    this.ticks.setAttribute('aria-label', `Epochs: ${this.note.textContent}`);
  }

  drawRestarts(moment) {
    const list = [...this.history.restarts.values()].reverse();
    const items = list.map((each) => make('li', { class: each.went_on ? 'done' : '' }, make('h3', {}, `${clock(each.at)}, generation ${each.generation}`), each.words, make('p', { class: 'quiet' }, each.went_on ? `resumed after ${seconds(each.went_on - each.at)}` : 'not yet back')));
    this.restarts.replaceChildren(make('h2', {}, 'Restarts'), items.length ? make('ul', { class: 'events', id: 'restarts' }, ...items) : make('p', { class: 'empty' }, `None; this is generation ${moment.generation ?? '–'}.`));
  }
}

/** The text of a snapshot: its kind, size and duration. */
function taken(each) {
  return `epoch ${each.epoch}, ${each.is_whole ? 'full' : 'incremental'}: ${bytes(each.size_bytes)} in ${seconds(each.done - each.begun)}${each.savepoint ? `, savepoint ${each.savepoint}` : ''}`;
}

/** Rounds per tick if all ticks of the range are known, else the maximum of each span. */
function turns(history, hour, from, to) {
  const ticks = [...history.ticks.values()], known = ticks.filter((tick) => tick.published && tick.published >= from && tick.published <= to);
  if (known.length && (ticks.length < TICKS_KEPT || ticks[0].ticked < from)) {
    return known.filter((tick) => tick.rounds).map((tick) => ({ at: tick.published, values: [tick.rounds], words: `epoch ${tick.first === tick.last ? tick.last : `${tick.first} to ${tick.last}`}: ${plural(tick.rounds, 'round')}` }));
  }
  return hour.filter((span) => span.rounds).map((span) => ({ at: middle(span, to), values: [span.rounds] }));
}

function elapsed(span, to) { return Math.max(0.5, Math.min(span.seconds, to - span.at)); }

function middle(span, to) { return Math.min(span.at + span.seconds / 2, to); }

/** Spans without gaps: a span without a count had no rows. */
function spans(hour, from, to) {
  if (!hour.length) return [];
  const step = hour[0].seconds, known = new Map(hour.map((span) => [Math.round(span.at / step), span])), all = [];
  const first = Math.max(Math.ceil(from / step), Math.min(...known.keys()));
  for (let number = first; number * step <= to; number += 1) all.push(known.get(number) ?? { at: number * step, seconds: step, rows: 0 });
  return all;
}
