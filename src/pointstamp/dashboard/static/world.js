// The state after some events of a trace: capabilities, counts and frontiers of each worker, all messages, and
// the state of the models, for each generation. A step forward adds events; a step back replays from the start,
// which is fast enough for the events that a page gets.

export class World {
  constructor(events, workers) {
    this.events = events;
    this.workers = workers;
    this.begin();
  }

  begin() {
    this.at = -1;
    this.generations = new Map();
    this.state = this.empty(this.workers);
  }

  /** The state after an event, in its generation. */
  after(step) {
    if (step < this.at) this.begin();
    while (this.at < step) { this.at += 1; this.add(this.events[this.at]); }
    return this.state;
  }

  empty(workers) {
    const worker = () => ({ held: new Map(), counts: new Map(), frontiers: new Map(), implied: new Map() });
    return { messages: [], exists: new Map(), frontiers: new Map(), workers: Array.from({ length: workers }, worker) };
  }

  /** The initial state of a generation: of the models, and of each worker. */
  beginning({ exists, frontiers, workers }) {
    const state = this.empty(workers.length);
    count(state.exists, exists);
    know(state.frontiers, frontiers);
    workers.forEach((each, number) => {
      const mine = state.workers[number];
      count(mine.held, each.owns);
      count(mine.counts, each.told);
      know(mine.frontiers, each.shown);
      know(mine.implied, each.implied);
      for (const [target, time, many] of each.arriving) {
        for (let one = 0; one < many; one += 1) state.messages.push({ target, time, to: number, rows: null, from: null });
      }
    });
    return state;
  }

  add(event) {
    if (event.began) this.generations.set(event.generation, this.beginning(event.began));
    this.state = this.generations.get(event.generation) ?? this.state;
    const { state } = this, mine = event.worker === null ? null : state.workers[event.worker];
    if (!mine) return;
    if (event.sent) {
      const [target, time, to, rows] = event.sent;
      state.messages.push({ target, time, to, rows, from: event.worker });
    }
    if (event.pulled) {
      const [at, time] = event.pulled, found = state.messages.findIndex((each) => each.to === event.worker && each.target === at && same(each.time, time));
      if (found >= 0) state.messages.splice(found, 1);
    }
    if (event.held) {
      const [at, time, diff] = event.held;
      point(mine.held, at, time).number += diff;
    }
    count(mine.counts, event.counts ?? []);
    know(mine.frontiers, event.frontiers ?? {});
    count(state.exists, event.model?.exists ?? []);
    know(state.frontiers, event.model?.frontiers ?? {});
    know(mine.implied, event.model?.implied ?? {});
  }
}

function count(map, counts) { for (const [at, time, number] of counts) point(map, at, time).number = number; }

function know(map, frontiers) { for (const [at, times] of Object.entries(frontiers)) map.set(Number(at), times); }

/** The number at a place and a time, to be read or changed. */
export function point(map, at, time) {
  if (!map.has(at)) map.set(at, new Map());
  const times = map.get(at), name = JSON.stringify(time);
  if (!times.has(name)) times.set(name, { time, number: 0 });
  return times.get(name);
}

export function same(a, b) { return JSON.stringify(a) === JSON.stringify(b); }
