"""Assign integers to ids of other types, so that array operators apply.

The worker that owns an id gives it a number when it comes, and takes it back when it goes; an id that comes
again gets another one. Numbers lie close together: worker w of n gives every n-th, beginning with w. They say
nothing of an id but which it is: which id has which number depends on the number of workers and on what has
come in which order. So nothing that is emitted may depend on numbers, only on which are equal.

Invariant: at no time have two ids one number, after no crash and on no number of workers, because a restart
gives numbers that are greater than all numbers in the saved state.
"""

import zlib
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

import pointstamp as ps
from pointstamp.graphs.arrays.slot_arrays import DIFF, added_up, table_of

NUMBER: Final = "number"
_LAST: Final = pa.schema([("last", pa.int64())])


def can_be_numbered(ids: pa.DataType) -> bool:
    """Return whether ids of a type are equal if and only if the values that Python has for them are."""
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
        """Return so many free numbers."""
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


# Order-preserving integers for ids.
#
# An id that comes gets a number between those of its neighbours. Where no number is left between them, ids
# around it get other numbers: as few as it takes until each has room beside it again (Itai, Konheim and Rodeh
# 1981). It knows no times and no workers.
#
# Invariant: of two ids the lesser has the lesser number.

Numbers: TypeAlias = npt.NDArray[np.int64]
Values: TypeAlias = npt.NDArray[np.object_]

_STEP: Final = 1 << 32
"""The distance between numbers at an end of the order."""
_ROOM_MIN: Final = 1 << 8
"""The minimum distance of numbers after renumbering."""
_NUMBER_MAX: Final = 1 << 62


class NumberChanges(NamedTuple):
    """Ids with the numbers that they have no longer, and ids with numbers that are new."""

    gone: Values
    old: Numbers
    come: Values
    new: Numbers


class OrderedIds:
    """All ids and their numbers, ascending; changed by the operator that owns it.

    >>> ordered = OrderedIds()
    >>> _ = ordered.change([], ["b", "d"])
    >>> _ = ordered.change(["d"], ["a", "c"])
    >>> ordered.ids.tolist(), (np.diff(ordered.numbers) > 0).tolist()
    (['a', 'b', 'c'], [True, True])
    """

    def __init__(self) -> None:
        self.ids: Values = np.empty(0, np.object_)
        self.numbers: Numbers = np.empty(0, np.int64)

    def change(self, gone: Sequence[Any], come: Sequence[Any]) -> NumberChanges:
        """Remove and add ids; return the numbers that change."""
        places = np.searchsorted(self.ids, _values(gone))
        left, old = self.ids[places], self.numbers[places]
        ids, before = np.delete(self.ids, places), np.delete(self.numbers, places)
        added = _values(sorted(come))
        places = np.searchsorted(ids, added)
        if len(before) and max(-before[0], before[-1]) > _NUMBER_MAX - _STEP * (len(added) + 1):
            numbers = (np.arange(len(before)) - len(before) // 2) * _STEP
        else:
            numbers = before
        numbers = np.insert(numbers, places, _between(numbers, places))
        _make_room(numbers)
        is_new = np.insert(np.zeros(len(ids), np.bool_), places, True)
        moved = np.flatnonzero(numbers[~is_new] != before)
        others = ids[moved], before[moved], numbers[~is_new][moved]
        self.ids, self.numbers = np.insert(ids, places, added), numbers
        return NumberChanges(
            np.concatenate((left, others[0])),
            np.concatenate((old, others[1])),
            np.concatenate((added, others[0])),
            np.concatenate((numbers[is_new], others[2])),
        )

    def restore(self, ids: Sequence[Any], numbers: Numbers) -> None:
        """Continue with these, in any order."""
        order = np.argsort(numbers)
        self.ids, self.numbers = _values(ids)[order], numbers[order]


def _values(ids: Sequence[Any]) -> Values:
    values = np.empty(len(ids), np.object_)
    values[:] = ids
    return values


def _between(numbers: Numbers, places: npt.NDArray[np.intp]) -> Numbers:
    """Numbers for those who come to some places among others, ascending: evenly between their neighbours.

    Where there are too few, some are equal to the one below.
    """
    if not len(numbers):
        return np.arange(len(places)) * _STEP
    first = np.searchsorted(places, places)
    share = np.searchsorted(places, places, side="right") - first + 1
    nth = np.arange(len(places)) - first + 1
    is_least, is_greatest = places == 0, places == len(numbers)
    low = np.where(is_least, numbers[0] - _STEP * share, numbers[np.where(is_least, 0, places - 1)])
    high = np.where(is_greatest, numbers[-1] + _STEP * share, numbers[np.where(is_greatest, 0, places)])
    return np.asarray(low + (high - low) // share * nth)


def _make_room(numbers: Numbers) -> None:
    """Spread numbers evenly around each that is not greater than the one below, as widely as is needed."""
    count = len(numbers)
    for at in (np.flatnonzero(numbers[1:] <= numbers[:-1]) + 1).tolist():
        width = 4
        while numbers[at] <= numbers[at - 1]:
            begin, end = max(at - width, 0), min(at + width, count)
            share = end - begin + 1
            low = int(numbers[begin - 1] if begin else numbers[0] - _STEP * share)
            high = int(numbers[end] if end < count else numbers[-1] + _STEP * share)
            if high - low >= _ROOM_MIN * share:
                numbers[begin:end] = low + (high - low) // share * np.arange(1, share)
            width *= 2


# Integers in the order of ids, for algorithms that break ties by id.
#
# One worker has all ids; which one, the name of the operator decides. It gives each id a number when it comes
# (this module), and may have to give others to ids beside it: then the rows of
# these change, and with them the edges at them. Which id has which number depends on what has come in which
# order, and only their order does not. So nothing that is emitted may depend on numbers in any other way.

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
