"""Count the rows that enter and leave a run.

Counting is done from outside, at the handles of the inputs and where results are handed over, so that a run
that is not watched does not pay for it.
"""

from typing import Any

import pyarrow as pa

from pointstamp.flow.plan import NodeKind
from pointstamp.rows.schema import input_batches
from pointstamp.rows.undeclared import ExtraColumns
from pointstamp.running.feeding import FeedableRun, RunInput
from pointstamp.running.status import RowCounts


def count_rows(run: FeedableRun) -> RowCounts:
    """Count the rows of a run from now on; input handles that were taken before are not counted."""
    rows = RowCounts(dict.fromkeys(run.inputs, 0))
    for name, node in run.plan.named(NodeKind.INPUT).items():
        run.inputs[name] = _CountedInput(run.inputs[name], node.outputs[0].schema, rows, node.extra_columns)
    hand_over = run.on_result

    def counted(output: str, time: Any, table: pa.Table) -> None:  # noqa: ANN401 - a root time
        rows.finished[output] = rows.finished.get(output, 0) + table.num_rows
        if hand_over is not None:
            hand_over(output, time, table)

    run.on_result = counted
    return rows


class _CountedInput:
    """An input that counts what is sent, and leaves the rest to the one behind it."""

    def __init__(self, handle: RunInput, schema: pa.Schema, rows: RowCounts, extra: ExtraColumns) -> None:
        self._handle = handle
        self._extra: ExtraColumns = extra
        self._schema = schema
        self._rows = rows
        self.name = handle.name

    @property
    def time(self) -> Any:  # noqa: ANN401 - a root time
        return self._handle.time

    @property
    def is_closed(self) -> bool:
        return self._handle.is_closed

    def send(self, data: Any, *, late: bool = False) -> int:  # noqa: ANN401 - anything that holds rows
        if late:
            return self._handle.send(data, late=True)
        sent = 0
        for batch in input_batches(data, self._schema, f"input '{self.name}'", self._extra):
            sent += self._handle.send(batch)
            self._rows.sent[self.name] += batch.num_rows
        return sent

    def advance_to(self, time: Any) -> None:  # noqa: ANN401 - a root time
        self._handle.advance_to(time)

    def close(self) -> None:
        self._handle.close()
