// The graph of a flow: operators with their status, loops as regions, highlighted paths.

import { key, layout } from './layout.js';
import { gathered, operatorsOf, stepsOf } from './steps.js';
import { count, draw, frontier, percent, plural, say, set } from './words.js';

const WIDE = 188, HIGH = 62;
const TOP = 52, LOW = 36, READABLE = 0.6;
const KINDS = { input: 'input', output: 'output', operator: '' };

export class Graph {
  constructor(graph, onChoose, all = false) {
    this.whole = graph;
    this.onChoose = onChoose;
    this.draws(all ? operatorsOf(graph) : stepsOf(graph));
    this.folded = new Set(graph.nodes.length > 80 ? graph.loops.map(key) : []);
    this.view = { x: 0, y: 0, scale: 1 };
    this.chosen = null;
    this.moment = {};
    this.ways = [];
    this.kinds = [];
    this.content = draw('g');
    this.svg = draw('svg', { role: 'group', 'aria-label': 'The flow: operators in the order of the data flow', tabindex: '-1' }, this.content);
    this.nodes = new Map();
    this.regions = new Map();
    this.edges = [];
    this.made = null;
    this.listen();
  }

  draws({ graph, stands }) {
    this.graph = graph;
    this.stands = stands;
    this.names = new Map(graph.nodes.map((node) => [node.id, node]));
  }

  /** Draw the physical operators, or the steps of the flow. */
  showAll(all) {
    this.draws(all ? operatorsOf(this.whole) : stepsOf(this.whole));
    this.touched = false;
    this.chosen = null;
    this.arrange();
    this.fit(READABLE);
  }

  /** Lay out and redraw, after a loop was folded or unfolded. */
  arrange() {
    this.made = this.best();
    this.content.replaceChildren();
    this.nodes = new Map();
    this.regions = new Map();
    this.edges = [];
    for (const region of [...this.made.regions].sort((a, b) => a.path.length - b.path.length)) this.drawRegion(region);
    for (const edge of this.made.edges) this.drawEdge(edge);
    for (const [id, box] of this.made.nodes) if (typeof id === 'number') this.drawNode(this.names.get(id), box);
    this.update(this.last ?? {});
    this.light(this.ways, this.kinds);
    this.choose(this.chosen);
    this.mark();
  }

  /** The layout that can be drawn largest here, from left to right or downwards. */
  best() {
    const sizeOf = (id) => (typeof id === 'string' ? { w: 220, h: 54 } : { w: WIDE, h: HIGH });
    const [aside, down] = [false, true].map((way) => ({ ...layout(this.graph, this.folded, sizeOf, way), down: way }));
    return this.fits(down) > this.fits(aside) ? down : aside;
  }

  drawRegion(region) {
    const name = region.path.join(' / ');
    const turn = draw('text', { class: 'turn', x: region.x + 14, y: region.y + 35 });
    const title = `${region.folded ? '▸' : '▾'} loop ${region.path[region.path.length - 1]}`;
    const fold = () => {
      if (this.folded.has(region.key)) this.folded.delete(region.key); else this.folded.add(region.key);
      this.arrange();
      this.regions.get(region.key)?.group.focus();
    };
    const group = draw(
      'g',
      {
        class: 'region', role: 'button', tabindex: '0', 'aria-expanded': String(!region.folded),
        'aria-label': `loop ${name}, ${region.folded ? 'folded' : 'open'}`,
        onkeydown: (event) => { if (event.key === 'Enter' || event.key === ' ') { event.preventDefault(); fold(); } },
      },
      draw('rect', { x: region.x, y: region.y, width: region.w, height: region.h, rx: 12 }),
      draw('text', { x: region.x + 12, y: region.y + 18 }, title),
      turn,
      draw('rect', { class: 'fold', x: region.x, y: region.y, width: region.w, height: region.folded ? region.h : 40, onclick: fold }),
    );
    this.regions.set(region.key, { group, turn });
    this.content.append(group);
  }

  drawEdge(edge) {
    const line = draw('path', { class: `edge${edge.again ? ' again' : ''}`, d: edge.path });
    const tip = draw('path', { class: 'tip', d: edge.tip });
    this.content.append(line, tip);
    if (edge.pact && edge.middle) {
      this.content.append(
        draw('circle', { class: 'moved', cx: edge.middle.x, cy: edge.middle.y, r: 4.5 }, draw('title', {}, `exchanged ${edge.pact}`)),
        draw('text', { class: 'pact', x: edge.middle.x + 9, y: edge.middle.y + 3.5 }, short(edge.pact, 16)),
      );
    }
    this.edges.push({ ...edge, line, tip });
  }

  drawNode(node, { x, y, w, h }) {
    const parts = {
      name: draw('text', { class: 'name', x: x + 14, y: y + 19 }, short(node.name, KINDS[node.kind] ? 17 : 19)),
      time: draw('text', { class: 'time', x: x + 14, y: y + 36 }),
      waiting: draw('text', { class: 'right', x: x + w - 12, y: y + 51 }),
      rate: draw('text', { x: x + 14, y: y + 51 }),
      busy: draw('text', { class: 'right', x: x + w - 12, y: KINDS[node.kind] ? y + 36 : y + 19 }),
      kept: draw('text', { class: 'right', x: x + w - 12, y: y + 36 }),
      bar: draw('rect', { class: 'bar', x: x + 5, y: y + h - 3, width: 0, height: 2 }),
    };
    const choose = () => this.onChoose(node.id);
    parts.group = draw(
      'g',
      {
        class: `node ${node.kind === 'operator' ? '' : 'ends'}`, role: 'button', tabindex: '0', 'data-id': node.id, 'data-name': node.name,
        onclick: choose,
        onkeydown: (event) => { if (event.key === 'Enter' || event.key === ' ') { event.preventDefault(); choose(); } },
      },
      draw('title', {}, node.name),
      draw('rect', { class: 'box', x, y, width: w, height: h, rx: node.kind === 'operator' ? 7 : 16 }),
      draw('rect', { class: 'mark', x: x + 5, y: y + 9, width: 3, height: h - 18, rx: 1.5 }),
      parts.name, parts.time, parts.waiting, parts.rate, parts.busy, parts.kept, parts.bar,
      KINDS[node.kind] ? draw('text', { class: 'kind', x: x + w - 12, y: y + 19 }, KINDS[node.kind]) : null,
    );
    parts.width = w - 10;
    this.nodes.set(node.id, parts);
    this.content.append(parts.group);
  }

  /** Show the current status. */
  update(moment) {
    this.last = moment;
    this.moment = moment = gathered(moment, this.graph, this.stands);
    const slow = new Set((moment.calls ?? []).map((call) => call.operator));
    const holders = holding(moment.operators ?? {}), keeps = new Map();
    for (const each of moment.kept ?? []) keeps.set(each.operator, (keeps.get(each.operator) ?? 0) + each.rows);
    for (const [id, parts] of this.nodes) {
      const now = moment.operators?.[id];
      if (!now) continue;
      const node = this.names.get(id), first = now.frontier[0]?.[0];
      const behind = first !== undefined && typeof first === 'number' && first <= (moment.opened ?? -1);
      const mood = slow.has(id) ? 'slow' : holders.has(String(id)) ? 'hold' : behind || now.busy > 0.02 ? 'work' : '';
      for (const each of ['slow', 'hold', 'work']) parts.group.classList.toggle(each, each === mood);
      const where = frontier(now.frontier);
      say(parts.time, where);
      const waiting = now.waiting || now.batches;
      say(parts.waiting, waiting ? (now.waiting ? `${count(now.waiting)} waiting` : plural(now.batches, 'batch').replace('batchs', 'batches')) : '');
      const rows = node.kind === 'input' ? now.out : now.in;
      say(parts.rate, rows === null ? '' : `${count(rows)} rows/s`);
      if (node.kind === 'operator') say(parts.kept, keeps.get(id) ? `${count(keeps.get(id))} kept` : '');
      say(parts.busy, now.busy > 0.005 ? `busy ${percent(now.busy)}` : '');
      set(parts.bar, 'width', Math.round(parts.width * Math.min(1, now.busy)));
      const words = { slow: 'in one call for a long time', hold: 'holds others back', work: 'working', '': 'up to date' }[mood];
      set(parts.group, 'aria-label', `${node.kind} ${node.name}, ${where}, ${plural(now.waiting, 'row')} waiting, ${words}`);
    }
    for (const [name, region] of this.regions) {
      const loops = (moment.loops ?? []).filter((loop) => key(loop.scope) === name);
      const first = loops[0];
      say(region.turn, first ? `epoch ${first.epoch}, round ${first.first === first.last ? first.last : `${first.first}–${first.last}`} · ${count(first.messages)} in flight` : '');
    }
  }

  choose(id) {
    this.chosen = id;
    for (const [each, parts] of this.nodes) parts.group.classList.toggle('chosen', each === id);
  }

  /** Highlight paths of operators, each from the cause to the output that waits; kinds are the kinds of the causes. */
  light(ways, kinds = []) {
    this.ways = ways;
    this.kinds = kinds;
    if (this.made === null) return;
    const shown = (each, id = this.stands.get(each) ?? each) => (this.nodes.has(id) ? id : this.made.regions.find((region) => region.folded && this.names.get(id)?.scope.slice(0, region.path.length).join('\n') === region.path.join('\n'))?.key);
    const on = new Set(), pairs = new Set(), origins = new Map();
    for (const [number_, way] of ways.entries()) {
      const steps = way.map((id) => shown(id)).filter((id, number, all) => id !== undefined && id !== all[number - 1]);
      steps.forEach((id, number) => { on.add(id); if (number) pairs.add(`${steps[number - 1]}>${id}`); });
      if (!origins.has(steps[0])) origins.set(steps[0], kinds[number_] ?? '');
    }
    this.content.classList.toggle('dimmed', on.size > 0);
    for (const [id, parts] of this.nodes) {
      parts.group.classList.toggle('lit', on.has(id));
      parts.group.classList.toggle('origin', origins.has(id));
      if (origins.get(id)) parts.group.dataset.holds = origins.get(id); else delete parts.group.dataset.holds;
    }
    for (const edge of this.edges) {
      const lit = pairs.has(`${edge.a}>${edge.b}`);
      edge.line.classList.toggle('lit', lit);
      edge.tip.classList.toggle('lit', lit);
    }
  }

  /** Mark the operators whose name contains a text, and the folded loops with such operators; return all of them. */
  search(text) {
    const wanted = text.trim().toLowerCase();
    const hits = wanted ? this.graph.nodes.filter((node) => node.name.toLowerCase().includes(wanted)) : [];
    this.hits = new Set(hits.map((node) => node.id));
    this.mark();
    return [...this.hits];
  }

  mark() {
    const loops = new Set([...(this.hits ?? [])].filter((id) => !this.nodes.has(id)).flatMap((id) => this.names.get(id).scope.map((_, depth, scope) => key(scope.slice(0, depth + 1)))));
    for (const [id, parts] of this.nodes) parts.group.classList.toggle('found', this.hits?.has(id) ?? false);
    for (const [name, region] of this.regions) region.group.classList.toggle('found', loops.has(name));
  }

  /** Unfold the loops around an operator, and center it. */
  reveal(id) {
    const { scope } = this.names.get(id);
    if (!this.nodes.has(id)) {
      scope.forEach((_, depth) => this.folded.delete(key(scope.slice(0, depth + 1))));
      this.arrange();
    }
    this.centre(id);
  }

  // Looking at a part of it.

  /** How large a layout can be drawn. */
  fits(made) {
    const w = this.svg.clientWidth || 930, h = this.svg.clientHeight || 600;
    return Math.min((w - 40) / made.width, (h - TOP - LOW) / made.height, 1.15);
  }

  /** Show the complete graph, or its beginning if the complete graph would be too small to read. */
  fit(least = 0) {
    const { clientWidth: w, clientHeight: h } = this.svg;
    if (!w || !h || this.made === null) return;
    const scale = Math.max(this.fits(this.made), least);
    const x = (w - this.made.width * scale) / 2, y = (h - TOP - LOW - this.made.height * scale) / 2;
    this.look(this.made.down ? x : Math.max(20, x), TOP + (this.made.down ? Math.max(0, y) : y), scale);
  }

  centre(id) {
    this.touched = true;
    const box = this.made.nodes.get(id);
    if (!box) return;
    const scale = Math.max(this.view.scale, 0.8);
    this.look(this.svg.clientWidth / 2 - (box.x + box.w / 2) * scale, this.svg.clientHeight / 2 - (box.y + box.h / 2) * scale, scale);
  }

  /** Fit again after a resize, unless the user has zoomed or moved. */
  refit() {
    if (this.touched || !this.svg.clientWidth) return;
    // Only then anew: who has gone to a node with the keyboard would lose it.
    if (this.made === null || this.best().down !== this.made.down) this.arrange();
    this.fit(READABLE);
  }

  zoom(factor, x = this.svg.clientWidth / 2, y = this.svg.clientHeight / 2) {
    this.touched = true;
    const { view } = this, scale = Math.min(3, Math.max(0.05, view.scale * factor));
    this.look(x - (x - view.x) * (scale / view.scale), y - (y - view.y) * (scale / view.scale), scale);
  }

  look(x, y, scale) {
    this.view = { x, y, scale };
    this.content.setAttribute('transform', `translate(${x.toFixed(1)},${y.toFixed(1)}) scale(${scale.toFixed(4)})`);
    this.content.classList.toggle('far', scale < 0.5);
  }

  listen() {
    const { svg } = this, held = new Map();
    svg.addEventListener('wheel', (event) => {
      event.preventDefault();
      const box = svg.getBoundingClientRect();
      this.zoom(Math.exp(-event.deltaY * 0.0015), event.clientX - box.x, event.clientY - box.y);
    }, { passive: false });
    svg.addEventListener('pointerdown', (event) => {
      held.set(event.pointerId, { x: event.clientX, y: event.clientY });
      svg.classList.add('moving');
    });
    window.addEventListener('pointermove', (event) => {
      const before = held.get(event.pointerId);
      if (!before) return;
      const others = [...held].filter(([id]) => id !== event.pointerId).map(([, at]) => at);
      const now = { x: event.clientX, y: event.clientY };
      if (others.length) {
        const box = svg.getBoundingClientRect(), far = (p) => Math.hypot(p.x - others[0].x, p.y - others[0].y) || 1;
        this.zoom(far(now) / far(before), (now.x + others[0].x) / 2 - box.x, (now.y + others[0].y) / 2 - box.y);
      } else if (now.x !== before.x || now.y !== before.y) {
        this.touched = true;
        this.look(this.view.x + now.x - before.x, this.view.y + now.y - before.y, this.view.scale);
      }
      held.set(event.pointerId, now);
    });
    for (const end of ['pointerup', 'pointercancel']) {
      window.addEventListener(end, (event) => {
        held.delete(event.pointerId);
        svg.classList.toggle('moving', held.size > 0);
      });
    }
  }
}

/** The operators with most of the work of the oldest epoch: the busiest, or with most waiting rows. */
function holding(operators) {
  const held = Object.entries(operators).filter(([, now]) => now.holds);
  const most = Math.max(1, ...held.map(([, now]) => now.waiting));
  const weight = (now) => now.busy + now.waiting / most;
  const heaviest = Math.max(0, ...held.map(([, now]) => weight(now)));
  return new Set(held.filter(([, now]) => weight(now) >= heaviest / 2).map(([id]) => id));
}

export function short(text, letters) {
  return text.length > letters ? `${text.slice(0, letters - 1)}…` : text;
}
