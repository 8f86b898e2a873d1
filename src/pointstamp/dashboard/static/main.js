// The page: fetches its description, creates the views, and follows the events of the driver.

import { FlowView } from './flowview.js';
import { History } from './history.js';
import { JournalView, StateView, WorkersView } from './stateview.js';
import { TimeView } from './timeview.js';
import { TraceView } from './traceview.js';
import { clock, count, make, say } from './words.js';

const at = (id) => document.getElementById(id);
const history = new History();
let views = [], current = 0, moment = {}, about = null;

/** All addresses are relative, so the page works behind any proxy. */
async function ask(path, options) {
  const answer = await fetch(path, options);
  const said = await answer.json();
  if (!answer.ok) throw new Error(said.error ?? answer.statusText);
  return said;
}

async function begin() {
  about = await ask('about');
  document.title = `${about.title} · pointstamp`;
  say(at('title'), about.title);
  if (about.kind === 'query') {
    views = [['Flow', new FlowView(about, ask)], ['Time', new TimeView(history)], ['State', new StateView()], ['Workers', new WorkersView(about)]];
  } else if (about.kind === 'trace') views = [['Trace', new TraceView(about, ask)]];
  else views = [['Checkpoint', new JournalView(about)]];
  drawTabs();
  open(Math.max(0, views.findIndex(([name]) => `#${name.toLowerCase()}` === location.hash)));
  if (about.kind === 'query') listen();
  else { pill(about.phase, ''); figures(about.figures); }
}

function drawTabs() {
  const buttons = views.map(([name], number) => make('button', {
    role: 'tab', id: `tab-${name.toLowerCase()}`, 'aria-controls': 'view', onclick: () => open(number),
    onkeydown: (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (step) { open((number + step + views.length) % views.length); at('tabs').children[current].focus(); }
    },
  }, name));
  const apart = about.control ? make('span', { class: 'apart' },
    make('button', { id: 'savepoint', onclick: () => confirmed('Take a savepoint?', 'The complete state is saved now. The savepoint keeps this name until you drop it.', 'Take savepoint', 'savepoint', true) }, 'Savepoint'),
    make('button', { id: 'stop', onclick: () => confirmed('Stop the query?', 'The epochs in flight are finished and published first. You can resume it from its checkpoint.', 'Stop query', 'stop', false) }, 'Stop')) : null;
  at('tabs').replaceChildren(...buttons, ...(apart ? [apart] : []));
}

function open(number) {
  current = number;
  [...at('tabs').querySelectorAll('[role=tab]')].forEach((button, each) => {
    button.setAttribute('aria-selected', String(each === number));
    button.tabIndex = each === number ? 0 : -1;
  });
  const view = views[number][1];
  at('view').replaceChildren(view.element);
  at('view').setAttribute('aria-labelledby', `tab-${views[number][0].toLowerCase()}`);
  window.history.replaceState(null, '', `#${views[number][0].toLowerCase()}`);
  view.show();
  view.update(moment);
}

function listen() {
  const events = new EventSource('events');
  let lost = null;
  events.onopen = async () => {
    lost = null;
    notice('');
    try { history.reset(await ask('history')); } catch { /* events will follow */ }
  };
  events.onmessage = (event) => {
    lost = null;
    moment = JSON.parse(event.data);
    history.now = moment.at;
    history.add(moment.news);
    tell();
    for (const [, view] of views) view.update(moment);
  };
  events.onerror = () => {
    lost ??= Date.now() / 1000;
    pill('driver not reachable', 'bad');
    notice(`The driver has ended, or cannot be reached. The data is from ${moment.at ? clock(moment.at) : 'an unknown time'}; the page updates when the driver is back.`, true);
  };
}

function tell() {
  const kind = !moment.active ? (moment.error ? 'bad' : '') : moment.phase.startsWith('restarting') ? 'bad' : moment.phase.startsWith('starting') || (moment.calls ?? []).length ? 'warn' : 'good';
  pill(moment.active ? moment.phase : moment.error ? 'ended with an error' : 'ended', kind);
  const age = moment.asof ? moment.at - moment.asof : 0;
  if (moment.error) notice(moment.error, true);
  else if (moment.calls?.length) notice(moment.calls.map((call) => call.words).join('; '));
  else if (moment.active && age > 5) notice(`No worker has answered for ${count(age)} s; frontiers and rows are from ${clock(moment.asof)}.`);
  else notice('');
  const rows = (moment.inputs ?? []).reduce((sum, each) => sum + (operatorOf(each.name)?.out ?? 0), 0);
  figures([
    ['epoch published', moment.published < 0 ? 'none' : count(moment.published)],
    ['epochs in flight', count(Math.max(0, (moment.opened ?? -1) - moment.published))],
    ['rows/s in', moment.active ? count(rows) : '–'],
    ['workers', String(about.workers)],
    ['generation', String(moment.generation)],
    ['restarts', String(moment.restarts)],
  ]);
}

function operatorOf(name) {
  const node = about.graph.nodes.find((each) => each.kind === 'input' && each.name === name);
  return node ? moment.operators?.[node.id] : undefined;
}

function figures(pairs) {
  const list = at('figures');
  if (list.children.length !== pairs.length) list.replaceChildren(...pairs.map(([name]) => make('div', {}, make('dt', {}, name), make('dd', {}))));
  pairs.forEach(([, value], number) => say(list.children[number].lastChild, value));
}

function pill(words, kind) {
  say(at('phase'), words);
  at('phase').className = `pill ${kind}`;
  at('phase').title = words;
}

function notice(words, bad = false) {
  const box = at('notice');
  say(box, words);
  box.hidden = !words;
  box.classList.toggle('bad', bad);
}

function confirmed(title, words, yes, what, named) {
  const dialog = at('confirm'), name = at('confirm-name');
  say(at('confirm-title'), title);
  say(at('confirm-words'), words);
  say(at('confirm-yes'), yes);
  at('confirm-field').hidden = !named;
  name.value = '';
  dialog.returnValue = '';
  dialog.onclose = async () => {
    if (dialog.returnValue !== 'yes' || (named && !name.value.trim())) return;
    try {
      const { done } = await ask(what, { method: 'POST', headers: { 'X-Pointstamp': 'confirmed' }, body: name.value.trim() });
      say(at('phase'), done);
    } catch (error) { notice(error.message, true); }
  };
  dialog.showModal();
}

begin().catch((error) => { pill('not reachable', 'bad'); notice(error.message, true); });
