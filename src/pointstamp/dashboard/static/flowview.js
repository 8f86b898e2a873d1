// The view of a flow: its graph, its outputs, and the details of the chosen operator.

import { Graph } from './graph.js';
import { bytes, count, frontier, make, percent, plural, say } from './words.js';

const KINDS = {
  input: 'Input may still send',
  held: 'Capability is held',
  backlog: 'Batches wait',
  loop: 'Batches circulate',
  slow: 'Slow operator',
};

export class FlowView {
  constructor(about, ask) {
    this.about = about;
    this.ask = ask;
    this.chosen = null;
    this.asked = 0;
    this.moment = {};
    this.graph = new Graph(about.graph, (id) => this.choose(id));
    this.found = make('span', { class: 'count', role: 'status' });
    this.outputs = make('ul', { class: 'outputs' });
    this.detail = make('section', { 'aria-live': 'polite' });
    this.element = make('div', { class: 'flow' }, this.canvas(), make(
      'aside', { class: 'side', 'aria-label': 'Outputs and details' },
      make('section', {}, make('h2', {}, 'Outputs'), this.outputs),
      this.detail,
    ));
    this.buttons = new Map();
    for (const node of about.graph.nodes.filter((each) => each.kind === 'output')) {
      const words = make('small', {}, ''), button = make('button', { 'aria-pressed': 'false', 'data-output': node.name, onclick: () => this.choose(node.id) }, make('b', {}, node.name), words);
      this.buttons.set(node.id, { button, words, name: node.name });
      this.outputs.append(make('li', {}, button));
    }
    this.describe();
    new ResizeObserver(() => { if (this.graph.svg.clientWidth) this.graph.refit(); }).observe(this.graph.svg);
  }

  canvas() {
    const search = make('input', {
      type: 'search', placeholder: 'Find an operator', 'aria-label': 'Find an operator',
      oninput: () => {
        const hits = this.graph.search(search.value);
        say(this.found, search.value.trim() ? plural(hits.length, 'operator') : '');
      },
      onkeydown: (event) => {
        if (event.key !== 'Enter') return;
        const hits = this.graph.search(search.value);
        this.hit = ((this.hit ?? -1) + 1) % Math.max(1, hits.length);
        if (hits.length) { this.graph.reveal(hits[this.hit]); this.choose(hits[this.hit]); }
      },
    });
    this.all = make('button', {
      id: 'all-operators', 'aria-pressed': 'false', title: 'Show physical operators instead of steps',
      onclick: () => this.showAll(this.all.getAttribute('aria-pressed') !== 'true'),
    }, 'Operators');
    return make(
      'div', { class: 'canvas' },
      make('div', { class: 'tools' }, search,
        make('button', { 'aria-label': 'Smaller', onclick: () => this.graph.zoom(0.8) }, '−'),
        make('button', { 'aria-label': 'Larger', onclick: () => this.graph.zoom(1.25) }, '+'),
        make('button', { onclick: () => { this.graph.touched = true; this.graph.fit(); } }, 'Fit'), this.all, this.found),
      this.graph.svg,
      make('p', { class: 'key', 'aria-hidden': 'true' },
        make('span', {}, 'up to date'), make('span', { class: 'k-work' }, 'working'),
        make('span', { class: 'k-hold' }, 'holds others back'), make('span', { class: 'k-slow' }, 'in one call for a long time'),
        make('span', { class: 'k-move' }, 'exchange')),
    );
  }

  show() { this.graph.refit(); }

  /** Show physical operators, or the steps of the flow. */
  showAll(all) {
    this.all.setAttribute('aria-pressed', String(all));
    const kept = this.isOutput() ? this.chosen : null;
    this.chosen = null;
    this.graph.showAll(all);
    if (kept !== null) this.choose(kept); else this.describe();
  }

  update(moment) {
    this.graph.update(moment);
    this.moment = this.graph.moment;
    const outputs = new Map((moment.outputs ?? []).map((each) => [each.name, each]));
    for (const { words, name } of this.buttons.values()) {
      const now = outputs.get(name);
      if (now) say(words, `${now.frontier.length ? `waits for ${frontier(now.frontier)}` : 'complete'} · ${plural(now.rows, 'row')} out`);
    }
    this.describe();
    if (this.isOutput() && performance.now() - this.asked > 1500) this.askWhy();
  }

  isOutput() { return this.chosen !== null && this.graph.names.get(this.chosen).kind === 'output'; }

  choose(id) {
    this.chosen = this.chosen === id ? null : id;
    this.why = null;
    this.graph.choose(this.chosen);
    this.graph.light([]);
    for (const [each, { button }] of this.buttons) button.setAttribute('aria-pressed', String(each === this.chosen));
    this.describe();
    if (this.isOutput()) this.askWhy();
  }

  async askWhy() {
    this.asked = performance.now();
    const id = this.chosen, name = this.graph.names.get(id).name;
    try {
      const why = await this.ask(`why?output=${encodeURIComponent(name)}`);
      if (this.chosen !== id) return;
      this.why = why;
      this.graph.light(why.held.map((each) => (each.kind === 'slow' ? this.from(each.operator, id) : each.way)), why.held.map((each) => each.kind));
      this.describe();
    } catch { /* the event stream reports the error */ }
  }

  /** A shortest path from an operator to an output. */
  from(start, end) {
    const before = new Map([[start, null]]), waiting = [start];
    while (waiting.length) {
      const at = waiting.shift();
      if (at === end) break;
      for (const edge of this.about.graph.edges) {
        if (edge.from === at && !before.has(edge.to)) { before.set(edge.to, at); waiting.push(edge.to); }
      }
    }
    const way = [];
    for (let at = end; at !== null && at !== undefined; at = before.get(at)) way.unshift(at);
    return way[0] === start ? way : [start];
  }

  describe() {
    if (this.chosen === null) {
      if (this.told === 'none') return;
      this.told = 'none';
      this.detail.replaceChildren(make('p', { class: 'quiet' }, 'Choose an output to see what holds it back, or an operator to see its details.'));
      return;
    }
    const node = this.graph.names.get(this.chosen);
    const content = [make('h2', {}, `${node.kind === 'operator' ? '' : `${node.kind} `}${node.name}`)];
    if (node.kind === 'output') content.push(...this.reasons());
    content.push(this.facts(node), ...this.perWorker(node));
    const told = content.map((each) => each.outerHTML).join('');
    if (told !== this.told) { this.told = told; this.detail.replaceChildren(...content); }
  }

  reasons() {
    if (!this.why) return [make('p', { class: 'quiet' }, 'loading …')];
    const items = [
      ...this.why.held.map((each) => make('li', { class: each.kind }, make('b', {}, KINDS[each.kind]), each.words)),
      ...this.why.words.map((words) => make('li', { class: 'input' }, make('b', {}, 'Waiting for a source'), words)),
    ];
    if (!items.length) return [make('p', { class: 'quiet' }, 'Nothing holds it back: it is complete.')];
    return [make('h3', {}, 'What holds it back'), make('ul', { class: 'reasons', id: 'reasons' }, ...items)];
  }

  facts(node) {
    const now = this.moment.operators?.[node.id], list = make('dl', { class: 'facts' });
    const fact = (name, value, kind = '') => list.append(make('dt', {}, name), make('dd', { class: kind }, value));
    if (now) {
      fact('frontier', frontier(now.frontier));
      if (node.kind !== 'input') {
        fact('rows waiting', count(now.waiting));
        fact('batches in flight to it', count(now.batches));
        fact('rows in', `${count(now.in)} / s`);
      }
      if (node.kind !== 'output') fact('rows out', `${count(now.out)} / s`);
      fact('busy, busiest worker', percent(now.busy));
    }
    for (const kept of (this.moment.kept ?? []).filter((each) => each.operator === node.id)) {
      fact(`state: ${kept.what}`, `${plural(kept.rows, 'row')}, ${bytes(kept.bytes)}${kept.spilled ? `, ${bytes(kept.spilled)} spilled` : ''}`);
    }
    if (node.step && node.kind === 'operator') fact('definition', node.step.words, 'code');
    if (node.step?.origin) fact('defined at', node.step.origin, 'code');
    if (node.members.length > 1) fact('physical operators', count(node.members.length));
    for (const edge of this.graph.graph.edges.filter((each) => each.to === node.id)) {
      fact('reads', `${this.graph.names.get(edge.from).name}${edge.pact ? `, ${edge.pact}` : ''}${edge.again ? ', next round' : ''}`);
    }
    if (node.scope.length) fact('in loop', node.scope.join(' / '));
    if (node.columns) fact('sends', node.columns, 'code');
    return list;
  }

  perWorker(node) {
    const workers = (this.moment.workers ?? []).filter((each) => each.operators[node.id]);
    if (workers.length < 2) return [];
    return [make('h3', {}, 'By worker'), make('table', {},
      make('thead', {}, make('tr', {}, make('th', {}, 'worker'), make('th', { class: 'number' }, 'waiting'), make('th', { class: 'number' }, 'rows/s'), make('th', { class: 'number' }, 'busy'))),
      make('tbody', {}, ...workers.map((each) => {
        const [waiting, rowsIn, rowsOut, busy] = each.operators[node.id];
        return make('tr', {}, make('td', {}, String(each.worker)), make('td', { class: 'number' }, count(waiting)),
          make('td', { class: 'number' }, count(node.kind === 'input' ? rowsOut : rowsIn)), make('td', { class: 'number' }, percent(busy)));
      })))];
  }
}
