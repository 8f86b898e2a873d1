"""A flow as what it keeps: for each output the operators with state that it is made of, and what is shared.

``describe`` has every operator; here only those stand that keep something, each under those that read it,
with the columns by which it keeps rows and what a change costs. What several outputs need is there once, and
the end says which that is. The text depends on the plan alone.
"""

from collections.abc import Iterator, Mapping

from pointstamp.flow.in_zone import uses_time_zone
from pointstamp.flow.plan import Node, NodeKind, Plan
from pointstamp.plan.explain import PhysicalOperator, PhysicalPlan
from pointstamp.show.describe import (
    kept_words,
    limit_words,
    one_line,
    quoted,
    schema_of_end,
    source_words,
)
from pointstamp.topology.ports import OperatorIndex


def explain(plan: Plan) -> str:
    """What each output keeps and costs, as readable text, the same for the same plan."""
    shown: set[OperatorIndex] = set()
    lines: list[str] = []
    for name, node in plan.named(NodeKind.OUTPUT).items():
        lines.append(f"output {quoted(name)}: {schema_of_end(plan, node)}")
        lines.extend(f"  note: {each}" for each in node.notes)
        lines.extend(_lines(plan, _above(node), 1, shown, set()))
    lines.extend(_shared_lines(plan))
    if plan.time_zone is not None or any(map(uses_time_zone, plan.nodes)):
        lines.append(f"time zone: {plan.time_zone or 'that of the Spark session, and UTC elsewhere'}")
    settings = {words: None for node in plan.nodes for words in map("=".join, node.settings.items())}
    lines.extend(f"setting {each}" for each in settings)
    return "\n".join(lines) + "\n"


def physical_plan(plan: Plan) -> PhysicalPlan:
    """Return the operators that run, with their state and its cost, and the text of those with state."""
    users = _users(plan)
    return PhysicalPlan(explain(plan), tuple(_physical(plan, node, users) for node in plan.nodes))


def _physical(plan: Plan, node: Node, users: Mapping[OperatorIndex, list[str]]) -> PhysicalOperator:
    words = kept_words(node)
    return PhysicalOperator(
        node.name,
        node.kind.value,
        tuple(source_words(plan, port.source) for port in node.inputs if port.source is not None),
        tuple(dict.fromkeys(one_line(str(port.pact)) for port in node.inputs if str(port.pact))),
        None if words is None or words.startswith("nothing") else words,
        tuple(users.get(node.index, ())),
    )


def _lines(
    plan: Plan,
    waiting: list[OperatorIndex],
    depth: int,
    shown: set[OperatorIndex],
    passed: set[OperatorIndex],
) -> Iterator[str]:
    """The lines of what stands above; operators that keep nothing are passed through."""
    indent = "  " * depth
    for index in waiting:
        node = plan.nodes[index]
        heading = _heading(plan, node)
        if heading is None:
            if index not in passed:
                passed.add(index)
                yield from _lines(plan, _above(node), depth, shown, passed)
        elif index in shown:
            if index not in passed:
                passed.add(index)
                yield f"{indent}{quoted(node.name)}, as above"
        else:
            shown.add(index)
            passed.add(index)
            yield f"{indent}{heading}"
            yield from _lines(plan, _above(node), depth + 1, shown, passed)


def _heading(plan: Plan, node: Node) -> str | None:
    """What is said of a node; None if it keeps nothing, and what is said of those above it stands for it."""
    if node.kind is NodeKind.INPUT:
        return f"input {quoted(node.name)}"
    if node.kind is NodeKind.LEAVE:
        return f"loop {quoted(_loop_of(plan, node))}: goes round until nothing changes"
    if node.kind is NodeKind.FEEDBACK and node.limit is not None:
        return f"comes round again, {limit_words(node)}"
    words = kept_words(node)
    if words is None or words.startswith("nothing"):
        return None
    by = dict.fromkeys(one_line(str(port.pact)) for port in node.inputs if str(port.pact).startswith("by "))
    return f"{quoted(node.name)}{' and'.join(f' {each}' for each in by)}: keeps {words}"


def _loop_of(plan: Plan, node: Node) -> str:
    """The name of the loop that a door leaves."""
    source = node.inputs[0].source
    return node.name if source is None else plan.nodes[source.operator].scope[-1]


def _above(node: Node) -> list[OperatorIndex]:
    return list(dict.fromkeys(port.source.operator for port in node.inputs if port.source is not None))


def _shared_lines(plan: Plan) -> Iterator[str]:
    """Which operators with state, and which inputs, several outputs are made of."""
    users = _users(plan)
    lines = [
        f"  {quoted(node.name)}: {', '.join(quoted(name) for name in users[node.index])}"
        for node in plan.nodes
        if len(users.get(node.index, [])) > 1
        and node.kind is NodeKind.OPERATOR
        and _heading(plan, node) is not None
    ]
    if lines:
        yield "kept once, for several outputs:"
        yield from lines


def _users(plan: Plan) -> dict[OperatorIndex, list[str]]:
    """Return the outputs that need each operator."""
    users: dict[OperatorIndex, list[str]] = {}
    for name, node in plan.named(NodeKind.OUTPUT).items():
        for index in _all_above(plan, node):
            users.setdefault(index, []).append(name)
    return users


def _all_above(plan: Plan, node: Node) -> set[OperatorIndex]:
    seen: set[OperatorIndex] = set()
    waiting = _above(node)
    while waiting:
        index = waiting.pop()
        if index not in seen:
            seen.add(index)
            waiting.extend(_above(plan.nodes[index]))
    return seen
