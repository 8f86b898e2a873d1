// The view of a trace: step through its events, with the capabilities, counts and frontiers of each worker.

import { Graph } from './graph.js';
import { agreement, frontiersTable, heldList, messagesList, pointsTable } from './tracewords.js';
import { World } from './world.js';
import { count, make, say } from './words.js';

const LIST = 60;

export class TraceView {
  constructor(about, ask) {
    this.about = about;
    this.step = 0;
    this.worker = 0;
    this.operator = null;
    this.events = [];
    this.graph = new Graph(about.graph, (id) => { this.operator = this.operator === id ? null : id; this.graph.choose(this.operator); this.paint(); }, true);
    this.words = make('p', { id: 'event', role: 'status', 'aria-live': 'polite' });
    this.slider = make('input', { type: 'range', min: 0, max: 0, value: 0, 'aria-label': 'Step', oninput: () => this.go(Number(this.slider.value)) });
    this.select = make('select', { 'aria-label': 'View of worker', onchange: () => { this.worker = Number(this.select.value); this.paint(); } },
      ...Array.from({ length: about.workers }, (_, number) => make('option', { value: number }, `worker ${number}`)));
    this.list = make('ol', { class: 'steps', 'aria-label': 'Events' });
    this.agrees = make('p', { id: 'agrees', role: 'status' });
    this.known = make('div', { class: 'known' });
    this.crash = this.button('Crash', 'To the next crash', () => this.toCrash());
    this.crash.hidden = true;
    const reason = about.reason && !about.verdict.includes(about.reason) ? about.reason : null;
    this.element = make('div', { class: 'trace', onkeydown: (event) => this.key(event) },
      make('div', { class: 'bar' },
        this.button('First', 'To the first event', () => this.go(0)), this.button('‹', 'Previous event', () => this.go(this.step - 1)),
        this.button('›', 'Next event', () => this.go(this.step + 1)), this.button('Last', 'To the last event', () => this.go(this.events.length - 1)),
        about.flaw === null ? null : this.button('Finding', 'To the event that fails verification', () => this.go(about.flaw - about.first)),
        this.crash, this.slider, make('label', { class: 'quiet' }, 'as seen by ', this.select)),
      make('div', { class: 'canvas' }, this.graph.svg),
      make('aside', { class: 'side', 'aria-label': 'The event and the known state' },
        make('section', {}, make('h2', { id: 'verdict' }, about.verdict.split('\n')[0].slice(0, 300)),
          reason ? make('p', { id: 'reason' }, reason.slice(0, 600)) : null, make('p', { class: 'quiet code' }, about.replay), this.words),
        make('section', {}, this.list), make('section', {}, make('h2', {}, 'The model'), this.agrees), make('section', {}, this.known)));
    new ResizeObserver(() => { if (this.graph.svg.clientWidth) this.graph.refit(); }).observe(this.graph.svg);
    ask('history').then(({ events }) => {
      this.events = events;
      this.world = new World(events, about.workers);
      this.slider.max = events.length - 1;
      this.crash.hidden = !events.some((each) => each.kind === 'Crashed');
      this.go(about.opens - about.first);
    });
  }

  button(name, label, act) { return make('button', { 'aria-label': label, title: label, onclick: act }, name); }

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

  /** The next crash; after the last one, the first. */
  toCrash() {
    const crashes = this.events.flatMap((each, number) => (each.kind === 'Crashed' ? [number] : []));
    this.go(crashes.find((each) => each > this.step) ?? crashes[0]);
  }

  paint() {
    if (!this.world) return;
    const state = this.world.after(this.step), event = this.events[this.step], { first: offset } = this.about;
    const worker = Math.min(this.worker, state.workers.length - 1), mine = state.workers[worker];
    say(this.words, `${count(this.step + offset)} of ${count(this.events.length - 1 + offset)}: ${event.words}`);
    const first = Math.max(0, Math.min(this.step - LIST / 2, this.events.length - LIST));
    this.list.replaceChildren(...this.events.slice(first, first + LIST).map((each, number) => make('li', {
      value: first + number + offset, class: `${first + number === this.step ? 'now' : ''} ${each.worker === null ? each.kind : ''}`, onclick: () => this.go(first + number),
    }, each.words)));
    const now = this.list.querySelector('.now');
    if (now) this.list.scrollTop = now.offsetTop - this.list.offsetTop - 60;
    this.drawGraph(state, mine);
    const { words, kind } = agreement(this.about, this.step + offset);
    say(this.agrees, words);
    this.agrees.className = kind;
    const shown = (at) => this.operator === null || this.about.ports[at].operator === this.operator, { ports } = this.about;
    this.known.replaceChildren(
      ...pointsTable(state, mine, worker, ports, shown), ...frontiersTable(state, mine, worker, ports, shown),
      ...heldList(mine, worker, ports, shown), ...messagesList(state, ports, shown));
  }

  drawGraph(state, mine) {
    const { ports } = this.about, operators = {};
    for (const node of this.about.graph.nodes) {
      const here = ports.map((port, at) => ({ ...port, at })).filter((port) => port.operator === node.id);
      const looked = here.filter((port) => !port.output).length ? here.filter((port) => !port.output) : here;
      const times = looked.flatMap((port) => mine.frontiers.get(port.at) ?? []).sort(compare);
      const waiting = state.messages.filter((each) => ports[each.target].operator === node.id);
      operators[node.id] = {
        frontier: times.slice(0, 3), batches: waiting.length, waiting: waiting.reduce((sum, each) => sum + (each.rows ?? 0), 0), in: null, out: null, busy: 0,
        holds: here.some((port) => [...(mine.held.get(port.at)?.values() ?? [])].some((held) => held.number > 0)),
      };
    }
    this.graph.update({ operators, opened: Infinity, calls: [], loops: [] });
  }
}

function compare(a, b) {
  for (let place = 0; place < a.length; place += 1) if (a[place] !== b[place]) return a[place] < b[place] ? -1 : 1;
  return 0;
}
