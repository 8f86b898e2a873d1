"""Simulated inputs with an epoch column.

Item i of an input was epoch i. Here its rows say so in a column, and come in other units than their own: some
earlier, some later, as rows do that were written down when they happened and arrive when they can. After so
many units nothing before some epoch can come any more, and the user of the query may say so;
``complete_after`` knows when. Rows are neither added nor lost, so what is published is the same.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from pointstamp.rows.epochcolumn import EventEpochs
from pointstamp.simulate.choices import Choices
from pointstamp.simulate.feed import FedItem, Items

COLUMN: Final = "its epoch"
_MOVES: Final = (0, 0, 1, -1, 2, -2)
_BEHIND_UNITS: Final = 4


def with_columns(inputs: Mapping[str, Items], choices: Choices) -> dict[str, Items]:
    """The inputs that have a column, at least one where there is any: their rows in other units, stamped."""
    names = list(inputs)
    chosen = [name for name in names if choices.choose(3)] or names[:1]
    return {name: _moved(inputs[name], choices) for name in chosen}


def complete_after(items: Items) -> list[int]:
    """For each number of units that were found: the epoch before which nothing comes after them."""
    last = max((_last(item) for item in items), default=-1) + 1
    complete = [last]
    for item in reversed(items):
        complete.append(min(complete[-1], *item.batch.column(COLUMN).to_pylist(), last))
    return complete[::-1]


def by_epoch(batch: pa.RecordBatch) -> Iterator[tuple[int, pa.RecordBatch]]:
    """The rows of each epoch, without the column."""
    epochs = batch.column(COLUMN)
    rows = batch.drop_columns([COLUMN])
    for epoch in sorted(set(epochs.to_pylist())):
        yield epoch, rows.filter(pc.equal(epochs, epoch))


def passed_after(
    units: Sequence[Sequence[Sequence[pa.RecordBatch]]], epochs: EventEpochs, lanes: int = 1
) -> list[int]:
    """For each number of units: the epoch before which they complete the input by their event times.

    Of several lanes part n of a unit is of lane n modulo their number, and the one farthest behind counts.
    """
    latest: dict[int, int] = {}
    passed = [0]
    for parts in units:
        for number, batches in enumerate(parts):
            columns = [batch.column(epochs.at).cast(pa.int64()).to_pylist() for batch in batches]
            instants = [instant for column in columns for instant in column]
            latest[number % lanes] = max([latest.get(number % lanes, -1), *instants])
        behind = min(latest.values(), default=-1)
        passed.append(max(passed[-1], max(0, behind - epochs.lateness) // epochs.every))
    return passed


def units_behind(lanes: int) -> int:
    """Return the lag of the slowest lane in units."""
    return (lanes - 1) * _BEHIND_UNITS


def in_lanes(items: Items, lanes: int) -> list[list[pa.RecordBatch]]:
    """Split rows into units with a part per lane, with increasing lags.

    A lane keeps the order of its rows, so none of them is late in it; many would be, were there no lanes.
    """
    units: list[list[pa.RecordBatch]] = []
    for number in range(len(items) + units_behind(lanes) if items else 0):
        parts = []
        for lane in range(lanes):
            place = number - lane * _BEHIND_UNITS
            batch = items[min(max(place, 0), len(items) - 1)].batch
            mine = range(lane, batch.num_rows, lanes) if 0 <= place < len(items) else ()
            parts.append(batch.take(pa.array(mine, pa.int64())))
        units.append(parts)
    return units


def by_event_time(batch: pa.RecordBatch, epochs: EventEpochs) -> Iterator[tuple[int, pa.RecordBatch]]:
    """The rows of each epoch, where that is their event time."""
    numbers = [instant // epochs.every for instant in batch.column(epochs.at).cast(pa.int64()).to_pylist()]
    for epoch in sorted(set(numbers)):
        yield epoch, batch.filter(pa.array([each == epoch for each in numbers]))


def _last(item: FedItem) -> int:
    return max(item.batch.column(COLUMN).to_pylist(), default=-1)


def _moved(items: Items, choices: Choices) -> Items:
    units: list[list[pa.RecordBatch]] = [[] for _ in items]
    for epoch, item in enumerate(items):
        stamped = _stamped(item.batch, [epoch] * item.batch.num_rows)
        for row in range(stamped.num_rows):
            place = epoch + _MOVES[choices.choose(len(_MOVES))]
            units[min(max(place, 0), len(items) - 1)].append(stamped.slice(row, 1))
    return [
        FedItem(pa.concat_batches(rows) if rows else _stamped(item.batch.slice(0, 0), []))
        for item, rows in zip(items, units, strict=True)
    ]


def _stamped(batch: pa.RecordBatch, epochs: Sequence[int]) -> pa.RecordBatch:
    return batch.append_column(COLUMN, pa.array(epochs, pa.int64()))
