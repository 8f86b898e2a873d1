"""The shape of a flow for verification, from what the user wrote.

A plan holds both: what was written (that a node is a door, how many epochs a delay has, what an operator or a
variable declares of its times, by the names of its ports), and the summaries that were made of it, which
progress tracking and routes use. Only the first is read here, and the ways of times are derived from it
again, by what the papers say of doors: enter appends a round, leave drops it, feedback adds one to it (Abadi
& Isard 2015, section 3; Brun et al. 2021, section 5). So a summary that was made wrongly is found.

Only the numbers of a user's summary are read; its own arithmetic is not used.

Operators that run inside of another one (``pointstamp.flow.plan``) have no ports of their own: the input of
the first of a chain is one of the operator that ends it, and the others count nothing. That they leave times
alone is looked up in what was written, too.
"""

from collections.abc import Iterator

from pointstamp.flow.plan import Node, NodeKind, Plan
from pointstamp.topology.domain import EPOCHS, RootSummary
from pointstamp.topology.ports import Port, SourcePort, Target
from pointstamp.topology.summary import Advance, Stay, Summary
from pointstamp.verify.shape import Edge, OwnTimes, PortShape, Shape, Walker


def shape_of(plan: Plan) -> Shape:
    """The shape of a flow."""
    return _read(plan)[0]


def own_times_of(plan: Plan) -> OwnTimes | None:
    """Return the user's order of custom times; None for epochs."""
    return _read(plan)[1]


def walker_of(plan: Plan) -> Walker:
    """A walker for the traces of a flow."""
    return Walker(*_read(plan))


def has_own_times(plan: Plan) -> bool:
    """Return whether the root times of a flow are not epochs."""
    return plan.root is not EPOCHS


def _read(plan: Plan) -> tuple[Shape, OwnTimes | None]:
    ports, at = _ports(plan)
    edges: list[Edge] = []
    summaries: list[RootSummary] = []
    inside = plan.chains().runs_at
    for node in plan.nodes:
        if node.index in inside:
            continue
        for i, port in enumerate(node.inputs):
            here, source = at[Target(node.index, i)], port.source
            while source is not None and source.operator in inside:
                source = plan.nodes[source.operator].inputs[0].source
            if source is not None:
                edges.append(Edge(at[source], here, (0,) * (1 + node.input_rounds)))
            for o in range(len(node.outputs)):
                edges.extend(_inside(node, i, o, here, at[SourcePort(node.index, o)], summaries))
    in_order = tuple([node.index for node in plan.nodes if node.in_order])
    names = tuple([node.name for node in plan.nodes])
    shape = Shape(tuple(ports), tuple(edges), has_own_times(plan), in_order, names)
    return shape, OwnTimes(plan.root, tuple(summaries)) if shape.has_own_times else None


def _ports(plan: Plan) -> tuple[list[PortShape], dict[Port, int]]:
    """The ports, and which of them stands for each that was written, but those inside of a chain."""
    ports: list[PortShape] = []
    at: dict[Port, int] = {}
    chains = plan.chains()
    for node in plan.nodes:
        for i in range(len(node.inputs)):
            taker = chains.runs_at.get(node.index, Target(node.index, i))
            if Target(node.index, i) not in chains.inner:
                at[taker] = len(ports)
                name = f"input {i} of '{node.name}'"
                ports.append(PortShape(name, taker.operator, False, node.input_rounds))
        if node.index in chains.runs_at:
            assert node.kind is NodeKind.OPERATOR, f"'{node.name}' is not an operator and is in a chain"
            assert node.declared is None, f"'{node.name}' declares what it does to times and is in a chain"
            continue
        for o in range(len(node.outputs)):
            at[SourcePort(node.index, o)] = len(ports)
            ports.append(PortShape(f"output {o} of '{node.name}'", node.index, True, node.output_rounds))
    return ports, at


def _inside(
    node: Node, i: int, o: int, origin: int, target: int, summaries: list[RootSummary]
) -> Iterator[Edge]:
    """The ways through a node, by what was written: a door's kind, a delay's epochs, what was declared."""
    still = (0,) * node.input_rounds
    match node.kind:
        case NodeKind.ENTER:
            yield Edge(origin, target, (0, *still), (0,))
        case NodeKind.LEAVE:
            yield Edge(origin, target, (0, *still[1:]))
        case NodeKind.FEEDBACK if node.scope:
            yield Edge(origin, target, (0, *still[1:], 1))
        case NodeKind.DELAY:
            yield Edge(origin, target, (node.delay_epochs, *still))
        case NodeKind.FEEDBACK | NodeKind.OPERATOR | NodeKind.INPUT | NodeKind.OUTPUT:
            declared = (node.declared or {}).get((node.inputs[i].name, node.outputs[o].name))
            if declared is None:
                yield Edge(origin, target, (0, *still))
                return
            for summary in declared:
                later, root = _root(summary, summaries)
                yield Edge(origin, target, (later, *summary.increments), summary.appended, root)


def _root(summary: Summary, summaries: list[RootSummary]) -> tuple[int, int | None]:
    """The number of epochs that are added to a root time, or the number of the user's summary."""
    match summary.root:
        case Advance(epochs):
            return epochs, None
        case Stay():
            return 0, None
        case other:
            summaries.append(other)
            return 0, len(summaries) - 1
