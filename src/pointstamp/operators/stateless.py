"""Stateless operators on complete Arrow batches."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from pointstamp.errors import SchemaError
from pointstamp.expressions.selecting import Selection
from pointstamp.operators.condition import MaskFunction, mask_of
from pointstamp.operators.context import Context

BatchFunction: TypeAlias = Callable[[pa.RecordBatch], Any]
"""Makes rows from a batch: Arrow, a frame or dictionaries, as an input takes them; None for no rows."""

Row: TypeAlias = Mapping[str, Any]


class MapBatches:
    """Send what a function makes of each batch; None sends nothing."""

    keeps: ClassVar = "nothing; a change costs its rows"
    runs_in_chain: ClassVar = True

    def __init__(self, function: BatchFunction) -> None:
        self._function = function

    def on_receive(self, context: Context, input: str, batch: pa.RecordBatch) -> None:  # noqa: A002
        """Apply the function and send."""
        made = self._function(batch)
        if isinstance(made, pa.Table):
            made = made.combine_chunks()
        if made is not None:
            context.send(made)


class Project:
    """Send each row with columns that are computed from its own."""

    keeps: ClassVar = "nothing; a change costs its rows"
    runs_in_chain: ClassVar = True

    def __init__(self, selection: Selection) -> None:
        self._selection = selection

    def on_receive(self, context: Context, input: str, batch: pa.RecordBatch) -> None:  # noqa: A002
        """Work the columns out and send."""
        made = self._selection.of(batch)
        context.send(pa.RecordBatch.from_arrays(made, schema=self._selection.schema))


class Filter:
    """Send the rows for which a condition holds, and on a second output, if there is one, the others."""

    keeps: ClassVar = "nothing; a change costs its rows"
    runs_in_chain: ClassVar = True

    def __init__(self, condition: MaskFunction | pc.Expression) -> None:
        self._condition = condition

    def on_receive(self, context: Context, input: str, batch: pa.RecordBatch) -> None:  # noqa: A002
        """Split the batch; a null condition counts as false."""
        mask = mask_of(self._condition, batch, f"operator '{context.operator}'")
        context.send(batch.filter(mask))
        if len(context.output_names) > 1:
            context.send(batch.filter(pc.invert(mask)), output=1)


class Concat:
    """Send on whatever comes from any input."""

    keeps: ClassVar = "nothing; a change costs its rows"
    runs_in_chain: ClassVar = True

    def on_receive(self, context: Context, input: str, batch: pa.RecordBatch) -> None:  # noqa: A002
        """Pass the batch on."""
        context.send(batch)


class Inspect:
    """Show each batch with its time to a function, and send it on."""

    keeps: ClassVar = "nothing; a change costs its rows"
    runs_in_chain: ClassVar = True

    def __init__(self, function: Callable[[Any, pa.RecordBatch], None]) -> None:
        self._function = function

    def on_receive(self, context: Context, input: str, batch: pa.RecordBatch) -> None:  # noqa: A002
        """Call the function and pass the batch on."""
        self._function(context.time, batch)
        context.send(batch)


class FlatMapRows:
    """Send the rows that a Python function yields for each row; it runs once per row."""

    keeps: ClassVar = "nothing; a change costs its rows"
    runs_in_chain: ClassVar = True

    def __init__(self, function: Callable[[Row], Iterable[Row]]) -> None:
        self._function = function

    def on_receive(self, context: Context, input: str, batch: pa.RecordBatch) -> None:  # noqa: A002
        """Call the function for every row of the batch."""
        # As rows, so that a misspelt column and a value that would be cut are refused, not made to fit.
        context.send(rows_of_rows(self._function, batch, context.operator))


class MapRows(FlatMapRows):
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
