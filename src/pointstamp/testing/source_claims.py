"""The contract of sources, as claims that can be tried on any of them.

Families, and what only each can find:
- *interleavings*: whatever the order of arrivals, polls, ticks and restarts, every row that has arrived is
  taken exactly once, no unit twice, and the position alone is enough to resume from;
- *replay*: a unit from the journal, read by a source that was pickled, gives the same batches again;
- *manners*: polling without news gives nothing, positions are pure values, available-now finishes, and
  closing twice is closing.

A claim gets a function that makes a new source, with nothing arrived yet, each time that it is called. The
orders are drawn with fixed seeds; a failure says which, and is the same every time.
"""

import pickle
import random
import select
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from time import monotonic, sleep
from typing import Final, Protocol, TypeAlias

import msgspec
import pyarrow as pa

from pointstamp.arrow.schema import with_extra
from pointstamp.connectors.source import Position, Source, Unit, Watch, deal, shared
from pointstamp.testing.fault_steps import same

ARRIVALS_MAX: Final = 8
"""So many units arrive at most; a static source has all of them from the start."""

SOURCE_SCHEMA: Final = pa.schema([("x", pa.int64())])
"""The schema with which rows are read; stored rows may have further columns."""

_ASKED: Final = with_extra(SOURCE_SCHEMA, "ignore")
_SECONDS_MAX: Final = 180.0
_ORDERS: Final = 30
_STEPS_MAX: Final = 24
_STEPS: Final = ("arrive", "poll", "tick", "restart")


class SourceSubject(Protocol):
    """A source, and a way to make its units arrive."""

    @property
    def source(self) -> Source:
        """Return the source, over a separate place."""
        ...

    @property
    def is_ordered(self) -> bool:
        """Whether units are read in the order of arrival."""
        ...

    @property
    def is_static(self) -> bool:
        """Whether all units exist from the start, so that ``arrive`` does nothing."""
        ...

    def arrive(self, number: int) -> Sequence[int]:
        """Let a unit arrive; return the values of x of its rows, which no other unit has."""
        ...


NewSource: TypeAlias = Callable[[], SourceSubject]
SourceClaim: TypeAlias = Callable[[NewSource], None]


def check_source(new: NewSource) -> None:
    """Check every claim of a source.

    Raises:
        AssertionError: A claim is not met; the message names it.

    """
    for claim in SOURCE_CLAIMS:
        claim(new)


def every_row_is_taken_once_whatever_the_order_of_arrivals_polls_and_restarts(new: NewSource) -> None:
    """A driver that polls, takes and restarts in random orders misses no row and sees none twice."""
    for seed in range(_ORDERS):
        chosen = random.Random(seed)  # noqa: S311 - it chooses an order to try
        _one_order(
            new(), chosen.choices(_STEPS, k=chosen.randrange(_STEPS_MAX)), f"with the order of seed {seed}"
        )


def a_unit_gives_the_same_batches_every_time(new: NewSource) -> None:
    """A unit that was read once is read again."""
    subject = new()
    rows = subject.arrive(0)
    watch = subject.source.watch(None)
    unit = _found(watch)[0]
    watch.close()
    once, again = (
        [batch for part in unit.parts for batch in subject.source.read(part, _ASKED)] for _ in range(2)
    )
    same(once == again, True, "whether a unit that is read twice gives equal batches")
    same(sum(batch.num_rows for batch in once), len(rows), "the rows of a unit")


def polling_without_news_gives_nothing_and_does_not_finish(new: NewSource) -> None:
    """Nor does closing twice do any harm."""
    subject = new()
    subject.arrive(0)
    watch = subject.source.watch(None)
    _found(watch)
    same([watch.poll() for _ in range(5)], [[]] * 5, "polls without news")
    same(watch.is_finished, subject.is_static, "is_finished")
    watch.close()
    watch.close()


def an_available_now_watch_gives_what_is_there_and_is_finished(new: NewSource) -> None:
    """A unit that arrives after the watch was created is for the next watch."""
    subject = new()
    subject.arrive(0)
    watch = subject.source.watch(None, available_now=True)
    subject.arrive(1)
    was_finished = watch.is_finished
    units = watch.poll()
    same((was_finished, watch.is_finished), (False, True), "is_finished before and after the poll")
    same(len(units), ARRIVALS_MAX if subject.is_static else 1, "the units that were there")
    watch.close()
    position: Position = None
    for unit in units:
        position = subject.source.after(position, unit)
    later = subject.source.watch(position, available_now=True)
    same(len(later.poll()), 0 if subject.is_static else 1, "the units that came later")
    later.close()


def what_is_waited_for_becomes_readable_when_a_unit_arrives(new: NewSource) -> None:
    """For sources that have a file to wait for."""
    subject = new()
    watch = subject.source.watch(None)
    watch.poll()
    number = watch.fileno()
    if number is not None and not subject.is_static:
        subject.arrive(0)
        same(bool(select.select([number], [], [], _SECONDS_MAX)[0]), True, "whether fileno() is readable")
        same(len(watch.poll()), 1, "the units that have arrived")
        same(bool(select.select([number], [], [], 0)[0]), False, "whether fileno() is readable without news")
    watch.close()


def a_source_says_who_it_is(new: NewSource) -> None:
    """In one line."""
    said = new().source.describe()
    same(bool(said.strip()) and "\n" not in said, True, f"whether {said!r} is a description in one line")


SOURCE_CLAIMS: Final[tuple[SourceClaim, ...]] = (
    every_row_is_taken_once_whatever_the_order_of_arrivals_polls_and_restarts,
    a_unit_gives_the_same_batches_every_time,
    polling_without_news_gives_nothing_and_does_not_finish,
    an_available_now_watch_gives_what_is_there_and_is_finished,
    what_is_waited_for_becomes_readable_when_a_unit_arrives,
    a_source_says_who_it_is,
)
"""All claims; a source keeps the contract if none raises."""


@dataclass
class _Driver:
    """The steps of a driver with a source: polls, takes units one by one, restarts from the position."""

    source: Source
    position: Position = None
    found: list[Unit] = field(default_factory=list)
    taken: list[Unit] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.watch: Watch = self.source.watch(self.position)

    def poll(self) -> None:
        self.found += self.watch.poll()

    def tick(self) -> None:
        if self.found:
            unit = self.found.pop(0)
            before = msgspec.msgpack.encode(self.position)
            self.position = self.source.after(self.position, unit)
            again = self.source.after(msgspec.msgpack.decode(before), unit)
            same(again, self.position, "the position after a unit, computed a second time")
            self.taken.append(unit)

    def restart(self) -> None:
        self.watch.close()
        self.found.clear()
        self.position = msgspec.msgpack.decode(msgspec.msgpack.encode(self.position))
        self.watch = self.source.watch(self.position)

    def numbers(self, unit: Unit) -> list[int]:
        """The rows of a unit, read from the journal by a source that has travelled."""
        kept = msgspec.msgpack.decode(msgspec.msgpack.encode(unit), type=Unit)
        source: Source = pickle.loads(pickle.dumps(self.source))  # noqa: S301 - our own bytes
        parts = deal(shared(kept.parts, 2, 1), 2, 0)
        batches = [batch for hand in parts for part in hand for batch in source.read(part, _ASKED)]
        for batch in batches:
            same(batch.schema, SOURCE_SCHEMA, "the schema of what is read")
        return sorted(value for batch in batches for value in batch.column(0).to_pylist())

    def drain(self, count: int) -> list[int]:
        """Take units until so many rows were taken; all rows, unit by unit."""
        deadline = monotonic() + _SECONDS_MAX
        numbers = [value for unit in self.taken for value in self.numbers(unit)]
        polls_left = 3  # after the last row, to see one that comes twice
        while polls_left:
            if monotonic() > deadline:
                raise AssertionError(f"{count} rows have arrived, but {len(numbers)} were found: {numbers}")
            polls_left -= len(numbers) >= count
            self.poll()
            while self.found:
                self.tick()
                numbers += self.numbers(self.taken[-1])
        return numbers


def _one_order(subject: SourceSubject, steps: Sequence[str], how: str) -> None:
    driver = _Driver(subject.source)
    arrived: list[int] = []
    left = list(range(ARRIVALS_MAX))
    try:
        for step in [*(["arrive"] * ARRIVALS_MAX if subject.is_static else []), *steps]:
            if step == "arrive" and left:
                arrived += subject.arrive(left.pop(0))
            elif step != "arrive":
                getattr(driver, step)()
        taken = driver.drain(len(arrived))
    finally:
        driver.watch.close()
    wanted = arrived if subject.is_ordered else sorted(arrived)
    same(taken if subject.is_ordered else sorted(taken), wanted, f"the rows taken {how}")
    names = [unit.name for unit in driver.taken]
    same(len(set(names)), len(names), f"how many different units there are among those taken {how}")


def _found(watch: Watch) -> list[Unit]:
    """The units of the first poll that finds some."""
    deadline = monotonic() + _SECONDS_MAX
    while not (units := watch.poll()):
        if monotonic() > deadline:
            raise AssertionError("a unit has arrived, but poll() does not find it")
        sleep(0.001)
    return units
