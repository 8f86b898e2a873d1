// The view of a trace: step through what has happened, event by event.

import { make } from './words.js';

export class TraceView {
  constructor() { this.element = make('div', { class: 'page' }); }

  show() {}

  update() {}
}
