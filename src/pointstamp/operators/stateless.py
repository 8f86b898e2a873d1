"""Stateless operators on complete Arrow batches."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from pointstamp.errors import FlowError, SchemaError
from pointstamp.expressions.compiler import compile_condition
from pointstamp.expressions.select_columns import Selection, check_columns, shown
from pointstamp.expressions.time_windows import (
    Span,
    Windows,
    event_time_type,
    instants_of,
    integers_of,
    windows_of,
)
from pointstamp.expressions.tree import Expression
from pointstamp.operators.context import Context
from pointstamp.operators.interface import RunsInChain
from pointstamp.topology.domain import Time

BatchFunction: TypeAlias = Callable[[pa.RecordBatch], Any]
"""Makes rows from a batch: Arrow, a frame or dictionaries, as an input takes them; None for no rows."""

Row: TypeAlias = Mapping[str, Any]


class PhysicalMapBatches(RunsInChain):
    """Send what a function makes of each batch; None sends nothing."""

    keeps: ClassVar = "nothing; a change costs its rows"

    def __init__(self, function: BatchFunction) -> None:
        self._function = function

    def on_receive(self, context: Context, input: str, batch: pa.RecordBatch) -> None:  # noqa: A002
        """Apply the function and send."""
        made = self._function(batch)
        if isinstance(made, pa.Table):
            made = made.combine_chunks()
        if made is not None:
            context.send(made)


class PhysicalProject(RunsInChain):
    """Send each row with columns that are computed from its own."""

    keeps: ClassVar = "nothing; a change costs its rows"

    def __init__(self, selection: Selection) -> None:
        self._selection = selection

    def on_receive(self, context: Context, input: str, batch: pa.RecordBatch) -> None:  # noqa: A002
        """Work the columns out and send."""
        made = self._selection.of(batch)
        context.send(pa.RecordBatch.from_arrays(made, schema=self._selection.schema))


# Filter conditions: an expression, or a user's function of a batch.
#
# An expression of ours is compiled when the flow is written, and one of pyarrow's is tried on no rows, so
# that a misspelt column is an error there and not in a worker. Pyarrow's is computed as a column of booleans,
# by Arrow's engine and in one pass: to filter with a mask costs less than to let Arrow filter by the
# expression, and the rows that are left over need no second pass.
#
# Invariant: a mask has one boolean for each row, and no null: what is neither true nor false counts as false.

MaskFunction: TypeAlias = Callable[[pa.RecordBatch], Any]
"""Gives one boolean for each row of a batch."""

Condition: TypeAlias = MaskFunction | pc.Expression | Expression

_NO_COLUMN: Final = re.compile(r"No match for FieldRef\.\w+\((.*?)\) in ", re.DOTALL)


def checked_condition(condition: Condition, schema: pa.Schema, who: str) -> MaskFunction | pc.Expression:
    """A condition on rows of this schema, compiled where it is an expression of ours.

    What is none is rejected with an error; of a function only that it is one.
    """
    if isinstance(condition, Expression):
        return compile_condition(condition, schema, who)
    if isinstance(condition, pc.Expression):
        _check_expression(condition, schema, who)
    elif not callable(condition):
        raise FlowError(
            f"{who}: the condition must be an expression such as ps.col('price') > 1, or a function from "
            f"a batch to one boolean per row, got {type(condition).__name__} {condition!r}. Write it as "
            "one of these."
        )
    return condition


def mask_of(condition: MaskFunction | pc.Expression, batch: pa.RecordBatch, who: str) -> pa.BooleanArray:
    """Return whether the condition holds, for each row of a batch."""
    if isinstance(condition, pc.Expression):
        mask = _computed(condition, pa.Table.from_batches([batch])).combine_chunks()
    else:
        mask = condition(batch)
        if isinstance(mask, pa.ChunkedArray):
            mask = mask.combine_chunks()
        if not isinstance(mask, pa.Array):
            mask = pa.array(mask)
    if not pa.types.is_boolean(mask.type) or len(mask) != batch.num_rows:
        raise SchemaError(
            f"{who}: the condition must return one boolean per row ({batch.num_rows}), got {len(mask)} of "
            f"type {mask.type}. Return a boolean array."
        )
    return mask.fill_null(False) if mask.null_count else mask


def _computed(expression: pc.Expression, table: pa.Table) -> pa.ChunkedArray:
    """The values of an expression, row by row in the order of the table."""
    from pyarrow import acero  # it loads pandas, which few workers need

    rows = acero.Declaration("table_source", acero.TableSourceNodeOptions(table))
    values = acero.Declaration("project", acero.ProjectNodeOptions([expression], ["value"]), [rows])
    # With threads the order is Arrow's to keep, and a worker has one core anyway.
    return values.to_table(use_threads=False).column(0)


def _check_expression(expression: pc.Expression, schema: pa.Schema, who: str) -> None:
    columns = ", ".join(f"'{field.name}' {field.type}" for field in schema)
    try:
        kind = _computed(expression, schema.empty_table()).type
    except (pa.ArrowException, NotImplementedError) as error:
        missing = _NO_COLUMN.search(str(error))
        if missing is not None:
            raise SchemaError(
                f"{who} needs the column '{missing[1]}' for the condition {expression}; it has {columns}."
            ) from error
        reason = str(error).splitlines()[0]
        raise SchemaError(
            f"{who}: the condition {expression} cannot be computed from {columns}: {reason}. Cast the "
            "columns that it compares."
        ) from error
    if not pa.types.is_boolean(kind):
        raise SchemaError(
            f"{who}: the condition must be boolean, but {expression} is {kind}. Compare it with a value."
        )


class PhysicalFilter(RunsInChain):
    """Send the rows for which a condition holds, and on a second output, if there is one, the others."""

    keeps: ClassVar = "nothing; a change costs its rows"

    def __init__(self, condition: MaskFunction | pc.Expression) -> None:
        self._condition = condition

    def on_receive(self, context: Context, input: str, batch: pa.RecordBatch) -> None:  # noqa: A002
        """Split the batch; a null condition counts as false."""
        mask = mask_of(self._condition, batch, f"operator '{context.operator}'")
        context.send(batch.filter(mask))
        if len(context.output_names) > 1:
            context.send(batch.filter(pc.invert(mask)), output=1)


class Concat(RunsInChain):
    """Send on whatever comes from any input."""

    keeps: ClassVar = "nothing; a change costs its rows"

    def on_receive(self, context: Context, input: str, batch: pa.RecordBatch) -> None:  # noqa: A002
        """Pass the batch on."""
        context.send(batch)


class PhysicalInspect(RunsInChain):
    """Show each batch with its time to a function, and send it on."""

    keeps: ClassVar = "nothing; a change costs its rows"

    def __init__(self, function: Callable[[Any, pa.RecordBatch], None]) -> None:
        self._function = function

    def on_receive(self, context: Context, input: str, batch: pa.RecordBatch) -> None:  # noqa: A002
        """Call the function and pass the batch on."""
        self._function(context.time, batch)
        context.send(batch)


class FlatMapRows(RunsInChain):
    """Send the rows that a Python function yields for each row; it runs once per row."""

    keeps: ClassVar = "nothing; a change costs its rows"

    def __init__(self, function: Callable[[Row], Iterable[Row]]) -> None:
        self._function = function

    def on_receive(self, context: Context, input: str, batch: pa.RecordBatch) -> None:  # noqa: A002
        """Call the function for every row of the batch."""
        # As rows, so that a misspelt column and a value that would be cut are refused, not made to fit.
        context.send(rows_of_rows(self._function, batch, context.operator))


class PhysicalMapRows(FlatMapRows):
    """Send the row that a Python function makes of each row; it runs once per row."""

    def __init__(self, function: Callable[[Row], Row]) -> None:
        super().__init__(lambda row: (function(row),))


def rows_of_rows(
    function: Callable[[Row], Iterable[Row]], batch: pa.RecordBatch, operator: str
) -> list[dict[str, Any]]:
    """The rows that a Python function yields for each row of a batch."""
    rows: list[Any] = []  # as far as anybody has looked
    for row in batch.to_pylist():
        made = function(row)
        if not isinstance(made, Iterable):
            raise SchemaError(
                f"operator '{operator}': the function must return a list of dictionaries, or yield them, "
                f"got {type(made).__name__}. For no rows, return an empty list."
            )
        rows.extend(made)
    return [dict(row) if isinstance(row, Mapping) else row for row in rows]


# The endpoints of a flow: inputs for batches, outputs for finished times.

Deliver: TypeAlias = Callable[[str, Time, list[pa.RecordBatch]], None]
"""Takes what one worker has for an output at a time that is complete: the output's name, time, batches."""


class Collect:
    """Gathers what arrives per time, and hands it over when the time is complete.

    Whoever knows that a time is complete on this worker before this operator is told may ask for it
    (``hand_over``); with ``is_asked`` the operator does not wait to be told.
    """

    def __init__(self) -> None:
        self.deliver: Deliver | None = None
        self.is_asked = False
        self._name = ""
        self._batches: dict[Time, list[pa.RecordBatch]] = {}

    def on_receive(self, context: Context, input: str, batch: pa.RecordBatch) -> None:  # noqa: A002
        """Keep the batch until its time is complete."""
        held = self._batches.get(context.time)
        if held is None:
            self._batches[context.time] = [batch]
            self._name = context.operator
            if not self.is_asked:
                context.notify_at()
        else:
            held.append(batch)

    def on_notify(self, context: Context) -> None:
        """Hand over everything of a complete time."""
        # After a restore by another number of workers, one may be told of a time that it has nothing of.
        batches = self._batches.pop(context.time, [])
        if batches and self.deliver is not None:
            self.deliver(context.operator, context.time, batches)

    def hand_over(self, lower: Sequence[Time], less_equal: Callable[[Time, Time], bool]) -> None:
        """Hand over everything of the times that are not at or above one of these."""
        done = [time for time in self._batches if not any(less_equal(each, time) for each in lower)]
        for time in done:
            batches = self._batches.pop(time)
            if self.deliver is not None:
                self.deliver(self._name, time, batches)


# Explode a list column, for streams and tables.
#
# All other columns are passed on, the weight of a table's row among them: a row that is there twice is
# exploded into elements that are there twice, and one that disappears takes its elements with it.


@dataclass(frozen=True, slots=True)
class ExplodePlan:
    """A checked explode: the list column, the treatment of empty lists, and the output schema."""

    column: str
    is_outer: bool
    position: str | None
    schema: pa.Schema

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows of a batch, one for each element."""
        lists = batch.column(self.column)
        there = batch.filter(pc.is_valid(lists))  # a null list of a fixed size would have elements
        parents = pc.list_parent_indices(there.column(self.column)).to_numpy()
        firsts = np.searchsorted(parents, parents, "left")
        elements = pc.list_flatten(there.column(self.column))
        made = self._made(there.take(pa.array(parents)), elements, pa.array(np.arange(len(parents)) - firsts))
        if not self.is_outer:
            return made
        alone = batch.filter(pc.equal(pc.fill_null(pc.list_value_length(lists), 0), 0))
        nulls = pa.nulls(alone.num_rows, elements.type), pa.nulls(alone.num_rows, pa.int64())
        return pa.concat_batches([made, self._made(alone, *nulls)])

    def _made(self, rows: pa.RecordBatch, elements: pa.Array, positions: pa.Array) -> pa.RecordBatch:
        new = {self.column: elements, self.position: positions}
        return pa.RecordBatch.from_arrays(
            [new[name] if name in new else rows.column(name) for name in self.schema.names],
            schema=self.schema,
        )


class PhysicalExplode(RunsInChain):
    """Sends one row for each element of a list."""

    keeps: ClassVar = "nothing; a change costs its rows"

    def __init__(self, plan: ExplodePlan) -> None:
        self._plan = plan

    def on_receive(self, context: Context, input: str, batch: pa.RecordBatch) -> None:  # noqa: A002
        """Explode the batch and send."""
        context.send(self._plan(batch))


def exploding(
    who: str,
    schema: pa.Schema,
    column: str,
    position: str | None,
    *,
    is_outer: bool,
    last: tuple[pa.Field, ...] = (),
) -> ExplodePlan:
    """Return a checked explode; ``last`` are columns that stay last."""
    check_columns(who, schema, [column])
    kind = schema.field(column).type
    if not (types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)):
        raise SchemaError(f"{who}: column '{column}' must be a list, got {kind}. It has {shown(schema)}.")
    if position is not None and position in schema.names:
        raise SchemaError(
            f"{who}: the column '{position}' already exists. Choose another name for position=."
        )
    fields = [pa.field(each.name, kind.value_type) if each.name == column else each for each in schema]
    extra = [] if position is None else [pa.field(position, pa.int64())]
    return ExplodePlan(column, is_outer, position, pa.schema([*fields, *extra, *last]))


# Assign rows to time windows: one row per window.
#
# Nothing is kept: in which windows a row lies depends on the row alone. So a row that is retracted is taken
# back from the same windows.


@dataclass(frozen=True, slots=True)
class Windowing:
    """The column, the windows, and the columns of the result."""

    at: str
    windows: Windows
    schema: pa.Schema


def windowing(
    who: str,
    schema: pa.Schema,
    at: str,
    lengths: tuple[Span, Span | None, Span | None],
    names: tuple[str, str],
) -> Windowing:
    """Return the checked windows; SchemaError for a missing or existing column."""
    check_columns(who, schema, [at])
    found = schema.field(at).type
    windows = windows_of(f"{who}, of '{at}',", found, *lengths)
    for name in names:
        if name in schema.names or names[0] == names[1]:
            raise SchemaError(
                f"{who}: the column '{name}' already exists. Choose other names with start= and end=, or "
                "rename it."
            )
    gives = event_time_type(who, found)
    return Windowing(at, windows, pa.schema([*schema, *(pa.field(name, gives) for name in names)]))


class InWindows(RunsInChain):
    """Sends each row once for each window in which it lies, with its beginning and end."""

    keeps: ClassVar = "nothing; a change costs its rows"

    def __init__(self, asked: Windowing) -> None:
        self._asked = asked

    def on_receive(self, context: Context, input: str, batch: pa.RecordBatch) -> None:  # noqa: A002
        """Send the rows of the batch in their windows."""
        windows, schema = self._asked.windows, self._asked.schema
        instants = integers_of(batch.column(self._asked.at))
        there = np.flatnonzero(np.asarray(instants.is_valid()))
        instants = instants.take(pa.array(there))
        since = windows.since_start(instants.to_numpy())
        # The last window of each row, and from there on back those that are still open at it.
        back = since[:, None] + np.arange(windows.count_max, dtype=np.int64) * windows.slide
        which, earlier = np.nonzero(back < windows.size)
        starts = pc.subtract_checked(instants.take(pa.array(which)), pa.array(back[which, earlier]))
        ends = pc.add_checked(starts, pa.scalar(windows.size, pa.int64()))
        rows, own = batch.take(pa.array(there[which])), len(schema) - 2
        added = [instants_of(each, schema.field(own).type) for each in (starts, ends)]
        # A weight, where the rows have one, stays the last column.
        fields = pa.schema([*schema, *list(rows.schema)[own:]])
        columns = [*rows.columns[:own], *added, *rows.columns[own:]]
        context.send(pa.RecordBatch.from_arrays(columns, schema=fields))
