// The layout of a graph: layers from left to right or from top to bottom, with loops as regions that have a
// separate layout. Pure functions over sizes. An edge that crosses the border of a region passes a gate in that
// border. Internally x is the direction of the flow; a layout from top to bottom is transposed at the end.

const GAP_Y = 20, PAD = 16, HEAD = 38, TURN = 15;

export const key = (scope) => JSON.stringify(scope);

/** sizeOf(id) gives a node's size; folded has the keys of loops that are drawn as one box. */
export function layout(graph, folded, sizeOf, down) {
  const how = {
    down, gap: down ? 38 : 56,
    sizeOf: (id) => { const { w, h } = sizeOf(id); return down ? { w: h, h: w } : { w, h }; },
  };
  const scopes = new Map([[key([]), { path: [], nodes: [], loops: [] }]]);
  for (const path of graph.loops) scopes.set(key(path), { path, nodes: [], loops: [] });
  for (const path of graph.loops) scopes.get(key(path.slice(0, -1))).loops.push(path);
  const home = new Map();
  for (const node of graph.nodes) {
    home.set(node.id, node.scope);
    scopes.get(key(node.scope)).nodes.push(node.id);
  }
  const shown = new Map(graph.nodes.map((node) => [node.id, hiddenIn(node.scope, folded)]));
  const made = place([], scopes, home, folded, graph, how);
  const nodes = new Map(), regions = [], gates = new Map(), bends = new Map(), floors = new Map();
  collect(made, 0, 0, nodes, regions, gates, bends, floors);
  const edges = [];
  const turns = new Map();
  for (const edge of graph.edges) {
    const from = shown.get(edge.from) ?? edge.from, to = shown.get(edge.to) ?? edge.to;
    if (from === to) continue;
    const a = nodes.get(from), b = nodes.get(to);
    const common = shared(home.get(edge.from), home.get(edge.to));
    if (edge.again) {
      const number = turns.get(key(common)) ?? 0;
      turns.set(key(common), number + 1);
      edges.push({ ...edge, a: from, b: to, ...turn(a, b, floors.get(key(common)) + 4 + number * TURN, down) });
      continue;
    }
    edges.push({ ...edge, a: from, b: to, ...smooth(way(edge, from, to, a, b, home, common, gates, bends), down) });
  }
  for (const box of down ? [...nodes.values(), ...regions] : []) {
    [box.x, box.y] = [box.y, box.x];
    [box.w, box.h] = [box.h, box.w];
  }
  const [width, height] = down ? [made.height, made.width] : [made.width, made.height];
  return { nodes, regions, edges, width, height };
}

function hiddenIn(scope, folded) {
  for (let depth = 1; depth <= scope.length; depth += 1) {
    const path = scope.slice(0, depth);
    if (folded.has(key(path))) return key(path);
  }
  return undefined;
}

function shared(a, b) {
  let depth = 0;
  while (depth < a.length && depth < b.length && a[depth] === b[depth]) depth += 1;
  return a.slice(0, depth);
}

/** The box of a node in a scope: the node, a loop around it, or none. */
function standIn(id, home, path) {
  const scope = home.get(id);
  if (scope.length < path.length || !path.every((name, depth) => scope[depth] === name)) return null;
  return scope.length === path.length ? id : key(scope.slice(0, path.length + 1));
}

function place(path, scopes, home, folded, graph, how) {
  const here = scopes.get(key(path));
  const boxes = new Map(), inner = new Map();
  for (const id of here.nodes) boxes.set(id, how.sizeOf(id));
  for (const loop of here.loops) {
    const name = key(loop);
    if (folded.has(name)) boxes.set(name, how.sizeOf(name));
    else {
      const sub = place(loop, scopes, home, folded, graph, how);
      inner.set(name, sub);
      boxes.set(name, { w: sub.width, h: sub.height });
    }
  }
  const links = new Map();
  let turns = 0;
  for (const edge of graph.edges) {
    const a = standIn(edge.from, home, path), b = standIn(edge.to, home, path);
    if (edge.again) {
      if (key(shared(home.get(edge.from), home.get(edge.to))) === key(path)) turns += 1;
      continue;
    }
    let from = a, to = b;
    if (a === null && b === null) continue;
    if (a === null) { from = `in ${edge.from}`; boxes.set(from, { w: 0, h: 8, gate: 'in' }); }
    if (b === null) { to = `out ${edge.from}`; boxes.set(to, { w: 0, h: 8, gate: 'out' }); }
    if (from !== to) links.set(`${from}>${to}`, [from, to]);
  }
  const { layers, bent } = layered(boxes, [...links.values()]);
  order(layers, boxes, bent.links);
  const size = coordinates(layers, boxes, bent.links, how);
  const pad = path.length ? PAD : 0, head = path.length ? HEAD : 0;
  const before = how.down ? head : 0, above = how.down ? 0 : head;
  const width = size.width + before + 2 * pad, height = size.height + above + 2 * pad + turns * TURN;
  for (const box of boxes.values()) { box.x += before + pad; box.y += above + pad; }
  return { path, boxes, inner, width, height, floor: height - pad - turns * TURN + 6, bends: bent.ways };
}

function layered(boxes, links) {
  const after = new Map(), before = new Map(), layer = new Map();
  for (const id of boxes.keys()) { after.set(id, []); before.set(id, []); }
  const state = new Map(), straight = [];
  for (const [a, b] of links) after.get(a).push(b);
  const visit = (id) => {
    state.set(id, 1);
    for (const next of after.get(id)) {
      if (state.get(next) === 1) continue;  // it comes back to where it was: drawn backwards
      straight.push([id, next]);
      if (!state.has(next)) visit(next);
    }
    state.set(id, 2);
  };
  for (const [id, box] of boxes) if (box.gate === 'in' && !state.has(id)) visit(id);
  for (const id of boxes.keys()) if (!state.has(id)) visit(id);
  for (const id of boxes.keys()) after.set(id, []);
  for (const [a, b] of straight) { after.get(a).push(b); before.get(b).push(a); }
  const depth = (id) => {
    if (!layer.has(id)) layer.set(id, Math.max(-1, ...before.get(id).map(depth)) + 1);
    return layer.get(id);
  };
  for (const id of boxes.keys()) depth(id);
  const last = Math.max(0, ...layer.values());
  for (const [id, box] of boxes) {
    if (box.gate === 'out') layer.set(id, last + (boxes.size > 1 ? 1 : 0));
    else if (!before.get(id).length && after.get(id).length && !box.gate) {
      layer.set(id, Math.max(0, Math.min(...after.get(id).map((next) => layer.get(next))) - 1));
    }
  }
  const layers = [];
  for (const [id] of boxes) (layers[layer.get(id)] ??= []).push(id);
  for (let number = 0; number < layers.length; number += 1) layers[number] ??= [];
  const ways = new Map(), bentLinks = [];
  for (const [a, b] of straight) {
    let at = a;
    const way = [];
    for (let number = layer.get(a) + 1; number < layer.get(b); number += 1) {
      const bend = `bend ${a}>${b} ${number}`;
      boxes.set(bend, { w: 0, h: 10, bend: true });
      layers[number].push(bend);
      bentLinks.push([at, bend]);
      way.push(bend);
      at = bend;
    }
    bentLinks.push([at, b]);
    ways.set(`${a}>${b}`, way);
  }
  return { layers, bent: { links: bentLinks, ways } };
}

function neighbours(links) {
  const before = new Map(), after = new Map();
  for (const [a, b] of links) {
    if (!after.has(a)) after.set(a, []);
    if (!before.has(b)) before.set(b, []);
    after.get(a).push(b);
    before.get(b).push(a);
  }
  return [before, after];
}

/** Reduce crossings: move each node to the mean position of its neighbors, forward and backward. */
function order(layers, boxes, links) {
  const [before, after] = neighbours(links);
  for (let sweep = 0; sweep < 8; sweep += 1) {
    const down = sweep % 2 === 0, side = down ? before : after;
    const rank = new Map();
    for (const layer of layers) layer.forEach((id, number) => rank.set(id, number / Math.max(1, layer.length)));
    for (const layer of down ? layers : [...layers].reverse()) {
      const wanted = new Map(layer.map((id) => {
        const all = side.get(id) ?? [];
        return [id, all.length ? all.reduce((sum, each) => sum + rank.get(each), 0) / all.length : rank.get(id)];
      }));
      layer.sort((a, b) => wanted.get(a) - wanted.get(b));
      layer.forEach((id, number) => rank.set(id, number / Math.max(1, layer.length)));
    }
  }
}

function coordinates(layers, boxes, links, how) {
  let x = 0;
  for (const layer of layers) {
    const width = Math.max(0, ...layer.map((id) => boxes.get(id).w));
    let y = 0;
    for (const id of layer) {
      const box = boxes.get(id);
      box.x = x + (width - box.w) / 2;
      box.y = y;
      y += box.h + GAP_Y;
    }
    x += width + (layer.every((id) => boxes.get(id).gate) ? 12 : how.gap);
  }
  const [before, after] = neighbours(links);
  for (let sweep = 0; sweep < 10; sweep += 1) {
    for (const layer of sweep % 2 ? [...layers].reverse() : layers) {
      const wanted = layer.map((id) => {
        const box = boxes.get(id);
        const all = [...(before.get(id) ?? []), ...(after.get(id) ?? [])].map((each) => boxes.get(each));
        const middle = all.length ? all.reduce((sum, each) => sum + each.y + each.h / 2, 0) / all.length : box.y + box.h / 2;
        return middle - box.h / 2;
      });
      let end = -Infinity;
      const placed = layer.map((id, number) => {
        const y = Math.max(wanted[number], end);
        end = y + boxes.get(id).h + GAP_Y;
        return y;
      });
      const shift = placed.reduce((sum, y, number) => sum + wanted[number] - y, 0) / Math.max(1, layer.length);
      layer.forEach((id, number) => { boxes.get(id).y = placed[number] + shift; });
    }
  }
  const all = [...boxes.values()];
  const top = Math.min(0, ...all.map((box) => box.y)), low = Math.max(0, ...all.map((box) => box.y + box.h));
  const lift = all.length ? Math.min(...all.map((box) => box.y)) : 0;
  for (const box of all) box.y -= lift;
  const right = Math.max(0, ...all.map((box) => box.x + box.w));
  return { width: right, height: all.length ? Math.max(...all.map((box) => box.y + box.h)) : low - top };
}

function collect(made, x, y, nodes, regions, gates, bends, floors) {
  const name = key(made.path);
  floors.set(name, y + made.floor);
  if (made.path.length) regions.push({ key: name, path: made.path, x, y, w: made.width, h: made.height, folded: false });
  for (const [id, box] of made.boxes) {
    const at = { x: x + box.x, y: y + box.y, w: box.w, h: box.h };
    if (box.gate || box.bend) gates.set(`${name} ${id}`, { x: at.x, y: at.y + at.h / 2 });
    else if (made.inner.has(id)) {
      nodes.set(id, at);
      collect(made.inner.get(id), at.x, at.y, nodes, regions, gates, bends, floors);
    } else {
      nodes.set(id, at);
      if (typeof id === 'string') regions.push({ key: id, path: JSON.parse(id), ...at, folded: true });
    }
  }
  for (const [link, way] of made.bends) bends.set(`${name} ${link}`, way.map((bend) => `${name} ${bend}`));
}

/** The points of an edge: from its node out through the gates of its loops, over bends, and in again. */
function way(edge, from, to, a, b, home, common, gates, bends) {
  const points = [{ x: a.x + a.w, y: a.y + a.h / 2 }];
  const add = (scope, u, v) => {
    for (const bend of bends.get(`${scope} ${u}>${v}`) ?? []) points.push(gates.get(bend));
  };
  const start = typeof from === 'string' ? JSON.parse(from).slice(0, -1) : home.get(edge.from);
  const end = typeof to === 'string' ? JSON.parse(to).slice(0, -1) : home.get(edge.to);
  let at = from;
  for (let depth = start.length; depth > common.length; depth -= 1) {
    const scope = key(start.slice(0, depth)), gate = `out ${edge.from}`;
    add(scope, at, gate);
    if (gates.has(`${scope} ${gate}`)) points.push(gates.get(`${scope} ${gate}`));
    at = scope;
  }
  const inwards = [];
  for (let depth = common.length + 1; depth <= end.length; depth += 1) inwards.push(key(end.slice(0, depth)));
  add(key(common), at, inwards[0] ?? to);
  inwards.forEach((scope, number) => {
    const gate = `in ${edge.from}`;
    if (gates.has(`${scope} ${gate}`)) points.push(gates.get(`${scope} ${gate}`));
    add(scope, gate, inwards[number + 1] ?? to);
  });
  points.push({ x: b.x, y: b.y + b.h / 2 });
  return points;
}

function smooth(points, down) {
  const at = (x, y) => (down ? `${y.toFixed(1)},${x.toFixed(1)}` : `${x.toFixed(1)},${y.toFixed(1)}`);
  let path = `M${at(points[0].x, points[0].y)}`;
  for (let number = 1; number < points.length; number += 1) {
    const p = points[number - 1], q = points[number], half = Math.max(10, Math.abs(q.x - p.x) / 2);
    path += ` C${at(p.x + half, p.y)} ${at(q.x - half, q.y)} ${at(q.x, q.y)}`;
  }
  const p = points[points.length - 2], q = points[points.length - 1], x = (p.x + q.x) / 2, y = (p.y + q.y) / 2;
  return { path, middle: down ? { x: y, y: x } : { x, y }, tip: tip(q.x, q.y, down, false) };
}

/** A feedback edge: sideways from one node, along the border of the loop, and back to the other. */
function turn(a, b, floor, down) {
  const at = (x, y) => (down ? `${y},${x}` : `${x},${y}`);
  const x = a.x + a.w / 2 + 8, y = a.y + a.h, u = b.x + b.w / 2 - 8, v = b.y + b.h, r = 8, side = u < x ? -1 : 1;
  const path = `M${at(x, y)} L${at(x, floor - r)} Q${at(x, floor)} ${at(x + side * r, floor)} L${at(u - side * r, floor)} Q${at(u, floor)} ${at(u, floor - r)} L${at(u, v)}`;
  return { path, tip: tip(u, v, down, true) };
}

/** The head of an arrow at a point, in the direction of the flow or from the side. */
function tip(x, y, down, aside) {
  const corners = aside ? [[x, y], [x - 4, y + 7], [x + 4, y + 7]] : [[x, y], [x - 7, y - 4], [x - 7, y + 4]];
  return `M${corners.map(([p, q]) => (down ? `${q},${p}` : `${p},${q}`)).join(' L')} Z`;
}
