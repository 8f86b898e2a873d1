"""The operator that validates edges and turns them into pairs of ids."""

from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from pointstamp.errors import FlowError, SchemaError
from pointstamp.ports import Context

FACTS: Final = pa.schema([("vertex", pa.int64()), ("other", pa.int64())])


class EdgesToPairs:
    """Checks edges where they come in, and names the greater end first, which is to be told of the lesser."""

    outputs = FACTS

    def __init__(self, src: str, dst: str, diff: str | None) -> None:
        self._src = src
        self._dst = dst
        self._diff = diff

    def on_receive(self, context: Context, input: str, batch: pa.RecordBatch) -> None:  # noqa: A002
        """Send the two ends of every edge."""
        ends = [batch.column(name) for name in (self._src, self._dst)]
        for name, column in zip((self._src, self._dst), ends, strict=True):
            if column.null_count:
                raise SchemaError(
                    f"operator '{context.operator}': column '{name}' must name a vertex in every row, got "
                    f"null in {column.null_count} of {batch.num_rows} rows of epoch {context.epoch}. "
                    "Filter such rows out, or number the vertex."
                )
        if self._diff is not None:
            self._check_added(context, batch)
        src, dst = (column.cast(pa.int64()) for column in ends)
        greater, lesser = pc.max_element_wise(src, dst), pc.min_element_wise(src, dst)
        context.send(pa.RecordBatch.from_arrays([greater, lesser], schema=context.schema()))

    def _check_added(self, context: Context, batch: pa.RecordBatch) -> None:
        added = pc.fill_null(pc.greater(batch.column(self._diff), 0), False)
        refused = batch.filter(pc.invert(added))
        if refused.num_rows:
            first = refused.slice(0, 1).to_pylist()[0]
            raise FlowError(
                f"operator '{context.operator}': edges can only be inserted, but in epoch {context.epoch} "
                f"the edge from {first[self._src]} to {first[self._dst]} has '{self._diff}' "
                f"{first[self._diff]} ({refused.num_rows} such rows). For a graph that loses edges, use "
                "ps.graphs.Graph."
            )
