"""Assign integers to ids of other types, so that array operators apply.

The worker that owns an id gives it a number when it comes, and takes it back when it goes; an id that comes
again gets another one. Numbers lie close together: worker w of n gives every n-th, beginning with w. They say
nothing of an id but which it is: which id has which number depends on the number of workers and on what has
come in which order. So nothing that is emitted may depend on numbers, only on which are equal.

Invariant: at no time have two ids one number, after no crash and on no number of workers, because whoever
continues gives numbers that are greater than all that anybody had given when the state was saved.
"""

from collections.abc import Mapping
from typing import Any, ClassVar, Final

import numpy as np
import pyarrow as pa

import pointstamp as ps
from pointstamp.graphs.arrays.columns import DIFF, added_up, table_of

NUMBER: Final = "number"
_LAST: Final = pa.schema([("last", pa.int64())])


def can_be_numbered(ids: pa.DataType) -> bool:
    """Whether ids of a type are equal if and only if the values that Python has for them are."""
    return not (pa.types.is_nested(ids) or pa.types.is_floating(ids))


def numbers_of(ids: ps.Table, *, name: str) -> ps.Table:
    """Return ``number`` and ``id`` of every id, each once."""
    changes = ids.changes().named(f"{name}: ids")
    return ps.Table(ps.operator(name, GiveNumbers(changes.schema), ids=changes.exchange("id")))


def with_numbers(rows: ps.Table, numbers: ps.Table, *columns: str) -> ps.Table:
    """The rows with numbers for the ids in some columns."""
    for column in columns:
        others = [name for name in rows.schema.names if name != column]
        beside = rows.join(numbers, {column: "id"}).named(f"numbers: at {column}")
        rows = beside.select(*others, **{column: ps.col(NUMBER)}).named(f"numbers: of {column}")
    return rows


def with_ids(found: ps.Table, numbers: ps.Table, *columns: str) -> ps.Table:
    """Return the result with ids in place of numbers in some columns."""
    names = found.schema.names
    known = numbers.rename({"id": "known"})
    for column in columns:
        others = [name for name in names if name != column]
        beside = found.rename({column: "number"}).join(known, NUMBER).named("numbers: back to ids")
        found = beside.select(*others, **{column: ps.col("known")}).named(f"numbers: {column}")
    return found.select(*names).named("numbers: by id")


class GiveNumbers:
    """Takes the ids that come and go, epoch by epoch, and sends them with their numbers."""

    keeps: ClassVar = "a number for each vertex; a change costs its rows"

    def __init__(self, ids: pa.Schema) -> None:
        self.outputs = pa.schema([(NUMBER, pa.int64()), *ids])
        self._number: dict[Any, int] = {}
        # No number after this one has been given here, and none up to it will be.
        self._last = -1
        self._worker, self._workers = 0, 1
        self._waiting: dict[ps.timely.Time, list[pa.RecordBatch]] = {}
        # What has changed since it was last saved, once it was.
        self._unsaved: list[pa.RecordBatch] | None = None

    def on_start(self, context: ps.ports.Context) -> None:
        """Begin without ids."""
        self._worker, self._workers = context.worker, context.workers

    def on_receive(self, context: ps.ports.Context, input: str, batch: pa.RecordBatch) -> None:  # noqa: A002
        """Keep ids until their epoch is complete."""
        self._waiting.setdefault(context.time, []).append(batch)
        context.notify_at()

    def on_notify(self, context: ps.ports.Context) -> None:
        """Send the ids of an epoch with their numbers."""
        for batch in self._waiting.pop(context.time, []):
            ids, by = batch.column("id").to_pylist(), batch.column(DIFF).to_numpy()
            new = np.flatnonzero(by > 0)
            fresh = self._next(len(new))
            self._number.update(zip((ids[at] for at in new.tolist()), fresh.tolist(), strict=True))
            gone = np.flatnonzero(by < 0)
            numbers = np.empty(len(ids), np.int64)
            numbers[new] = fresh
            numbers[gone] = [self._number.pop(ids[at]) for at in gone.tolist()]
            made = pa.RecordBatch.from_arrays([pa.array(numbers), *batch.columns], schema=context.schema())
            if self._unsaved is not None:
                self._unsaved.append(made)
            context.send(made)

    def _next(self, count: int) -> np.typing.NDArray[np.int64]:
        """How many numbers are free."""
        first = self._last + 1
        first += (self._worker - first) % self._workers
        numbers = first + self._workers * np.arange(count)
        if count:
            self._last = int(numbers[-1])
        return numbers

    def save(self, *, changes_only: bool) -> Mapping[str, ps.ports.Piece]:
        """All ids with their numbers, or how they have changed; and the last number that was given."""
        assert not self._waiting, f"epochs {list(self._waiting)} are open at a snapshot"
        changes, self._unsaved = self._unsaved, []
        is_whole = not changes_only or changes is None
        rows = [self._all()] if is_whole or changes is None else changes
        last = pa.table([[self._last]], schema=_LAST)
        return {
            "numbers": ps.ports.Piece(table_of(self.outputs, rows), ("id",), is_whole=is_whole, adds_up=True),
            "last": ps.ports.Piece(last, ()),
        }

    def _all(self) -> pa.RecordBatch:
        columns = list(self._number.values()), list(self._number), [1] * len(self._number)
        arrays = [pa.array(each, kind) for each, kind in zip(columns, self.outputs.types, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, schema=self.outputs)

    def restore(self, context: ps.ports.Context, pieces: Mapping[str, pa.Table]) -> None:
        """Continue with the numbers of this worker's ids, after all that anybody has given."""
        self.on_start(context)
        there = added_up(pieces["numbers"])
        self._number = dict(
            zip(there.column("id").to_pylist(), there.column(NUMBER).to_pylist(), strict=True)
        )
        self._last = max(pieces["last"].column("last").to_pylist(), default=-1)
