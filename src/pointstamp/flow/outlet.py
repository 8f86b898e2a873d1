"""Outlets: an output port of a plan node, and wiring to it.

An outlet is where a stream comes from, without the verbs that a user chains on it: those are a ``Stream``'s,
which is an outlet. What is wired here is checked here: inputs of one operator stand in one flow and one
scope, and a variable of a loop is fed once, with its own schema. New outlets are of the class of the first
that is read, so wiring streams gives streams.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar, Final, Self, TypeVar

import pyarrow as pa
from pyarrow import types

from pointstamp.errors import FlowError, SchemaError
from pointstamp.flow.builder import PlanBuilder, Scope, Wiring, wired
from pointstamp.flow.plan import (
    STAY,
    ExchangeBy,
    InputPort,
    Node,
    NodeKind,
    Pact,
    Plan,
    StayHere,
    ToEveryWorker,
)
from pointstamp.flow.updates import (
    Passes,
    Reduces,
    Replaces,
    Updates,
    no_table_of,
    objection,
    passed_on,
    replacing,
    together,
    updates_of,
)
from pointstamp.operators.context import Context
from pointstamp.operators.spec import spec
from pointstamp.operators.stateless import Concat
from pointstamp.state.pieces import Piece
from pointstamp.topology.domain import Time
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
    """The position of an outlet in its plan; for code that writes plans, not for users."""
    return outlet._wiring  # noqa: SLF001 - this function is the one way to it


def begins_anew(outlet: Outlet) -> bool:
    """Return whether operators that read this restart from scratch at every time."""
    return outlet._begins_anew  # noqa: SLF001 - as above


# An operator that starts from scratch at every time: one instance for each, freed with the time.
#
# So an operator that keeps what all times so far accumulate to sees the rows of one time by themselves, and
# what a table does over all epochs a stream does within one. Nothing of it is saved: at a closed epoch there
# is none.
#
# Invariant: an operator is given the batches of one time, and is notified of that time alone.


class Afresh:
    """Runs a fresh operator for each time."""

    keeps: ClassVar = "nothing after an epoch, which costs its rows"

    def __init__(self, make: Callable[[], Any]) -> None:
        self._make = make
        self._open: dict[Time, Any] = {}

    def on_receive(self, context: Context, input: str, batch: pa.RecordBatch) -> None:  # noqa: A002
        """Hand the batch to the operator of its time."""
        if context.time not in self._open:
            self._open[context.time] = self._make()
        self._open[context.time].on_receive(context, input, batch)

    def on_notify(self, context: Context) -> None:
        """Let the operator of the time send what it has to, and forget it."""
        operator = self._open.pop(context.time, None)
        if operator is not None:
            operator.on_notify(context)

    def save(self, *, changes_only: bool) -> Mapping[str, Piece]:
        """Nothing: what has come of a time is gone when it is complete."""
        del changes_only
        assert not self._open, f"times {list(self._open)} are open at a snapshot"
        return {}

    def restore(self, context: Context, pieces: Mapping[str, pa.Table]) -> None:
        """Begin again."""


# Kinds of keys: two columns are of one kind where equal values of theirs have equal hashes.
#
# A row goes to the worker that the hash of its key names (``pointstamp.arrow.row_hashing``), and the hash
# looks at how a value is stored: the long 1 and the double 1.0 are equal and live on different workers, most
# of the time. So rows of two streams that are to meet by key must have keys of one kind, and where they have
# not, the flow is refused when it is written. Within one stream there is one type.
#
# Invariant: no operator of a plan reads two streams that are exchanged by keys of different kinds.
#
# Of one kind are integers of every width and decimals of scale 0; floats of every width; decimals of one
# scale; text, in offsets of any width; binary, of fixed length or not; instants in one unit, whatever their
# time zones; lists and maps of one kind; structs with fields of one kind, in order. An encoding (dictionary,
# run-end, view, extension) is of the kind of what it holds. A column that is always null is of every kind.

_KINDS: Final[tuple[tuple[Callable[[pa.DataType], bool], Callable[[pa.DataType], str]], ...]] = (
    (types.is_boolean, lambda kind: "boolean"),
    (types.is_integer, lambda kind: "integer"),
    (types.is_floating, lambda kind: "float"),
    (types.is_decimal, lambda kind: f"decimal of scale {kind.scale}" if kind.scale else "integer"),
    (types.is_timestamp, lambda kind: f"{'naive' if kind.tz is None else 'zoned'} timestamp in {kind.unit}"),
    (types.is_time, lambda kind: f"time in {kind.unit}"),
    (types.is_duration, lambda kind: f"duration in {kind.unit}"),
    (types.is_date32, lambda kind: "date in days"),
    (types.is_date64, lambda kind: "date in milliseconds"),
    (lambda kind: kind in (pa.string(), pa.large_string(), pa.string_view()), lambda kind: "text"),
    (lambda kind: kind in (pa.binary(), pa.large_binary(), pa.binary_view()), lambda kind: "binary"),
    (types.is_fixed_size_binary, lambda kind: "binary"),
    (types.is_struct, lambda kind: f"struct of ({', '.join(str(key_kind(each.type)) for each in kind)})"),
    (types.is_map, lambda kind: f"map of ({key_kind(kind.key_type)}, {key_kind(kind.item_type)})"),
)


def key_kind(kind: pa.DataType) -> str | None:
    """The kind of a type, as text; None for one that is always null.

    >>> key_kind(pa.int32()), key_kind(pa.dictionary(pa.int8(), pa.string())), key_kind(pa.timestamp("us"))
    ('integer', 'text', 'naive timestamp in us')
    """
    if types.is_null(kind):
        return None
    if types.is_dictionary(kind) or types.is_run_end_encoded(kind):
        return key_kind(kind.value_type)
    if isinstance(kind, pa.BaseExtensionType):
        return key_kind(kind.storage_type)
    if "list" in str(kind).partition("<")[0]:
        return f"list of {key_kind(kind.value_type)}"
    return next((words(kind) for is_so, words in _KINDS if is_so(kind)), str(kind))


def check_keys_meet(plan: Plan, name: str, ports: Sequence[InputPort]) -> None:
    """Refuse two inputs of an operator that are exchanged by keys, one for one, of different kinds."""
    exchanged = [(port, found) for port in ports if (found := _keys_of(plan, port))]
    for number, (first, keys) in enumerate(exchanged):
        for second, others in exchanged[number + 1 :]:
            if len(keys) != len(others):
                continue
            for one, other in zip(keys, others, strict=True):
                kinds = {key_kind(each.type) for each in (one, other)} - {None}
                if len(kinds) > 1:
                    raise FlowError(
                        f"operator '{name}' reads input '{first.name}' exchanged by '{one.name}' "
                        f"({one.type}), and input '{second.name}' by '{other.name}' ({other.type}). Equal "
                        "values of these types are sent to different workers, so rows with equal keys "
                        "would not match. Cast one of the columns before the exchange."
                    )


def check_all_keys_meet(plan: Plan) -> None:
    """The same for every operator of a plan, as when a cycle is closed."""
    for node in plan.nodes:
        if not node.kind.is_door and len(node.inputs) > 1:
            check_keys_meet(plan, node.name, node.inputs)


def _keys_of(plan: Plan, port: InputPort) -> list[pa.Field] | None:
    """The key columns of the exchange that rows take to an input: its own, or the last before it."""
    for _ in range(len(plan.nodes) + 1):  # a variable that is fed with itself leads nowhere
        if port.source is None:
            return None
        node = plan.nodes[port.source.operator]
        if isinstance(port.pact, ExchangeBy):
            schema = node.outputs[port.source.port].schema
            return [schema.field(key) for key in port.pact.keys]
        if not node.kind.is_door or not isinstance(port.pact, StayHere):
            return None
        port = node.inputs[0]
    return None


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
                f"{scope_name(other.scope)}; its inputs must be in one scope. Enter or leave the loops "
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
    """Add a node that only changes times; its readers decide how its batches are shared."""
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
            f"{who}: the variable '{variable.name}' is fed twice. Merge the streams first, with union."
        )
    if stream.schema != declared:
        raise SchemaError(
            f"{who}: the variable '{variable.name}' is declared as {declared.to_string()!r}, got "
            f"{stream.schema.to_string()!r}. Give both the same columns."
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


# Finds the streams of a plan that carry updates, and refuses what may not be aggregated of them.
#
# A cycle is closed when its variable is fed, after everything that reads the variable was written. So marks
# are found for the whole plan at once, again and again until nothing changes: each time more streams are
# marked, or less is known of what they carry, and both have an end.
#
# Invariant: after every reduction and every feedback that was accepted, no reduction of the plan reads
# updates that it must not aggregate.


def check_reduces(plan: Plan, source: SourcePort, reduces: Reduces, who: str) -> None:
    """Refuse a reduction that is about to be written, if it must not aggregate what it would read."""
    _check(who, reduces, _marks(plan)[source.operator])


def check_adds_up(plan: Plan, source: SourcePort, who: str) -> None:
    """Refuse a table that is about to be made of updates."""
    read = _marks(plan)[source.operator]
    if read is not None:
        raise FlowError(no_table_of(who, read))


def check_takes_nothing_back(plan: Plan, source: SourcePort, who: str) -> None:
    """Refuse a running reduction of a table's changes, if rows are taken away from the table."""
    seen, waiting = set(), [source.operator]
    while waiting:
        node = plan.nodes[waiting.pop()]
        if node.index in seen:
            continue
        seen.add(node.index)
        if node.sends is Passes.CHANGES:
            raise FlowError(
                f"{who} is running, and reads the changes of a table that '{node.name}' sends, so it would "
                "count a deletion as one more row. Use table.group_by(...).agg(...), which retracts old "
                "results, or drop 'diff' first to aggregate the changes themselves."
            )
        if node.kind.is_door or node.sends is Passes.ROWS:
            waiting.extend(port.source.operator for port in node.inputs if port.source is not None)


def check_plan(plan: Plan) -> None:
    """Refuse a plan in which a reduction must not aggregate what it reads."""
    marks = _marks(plan)
    for node in plan.nodes:
        read = _read(node, marks)
        if isinstance(node.sends, Reduces):
            _check(f"'{node.name}'", node.sends, read)
        elif node.sends is Passes.ADDED and read is not None:
            raise FlowError(no_table_of(f"'{node.name}'", read))


def _check(who: str, reduces: Reduces, read: Updates | None) -> None:
    refused = None if read is None else objection(who, reduces, read)
    if refused is not None:
        raise FlowError(refused)


def _marks(plan: Plan) -> list[Updates | None]:
    """The updates that each node sends, if it sends updates."""
    marks: list[Updates | None] = [None] * len(plan.nodes)
    changed = True
    while changed:
        changed = False
        for node in plan.nodes:
            mark = _sent(node, _read(node, marks))
            changed |= mark != marks[node.index]
            marks[node.index] = mark
    return marks


def _read(node: Node, marks: list[Updates | None]) -> Updates | None:
    return together(marks[port.source.operator] for port in node.inputs if port.source is not None)


def _sent(node: Node, read: Updates | None) -> Updates | None:
    if isinstance(node.sends, Reduces):
        return updates_of(node.name, node.sends, read)
    if isinstance(node.sends, Replaces):
        return replacing(node.name, node.sends)
    passes = Passes.ROWS if node.kind.is_door else node.sends
    return None if passes is None else passed_on(passes, read)
