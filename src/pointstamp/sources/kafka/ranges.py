"""Offset ranges: the units of Kafka, and the position after them.

A unit takes a range of each partition, from the offset after the last one taken up to one that is given, and
each range is a part. A position is the next offset of every partition, by topic; it is empty, and not None,
once a query has begun. Offsets in a range may hold no record: those of transactions' marks, of records that
were rolled back, and of what compaction has removed.

Invariant: the ranges of a partition that units take, one after the other, have no gap and no overlap.
"""

import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, TypeAlias

import msgspec

from pointstamp.sources.port import Part, Position, Unit

Place: TypeAlias = tuple[str, int]
"""A topic, and the number of one of its partitions."""

UNKNOWN: Final = -1
"""Stands in a position for the offset of a partition that is not known yet."""
RECORD_BYTES: Final = 200
"""Assumed size of a record, for assigning ranges, until it has been measured."""


class OffsetRange(msgspec.Struct, frozen=True, array_like=True):
    """The offsets of one partition from ``start`` up to, and without, ``stop``."""

    topic: str
    partition: int
    start: int
    stop: int

    @property
    def place(self) -> Place:
        """The partition that it is of."""
        return self.topic, self.partition

    def part(self, record_bytes: int = RECORD_BYTES) -> Part:
        """The part that a worker reads."""
        # One worker reads a partition from tick to tick, if it can: it has fetched the next records already.
        size_bytes = (self.stop - self.start) * record_bytes
        return Part(msgspec.json.encode(self).decode(), size_bytes, lane=lane_of(self.place))


def lane_of(place: Place) -> int:
    """The lane of a partition; those of one topic follow one another, so that workers have as many each."""
    return zlib.crc32(place[0].encode()) + place[1]


def range_of(part: Part) -> OffsetRange:
    """The range that a part is."""
    return msgspec.json.decode(part.locator, type=OffsetRange)


def unit_of(ranges: Sequence[OffsetRange], record_bytes: int = RECORD_BYTES) -> Unit:
    """A unit of these ranges, whose records have about so many bytes each.

    >>> unit_of([OffsetRange("t", 0, 5, 9), OffsetRange("t", 1, 2, 2)]).name
    't:0:5-9 t:1:2-2'
    """
    name = " ".join(f"{each.topic}:{each.partition}:{each.start}-{each.stop}" for each in ranges)
    return Unit(name or "nothing yet", tuple(each.part(record_bytes) for each in ranges))


def units_named(position: Position, names: Iterable[str]) -> list[Unit]:
    """The units of these names, in the order in which they resume from a position.

    >>> [unit.name for unit in units_named({"t": [5]}, ["t:0:7-9", "t:0:5-7 t:1:0-2", "t:0:1-5"])]
    ['t:0:5-7 t:1:0-2', 't:0:7-9']
    """
    left = {name: [_range_named(each) for each in name.split()] for name in names if ":" in name}
    found: list[Unit] = []
    while True:
        offsets = offsets_in(position)
        fits = [n for n, each in left.items() if all(offsets.get(r.place, r.start) == r.start for r in each)]
        if not fits:
            return found
        # Of those that have no partition in common either may be first.
        found.append(unit_of(left.pop(min(fits))))
        position = after(position, found[-1])


def _range_named(name: str) -> OffsetRange:
    topic, partition, offsets = name.split(":")
    start, _, stop = offsets.partition("-")
    return OffsetRange(topic, int(partition), int(start), int(stop))


def records_in(unit: Unit) -> int:
    """The maximum number of records of a unit."""
    return sum(each.stop - each.start for each in map(range_of, unit.parts))


def after(position: Position, unit: Unit) -> dict[str, list[int]]:
    """The position after a unit.

    >>> after({"t": [5]}, unit_of([OffsetRange("t", 0, 5, 9), OffsetRange("t", 2, 0, 4)]))
    {'t': [9, -1, 4]}
    """
    offsets = {topic: list(each) for topic, each in (position or {}).items()}
    for taken in map(range_of, unit.parts):
        mine = offsets.setdefault(taken.topic, [])
        mine += [UNKNOWN] * (taken.partition + 1 - len(mine))
        mine[taken.partition] = taken.stop
    return offsets


def offsets_in(position: Position) -> dict[Place, int]:
    """The next offset of each partition that a position knows.

    >>> offsets_in({"t": [9, -1, 4]})
    {('t', 0): 9, ('t', 2): 4}
    """
    return {
        (topic, partition): offset
        for topic, offsets in (position or {}).items()
        for partition, offset in enumerate(offsets)
        if offset != UNKNOWN
    }


def units_up_to(
    taken: Mapping[Place, int],
    ends: Mapping[Place, int],
    records_max: int,
    record_bytes: int = RECORD_BYTES,
) -> Iterator[Unit]:
    """Units that take everything up to the ends, each of about so many records at most.

    Partitions with much have as large a share of a unit as those with little.

    >>> [unit.name for unit in units_up_to({("t", 0): 0, ("t", 1): 0}, {("t", 0): 5, ("t", 1): 1}, 4)]
    ['t:0:0-2 t:1:0-1', 't:0:2-5']
    """
    at = dict(taken)
    while waiting := sorted(place for place, end in ends.items() if end > at[place]):
        share = max(1, records_max // len(waiting))
        ranges = []
        for place in waiting:
            stop = min(ends[place], at[place] + share)
            ranges.append(OffsetRange(*place, at[place], stop))
            at[place] = stop
        yield unit_of(ranges, record_bytes)
