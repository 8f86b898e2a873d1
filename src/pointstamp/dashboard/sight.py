"""The port of the dashboard to what it shows: a query, a checkpoint, a trace."""

from collections.abc import Iterable, Iterator
from typing import Any, Protocol, TypeAlias

from pointstamp.arrow.ddl import to_ddl
from pointstamp.errors import PointstampError
from pointstamp.flow.plan import InputPort, Node, NodeKind, Plan, StayHere, Step
from pointstamp.topology.ports import OperatorIndex, SourcePort

Json: TypeAlias = dict[str, Any]
"""Plain data, as JSON has it."""


class SightError(PointstampError):
    """A request of the page cannot be answered; the message has the reason."""


class Sight(Protocol):
    """Something that a dashboard shows; every method may be called from any thread."""

    @property
    def is_over(self) -> bool:
        """Whether it shows a query that has ended: a dashboard of the same process may take its port."""
        ...

    def about(self) -> Json:
        """The constant facts: kind and title, the graph, the permitted actions."""
        ...

    def moment(self) -> Json:
        """Return the latest known state; request newer data without waiting for it."""
        ...

    def history(self, since: float) -> Json:
        """The history after a time, in seconds since 1970; with 0, the complete kept history."""
        ...

    def why(self, output: str) -> Json:
        """The causes that hold an output back, as text and as paths; SightError for an unknown output."""
        ...

    def metrics(self) -> str:
        """The numbers for machines, as Prometheus reads them."""
        ...

    def act(self, what: str, given: str) -> str:
        """Do what a person has confirmed, and say what was done; SightError where that is refused."""
        ...


# A plan as the page draws it: operators, the loops around them, and who reads whom.
#
# Doors are no nodes here: an edge says through which of them it goes. An edge that comes round again is
# marked, so that the page can lay out the rest from left to right.


def drawn(plan: Plan) -> Json:
    """The nodes and edges of a plan, and its loops, outer ones first."""
    nodes = [_node(node) for node in plan.nodes if not node.kind.is_door]
    edges = [
        {
            "from": source.operator,
            "to": node.index,
            "pact": "" if isinstance(pact := _pact(plan, port), StayHere) else str(pact),
            "again": any(plan.nodes[door].kind is NodeKind.FEEDBACK for door in doors),
            "doors": [plan.nodes[door].kind.value for door in doors],
        }
        for node in plan.nodes
        if not node.kind.is_door
        for port in node.inputs
        for source, doors in _sources(plan, port)
    ]
    scopes = dict.fromkeys(
        node.scope[:depth] for node in plan.nodes for depth in range(1, len(node.scope) + 1)
    )
    return {"nodes": nodes, "edges": edges, "loops": [list(scope) for scope in scopes]}


def without_doors(plan: Plan, operators: Iterable[OperatorIndex]) -> list[OperatorIndex]:
    """The operators of a way, each once in a row, without the doors between them."""
    way: list[OperatorIndex] = []
    for index in operators:
        if not plan.nodes[index].kind.is_door and way[-1:] != [index]:
            way.append(index)
    return way


def _step(step: Step) -> Json:
    return {"id": step.number, "name": step.name, "words": step.words, "origin": step.origin}


def _node(node: Node) -> Json:
    try:
        columns = to_ddl(node.outputs[0].schema) if node.outputs else ""
    except PointstampError:
        columns = ", ".join(f"{column.name} {column.type}" for column in node.outputs[0].schema)
    return {
        "id": node.index,
        "name": node.name,
        "kind": node.kind.value,
        "scope": list(node.scope),
        "columns": columns,
        **({} if node.step is None else {"step": _step(node.step)}),
    }


def _sources(plan: Plan, port: InputPort) -> Iterator[tuple[SourcePort, list[OperatorIndex]]]:
    """The output that a port reads, past all doors between, and those doors."""
    doors: list[OperatorIndex] = []
    source = port.source
    while source is not None and plan.nodes[source.operator].kind.is_door:
        if source.operator in doors:
            return  # doors that feed each other: no operator sends into them
        doors.append(source.operator)
        source = plan.nodes[source.operator].inputs[0].source
    if source is not None:
        yield source, doors


def _pact(plan: Plan, port: InputPort) -> object:
    """The pact of an edge: the first that moves rows, here or at an upstream door."""
    source = port.source
    seen: set[OperatorIndex] = set()
    while isinstance(port.pact, StayHere) and source is not None and source.operator not in seen:
        node = plan.nodes[source.operator]
        if not node.kind.is_door:
            break
        seen.add(source.operator)
        port, source = node.inputs[0], node.inputs[0].source
    return port.pact
