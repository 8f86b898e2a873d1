"""Build a plan: add and wire nodes, and reject errors immediately."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from typing import Any, Final, TypeAlias
from urllib.parse import quote

import pyarrow as pa

from pointstamp.errors import FlowError
from pointstamp.flow.plan import STAY, InputPort, Node, NodeKind, OutputPort, Pact, Plan
from pointstamp.flow.updates import Passes, Reduces, Replaces
from pointstamp.operators.spec import spec_of
from pointstamp.topology.domain import TimeOrder
from pointstamp.topology.ports import OperatorIndex, SourcePort
from pointstamp.topology.summary import Summary

Scope = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class EventTimeMark:
    """A promise about the event time of a stream: how late its rows may be, in the unit of its column."""

    stream: str
    at: str
    kind: pa.DataType
    lateness: int
    latest: SourcePort
    """The port that sends the greatest event times."""
    is_idle: bool = False
    """Whether event time advances without it when it is idle."""


Mark: TypeAlias = tuple[int, set[Scope], dict[OperatorIndex, EventTimeMark], set[OperatorIndex]]
"""The length of a plan at some point."""


class PlanBuilder:
    """A plan that is being written; operators get names of their own, so that errors can point at one."""

    def __init__(self, name: str, root: TimeOrder[Any]) -> None:
        self.plan = Plan(name, root)
        self._names: set[str] = set()
        self._numbers: dict[str, int] = {}
        """For a name that several operators were given: all smaller numbers are taken."""
        self._scopes: set[Scope] = set()
        self.event_times: dict[OperatorIndex, EventTimeMark] = {}
        """The operators downstream of which a watermark holds."""
        self.clock: tuple[OperatorIndex, ...] = ()
        """While a query is translated: the operators of all its tables, whose watermarks it waits for."""
        self.forgets: set[OperatorIndex] = set()
        """The operators that let rows go when their event time is over."""
        self.owner: Any = None
        """The operator that is being lowered, which the added nodes compute."""
        self.owners: list[Any] = []
        """The operator of each node, by the node's number."""

    def mark(self) -> Mark:
        """Remember how far the plan is written."""
        return len(self.plan.nodes), set(self._scopes), dict(self.event_times), set(self.forgets)

    def undo(self, mark: Mark) -> None:
        """Remove everything that was written after a mark."""
        size, self._scopes, self.event_times, self.forgets = mark
        self._names.difference_update(node.name for node in self.plan.nodes[size:])
        self._numbers.clear()
        del self.plan.nodes[size:], self.owners[size:]

    def add(
        self,
        kind: NodeKind,
        name: str,
        scope: Scope,
        inputs: Sequence[InputPort],
        outputs: Mapping[str, pa.Schema],
        *,
        input_rounds: int | None = None,
        output_rounds: int | None = None,
        summaries: Mapping[tuple[int, int], Sequence[Summary]] | None = None,
        logic: Callable[[], Any] | None = None,
        in_order: bool = False,
        sends: Passes | Reduces | Replaces | None = None,
        delay_epochs: int = 0,
        declared: Mapping[tuple[str, str], Sequence[Summary]] | None = None,
    ) -> Node:
        """Add a node; its ports have the rounds of its scope unless others are given."""
        node = Node(
            OperatorIndex(len(self.plan.nodes)),
            self._unique(name, kind),
            kind,
            scope,
            list(inputs),
            [OutputPort(output, schema) for output, schema in outputs.items()],
            len(scope) if input_rounds is None else input_rounds,
            len(scope) if output_rounds is None else output_rounds,
            summaries,
            None if logic is None else spec_of(logic),
            in_order=in_order,
            sends=sends,
            delay_epochs=delay_epochs,
            declared=declared,
        )
        self.plan.nodes.append(node)
        self._names.add(node.name)
        self.owners.append(self.owner)
        return node

    @contextmanager
    def adding_to(self, owner: Any) -> Iterator[None]:  # noqa: ANN401 - a part of a higher layer
        """Let the nodes that are added in this block be parts of something."""
        before, self.owner = self.owner, owner
        try:
            yield
        finally:
            self.owner = before

    def open_scope(self, outside: Scope, name: str) -> Scope:
        """A scope inside another, with a name that no other loop there has."""
        taken = {scope for scope in self._scopes if scope[:-1] == outside}
        names = (name, *(f"{name} {number}" for number in range(2, len(taken) + 2)))
        scope = next(inner for each in names if (inner := (*outside, each)) not in taken)
        self._scopes.add(scope)
        return scope

    def describe(self, source: SourcePort) -> str:
        """An output as text: its node's name, and its own where the node has several."""
        node = self.plan.nodes[source.operator]
        if len(node.outputs) == 1 or (node.kind is NodeKind.INPUT and source.port == 0):
            return node.name
        return f"{node.name}, output '{node.outputs[source.port].name}'"

    def _unique(self, name: str, kind: NodeKind) -> str:
        """The name itself for inputs and outputs; operators of one name are numbered."""
        if kind in (NodeKind.INPUT, NodeKind.OUTPUT):
            _check_name(name, kind.value, self.plan.name)
            if name in self.plan.named(kind):
                raise FlowError(
                    f"flow '{self.plan.name}' has two {kind.value}s named '{name}'. Rename one of them."
                )
            return name
        if name not in self._names:
            return name
        free = (n for n in count(self._numbers.get(name, 2)) if f"{name} {n}" not in self._names)
        self._numbers[name] = number = next(free)
        return f"{name} {number}"


NAME_BYTES_MAX: Final = 200
"""The most bytes of the name of an input or output, with every character but letters and digits escaped."""


@dataclass(frozen=True, slots=True)
class Wiring:
    """The position of a stream in a plan that is being written, and its partitioning."""

    builder: PlanBuilder
    source: SourcePort
    scope: Scope
    pact: Pact = STAY

    def __str__(self) -> str:
        return f"stream '{self.builder.describe(self.source)}'"


def wired(name: str, source: SourcePort, pact: Pact = STAY) -> InputPort:
    """An input that reads an output by a pact."""
    return InputPort(name, source, pact)


def _check_name(name: object, what: str, flow: str) -> None:
    """Reject a name that cannot be the name of a folder, however its characters are escaped."""
    where, wanted = f"flow '{flow}'", f"1 to {NAME_BYTES_MAX} bytes as a quoted URL"
    if not isinstance(name, str):
        raise FlowError(f"{where}: the name of an {what} must be a string, got {name!r}. Give it a name.")
    if not name:
        raise FlowError(f"{where}: the name of an {what} must have {wanted}, got ''. Give it a name.")
    try:
        size = len(quote(name, safe=""))
    except UnicodeEncodeError:
        raise FlowError(
            f"{where}: the name of an {what} must be text that UTF-8 can encode, got {name!a}. Rename it."
        ) from None
    if size > NAME_BYTES_MAX:
        raise FlowError(
            f"{where}: the name of an {what} must have {wanted}, got {size}: '{name[:40]}...'. Shorten it."
        )
