"""Input columns that hold the epochs of their rows.

All readers of inputs (in this process, in a member of a query, in a task that packs for Spark's shuffle) ask
here what to read and which rows belong to which epoch, so that the answer is the same everywhere. A column
that the input's schema declares stays in the rows, with the type that was declared; one that it does not
declare is read as a long beside the others, and is taken away with the epoch. Or the epochs of an input are
its event time, cut into pieces of one length: then they are computed from a declared column.

Invariant: an epoch that comes out is an integer from 0 up to ``EPOCH_MAX``, and every row comes out once.
The order in which epochs may come, and which are too late, is decided elsewhere.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias, get_args

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pointstamp.arrow.schema import asked_for
from pointstamp.errors import FlowError, SchemaError

EPOCH_MAX: Final = 2**62 - 1
"""Epochs are counted in 64 bits, with room for what comes after the last one."""

# Up to so many epochs, to filter for each is as fast as to sort once.
_FILTERS_MAX: Final = 4
# Arrow's take joins the chunks of a column, whose strings then have at most 2 GiB.
_SORTED_BYTES_MAX: Final = 2**30


@dataclass(frozen=True, slots=True)
class EventEpochs:
    """Epochs that are event time: of which column, how long each is, and how late a row may be.

    Lengths are in the unit of the column. Epoch 0 begins with 1970.
    """

    at: str
    kind: pa.DataType
    every: int
    lateness: int

    def epoch_of(self, instant: int) -> int:
        """The epoch in which an event time lies."""
        return instant // self.every

    def complete_by(self, latest: int) -> int:
        """The epoch before which all rows have come, after one of this event time."""
        return max(0, self.epoch_of(latest - self.lateness))

    def instants(self, rows: Any) -> pa.Array:  # noqa: ANN401 - a batch or a table
        """The event times of rows, as integers."""
        column = rows.column(self.at)
        found = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
        return (found.cast(pa.int32()) if pa.types.is_date32(found.type) else found).cast(pa.int64())

    def __str__(self) -> str:
        return self.at


EpochColumn: TypeAlias = str | EventEpochs
"""A column that holds the epochs, or one that holds the event times of which they are made."""


def check_declared(schema: pa.Schema, column: EpochColumn, who: str) -> None:
    """Reject an epoch column that is not declared as an integer."""
    if isinstance(column, str) and column in schema.names:
        check_type(schema.field(column).type, column, who)


def check_type(given: pa.DataType, column: str, who: str) -> None:
    """Reject an epoch column whose values are not integers."""
    if not pa.types.is_integer(given):
        raise SchemaError(
            f"{who}: the epoch column '{column}' must be an integer, got {given}. {_way_out(given, column)}"
        )


def with_epochs(schema: pa.Schema, column: EpochColumn | None) -> pa.Schema:
    """The columns to read from an input: the declared ones, and the epoch column if it is not among them.

    >>> declared = pa.schema([("day", pa.int32()), ("amount", pa.int64())])
    >>> with_epochs(declared, "day").names, with_epochs(declared, "hour").names
    (['day', 'amount'], ['day', 'amount', 'hour'])
    """
    if not isinstance(column, str) or column in schema.names:
        return schema
    return schema.append(asked_for(column, pa.int64(), by="epoch="))


def by_epoch(
    rows: Any,  # noqa: ANN401 - a batch or a table
    column: EpochColumn,
    schema: pa.Schema,
    who: str,
) -> Iterator[tuple[int, Any]]:
    """The rows of each epoch, earlier epochs first, with the declared columns and no others.

    ``rows`` is a batch or a table of ``with_epochs(schema, column)``, and what comes out is the same.
    """
    if isinstance(column, str):
        epochs = rows.column(column)
        kept = rows if column in schema.names else rows.drop_columns([column])
    else:
        instants, kept = column.instants(rows), rows
        whole = np.floor_divide(pc.fill_null(instants, 0).to_numpy(), column.every)
        epochs = pa.array(whole, mask=np.asarray(instants.is_null()))
    numbers = _distinct(epochs, str(column), who)
    if len(numbers) <= _FILTERS_MAX or kept.nbytes > _SORTED_BYTES_MAX:
        for epoch in numbers:
            yield epoch, kept.filter(pc.equal(epochs, epoch))
        return
    # One pass for all of them; rows of one epoch stay in their order.
    values = np.asarray(epochs)
    order = np.argsort(values, kind="stable")
    ordered = kept.take(pa.array(order))
    starts = np.searchsorted(values[order], np.array(numbers, values.dtype)).tolist()
    for epoch, start, stop in zip(numbers, starts, [*starts[1:], len(values)], strict=True):
        yield epoch, ordered.slice(start, stop - start)


def _distinct(epochs: Any, column: str, who: str) -> list[int]:  # noqa: ANN401 - an array, in chunks or not
    if epochs.null_count:
        raise SchemaError(
            f"{who}: the epoch column '{column}' has nulls, but every row needs an epoch. "
            "Fill or filter them."
        )
    numbers: list[int] = sorted(pc.unique(epochs).to_pylist())
    if numbers and numbers[0] < 0:
        raise SchemaError(
            f"{who}: epochs must be 0 or more, got a row of epoch {numbers[0]}. Filter or shift such rows."
        )
    if numbers and numbers[-1] > EPOCH_MAX:
        raise SchemaError(
            f"{who}: epochs must be at most {EPOCH_MAX}, got a row of epoch {numbers[-1]}. "
            "Filter or shift such rows."
        )
    return numbers


def _way_out(given: pa.DataType, column: str) -> str:
    if pa.types.is_date(given):
        return (
            f"Use the number of the day since 1970 instead: unix_date({column}) in Spark, .cast('int32') of "
            "a date32 in Arrow."
        )
    if pa.types.is_timestamp(given):
        return (
            f"Use a number instead, such as that of its day: unix_date(to_date({column})) in Spark, "
            ".cast('date32').cast('int32') in Arrow."
        )
    return "Send and declare whole numbers from 0 up, or name another column."


# Late rows: rows of an epoch that their input has already passed.
#
# Whether a row is late is decided where rows are read, from what was promised when they were found. The input
# says what becomes of late rows: they are an error, or go to an output of their own, or are dropped; they are
# counted in any case. They never reach the flow itself, whose epochs are complete without them.
#
# An input whose late rows go to an output has a second port for them. Rows that are sent there have the
# declared columns and, last, the epoch that the row names; they are sent at the epoch that is open when they
# arrive.

LatePolicy: TypeAlias = Literal["error", "output", "drop"]
"""The treatment of late rows: ``"error"`` ends the run, ``"output"`` publishes them separately."""

LATE_EPOCH: Final = "late_epoch"
"""The column of late rows that holds the epoch that they name."""

LATE_PORT: Final = 1
"""The number of the port for late rows, of inputs that have one."""


def check_policy(name: str, late: str, late_output: str | None) -> None:
    """Raise FlowError unless this is a policy for the late rows of an input."""
    if late not in get_args(LatePolicy):
        raise FlowError(
            f"input '{name}': late must be one of {', '.join(get_args(LatePolicy))}, got {late!r}. Choose "
            "one of these."
        )
    if late_output is not None and late != "output":
        raise FlowError(
            f"input '{name}': late_output needs late='output', got late={late!r}. Give late='output', or "
            "leave late_output out."
        )


def late_schema(declared: pa.Schema, name: str) -> pa.Schema:
    """The columns of late rows: those of their input, and the epoch that they name.

    >>> late_schema(pa.schema([("x", pa.int64())]), "orders").names
    ['x', 'late_epoch']
    """
    if LATE_EPOCH in declared.names:
        raise FlowError(
            f"input '{name}' declares a column '{LATE_EPOCH}', which is reserved for the epoch of late "
            "rows. Rename the column, or choose late='drop' or late='error'."
        )
    return declared.append(pa.field(LATE_EPOCH, pa.int64()))


def late_rows(rows: Any, epoch: int) -> Any:  # noqa: ANN401 - a batch or a table, as it came
    """Rows of a late epoch as they are sent: with that epoch in a column."""
    epochs = pa.repeat(pa.scalar(epoch, pa.int64()), rows.num_rows)
    return rows.append_column(pa.field(LATE_EPOCH, pa.int64()), epochs)
