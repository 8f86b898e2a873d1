"""What a simulated query is fed: sources whose units come when the world says, and can be read again.

Item i of an input is unit i. How its rows are split into parts, how large each part says it is (which
decides who reads it) and in how many batches it is read is chosen once, before the world begins: a unit that
is read again gives the same rows, as the port of sources asks. When a unit is found is chosen as the world
goes on; so ticks differ from world to world, and what was in each is what the run is compared by.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa

from pointstamp.check.choices import Choices
from pointstamp.check.feed import SPLITS_MAX, Item, Items, split
from pointstamp.recovery.ledger import Ticked
from pointstamp.sources.port import Part, Position, Unit

_UNITS_PER_TICK: Final = (1, 1, 2, None)
_SIZES: Final = (1, 2, 3, 5, 8)


@dataclass(slots=True)
class SimulatedSource:
    """One input; ``found`` counts the units that can be found by now, and is moved by the world."""

    name: str
    units: Sequence[Sequence[Sequence[pa.RecordBatch]]]
    sizes: Sequence[Sequence[int]]
    units_per_tick: int | None = 1
    found: int = 0

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
        """Who this is, for messages."""
        return f"simulated input '{self.name}'"

    def unit(self, number: int) -> Unit:
        """What a tick takes."""
        sizes = self.sizes[number]
        return Unit(str(number), tuple(Part(f"{number}.{n}", size) for n, size in enumerate(sizes)))


@dataclass(slots=True)
class SimulatedWatch:
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

    @classmethod
    def of(cls, inputs: Mapping[str, Items], choices: Choices) -> "Feed":
        """Split every input as the choices say; in a plain world everything is there from the beginning."""
        feed = cls(inputs)
        per_tick = _UNITS_PER_TICK[choices.choose(len(_UNITS_PER_TICK))]
        splits_max = SPLITS_MAX[choices.choose(len(SPLITS_MAX))]
        comes_later = bool(choices.choose(2))
        for name, items in inputs.items():
            units = [[[batch] for batch in split(item.batch, splits_max, choices)] for item in items]
            sizes = [[_SIZES[choices.choose(len(_SIZES))] for _ in unit] for unit in units]
            found = 0 if comes_later else len(units)
            feed.sources[name] = SimulatedSource(name, units, sizes, per_tick, found)
        return feed

    def unfound(self) -> list[SimulatedSource]:
        """The sources that have more to find."""
        return [source for source in self.sources.values() if source.found < len(source.units)]

    def items_of(self, ticks: Sequence[Ticked]) -> dict[str, Items]:
        """The same rows as an input for a world without ticks: item i is what tick i took."""
        fed: dict[str, Items] = {}
        for name, items in self.inputs.items():
            schema = items[0].batch.schema if items else pa.schema([])
            fed[name] = [
                Item(_joined([items[int(unit.name)].batch for unit in tick.units.get(name, ())], schema))
                for tick in ticks
            ]
        return fed


def _joined(batches: list[pa.RecordBatch], schema: pa.Schema) -> pa.RecordBatch:
    return pa.concat_batches(batches) if batches else pa.RecordBatch.from_pylist([], schema=schema)
