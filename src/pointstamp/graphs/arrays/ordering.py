"""Integers in the order of ids, for algorithms that break ties by id.

One worker has all ids; which one, the name of the operator decides. It gives each id a number when it comes
(``ordered_ids``), and may have to give others to ids beside it: then the rows of these change, and with them
the edges at them. Which id has which number depends on what has come in which order, and only their order
does not. So nothing that is emitted may depend on numbers in any other way.
"""

import zlib
from collections.abc import Mapping
from typing import Any, ClassVar, Final

import numpy as np
import pyarrow as pa

import pointstamp as ps
from pointstamp.graphs.arrays.columns import DIFF, added_up, table_of
from pointstamp.graphs.arrays.numbering import NUMBER
from pointstamp.graphs.arrays.ordered_ids import OrderedIds

_HOME: Final = "home"


def ordered_numbers_of(ids: ps.Table, *, name: str) -> ps.Table:
    """Return ``number`` and ``id`` of every id, in the same order."""
    home = zlib.crc32(name.encode())
    at_one = ids.with_columns(home=ps.lit(home, "long")).named(f"{name}: brought together")
    changes = at_one.changes().named(f"{name}: ids")
    logic = GiveOrderedNumbers(changes.schema, home)
    return ps.Table(ps.operator(name, logic, ids=changes.exchange(_HOME)))


class GiveOrderedNumbers:
    """Takes the ids that come and go, epoch by epoch, and sends how the numbers of ids change."""

    keeps: ClassVar = "on one worker a number for each vertex, in order; a change costs a pass over them"
    takes_times_in_order = True

    def __init__(self, ids: pa.Schema, home: int) -> None:
        self.outputs = pa.schema([(NUMBER, pa.int64()), ids.field("id"), ids.field(DIFF)])
        self._kept = pa.schema([*self.outputs, (_HOME, pa.int64())])
        self._home = home
        self._ordered = OrderedIds()
        self._waiting: dict[ps.timely.Time, list[pa.RecordBatch]] = {}
        # What has changed since it was last saved, once it was.
        self._unsaved: list[pa.RecordBatch] | None = None

    def on_receive(self, context: ps.ports.Context, input: str, batch: pa.RecordBatch) -> None:  # noqa: A002
        """Keep ids until their epoch is complete."""
        self._waiting.setdefault(context.time, []).append(batch)
        context.notify_at()

    def on_notify(self, context: ps.ports.Context) -> None:
        """Send the ids of an epoch with their numbers, and those whose numbers had to make room."""
        come: list[Any] = []
        gone: list[Any] = []
        for batch in self._waiting.pop(context.time, []):
            ids, by = batch.column("id").to_pylist(), batch.column(DIFF).to_pylist()
            come += [value for value, count in zip(ids, by, strict=True) if count > 0]
            gone += [value for value, count in zip(ids, by, strict=True) if count < 0]
        changes = self._ordered.change(gone, come)
        if not len(changes.old) + len(changes.new):
            return
        made = self._rows(
            np.concatenate((changes.old, changes.new)),
            [*changes.gone, *changes.come],
            [-1] * len(changes.old) + [1] * len(changes.new),
        )
        if self._unsaved is not None:
            self._unsaved.append(made)
        context.send(made.select(self.outputs.names))

    def _rows(self, numbers: np.typing.NDArray[np.int64], ids: list[Any], by: list[int]) -> pa.RecordBatch:
        columns = numbers, ids, by, [self._home] * len(by)
        arrays = [pa.array(each, kind) for each, kind in zip(columns, self._kept.types, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, schema=self._kept)

    def save(self, *, changes_only: bool) -> Mapping[str, ps.ports.Piece]:
        """All ids with their numbers, or how they have changed."""
        assert not self._waiting, f"epochs {list(self._waiting)} are open at a snapshot"
        changes, self._unsaved = self._unsaved, []
        is_whole = not changes_only or changes is None
        rows = [self._all()] if is_whole or changes is None else changes
        return {
            "numbers": ps.ports.Piece(table_of(self._kept, rows), (_HOME,), is_whole=is_whole, adds_up=True)
        }

    def _all(self) -> pa.RecordBatch:
        ids = self._ordered.ids.tolist()
        return self._rows(self._ordered.numbers, ids, [1] * len(ids))

    def restore(self, context: ps.ports.Context, pieces: Mapping[str, pa.Table]) -> None:
        """Continue with the numbers that were given."""
        there = added_up(pieces["numbers"])
        self._ordered.restore(there.column("id").to_pylist(), there.column(NUMBER).to_numpy())
