"""Simulated sources, whose units arrive when the world decides.

Item i of an input is unit i. How its rows are split into parts, how large each part says it is (which decides
who reads it) and in how many batches it is read is chosen once, before the world begins: a unit that is read
again gives the same rows, as the port of sources asks. When a unit is found is chosen as the world continues;
so ticks differ from world to world, and the reference run is fed the same ticks.

An input may have an epoch column (``pointstamp.simulate.crash.columns``). Then the source knows for each
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

from pointstamp.journal.history import Ticked
from pointstamp.rows.epochcolumn import EpochColumn, EventEpochs
from pointstamp.simulate.choices import Choices
from pointstamp.simulate.crash.columns import (
    COLUMN,
    by_epoch,
    by_event_time,
    complete_after,
    in_lanes,
    passed_after,
    units_behind,
    with_columns,
)
from pointstamp.simulate.feed import SPLITS_MAX, FedItem, Items, split
from pointstamp.sources.port import Part, Position, SourceBase, Unit, WatchBase

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
    """How many of its last units wait for what is complete before them."""
    passed_after: Sequence[int] | None = None
    """Where epochs are event time: before which epoch so many units complete it by themselves."""
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
