"""What has come of times that are not complete: the changes of a table, by time and input.

Invariant: every change that is put in is taken out once, with the changes of its own time and input.
"""

from collections.abc import Mapping

import pyarrow as pa

from pointstamp.tables.kept.run import Layout, Run, run_of
from pointstamp.tables.kept.weights import columns_without_weight
from pointstamp.topology.domain import Time


class OpenChanges:
    """Changes that wait for their time to be complete; for one operator."""

    def __init__(self) -> None:
        self._batches: dict[Time, dict[str, list[pa.RecordBatch]]] = {}
        self._by_row: dict[str, Layout] = {}

    def put(self, time: Time, name: str, batch: pa.RecordBatch) -> None:
        """Keep a batch of an input until its time is taken."""
        self._batches.setdefault(time, {}).setdefault(name, []).append(batch)

    def take(self, time: Time) -> dict[str, pa.RecordBatch]:
        """The change at a time, for each input that has one; equal rows are added up."""
        taken = self._batches.pop(time, {})
        changes = {name: self._run_by_row(name, _together(batches)) for name, batches in taken.items()}
        return {name: change.batch for name, change in changes.items() if len(change)}

    def _run_by_row(self, name: str, batch: pa.RecordBatch) -> Run:
        layout = self._by_row.get(name)
        if layout is None or layout.schema != batch.schema:
            layout = self._by_row[name] = _layout_by_row(batch.schema)
        return run_of(batch, layout)

    def take_runs(self, time: Time, layouts: Mapping[str, Layout]) -> dict[str, Run]:
        """The same, by the keys of each input: hashed and sorted once for all that is done with it."""
        taken = self._batches.pop(time, {})
        runs = {name: run_of(_together(batches), layouts[name]) for name, batches in taken.items()}
        return {name: run for name, run in runs.items() if len(run)}

    def __len__(self) -> int:
        return len(self._batches)


def added_up(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    """The sum of changes: every row once, none with the weight 0."""
    batch = _together(batches)
    return run_of(batch, _layout_by_row(batch.schema)).batch


def _layout_by_row(schema: pa.Schema) -> Layout:
    return Layout(schema, tuple(columns_without_weight(schema)))


def _together(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)
