"""A flow as text: what ``flow.describe()`` prints.

First the two ends of the flow with their schemas, then each output as it was written, with the user's line or
place in a text; then every node: what it reads and by which pact, what it sends, and what becomes of times on
the way where they do not stay as they are. Loops are indented, and each
says which times it has: the epoch, and one round for each loop around a node.

The words for times and summaries are made here, and the drawings use them too. The text depends on the plan
alone, so the same flow always reads the same; a name with line breaks in it cannot break a line.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import pyarrow as pa

from pointstamp.arrangement.open_changes import is_changes
from pointstamp.arrow.ddl import to_ddl
from pointstamp.errors import PointstampError
from pointstamp.flow.plan import InputPort, Node, NodeKind, Plan, Step, uses_time_zone
from pointstamp.incremental.append_only import only_appends
from pointstamp.incremental.shared_arrangements import shared_in_words
from pointstamp.operators.interface import DescribesState
from pointstamp.operators.spec import spec_of
from pointstamp.plan.explain import PhysicalOperator, PhysicalPlan
from pointstamp.pushdown.prefix import pushed
from pointstamp.topology.domain import Domain, Epochs, TimeOrder
from pointstamp.topology.ports import OperatorIndex, SourcePort
from pointstamp.topology.summary import Advance, Stay, Summary

Scope: TypeAlias = tuple[str, ...]

_KINDS = {
    NodeKind.INPUT: "input",
    NodeKind.OUTPUT: "output",
    NodeKind.OPERATOR: "operator",
    NodeKind.ENTER: "enters the loop",
    NodeKind.LEAVE: "leaves the loop",
    NodeKind.FEEDBACK: "is fed back",
    NodeKind.DELAY: "delay",
}


@dataclass(slots=True)
class ScopeTree:
    """A scope and what stands in it, nodes and loops in the order in which they were first written."""

    scope: Scope
    members: "list[Node | ScopeTree]" = field(default_factory=list)

    def loops(self) -> "list[ScopeTree]":
        """The loops directly in this scope."""
        return [member for member in self.members if isinstance(member, ScopeTree)]

    def nodes(self) -> list[Node]:
        """The nodes directly in this scope."""
        return [member for member in self.members if isinstance(member, Node)]

    def nodes_within(self) -> list[Node]:
        """The nodes in this scope and in all loops inside it."""
        return [*self.nodes(), *(node for loop in self.loops() for node in loop.nodes_within())]


def describe(plan: Plan, *, operators: bool = True) -> str:
    """Return a flow as readable text, which depends only on the plan; optionally only the logical part."""
    lines = [f"flow {quoted(plan.name)}, times {times_of(plan.root, 0)}"]
    for kind in (NodeKind.INPUT, NodeKind.OUTPUT):
        ends = plan.named(kind)
        lines.append(f"{kind.value}s:" if ends else f"{kind.value}s: none")
        lines.extend(f"  {quoted(name)}: {schema_of_end(plan, node)}" for name, node in ends.items())
    lines.append("")
    lines.extend(_step_lines(plan))
    if operators:
        lines.extend(_scope_lines(plan, scope_tree(plan)))
    return "\n".join(lines) + "\n"


def _step_lines(plan: Plan) -> Iterator[str]:
    """Yield for each output the steps that it is made of, each below those that read it."""
    reads: dict[int, dict[int, Step]] = {}
    for node in plan.nodes:
        for port in node.inputs:
            source = None if port.source is None else plan.nodes[port.source.operator].step
            if node.step is not None and source is not None and source.number != node.step.number:
                reads.setdefault(node.step.number, {})[source.number] = source
    shown: set[int] = set()
    for name, output in plan.named(NodeKind.OUTPUT).items():
        if output.step is None:
            continue
        yield f"view {quoted(name)}:"
        waiting = [(each, 1) for each in reversed(reads.get(output.step.number, {}).values())]
        while waiting:
            step, depth = waiting.pop()
            again = ", as above" if step.number in shown and step.number in reads else ""
            origin = f" ({one_line(step.origin)})" if step.origin and not again else ""
            yield f"{'  ' * depth}{one_line(step.words)}{again}{origin}"
            if step.number not in shown:
                shown.add(step.number)
                waiting.extend((each, depth + 1) for each in reversed(reads.get(step.number, {}).values()))
        yield ""


def scope_tree(plan: Plan) -> ScopeTree:
    """The nodes of a plan, arranged in the loops that they stand in."""
    trees: dict[Scope, ScopeTree] = {(): ScopeTree(())}
    for node in plan.nodes:
        for depth in range(1, len(node.scope) + 1):
            scope = node.scope[:depth]
            if scope not in trees:
                trees[scope] = ScopeTree(scope)
                trees[scope[:-1]].members.append(trees[scope])
        trees[node.scope].members.append(node)
    return trees[()]


def _scope_lines(plan: Plan, tree: ScopeTree) -> Iterator[str]:
    indent = "  " * len(tree.scope)
    for member in tree.members:
        if isinstance(member, Node):
            yield from (indent + line for line in _node_lines(plan, member))
        else:
            yield f"{indent}loop {quoted(member.scope[-1])}, times {times_of(plan.root, len(member.scope))}"
            yield from _scope_lines(plan, member)


def _node_lines(plan: Plan, node: Node) -> Iterator[str]:
    heading = f"{quoted(node.name)}, {_KINDS[node.kind]}"
    if node.kind.is_door:
        heading += "".join(f", times become {words}" for _, _, words in changed_times(plan, node))
    if node.limit is not None:
        heading += f", {limit_words(node)}"
    yield heading
    for port in node.inputs:
        who = "" if len(node.inputs) == 1 else f"input {quoted(port.name)} "
        yield f"  {who}reads {_read(plan, port)}"
    if not node.kind.is_door:
        for input_name, output_name, words in changed_times(plan, node):
            yield f"  from {quoted(input_name)} to {quoted(output_name)} {_become(words)}"
    if (keeps := kept_words(node)) is not None and _is_of_tables(plan, node, keeps):
        yield f"  keeps {keeps}"
    for shared in shared_in_words(plan, node):
        yield f"  shares {one_line(shared)}"
    if node.kind.is_door and node.kind is not NodeKind.FEEDBACK:
        return  # it sends what it reads
    for output in node.outputs:
        who = "" if len(node.outputs) == 1 else f"on {quoted(output.name)} "
        yield f"  sends {who}{schema_words(output.schema)}{_growing(plan, node)}"
    if node.kind is NodeKind.INPUT and (first := pushed(plan, {node.name}).inputs.get(node.name)):
        for step in first.steps:
            yield f"  Spark does {quoted(step.operator)} before the workers: {one_line(str(step))}"


def _is_of_tables(plan: Plan, node: Node, keeps: str) -> bool:
    """Whether what an operator keeps is worth a line: it keeps something, or rows of a table come to it."""
    read = [plan.nodes[port.source.operator].outputs[port.source.port] for port in node.inputs if port.source]
    return not keeps.startswith("nothing") or any(is_changes(port.schema) for port in (*read, *node.outputs))


def _growing(plan: Plan, node: Node) -> str:
    """Return whether the table whose changes a node sends only grows, as text."""
    is_table = len(node.outputs) == 1 and is_changes(node.outputs[0].schema)
    return "; rows are only added" if is_table and only_appends(plan, SourcePort(node.index, 0)) else ""


def kept_words(node: Node) -> str | None:
    """The state and the cost of an operator, from the attribute ``keeps`` of its class."""
    kind = spec_of(node.logic).kind
    described: Any = kind
    words: object = described.keeps if isinstance(described, DescribesState) else None
    return one_line(words) if isinstance(words, str) else None


def _read(plan: Plan, port: InputPort) -> str:
    if port.source is None:
        return "nothing yet"
    pact = str(port.pact)
    return source_words(plan, port.source) + (f" {one_line(pact)}" if pact else "")


def _become(words: str | None) -> str:
    return "times become " + words if words else "nothing goes"


def source_words(plan: Plan, source: SourcePort) -> str:
    """An output as text: the node's name, and the output's own where the node has several."""
    node = plan.nodes[source.operator]
    if len(node.outputs) == 1:
        return quoted(node.name)
    return f"output {quoted(node.outputs[source.port].name)} of {quoted(node.name)}"


def changed_times(plan: Plan, node: Node) -> list[tuple[str, str, str | None]]:
    """Input, output and how times change between them, if they do; None if no row takes that way."""
    origin = Domain(plan.root, node.input_rounds)
    found: list[tuple[str, str, str | None]] = []
    for (i, o), summaries in sorted((node.summaries or {}).items()):
        if len(summaries) == 1 and summaries[0].is_identity(origin):
            continue
        words = " or ".join(summary_words(summary, plan.root, origin.rounds) for summary in summaries)
        found.append((node.inputs[i].name, node.outputs[o].name, words or None))
    return found


def limit_words(node: Node) -> str:
    """The maximum number of rounds of a loop, and the action at that limit."""
    assert node.limit is not None
    rounds = "1 round" if node.limit.rounds == 1 else f"{node.limit.rounds} rounds"
    return f"at most {rounds}, then {'an error' if node.limit.raises else 'it stops'}"


def times_of(root: TimeOrder[Any], rounds: int) -> str:
    """The times of a scope that many loops deep: ``(epoch, round)``."""
    return "(" + ", ".join(_coordinates(root, rounds)) + ")"


def summary_words(summary: Summary, root: TimeOrder[Any], rounds: int) -> str:
    """The result of a time in a scope that many loops deep: ``(epoch, round + 1)``.

    >>> from pointstamp.topology.domain import EPOCHS
    >>> summary_words(Summary((0, 1)), EPOCHS, 2), summary_words(Summary((), (0,)), EPOCHS, 0)
    ('(epoch, round 1, round 2 + 1)', '(epoch, 0)')
    """
    first, *names = _coordinates(root, rounds)
    if isinstance(summary.root, Advance):
        first = f"{first} + {summary.root.epochs}"
    elif not isinstance(summary.root, Stay):
        first = f"{one_line(str(summary.root))} of {first}"
    kept = [f"{name} + {n}" if n else name for name, n in zip(names, summary.increments, strict=False)]
    return "(" + ", ".join([first, *kept, *map(str, summary.appended)]) + ")"


def _coordinates(root: TimeOrder[Any], rounds: int) -> list[str]:
    first = "epoch" if isinstance(root, Epochs) else type(root).__name__
    return [first, "round"] if rounds == 1 else [first, *(f"round {n + 1}" for n in range(rounds))]


def schema_of_end(plan: Plan, node: Node) -> str:
    """The columns that come in at an input of the flow, or go out at an output."""
    if node.outputs:
        return schema_words(node.outputs[0].schema)
    source = node.inputs[0].source
    if source is None:
        return "nothing yet"
    return schema_words(plan.nodes[source.operator].outputs[source.port].schema)


def schema_words(schema: pa.Schema) -> str:
    """A schema as DDL, or with Arrow's own names of types where DDL has none."""
    try:
        return one_line(to_ddl(schema))
    except PointstampError:
        return one_line(", ".join(f"{column.name} {column.type}" for column in schema)) or "no columns"


def quoted(name: str) -> str:
    """A name in quotes that stays on its line."""
    return "'" + one_line(name) + "'"


def one_line(text: str) -> str:
    """The text with whatever is not printable written as an escape."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


# A flow as what it keeps: for each output the operators with state that it is made of, and what is shared.
#
# ``describe`` has every operator; here only those stand that keep something, each under those that read it,
# with the columns by which it keeps rows and what a change costs. What several outputs need is there once,
# and the end says which that is. The text depends on the plan alone.


def explain(plan: Plan) -> str:
    """The state and cost of each output, as readable text, the same for the same plan."""
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
    operators = tuple(_physical(plan, node, users) for node in plan.nodes)
    first = {name: tuple(map(str, each.steps)) for name, each in pushed(plan).inputs.items()}
    return PhysicalPlan(explain(plan), operators, first)


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
    """The text of a node; None if it has no state, so that the text of its inputs stands for it."""
    if node.kind is NodeKind.INPUT:
        return f"input {quoted(node.name)}"
    if node.kind is NodeKind.LEAVE:
        return f"loop {quoted(_loop_of(plan, node))}: repeats until nothing changes"
    if node.kind is NodeKind.FEEDBACK and node.limit is not None:
        return f"is fed back, {limit_words(node)}"
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
    """The operators with state, and the inputs, that several outputs share."""
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
