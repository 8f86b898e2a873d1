// Formats of numbers and times, and builders of elements, for every view.

const SVG = 'http://www.w3.org/2000/svg';

/** An element with attributes and children; text children are text, never markup. */
export function make(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

export function draw(tag, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === false || value === null || value === undefined) continue;
    if (name.startsWith('on')) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? '' : value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

/** Set an attribute or a text only if it differs: most of the drawing stays the same. */
export function set(element, name, value) {
  if (element.getAttribute(name) !== String(value)) element.setAttribute(name, value);
}

export function say(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

export function count(number) {
  if (number === null || number === undefined) return '–';
  const size = Math.abs(number);
  if (size >= 1e9) return `${(number / 1e9).toFixed(size >= 1e10 ? 0 : 1)} G`;
  if (size >= 1e6) return `${(number / 1e6).toFixed(size >= 1e7 ? 0 : 1)} M`;
  if (size >= 1e4) return `${(number / 1e3).toFixed(size >= 1e5 ? 0 : 1)} k`;
  if (size >= 10 || Number.isInteger(number)) return Math.round(number).toLocaleString('en');
  return number.toFixed(1);
}

export function bytes(number) {
  const units = ['B', 'KB', 'MB', 'GB', 'TB'];
  let unit = 0;
  while (number >= 1000 && unit < units.length - 1) { number /= 1000; unit += 1; }
  return `${number >= 100 || unit === 0 ? Math.round(number) : number.toFixed(1)} ${units[unit]}`;
}

export function seconds(number) {
  if (number === null || number === undefined) return '–';
  if (number < 0.9995) return `${Math.round(number * 1000)} ms`;
  if (number < 60) return `${number.toFixed(number < 10 ? 1 : 0)} s`;
  const minutes = Math.floor(number / 60);
  if (minutes < 60) return `${minutes} min ${Math.round(number % 60)} s`;
  return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

export function clock(at) {
  return new Date(at * 1000).toLocaleTimeString('en-GB');
}

export function percent(share) {
  return `${Math.round(share * 100)} %`;
}

/** A time of a flow: "epoch 3", in loops "epoch 3, round 7". */
export function time(parts) {
  if (!Array.isArray(parts) || typeof parts[0] !== 'number') return JSON.stringify(parts);
  const [epoch, ...rounds] = parts;
  if (rounds.length === 0) return `epoch ${epoch}`;
  return `epoch ${epoch}, round ${rounds.join('.')}`;
}

export function frontier(times) {
  if (times === undefined) return '';
  return times.length ? time(times[0]) + (times.length > 1 ? ' …' : '') : 'complete';
}

export function plural(number, noun) {
  return `${count(number)} ${noun}${number === 1 ? '' : 's'}`;
}
