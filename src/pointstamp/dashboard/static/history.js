// The history of the page: loaded once, then extended by events; at most one hour.

const HOUR = 3600, TICKS_MAX = 400, EVENTS_MAX = 200;

export class History {
  constructor() {
    this.ticks = new Map();
    this.hour = new Map();
    this.snapshots = new Map();
    this.restarts = new Map();
    this.now = Date.now() / 1000;
  }

  /** Restart with the complete history of the driver. */
  reset(all) {
    for (const each of ['ticks', 'hour', 'snapshots', 'restarts']) this[each].clear();
    this.add(all);
  }

  add(news) {
    const lost = news.restarts.filter((each) => !this.restarts.has(each.at));
    if (lost.length) for (const [number, tick] of this.ticks) if (tick.published === null) this.ticks.delete(number);
    for (const tick of news.ticks) this.ticks.set(tick.number, tick);
    for (const span of news.hour) this.hour.set(span.at, span);
    for (const each of news.snapshots) this.snapshots.set(each.done, each);
    for (const each of news.restarts) this.restarts.set(each.at, each);
    trim(this.ticks, TICKS_MAX);
    trim(this.hour, HOUR / 5);
    trim(this.snapshots, EVENTS_MAX);
    trim(this.restarts, EVENTS_MAX);
  }
}

function trim(map, most) {
  for (const name of map.keys()) {
    if (map.size <= most) return;
    map.delete(name);
  }
}
