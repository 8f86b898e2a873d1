// The state at a step of a trace, as tables and lists: the model's state compared with one worker's.

import { make, plural, time } from './words.js';
import { point, same } from './world.js';

const ROWS = 80;

/** Whether the model agrees with the run up to a step, in words. */
export function agreement(about, step) {
  const { flaw, followed, unfollowed } = about;
  if (unfollowed) return { words: `The model is not shown: ${unfollowed}.`, kind: 'quiet' };
  if (flaw !== null && step === flaw) return { words: `The model does not allow this event: ${about.verdict}`, kind: 'objects' };
  if (step >= followed) return { words: `The model stops at event ${followed}; its state is from that event.`, kind: 'objects' };
  return { words: 'The model agrees: it allows every event up to this one.', kind: 'agrees' };
}

/** The count of each pointstamp, in the model and at the worker. */
export function pointsTable(state, mine, worker, ports, shown) {
  const rows = [];
  const places = new Set([...state.exists.keys(), ...mine.counts.keys()]);
  for (const at of [...places].filter(shown).sort((a, b) => a - b)) {
    const times = new Map([...(state.exists.get(at) ?? []), ...(mine.counts.get(at) ?? [])]);
    for (const [, { time: when }] of [...times].sort()) {
      const exists = point(state.exists, at, when).number, counts = point(mine.counts, at, when).number;
      if (exists || counts) rows.push([`${time(when)} at ${ports[at].name}`, exists, counts]);
    }
  }
  return table(`Pointstamps (${rows.length})`, 'points', ['', 'exist', `worker ${worker} counts`], rows, 'not received yet');
}

/** The frontier of each port, in the model and at the worker. */
export function frontiersTable(state, mine, worker, ports, shown) {
  const words = (times) => (times === undefined ? '–' : times.length ? times.map(time).join(' and ') : 'complete');
  const rows = ports.map((port, at) => [at, port]).filter(([at]) => shown(at)).map(([at, port]) => {
    const own = mine.frontiers.get(at), implied = mine.implied.get(at);
    const late = own !== undefined && implied !== undefined && !same(own, implied);
    return [port.name, words(state.frontiers.get(at)), words(own), late ? 'not propagated yet' : 'not received yet'];
  });
  return table('Frontiers: times that may still arrive', 'frontiers', ['at', 'model', `worker ${worker}`], rows, '');
}

export function heldList(mine, worker, ports, shown) {
  const entries = [...mine.held].filter(([at]) => shown(at)).flatMap(([at, times]) => [...times.values()].filter((each) => each.number).map((each) => `${each.number} · ${time(each.time)} at ${ports[at].name}`));
  return list(`Capabilities that worker ${worker} holds`, entries);
}

export function messagesList(state, ports, shown) {
  const entries = state.messages.filter((each) => shown(each.target)).map((each) => `${each.rows === null ? 'rows' : plural(each.rows, 'row')} of ${time(each.time)}, ${each.from === null ? '' : `worker ${each.from} `}to worker ${each.to}, for ${ports[each.target].name}`);
  return list('Messages in flight', entries);
}

function list(title, entries) {
  return [make('h3', {}, `${title} (${entries.length})`), make('ul', { class: 'points' }, ...entries.slice(0, ROWS).map((words) => make('li', {}, words)))];
}

/** A table of the model and the worker; a row where they differ has the reason. */
function table(title, kind, [first, ...names], rows, why) {
  const head = make('tr', {}, make('th', { scope: 'col' }, first), ...names.map((name) => make('th', { scope: 'col', class: 'number' }, name)));
  const body = rows.slice(0, ROWS).map(([name, model, own, reason]) => {
    const differs = model !== own && own !== '–';
    return make('tr', { class: differs ? 'differs' : '', title: differs ? (reason ?? why) : null },
      make('td', {}, name, differs ? make('small', { class: 'quiet' }, ` ${reason ?? why}`) : null),
      make('td', { class: 'number' }, String(model)), make('td', { class: 'number' }, String(own)));
  });
  return [make('h3', {}, title), make('table', { class: `beside ${kind}-table` }, make('thead', {}, head), make('tbody', {}, ...body))];
}
