"""Save and restore shortest-path state: steps, starts and keys.

What is saved is the steps and starts by the vertex to which they lead, and by every worker the keys of all
vertices, for where as many workers continue, each gets back what it has saved itself.
"""

from collections.abc import Mapping
from typing import Final

import numpy as np
import pyarrow as pa

import pointstamp as ps
from pointstamp.graphs.arrays.columns import DIFF, added_up, arrays_of, batch_of, table_of
from pointstamp.graphs.graph import DST, ID, SRC
from pointstamp.graphs.paths.step_changes import StartChanges, StepChanges
from pointstamp.graphs.paths.way_keys import Told
from pointstamp.graphs.paths.ways import Ways

DISTANCE: Final = "distance"
LENGTH: Final = "length"


class SavedWays:
    """The changes since the last save; changed by the operator that owns it.

    Distances are of a type, and so are lengths, unless all steps have the one that is given.
    """

    def __init__(self, kind: pa.DataType, length: int | None) -> None:
        ends, counted = [(ID, pa.int64()), (DISTANCE, kind)], (DIFF, pa.int64())
        lengths = [(LENGTH, kind)] if length is None else []
        self._kept = {
            "steps": pa.schema([(SRC, pa.int64()), (DST, pa.int64()), *lengths, counted]),
            "starts": pa.schema([*ends, counted]),
            "keys": pa.schema([*ends, ("steps", pa.int32())]),
        }
        self._length = length
        # What has changed since it was last saved, once it was.
        self._unsaved: dict[str, list[pa.RecordBatch]] | None = None

    def steps_of(self, table: pa.Table) -> StepChanges:
        """The steps of a table, with their lengths."""
        columns = arrays_of(table)
        if self._length is not None:
            columns.insert(2, np.full(len(columns[0]), self._length, np.int8))
        return StepChanges(*columns)

    def note(self, come: Mapping[str, pa.Table]) -> None:
        """These steps and starts have come and gone."""
        if self._unsaved is not None:
            for name, changes in self._unsaved.items():
                changes += come[name].to_batches() if name in come else []

    def save(self, ways: Ways, *, changes_only: bool) -> Mapping[str, ps.ports.Piece]:
        """Steps and starts by the vertex to which they lead, and the keys of all vertices."""
        changes, self._unsaved = self._unsaved, {"steps": [], "starts": []}
        is_whole = not changes_only or changes is None
        rows = self._all(ways) if is_whole or changes is None else changes
        steps, starts = (table_of(self._kept[name], rows[name]) for name in ("steps", "starts"))
        keys = batch_of(self._kept["keys"], *ways.keys(changes_only=not is_whole))
        return {
            "steps": ps.ports.Piece(steps, (DST,), is_whole=is_whole, adds_up=True),
            "starts": ps.ports.Piece(starts, (ID,), is_whole=is_whole, adds_up=True),
            "keys": ps.ports.Piece(pa.Table.from_batches([keys]), (), (ID,), is_whole=is_whole),
        }

    def _all(self, ways: Ways) -> dict[str, list[pa.RecordBatch]]:
        src, dst, length, count = ways.all_steps()
        lengths = [length] if self._length is None else []
        steps = batch_of(self._kept["steps"], src, dst, *lengths, count)
        return {"steps": [steps], "starts": [batch_of(self._kept["starts"], *ways.all_starts())]}

    def restore(self, ways: Ways, pieces: Mapping[str, pa.Table], worker: int, workers: int) -> None:
        """Let ways continue with the steps and starts of a worker's vertices, and with the keys of all."""
        steps, starts = (added_up(pieces[name]) for name in ("steps", "starts"))
        is_own = ps.ports.saved.owners(pieces["keys"], (ID,), workers) == worker
        ways.restore(self.steps_of(steps), StartChanges(*arrays_of(starts)), told_of(pieces["keys"]), is_own)


def told_of(table: pa.Table) -> Told:
    """The keys of a table."""
    return Told(*arrays_of(table)[:3])
