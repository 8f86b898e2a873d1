// The view of a trace: step through what has happened, with all that each worker holds, counts and knows.

import { Graph } from './graph.js';
import { World } from './world.js';
import { count, make, plural, say, time } from './words.js';

const LIST = 60;

export class TraceView {
  constructor(about, ask) {
    this.about = about;
    this.step = 0;
    this.worker = 0;
    this.events = [];
    this.graph = new Graph(about.graph, (id) => { this.operator = this.operator === id ? null : id; this.graph.choose(this.operator); this.paint(); });
    this.words = make('p', { id: 'event', role: 'status', 'aria-live': 'polite' });
    this.slider = make('input', { type: 'range', min: 0, max: 0, value: 0, 'aria-label': 'Step', oninput: () => this.go(Number(this.slider.value)) });
    this.select = make('select', { 'aria-label': 'As which worker sees it', onchange: () => { this.worker = Number(this.select.value); this.paint(); } },
      ...Array.from({ length: about.workers }, (_, number) => make('option', { value: number }, `worker ${number}`)));
    this.list = make('ol', { class: 'steps', 'aria-label': 'Events' });
    this.known = make('div', { class: 'known' });
    const button = (name, label, act) => make('button', { 'aria-label': label, title: label, onclick: act }, name);
    this.element = make('div', { class: 'trace', onkeydown: (event) => this.key(event) },
      make('div', { class: 'bar' },
        button('First', 'To the first event', () => this.go(0)), button('‹', 'One event back', () => this.go(this.step - 1)),
        button('›', 'One event on', () => this.go(this.step + 1)), button('Last', 'To the last event', () => this.go(this.events.length - 1)),
        about.flaw === null ? null : button('Finding', 'To the event that the judge objects to', () => this.go(about.flaw)),
        this.slider, make('label', { class: 'quiet' }, 'as seen by ', this.select)),
      make('div', { class: 'canvas' }, this.graph.svg),
      make('aside', { class: 'side', 'aria-label': 'The event and what is known' },
        make('section', {}, make('h2', {}, about.verdict.split('\n')[0].slice(0, 200)), make('p', { class: 'quiet code' }, about.replay), this.words),
        make('section', {}, this.list), make('section', {}, this.known)));
    new ResizeObserver(() => { if (this.graph.svg.clientWidth) this.graph.refit(); }).observe(this.graph.svg);
    ask('history').then(({ events }) => {
      this.events = events;
      this.world = new World(events, about);
      this.slider.max = events.length - 1;
      this.go(about.flaw ?? 0);
    });
  }

  show() { this.graph.refit(); }

  update() {}

  key(event) {
    const step = { ArrowRight: 1, ArrowLeft: -1, PageDown: 20, PageUp: -20 }[event.key];
    if (step && event.target !== this.slider && event.target !== this.select) { event.preventDefault(); this.go(this.step + step); }
  }

  go(step) {
    this.step = Math.max(0, Math.min(this.events.length - 1, step));
    this.slider.value = this.step;
    this.paint();
  }

  paint() {
    if (!this.world) return;
    const state = this.world.after(this.step), mine = state.workers[this.worker], event = this.events[this.step];
    say(this.words, `${count(this.step)} of ${count(this.events.length - 1)}: ${event.words}`);
    const first = Math.max(0, Math.min(this.step - LIST / 2, this.events.length - LIST));
    this.list.start = first;
    this.list.replaceChildren(...this.events.slice(first, first + LIST).map((each, number) => make('li', {
      value: first + number, class: first + number === this.step ? 'now' : '', onclick: () => this.go(first + number),
    }, each.words)));
    const now = this.list.querySelector('.now');
    if (now) this.list.scrollTop = now.offsetTop - this.list.offsetTop - 60;
    this.drawGraph(state, mine);
    this.tell(state, mine);
  }

  drawGraph(state, mine) {
    const { ports } = this.about, operators = {};
    for (const node of this.about.graph.nodes) {
      const here = ports.map((port, at) => ({ ...port, at })).filter((port) => port.operator === node.id);
      const looked = here.filter((port) => !port.output).length ? here.filter((port) => !port.output) : here;
      const times = looked.flatMap((port) => mine.frontiers.get(port.at) ?? []).sort(compare);
      const waiting = state.messages.filter((each) => ports[each.target].operator === node.id);
      operators[node.id] = {
        frontier: times.slice(0, 3), batches: waiting.length, waiting: waiting.reduce((sum, each) => sum + each.rows, 0), in: 0, out: 0, busy: 0,
        holds: here.some((port) => [...(mine.held.get(port.at)?.values() ?? [])].some((held) => held.number > 0)),
      };
    }
    this.graph.update({ operators, opened: Infinity, calls: [], loops: [] });
  }

  tell(state, mine) {
    const { ports } = this.about, shown = (at) => this.operator === undefined || this.operator === null || ports[at].operator === this.operator;
    const rows = (entries) => make('ul', { class: 'points' }, ...entries.map((words) => make('li', {}, words)));
    const points = (map) => [...map].filter(([at]) => shown(at)).flatMap(([at, times]) => [...times.values()].filter((each) => each.number).map((each) => `${each.number > 0 ? '+' : ''}${each.number} · ${time(each.time)} at ${ports[at].name}`));
    const frontiers = [...mine.frontiers].filter(([at]) => shown(at)).map(([at, times]) => `${ports[at].name}: ${times.length ? times.map(time).join(' and ') : 'complete'}`);
    const flying = state.messages.filter((each) => shown(each.target)).map((each) => `${plural(each.rows, 'row')} of ${time(each.time)}, worker ${each.from} to ${each.to}, for ${ports[each.target].name}`);
    const part = (title, entries) => [make('h3', {}, `${title} (${entries.length})`), rows(entries.slice(0, 80))];
    this.known.replaceChildren(
      ...part(`Counts that worker ${this.worker} knows`, points(mine.counts)),
      ...part(`Capabilities that worker ${this.worker} holds`, points(mine.held)),
      ...part('Messages on their way', flying),
      ...part(`Frontiers that worker ${this.worker} sees`, frontiers));
  }
}

function compare(a, b) {
  for (let place = 0; place < a.length; place += 1) if (a[place] !== b[place]) return a[place] < b[place] ? -1 : 1;
  return 0;
}
