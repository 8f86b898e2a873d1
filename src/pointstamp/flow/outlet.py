"""Outlets: one output of a node of the plan, and how further nodes are wired to it.

An outlet is where a stream comes from, without the verbs that a user chains on it: those are a ``Stream``'s,
which is an outlet. What is wired here is checked here: inputs of one operator stand in one flow and one
scope, and a variable of a loop is fed once, with its own schema. New outlets are of the class of the first
that is read, so whoever wires streams gets streams.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar, Self, TypeVar

import pyarrow as pa

from pointstamp.errors import FlowError, SchemaError
from pointstamp.flow.afresh import Afresh
from pointstamp.flow.builder import PlanBuilder, Scope, Wiring, wired
from pointstamp.flow.key_kinds import check_all_keys_meet, check_keys_meet
from pointstamp.flow.marking import check_plan
from pointstamp.flow.pact import STAY, Pact, ToEveryWorker
from pointstamp.flow.plan import InputPort, Node, NodeKind
from pointstamp.flow.updates import Passes, Reduces, Replaces
from pointstamp.operators.spec import spec
from pointstamp.operators.stateless import Concat
from pointstamp.topology.ports import SourcePort
from pointstamp.topology.summary import Summary


class Outlet:
    """One output of a node, with its schema, the scope it stands in, and how its batches are shared."""

    _begins_anew: ClassVar[bool] = False
    """Whether an operator that would keep what it reads from here restarts from scratch at every time."""

    def __init__(
        self, builder: PlanBuilder, source: SourcePort, schema: pa.Schema, scope: Scope, pact: Pact = STAY
    ) -> None:
        self.schema = schema
        self._wiring = Wiring(builder, source, scope, pact)

    @property
    def loops(self) -> tuple[str, ...]:
        """The names of the loops that this stream is in, outermost first."""
        return self._wiring.scope

    def _shared(self, pact: Pact) -> Self:
        """The same, shared among the workers by another pact."""
        at = wiring(_copied(self))
        return type(self)(at.builder, at.source, self.schema, at.scope, pact)

    def check_columns(self, act: str, columns: Iterable[str]) -> None:
        """Reject columns that are not there."""
        for column in columns:
            if column not in self.schema.names:
                raise SchemaError(
                    f"{act} of {self} needs the column '{column}'; it has {columns_in_words(self.schema)}."
                )

    def __str__(self) -> str:
        return str(self._wiring)


def wiring(outlet: Outlet) -> Wiring:
    """Where an outlet stands in its plan; for those who write plans, and not for users."""
    return outlet._wiring  # noqa: SLF001 - this function is the one way to it


def begins_anew(outlet: Outlet) -> bool:
    """Whether operators that read this restart from scratch at every time."""
    return outlet._begins_anew  # noqa: SLF001 - as above


AnOutlet = TypeVar("AnOutlet", bound=Outlet)


def add_operator(
    name: str,
    logic: Callable[[], Any],
    inputs: Mapping[str, AnOutlet],
    outputs: Mapping[str, pa.Schema],
    summaries: Mapping[tuple[int, int], Sequence[Summary]] | None = None,
    declared: Mapping[tuple[str, str], Sequence[Summary]] | None = None,
    *,
    in_order: bool = False,
    sends: Passes | Reduces | Replaces | None = None,
) -> list[AnOutlet]:
    """Add an operator that reads these streams; return its outputs as streams."""
    read = {port: wiring(stream) for port, stream in inputs.items()}
    first = next(iter(read.values()))
    for other in read.values():
        if other.builder is not first.builder:
            raise FlowError(f"operator '{name}' reads {first} and {other}, which belong to different flows.")
        if other.scope != first.scope:
            raise FlowError(
                f"operator '{name}' reads {first} in {scope_name(first.scope)} and {other} in "
                f"{scope_name(other.scope)}; its inputs must stand in one scope. Enter or leave the loops "
                "first."
            )
    ports = [wired(port, at.source, at.pact) for port, at in read.items()]
    check_keys_meet(first.builder.plan, name, ports)
    kind = type(next(iter(inputs.values())))
    if in_order and kind._begins_anew:  # noqa: SLF001 - as above
        logic, in_order = spec(Afresh, logic), False
    node = first.builder.add(
        NodeKind.OPERATOR,
        name,
        first.scope,
        ports,
        outputs,
        summaries=summaries,
        logic=logic,
        in_order=in_order,
        sends=sends,
        declared=declared,
    )
    return [
        kind(first.builder, SourcePort(node.index, number), schema, first.scope)
        for number, schema in enumerate(outputs.values())
    ]


def add_door(
    kind: NodeKind, name: str, stream: AnOutlet, scope: Scope, summary: Summary, *, delay_epochs: int = 0
) -> AnOutlet:
    """Add a node that only changes times; how its batches are shared is left to whoever reads them."""
    at = wiring(stream)
    node = at.builder.add(
        kind,
        name,
        scope,
        [wired("in", at.source)],
        {"out": stream.schema},
        input_rounds=len(at.scope),
        summaries={(0, 0): (summary,)},
        delay_epochs=delay_epochs,
    )
    return type(stream)(at.builder, SourcePort(node.index, 0), stream.schema, scope, at.pact)


def scope_name(scope: Scope) -> str:
    """A scope as text."""
    return "the flow, outside all loops" if not scope else "loop '" + "' in '".join(reversed(scope)) + "'"


def feed(variable: Node, stream: Outlet, who: str) -> None:
    """Wire a stream to a variable, once, if their schemas are the same."""
    declared = variable.outputs[0].schema
    if variable.inputs[0].source is not None:
        raise FlowError(
            f"{who}: the variable '{variable.name}' is fed twice. Bring the streams together first, with "
            "concat."
        )
    if stream.schema != declared:
        raise SchemaError(
            f"{who}: the variable '{variable.name}' is declared as {declared.to_string()!r} and fed with "
            f"{stream.schema.to_string()!r}; both must be the same."
        )
    at = wiring(_copied(stream))
    variable.inputs[0].source = at.source
    variable.inputs[0].pact = at.pact
    try:
        check_plan(at.builder.plan)
        check_all_keys_meet(at.builder.plan)
    except FlowError:
        variable.inputs[0] = InputPort("in", None)  # as before, so that something else can be fed
        raise


def _copied(outlet: AnOutlet) -> AnOutlet:
    """Copies that were asked for are made before they are shared again; others are as they are."""
    if not isinstance(wiring(outlet).pact, ToEveryWorker):
        return outlet
    return add_operator("copies", Concat, {"in": outlet}, {"out": outlet.schema}, sends=Passes.ROWS)[0]


def columns_in_words(schema: pa.Schema) -> str:
    """The columns of a schema with their types."""
    return ", ".join(f"'{field.name}' {field.type}" for field in schema) or "no columns"
