"""Simulated sources, whose units arrive when the world decides.

Item i of an input is unit i. How its rows are split into parts, how large each part says it is (which decides
who reads it) and in how many batches it is read is chosen once, before the world begins: a unit that is read
again gives the same rows, as the port of sources asks. When a unit is found is chosen as the world continues;
so ticks differ from world to world, and the reference run is fed the same ticks.

An input may have an epoch column (``pointstamp.simulate.crash.feed``). Then the source knows for each
number of units how far it is complete after them, and the last unit of one such input at least is not found
before everything that was said to be complete is published: so a query that waits for the end of its input
instead is detected. Where epochs are event time nothing is said, and the rows are to have the same effect;
the parts of such an input may be of several lanes, as the partitions of a topic are, and then event time
passes with the lane that is farthest behind. All that comes of slow lanes after the fastest one has ended
waits so: a query that would let the fastest decide has time to call these rows late.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from pointstamp.arrow.epoch_column import EpochColumn, EventEpochs
from pointstamp.connectors.source import Part, Position, SourceBase, Unit, WatchBase
from pointstamp.journal.history import Ticked
from pointstamp.simulate.feed import SPLITS_MAX, FedItem, Items, split
from pointstamp.simulate.network import Choices

_UNITS_PER_TICK: Final = (1, 1, 2, None)
_SIZES: Final = (1, 2, 3, 5, 8)


@dataclass(slots=True)
class SimulatedSource(SourceBase):
    """One input; ``found`` counts the units that can be found by now, and is moved by the world."""

    name: str
    units: Sequence[Sequence[Sequence[pa.RecordBatch]]]
    sizes: Sequence[Sequence[int]]
    units_per_tick: int | None = 1
    found: int = 0
    complete_after: Sequence[int] | None = None
    """With an epoch column: before which epoch nothing comes after so many units."""
    waits: int = 0
    """The number of last units that wait for the completion of earlier ones."""
    passed_after: Sequence[int] | None = None
    """The epoch before which so many units complete it by themselves, if epochs are event time."""
    lanes_count: int = 1

    def lanes(self, position: Position) -> list[int]:
        """The lanes of the units up to a position."""
        parts = max((len(sizes) for sizes in self.sizes[: position or 0]), default=0)
        return [] if self.lanes_count == 1 else [*range(min(parts, self.lanes_count))]

    def watch(self, position: Position, *, available_now: bool = False) -> "SimulatedWatch":
        """The units after so many."""
        return SimulatedWatch(self, position or 0)

    def read(self, part: Part, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """The rows of a part, always the same."""
        unit, number = map(int, part.locator.split("."))
        return iter(self.units[unit][number])

    def after(self, position: Position, unit: Unit) -> int:
        """The number of units up to this one."""
        return max(position or 0, int(unit.name) + 1)

    def describe(self) -> str:
        """A description for messages."""
        return f"simulated input '{self.name}'"

    def unit(self, number: int) -> Unit:
        """The units that a tick takes."""
        parts = [
            Part(f"{number}.{n}", size, lane=None if self.lanes_count == 1 else n % self.lanes_count)
            for n, size in enumerate(self.sizes[number])
        ]
        return Unit(str(number), tuple(parts))


# Simulated inputs with an epoch column.
#
# Item i of an input was epoch i. Here its rows say so in a column, and come in other units than their own:
# some earlier, some later, as rows do that were written down when they happened and arrive when they can.
# After so many units nothing before some epoch can come any more, and the user of the query may say so;
# ``complete_after`` knows when. Rows are neither added nor lost, so what is published is the same.

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


@dataclass(slots=True)
class SimulatedWatch(WatchBase):
    """Gives the units that the world has let be found."""

    source: SimulatedSource
    taken: int

    def poll(self) -> list[Unit]:
        """The units since the last time."""
        first, self.taken = self.taken, max(self.taken, self.source.found)
        return [self.source.unit(number) for number in range(first, self.taken)]

    @property
    def has_news(self) -> bool:
        """Whether a poll would find anything."""
        return self.taken < self.source.found

    @property
    def is_finished(self) -> bool:
        """Whether every unit was given."""
        return self.taken >= len(self.source.units)

    def fileno(self) -> None:
        """There is nothing to wait for."""
        return

    def close(self) -> None:
        """Nothing is held."""


@dataclass(slots=True)
class Feed:
    """All inputs of a world; what is still to be found is found by ``find``."""

    inputs: Mapping[str, Items]
    sources: dict[str, SimulatedSource] = field(default_factory=dict)
    columns: dict[str, EpochColumn] = field(default_factory=dict)
    """The epoch columns by input; the epochs of an input may be its event time, as the flow declares."""

    @classmethod
    def of(
        cls,
        given: Mapping[str, Items],
        choices: Choices,
        further: Choices | None = None,
        events: Mapping[str, EventEpochs] | None = None,
        lanes: int = 1,
    ) -> "Feed":
        """Split every input as the choices say; in a plain world all rows exist from the start.

        With ``further`` choices some inputs have epoch columns. ``events`` are those whose epochs are event
        time; then no other has a column, and these have so many lanes.
        """
        stamped = {} if further is None or events else with_columns(given, further)
        laned = {name: in_lanes(given[name], lanes) for name in events or {} if lanes > 1}
        put_together = {
            name: [FedItem(pa.concat_batches(parts)) for parts in units] for name, units in laned.items()
        }
        inputs = {**given, **stamped, **put_together}
        feed = cls(inputs, columns={**dict.fromkeys(stamped, COLUMN), **(events or {})})
        per_tick = _UNITS_PER_TICK[choices.choose(len(_UNITS_PER_TICK))]
        splits_max = SPLITS_MAX[choices.choose(len(SPLITS_MAX))]
        comes_later = bool(choices.choose(2))
        for name, items in inputs.items():
            parts = laned.get(name) or [list(split(item.batch, splits_max, choices)) for item in items]
            units = [[[batch] for batch in unit] for unit in parts]
            sizes = [[_SIZES[choices.choose(len(_SIZES))] for _ in unit] for unit in units]
            complete = complete_after(items) if name in stamped else None
            passed = passed_after(units, events[name], lanes) if events and name in events else None
            is_first = bool(stamped) and name == next(iter(stamped))
            waits = is_first or (further is not None and name in stamped and further.choose(2) == 0)
            held_back = int(waits) if passed is None else max(1, units_behind(lanes))
            found = 0 if comes_later else max(0, len(units) - held_back)
            feed.sources[name] = SimulatedSource(
                name,
                units,
                sizes,
                per_tick,
                found,
                complete,
                held_back,
                passed,
                1 if passed is None else lanes,
            )
        return feed

    def unfound(self, *, is_last_due: bool, is_quiet: bool) -> list[SimulatedSource]:
        """The sources that have more to find; the last units of one that waits only when that is due.

        With lanes, only when no worker has other work.
        """
        return [
            source
            for source in self.sources.values()
            if source.found
            < len(source.units)
            - (0 if is_last_due and (is_quiet or source.lanes_count == 1) else source.waits)
        ]

    def items_of(self, ticks: Sequence[Ticked]) -> dict[str, Items]:
        """The same rows as an input for a world without ticks: item i is what came at epoch i."""
        rows: dict[str, dict[int, list[pa.RecordBatch]]] = {name: {} for name in self.inputs}
        for tick in ticks:
            for name, units in tick.units.items():
                for unit in units:
                    batch = self.inputs[name][int(unit.name)].batch
                    for epoch, part in self._timed(name, batch, tick):
                        rows[name].setdefault(epoch, []).append(part)
        completed = max((tick.complete_to for tick in ticks), default=0)
        length = max([completed, *(epoch + 1 for epochs in rows.values() for epoch in epochs)])
        return {
            name: [FedItem(_joined(epochs.get(epoch, []), self._schema(name))) for epoch in range(length)]
            for name, epochs in rows.items()
        }

    def _timed(self, name: str, batch: pa.RecordBatch, tick: Ticked) -> Iterable[tuple[int, pa.RecordBatch]]:
        column = self.columns.get(name)
        if isinstance(column, EventEpochs):
            return by_event_time(batch, column)
        return [(tick.open_from, batch)] if column is None else by_epoch(batch)

    def _schema(self, name: str) -> pa.Schema:
        items = self.inputs[name]
        schema = items[0].batch.schema if items else pa.schema([])
        return pa.schema([field for field in schema if field.name != COLUMN])


def _joined(batches: list[pa.RecordBatch], schema: pa.Schema) -> pa.RecordBatch:
    return pa.concat_batches(batches) if batches else pa.RecordBatch.from_pylist([], schema=schema)
