"""Logical operators of streams, event time and loops.

Row by row a stream and a table have the same operators (``plan/logical.py``): ``Project``, ``Filter``,
``Explode``, ``MapBatches``, ``TimeWindow``, ``Union``. What is here is about epochs, about how rows are
shared among workers, about the ways from a stream to a table and back, and about event time.

A loop that is wired by hand is a ``LoopScope``; ``EnterLoop``, ``LoopVariable``, ``Feedback`` and
``LeaveLoop`` name it. ``Feedback`` reads both the variable and what it is fed with, so a plan with cycles is
an acyclic graph of operators here, too. ``plan/recursion.py`` makes an ``Iterate`` of a loop of tables.

An operator with several results has no columns itself: ``Port`` is one of its results.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property
from typing import Any, Literal

import pyarrow as pa

from pointstamp.arrangement.consolidate import DIFF, DIFF_FIELD
from pointstamp.arrow.epoch_column import LatePolicy
from pointstamp.arrow.schema import ExtraColumns, as_schema
from pointstamp.expressions.compiler import compile_expression
from pointstamp.expressions.select_columns import check_columns
from pointstamp.expressions.time_windows import Span
from pointstamp.expressions.tree import Expression
from pointstamp.flow.event_epochs import EventTime
from pointstamp.flow.physical_stream import needs_groups
from pointstamp.incremental.hash_join import joining
from pointstamp.incremental.requested_aggregates import table_aggregates
from pointstamp.incremental.session_windows import sessions
from pointstamp.operators.stateless import Condition, Row
from pointstamp.plan.logical import LogicalOperator, ScanKind, Variable
from pointstamp.reduce.aggregate import Aggregate, Aggregation
from pointstamp.reduce.binding import Arguments
from pointstamp.reduce.reductions import reduced_schema
from pointstamp.topology.summary import Summary

_NO_COLUMNS = pa.schema([])


# Inputs and outputs of a flow.


@dataclass(frozen=True, eq=False)
class Input(LogicalOperator):
    """A stream that comes from outside."""

    input: str
    declared: pa.Schema
    epoch: EventTime | None = None
    late: LatePolicy | None = None
    late_output: str | None = None
    extra_columns: ExtraColumns = "warn"

    @cached_property
    def schema(self) -> pa.Schema:
        """Return the declared columns."""
        return self.declared


@dataclass(frozen=True, eq=False)
class Output(LogicalOperator):
    """A result of the flow under a name: a stream, or the changes of a table."""

    input: LogicalOperator
    output: str

    @cached_property
    def schema(self) -> pa.Schema:
        """Return the columns of the result."""
        return self.input.schema


@dataclass(frozen=True, eq=False)
class Port(LogicalOperator):
    """One of several results of an operator."""

    input: LogicalOperator
    number: int
    declared: pa.Schema

    @cached_property
    def schema(self) -> pa.Schema:
        """Return the columns that this result is declared to have."""
        return self.declared


@dataclass(frozen=True, eq=False)
class Custom(LogicalOperator):
    """An operator that a user wrote, with named inputs; its results are ``Port``."""

    parts: tuple[LogicalOperator, ...]
    ports: tuple[str, ...]
    logic: Any
    outputs: str | pa.Schema | Mapping[str, str | pa.Schema] | None = None
    summaries: Mapping[tuple[str, str], Sequence[Summary]] | None = None

    @cached_property
    def schema(self) -> pa.Schema:
        """Return no columns: those of a result are the columns of its ``Port``."""
        return _NO_COLUMNS


@dataclass(frozen=True, eq=False)
class _Same(LogicalOperator):
    """An operator whose rows have the columns of its input."""

    input: LogicalOperator

    @cached_property
    def schema(self) -> pa.Schema:
        """Return the columns of the input."""
        return self.input.schema


@dataclass(frozen=True, eq=False)
class Lowered(LogicalOperator):
    """An operator that was lowered by hand: its inputs are unknown, so a plan with it is not optimized."""

    declared: pa.Schema

    @cached_property
    def schema(self) -> pa.Schema:
        """Return the columns of what it was lowered to."""
        return self.declared


# Which worker has a row.


@dataclass(frozen=True, eq=False)
class Exchange(_Same):
    """Each row at the worker of its key, or of the shard that a function gives."""

    keys: tuple[str, ...]
    by: Callable[[pa.RecordBatch], Any] | None = None


@dataclass(frozen=True, eq=False)
class Broadcast(_Same):
    """Every row at every worker."""


# Row by row, for streams only.


@dataclass(frozen=True, eq=False)
class MapRows(LogicalOperator):
    """What a user's function makes of each row, as dictionaries: one row, or with ``is_flat`` any number."""

    input: LogicalOperator
    function: Callable[[Row], Any]
    declared: pa.Schema
    is_flat: bool = False
    version: str | None = None
    """As of ``MapBatches``."""

    @cached_property
    def schema(self) -> pa.Schema:
        """Return the columns that the function is declared to make."""
        return self.declared


@dataclass(frozen=True, eq=False)
class FilterBatches(_Same):
    """The rows for which a user's function, or an expression of pyarrow, says true."""

    condition: Condition


@dataclass(frozen=True, eq=False)
class Split(_Same):
    """The rows for which a condition holds, and the others: two results."""

    condition: Condition


@dataclass(frozen=True, eq=False)
class Inspect(_Same):
    """The same rows, shown to a user's function batch by batch."""

    function: Callable[[Any, pa.RecordBatch], None]


@dataclass(frozen=True, eq=False)
class Probed(_Same):
    """A place that a running flow can be asked about."""


@dataclass(frozen=True, eq=False)
class Delay(_Same):
    """The same rows, some epochs later."""

    epochs: int = 1


# By epoch, and over all epochs.


@dataclass(frozen=True, eq=False)
class PerEpoch(LogicalOperator):
    """What a body makes of the tables that the rows of each epoch are; the body is over ``variables``."""

    parts: tuple[LogicalOperator, ...]
    variables: tuple[Variable, ...]
    body: LogicalOperator
    in_parts: bool = False
    """Whether the body makes rows that another part of it retracts."""

    @cached_property
    def schema(self) -> pa.Schema:
        """Return the columns that the body makes."""
        return self.body.schema


@dataclass(frozen=True, eq=False)
class StreamAggregate(LogicalOperator):
    """One row for each key of an epoch; or with ``is_running`` the new row of each key that changed."""

    input: LogicalOperator
    keys: tuple[str, ...]
    aggregates: tuple[tuple[str, Aggregation], ...]
    is_running: bool = False

    @cached_property
    def schema(self) -> pa.Schema:
        """Return the key columns and the aggregates."""
        who, rows, asked = str(self), self.input.schema, dict(self.aggregates)
        check_columns(who, rows, self.keys)
        if not needs_groups(self.keys, asked) and not _is_computed(asked):
            return reduced_schema(who, rows, self.keys, asked)
        found = table_aggregates(who, rows, asked, Arguments(self.keys))
        results = [pa.field(column, each.result_type) for column, each in found.items()]
        return pa.schema([*map(rows.field, self.keys), *results])


def _is_computed(aggregates: Mapping[str, Aggregation]) -> bool:
    return any(
        isinstance(each, Aggregate) and (each.where is not None or isinstance(each.column, Expression))
        for each in aggregates.values()
    )


@dataclass(frozen=True, eq=False)
class Rolling(LogicalOperator):
    """Each row of a stream with aggregates of the last rows of its key up to it, in an order."""

    input: LogicalOperator
    keys: tuple[str, ...]
    rows: int
    by: tuple[str, ...]
    aggregates: tuple[tuple[str, Aggregation], ...]

    @cached_property
    def schema(self) -> pa.Schema:
        """Return the columns of the input, and the aggregates."""
        who, rows = str(self), self.input.schema
        found = table_aggregates(who, rows, dict(self.aggregates), Arguments(tuple(rows.names)))
        return pa.schema([*rows, *(pa.field(name, each.result_type) for name, each in found.items())])


@dataclass(frozen=True, eq=False)
class Lookup(LogicalOperator):
    """Each row of a stream beside the rows of a table that have its key, as the table is after its epoch."""

    input: LogicalOperator
    table: LogicalOperator
    keys: tuple[tuple[str, str], ...]
    kind: Literal["inner", "left"] = "inner"
    suffix: str = "_right"

    @cached_property
    def schema(self) -> pa.Schema:
        """Return the columns of a pair."""
        return joining(str(self), self.input.schema, self.table.schema, dict(self.keys), self.suffix).result


# From a stream to a table, and back.


@dataclass(frozen=True, eq=False)
class ToTable(LogicalOperator):
    """The table that the rows of a stream make."""

    input: LogicalOperator
    kind: ScanKind = "append"
    weight: str | None = None
    operation: str | None = None
    empty: str | None = None
    """Of snapshots: the column that marks that there are no rows."""
    keys: tuple[str, ...] = ()
    order: str | None = None
    deleted: str | None = None
    is_event_time: bool = False
    """Of upserts: whether the order column is the event time, whose watermark frees tombstones."""
    declared: str | pa.Schema | None = None
    """Of change events in JSON: the columns of the table."""
    value: str | None = None
    """Of change events in JSON: the column that holds them."""
    trusted: bool = False
    """As of ``Scan``."""

    @cached_property
    def schema(self) -> pa.Schema:
        """Return the columns of a row."""
        rows = self.input.schema
        named = (self.weight, self.operation, self.empty, self.deleted)
        if self.kind == "debezium":
            if self.value is not None:
                assert self.declared is not None, "JSON text does not name its columns"
                return as_schema(self.declared)
            check_columns(str(self), rows, ["after"])
            after = rows.field("after").type
            return pa.schema([after.field(number) for number in range(after.num_fields)])
        check_columns(str(self), rows, [*self.keys, *filter(None, named)])
        hidden = {*filter(None, named)}
        if self.operation == "_change_type":
            hidden |= {"_commit_version", "_commit_timestamp"}
        return pa.schema([pa.field(each.name, each.type) for each in rows if each.name not in hidden])


@dataclass(frozen=True, eq=False)
class FromChanges(LogicalOperator):
    """The table whose changes a stream has, with the weight of each row in its last column."""

    input: LogicalOperator

    @cached_property
    def schema(self) -> pa.Schema:
        """Return the columns without the weight."""
        assert self.input.schema.names[-1] == DIFF
        return pa.schema(list(self.input.schema)[:-1])


@dataclass(frozen=True, eq=False)
class Consolidate(_Same):
    """The same table, whose changes of an epoch are consolidated before they are sent."""


@dataclass(frozen=True, eq=False)
class TableChanges(LogicalOperator):
    """The changes of a table: each row that changed in an epoch once, with its weight."""

    input: LogicalOperator

    @cached_property
    def schema(self) -> pa.Schema:
        """Return the columns of the table, and the weight."""
        return pa.schema([*self.input.schema, DIFF_FIELD])


@dataclass(frozen=True, eq=False)
class UpsertsOf(LogicalOperator):
    """For each key of a table that changed in an epoch its row, or that it is gone."""

    input: LogicalOperator
    keys: tuple[str, ...]
    deleted: str = "deleted"

    @cached_property
    def schema(self) -> pa.Schema:
        """Return the columns of the table, and the mark of keys that are gone."""
        return pa.schema([*self.input.schema, pa.field(self.deleted, pa.bool_(), nullable=False)])


@dataclass(frozen=True, eq=False)
class AppendedRows(_Same):
    """The rows of a table that only grows, as a stream."""


# Event time.


@dataclass(frozen=True, eq=False)
class Watermark(_Same):
    """The rows of a stream that are in time, by a promise how late they may be."""

    at: str
    lateness: Span
    late: LatePolicy = "output"
    late_output: str | None = None
    idle: str | timedelta | None = None


@dataclass(frozen=True, eq=False)
class _Timed(LogicalOperator):
    """Something that waits for event time."""

    input: LogicalOperator
    when: Expression
    clock: tuple[LogicalOperator, ...] = ()
    """By whose watermarks it goes besides those of its input: of SQL, all tables that the query reads."""

    @cached_property
    def schema(self) -> pa.Schema:
        """Return the columns of the input."""
        compile_expression(self.when, self.input.schema, str(self))
        return self.input.schema


@dataclass(frozen=True, eq=False)
class TemporalFilter(_Timed):
    """The rows of a table until event time has passed what they say."""


@dataclass(frozen=True, eq=False)
class EmitOnClose(_Timed):
    """Each row of a table once, as a stream, as it is when event time has passed what it says."""


@dataclass(frozen=True, eq=False)
class DelayUntil(_Timed):
    """Each row of a stream once, when event time has passed what it says."""


@dataclass(frozen=True, eq=False)
class SessionWindow(LogicalOperator):
    """Each row with its session: rows of a key that are close in time."""

    input: LogicalOperator
    keys: tuple[str, ...]
    at: str
    gap: Span
    start: str = "session_start"
    end: str = "session_end"
    emits: Literal["always", "while open", "once"] = "always"
    """All rows; those whose session is open; or each row once, as a stream, when its session is over."""
    clock: tuple[LogicalOperator, ...] = ()
    """As of ``TemporalFilter``."""

    @cached_property
    def schema(self) -> pa.Schema:
        """Return the columns of the input, and the start and the end of the session."""
        check_columns(str(self), self.input.schema, self.keys)
        asked = sessions(str(self), self.input.schema, self.at, self.gap, (self.start, self.end))
        return pa.schema(list(asked.result)[:-1])


@dataclass(frozen=True, eq=False)
class IntervalJoin(LogicalOperator):
    """The pairs of rows with equal keys whose event times are close, each once, as a stream."""

    left: LogicalOperator
    right: LogicalOperator
    keys: tuple[tuple[str, str], ...]
    at: tuple[str, str]
    within: Span | tuple[Span, Span]
    suffix: str = "_right"

    @cached_property
    def schema(self) -> pa.Schema:
        """Return the columns of a pair."""
        return joining(str(self), self.left.schema, self.right.schema, dict(self.keys), self.suffix).result


# Loops that are wired by hand.


@dataclass(frozen=True, eq=False)
class LoopScope(LogicalOperator):
    """A loop as a place; it stands where ``at`` is, and is one of tables if that is a table."""

    at: LogicalOperator
    rounds_max: int | None = None
    at_limit: str = "error"
    of_tables: bool = False

    @cached_property
    def schema(self) -> pa.Schema:
        """Return no columns: a loop has no rows."""
        return _NO_COLUMNS


@dataclass(frozen=True, eq=False)
class EnterLoop(_Same):
    """The same rows inside a loop: of a stream in round 0, of a table in every round."""

    loop: LogicalOperator

    @property
    def loop_entered(self) -> LogicalOperator:
        """Return the loop."""
        return self.loop


@dataclass(frozen=True, eq=False)
class LoopVariable(LogicalOperator):
    """What comes round again in a loop; ``Feedback`` says what that is."""

    loop: LogicalOperator
    declared: pa.Schema
    start: LogicalOperator | None = None
    """Of tables: what it is in round 0; None: a table without rows."""

    @property
    def loop_entered(self) -> LogicalOperator:
        """Return the loop."""
        return self.loop

    @cached_property
    def schema(self) -> pa.Schema:
        """Return the columns that it has in every round."""
        return pa.schema([pa.field(each.name, each.type) for each in self.declared])


@dataclass(frozen=True, eq=False)
class FlowVariable(LogicalOperator):
    """A stream outside loops that is fed later, and comes out at the times that a summary says."""

    declared: pa.Schema
    summary: Summary

    @cached_property
    def schema(self) -> pa.Schema:
        """Return the declared columns."""
        return self.declared


@dataclass(frozen=True, eq=False)
class Feedback(LogicalOperator):
    """That a variable is fed with something, of a loop or of the flow."""

    variable: LogicalOperator
    input: LogicalOperator
    loop: LogicalOperator | None = None

    @cached_property
    def schema(self) -> pa.Schema:
        """Return no columns: this is what the variable is made of, and nothing that is read."""
        return _NO_COLUMNS


@dataclass(frozen=True, eq=False)
class LeaveLoop(_Same):
    """The same rows outside the loop, without their round."""

    loop: LogicalOperator

    @property
    def loop_left(self) -> LogicalOperator:
        """Return the loop."""
        return self.loop
