// What a trace's events add up to: for each worker its capabilities, counts and frontiers; and all messages.
// Going on is adding events; going back begins anew, which is fast enough for all that a page is given.

export class World {
  constructor(events, { workers, ports }) {
    this.events = events;
    this.workers = workers;
    this.ports = ports;
    this.begin();
  }

  begin() {
    this.at = -1;
    this.state = { messages: [], workers: Array.from({ length: this.workers }, () => ({ held: new Map(), counts: new Map(), frontiers: new Map() })) };
  }

  /** How things are after an event. */
  after(step) {
    if (step < this.at) this.begin();
    while (this.at < step) { this.at += 1; this.add(this.events[this.at]); }
    return this.state;
  }

  add(event) {
    const mine = this.state.workers[event.worker];
    if (event.kind === 'WorkerStarted') {
      // A worker begins with a capability for the first time of each output.
      this.ports.forEach((port, at) => { if (port.output && port.least) point(mine.held, at, port.least).number += 1; });
    }
    if (event.sent) {
      const [target, time, to, rows] = event.sent;
      this.state.messages.push({ target, time, to, rows, from: event.worker });
    }
    if (event.pulled) {
      const [at, time] = event.pulled, found = this.state.messages.findIndex((each) => each.to === event.worker && each.target === at && same(each.time, time));
      if (found >= 0) this.state.messages.splice(found, 1);
    }
    if (event.held) {
      const [at, time, diff] = event.held, held = point(mine.held, at, time);
      held.number += diff;
    }
    for (const [at, time, number] of event.counts ?? []) point(mine.counts, at, time).number = number;
    for (const [at, times] of Object.entries(event.frontiers ?? {})) mine.frontiers.set(Number(at), times);
  }
}

function point(map, at, time) {
  if (!map.has(at)) map.set(at, new Map());
  const times = map.get(at), name = JSON.stringify(time);
  if (!times.has(name)) times.set(name, { time, number: 0 });
  return times.get(name);
}

function same(a, b) { return JSON.stringify(a) === JSON.stringify(b); }
