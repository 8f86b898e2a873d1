// The views of state and of workers: tables of the state of operators, and of workers.

import { bytes, count, make, percent, plural, seconds } from './words.js';

export class StateView {
  constructor() {
    this.summary = make('p', { class: 'quiet' });
    this.body = make('tbody');
    this.table = make('table', {}, head('operator', 'state', '#rows', '#bytes', '#spilled', 'share', 'by worker', 'largest keys'), this.body);
    this.element = make('div', { class: 'page' }, make('section', { class: 'card' }, make('h2', {}, 'State of operators'), this.summary, make('div', { class: 'scroll' }, this.table)));
  }

  show() { this.told = null; this.update(this.moment ?? {}); }

  update(moment) {
    this.moment = moment;
    if (!this.element.isConnected) return;
    const kept = [...(moment.kept ?? [])].sort((a, b) => b.bytes - a.bytes || b.rows - a.rows);
    const all = kept.reduce((sum, each) => sum + each.bytes, 0);
    this.summary.textContent = kept.length ? `${plural(kept.length, 'arrangement')} with ${plural(kept.reduce((sum, each) => sum + each.rows, 0), 'row')} and ${bytes(all)}, largest first` : 'No operator of this flow has countable state, or no worker has reported yet.';
    const told = JSON.stringify(kept);
    if (told === this.told) return;
    this.told = told;
    this.body.replaceChildren(...kept.map((each) => {
      const by = Object.entries(each.by), most = Math.max(1, ...by.map(([, [rows]]) => rows)), mean = each.rows / Math.max(1, by.length);
      const skew = each.rows ? most / mean : 1, largest = by.find(([, [rows]]) => rows === most)?.[0];
      const shares = make('span', { class: 'shares', role: 'img', 'aria-label': by.map(([worker, [rows]]) => `worker ${worker}: ${rows} rows`).join(', ') }, ...by.map(([worker, [rows]]) => {
        const bar = make('i', { title: `worker ${worker}: ${plural(rows, 'row')}` });
        bar.style.height = `${Math.round((rows / most) * 22)}px`;
        return bar;
      }));
      return make('tr', {}, make('td', { class: 'name' }, each.name), make('td', {}, each.what), number(count(each.rows)), number(bytes(each.bytes)), number(each.spilled ? bytes(each.spilled) : '–'), make('td', {}, meter(all ? each.bytes / all : 0)),
        make('td', {}, shares, skew > 1.5 && by.length > 1 ? make('span', { class: 'quiet' }, `worker ${largest} has ${skew.toFixed(1)} × the mean`) : null),
        make('td', {}, keys(each)));
    }));
  }
}

export class WorkersView {
  constructor(about) {
    this.names = new Map(about.graph.nodes.map((node) => [String(node.id), node.name]));
    this.body = make('tbody');
    this.element = make('div', { class: 'page' }, make('section', { class: 'card' }, make('h2', {}, 'Workers'), make('div', { class: 'scroll' }, make('table', {}, head('worker', 'where', '#memory', '#CPU', '#rows waiting', 'busiest operators', 'current call'), this.body))));
  }

  show() { this.update(this.moment ?? {}); }

  update(moment) {
    this.moment = moment;
    if (!this.element.isConnected) return;
    const calls = new Map((moment.calls ?? []).map((call) => [call.worker, call.words]));
    this.body.replaceChildren(...(moment.workers ?? []).map((each) => {
      const operators = Object.entries(each.operators), waiting = operators.reduce((sum, [, [rows]]) => sum + rows, 0);
      const busiest = operators.filter(([, part]) => part[3] > 0.01).sort((a, b) => b[1][3] - a[1][3]).slice(0, 3).map(([id, part]) => `${this.names.get(id)} ${percent(part[3])}`);
      return make('tr', {}, make('td', { class: 'name' }, String(each.worker)), make('td', {}, each.pid ? `process ${each.pid} on ${each.host}` : 'in the driver'), number(bytes(each.memory)), number(percent(each.busy)), number(count(waiting)), make('td', {}, busiest.join(', ') || 'none'), make('td', {}, calls.get(each.worker) ?? ''));
    }));
  }
}

export class JournalView {
  constructor(about) {
    const rows = about.journal.map((each) => make('tr', {}, number(String(each.number)), number(String(each.generation)), make('td', { class: 'name' }, each.kind), make('td', {}, each.words), number(each.bytes === null ? '' : bytes(each.bytes))));
    const kept = about.kept.map((each) => make('tr', {}, make('td', { class: 'name' }, each.name), number(count(each.rows)), number(bytes(each.bytes))));
    const places = about.places.map((each) => make('tr', {}, make('td', { class: 'name' }, each.place), make('td', {}, each.words)));
    this.element = make('div', { class: 'page' },
      card('Generations', table(['#generation', 'started by', 'at', 'after'], about.generations.map((each, number_) => make('tr', {}, number(String(each.generation)), make('td', {}, each.owner), make('td', {}, new Date(each.at * 1000).toLocaleString('en-GB')), make('td', {}, number_ ? seconds(each.at - about.generations[number_ - 1].at) : ''))))),
      card('Journal', table(['#entry', '#generation', 'kind', 'content', '#bytes'], rows)),
      card('State of operators at the last commit', kept.length ? table(['operator', '#rows', '#bytes'], kept) : make('p', { class: 'empty' }, 'No state was counted.')),
      card('Operators of the flow', table(['operator', 'definition'], places)));
  }

  show() {}

  update() {}
}

/** The keys with the most rows, from a sample. */
function keys(kept) {
  if (!kept.keys?.length) return make('span', { class: 'quiet' }, '–');
  return make('ul', { class: 'keys' }, ...kept.keys.map((each) => make('li', {}, make('b', {}, each.key), ` ${plural(each.rows, 'row')}, ${percent(each.rows / Math.max(1, kept.rows))}, worker ${each.worker}`)));
}

function card(title, content) { return make('section', { class: 'card' }, make('h2', {}, title), make('div', { class: 'scroll' }, content)); }

function table(names, rows) { return make('table', {}, head(...names), make('tbody', {}, ...rows)); }

function head(...names) {
  return make('thead', {}, make('tr', {}, ...names.map((name) => make('th', { scope: 'col', class: name.startsWith('#') ? 'number' : '' }, name.replace('#', '')))));
}

function number(text) { return make('td', { class: 'number' }, text); }

function meter(share) {
  const bar = make('i', {});
  bar.style.width = `${Math.round(share * 100)}%`;
  return make('div', { class: 'meter', role: 'img', 'aria-label': percent(share) }, bar);
}
