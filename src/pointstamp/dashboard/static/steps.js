// The steps of a flow as a graph: the physical operators of a step are one box. Pure functions over data.

import { key } from './layout.js';

/** The graph of the steps, and the box of each operator. */
export function stepsOf(graph) {
  const groups = new Map(), stands = new Map();
  for (const node of graph.nodes) {
    const name = node.step ? `step ${node.step.id} ${key(node.scope)}` : `operator ${node.id}`;
    groups.set(name, [...(groups.get(name) ?? []), node]);
  }
  const first = new Map();
  const nodes = [...groups.values()].map((members) => {
    const last = members.find((each) => each.kind !== 'operator') ?? members[members.length - 1];
    for (const each of members) stands.set(each.id, last.id);
    first.set(last.id, Math.min(...members.map((each) => each.id)));
    return { ...last, name: last.kind === 'operator' && last.step ? last.step.name : last.name, members: members.map((each) => each.id) };
  });
  const edges = new Map();
  for (const edge of graph.edges) {
    const from = stands.get(edge.from), to = stands.get(edge.to);
    if (from === to) continue;
    const again = edge.again || first.get(from) > first.get(to), name = `${from}>${to} ${again}`;
    if (!edges.has(name)) edges.set(name, { ...edge, from, to, again });
    else edges.get(name).pact ||= edge.pact;
  }
  return { graph: { nodes, edges: [...edges.values()], loops: graph.loops }, stands };
}

/** The graph of all physical operators. */
export function operatorsOf(graph) {
  return { graph: { ...graph, nodes: graph.nodes.map((node) => ({ ...node, members: [node.id] })) }, stands: new Map(graph.nodes.map(({ id }) => [id, id])) };
}

/** The figures of each box, from the figures of its operators. */
export function gathered(moment, graph, stands) {
  if (!moment.operators) return moment;
  const came = new Map(graph.nodes.map((node) => [node.id, node.members[0]]));
  const together = (found, members, id) => {
    const all = members.map((each) => found[each]).filter(Boolean);
    if (!all.length) return undefined;
    const sum = (name) => all.reduce((total, each) => total + each[name], 0);
    return {
      ...(found[id] ?? all[all.length - 1]), frontier: (found[came.get(id)] ?? all[0]).frontier,
      in: (found[came.get(id)] ?? all[0]).in, waiting: sum('waiting'), batches: sum('batches'),
      busy: Math.min(1, sum('busy')), holds: all.some((each) => each.holds),
    };
  };
  const operators = {};
  for (const { id, members } of graph.nodes) {
    const now = members.length === 1 ? moment.operators[id] : together(moment.operators, members, id);
    if (now) operators[id] = now;
  }
  const workers = moment.workers?.map((each) => {
    const found = {};
    for (const { id, members } of graph.nodes) {
      const all = members.map((member) => each.operators[member]).filter(Boolean);
      if (all.length) found[id] = [all.reduce((sum, one) => sum + one[0], 0), all[0][1], all[all.length - 1][2], Math.min(1, all.reduce((sum, one) => sum + one[3], 0))];
    }
    return { ...each, operators: found };
  });
  const kept = moment.kept?.map((each) => ({ ...each, operator: stands.get(each.operator) ?? each.operator }));
  const calls = moment.calls?.map((each) => ({ ...each, operator: stands.get(each.operator) ?? each.operator }));
  return { ...moment, operators, workers, kept, calls };
}
