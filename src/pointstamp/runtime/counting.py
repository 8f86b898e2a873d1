"""Counting the rows that go into and come out of a run in this process, for whoever wants to show them.

Counting is done from outside, at the handles of the inputs and where results are handed over, so that a run
that nobody watches does not pay for it.
"""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from pointstamp.dataflow.schema import to_batches
from pointstamp.runtime.local import LocalInput, LocalRun
from pointstamp.runtime.status import RowCounts
from pointstamp.runtime.worker import Worker


def count_rows(run: LocalRun) -> RowCounts:
    """Count the rows of a run from now on; input handles that were taken before are not counted."""
    rows = RowCounts(dict.fromkeys(run.inputs, 0))
    run.inputs = {name: _CountedInput(run.workers, name, rows) for name in run.inputs}
    hand_over = run.on_result

    def counted(output: str, time: Any, table: pa.Table) -> None:  # noqa: ANN401 - a root time
        rows.finished[output] = rows.finished.get(output, 0) + table.num_rows
        if hand_over is not None:
            hand_over(output, time, table)

    run.on_result = counted
    return rows


class _CountedInput(LocalInput):
    """An input that counts what is sent."""

    def __init__(self, workers: Sequence[Worker], name: str, rows: RowCounts) -> None:
        super().__init__(workers, name)
        self._rows = rows

    def send(self, data: Any) -> int:  # noqa: ANN401 - anything that holds rows
        """Send rows at the current time; return how many bytes they have."""
        sent = 0
        for batch in to_batches(data, self._schema, f"input '{self.name}'"):
            sent += super().send(batch)
            self._rows.sent[self.name] += batch.num_rows
        return sent
