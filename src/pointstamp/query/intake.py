"""The intake: units of sources that no tick has taken, and input promises.

An input with an epoch column is complete before an epoch when the user or the source promises it. A promise
covers the units that were found before it, so it takes effect once these are taken, and not before; units
that were found later must keep it (``pointstamp.journal.ledger``). A source may make such a promise with
its units. A tick takes only units of an input that must keep the same promise, so that it can say for all of
them which rows are late.

Invariant: no unit is taken twice, units of one input are taken in order, and ``complete_to`` never goes back.
"""

from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence

from pointstamp.connectors.source import Unit
from pointstamp.errors import FlowError
from pointstamp.journal.ledger import Promises


def _no_share(unit: Unit) -> float:
    """The share of a unit of a source without sizes."""
    del unit
    return 0.0


class Intake:
    """The inputs of one generation; changed by the coordinator that owns it."""

    def __init__(
        self,
        units_per_tick: Mapping[str, int | None],
        columns: Collection[str],
        open_from: int,
        said: Mapping[str, Promises] | None = None,
        shares: Mapping[str, Callable[[Unit], float]] | None = None,
    ) -> None:
        self._limits = units_per_tick
        self._shares = shares or {}
        self._offered: dict[str, deque[tuple[Unit, int]]] = {name: deque() for name in units_per_tick}
        self._ended: set[str] = set()
        before = {name: each.entries(name) for name, each in (said or {}).items()}
        self._promises = {name: Promises.of(before.get(name, ()), open_from) for name in columns}

    # What the sources and the user say.

    def offer(self, name: str, units: Sequence[Unit]) -> None:
        """Take note of units that were found."""
        promises = self._promises.get(name)
        self._offered[name].extend((unit, promises.held_to(unit.name) if promises else 0) for unit in units)
        self._believe_source(name)

    def end(self, name: str) -> None:
        """Take note that an input will have no further units."""
        self._ended.add(name)

    def waiting(self, name: str) -> list[str]:
        """The names of the units of an input that wait to be taken."""
        return [unit.name for unit, _ in self._offered[name]]

    def check_advance(self, name: str, epoch: int) -> None:
        """FlowError if an input cannot be declared complete before this epoch."""
        if name not in self._promises:
            raise FlowError(
                f"input '{name}' has no epoch column, so it cannot be advanced. Only "
                f"inputs with an epoch column can be advanced: {', '.join(self._promises) or 'none'}."
            )
        before = self._promises[name].last
        if epoch < before:
            raise FlowError(
                f"input '{name}' is already advanced to epoch {before}, so it cannot be advanced to epoch "
                f"{epoch}. Advance it to epoch {before} or later."
            )

    def advance(self, name: str, epoch: int) -> None:
        """Take note that what was offered completes an input before an epoch."""
        self._promises[name].say(epoch, self.waiting(name))

    def reach(self, name: str, epoch: int) -> None:
        """Take note that what was taken completes an input before an epoch."""
        self._promises[name].reach(epoch)

    # What to let in.

    @property
    def has_units(self) -> bool:
        """Whether something waits to be taken."""
        return any(self._offered.values())

    @property
    def has_ended(self) -> bool:
        """Whether every input has come to its end."""
        return len(self._ended) == len(self._offered)

    def take(self) -> tuple[dict[str, list[Unit]], dict[str, int]]:
        """The units of the next tick, which no longer wait, and the promise that each input's must keep."""
        taken: dict[str, list[Unit]] = {}
        held_to: dict[str, int] = {}
        for name, offered in self._offered.items():
            limit = self._limits[name]
            promises = self._promises.get(name)
            held = offered[0][1] if offered else 0
            share_of = self._shares.get(name, _no_share)
            units: list[Unit] = []
            taken_up = 0.0
            while offered and offered[0][1] == held and (limit is None or len(units) < limit):
                taken_up += share_of(offered[0][0])
                if units and taken_up > 1.0:
                    break
                units.append(offered.popleft()[0])
            taken[name] = units
            if promises is not None:
                promises.take(units)
                self._believe_source(name)
                if units:
                    held_to[name] = held
        return taken, held_to

    def _believe_source(self, name: str) -> None:
        """The next units may promise that nothing before an epoch follows them."""
        offered, promises = self._offered[name], self._promises.get(name)
        if offered and promises is not None and (least := offered[0][0].least_epoch) is not None:
            promises.reach(least)

    def complete_to(self, open_from: int, silent: Collection[str] = ()) -> int:
        """The epoch before which all inputs with an epoch column are complete; it never goes back.

        Those that are silent do not count; where all are, the one that is farthest does.
        """
        still_open = self.still_open
        counted = [self._promises[name].complete for name in still_open if name not in silent]
        if not counted and still_open:
            return max(open_from, *(each.complete for each in self._promises.values()))
        return max(open_from, min(counted, default=open_from))

    @property
    def still_open(self) -> list[str]:
        """The inputs with an epoch column that have not come to their end."""
        # One that has ended says nothing more, once everything that it had is taken.
        return [name for name in self._promises if name not in self._ended or self._offered[name]]

    def complete(self, name: str) -> int:
        """The epoch before which one input is complete."""
        return self._promises[name].complete


# How far event time has passed in an input that has lanes, such as the partitions of a topic.
#
# Each lane is in order by itself, more or less, and one may be hours behind another. So the input is complete
# as far as the lane that is farthest behind: a fast partition makes no row of a slow one late. A lane from
# which nothing has come holds the input back; with ``idle=`` it does so until nothing has come for that long,
# and counts again when something comes.
#
# Where event time has come to is in the journal, with the ticks. How far each lane is, is not: a new driver
# knows the lanes, and waits for each of them, or until it was silent for long enough.
#
# Invariant: a lane that counts is never passed.


class Lanes:
    """The lanes of each input; changed by the coordinator, which tells it the time."""

    def __init__(
        self, known: Mapping[str, Collection[int]], idle_seconds: Mapping[str, float], now_seconds: float
    ) -> None:
        self._heard_seconds = {name: dict.fromkeys(lanes, now_seconds) for name, lanes in known.items()}
        self._latest: dict[str, dict[int, int]] = {}
        self._idle_seconds = idle_seconds
        self._now_seconds = now_seconds

    def given(self, name: str, lanes: Mapping[int, bool], now_seconds: float) -> None:
        """Take note that a tick has taken something of these lanes, or only says that they are there."""
        known = self._heard_seconds.setdefault(name, {})
        for lane, has_rows in lanes.items():
            known[lane] = now_seconds if has_rows else known.get(lane, now_seconds)

    def read(self, name: str, latest: Mapping[int, int]) -> None:
        """Take note of the greatest event times that were read."""
        mine = self._latest.setdefault(name, {})
        for lane, instant in latest.items():
            mine[lane] = max(instant, mine.get(lane, instant))

    def look(self, now_seconds: float) -> None:
        """Take note of the time."""
        self._now_seconds = now_seconds

    def latest(self, name: str) -> int | None:
        """The event time of the lane that is farthest behind; None while one that counts has had no row."""
        mine = self._latest.get(name, {})
        counted = [
            mine.get(lane) for lane in self._heard_seconds.get(name, {}) if not self._is_silent(name, lane)
        ]
        known = [instant for instant in counted if instant is not None]
        return min(known) if known and len(known) == len(counted) else None

    def seconds_until_due(self, now_seconds: float) -> float | None:
        """The seconds until the next lane is silent for too long; None where that is not expected."""
        due = [
            heard + self._idle_seconds[name] - now_seconds
            for name, lanes in self._heard_seconds.items()
            if name in self._idle_seconds and len(lanes) > 1
            for heard in lanes.values()
            if heard + self._idle_seconds[name] > self._now_seconds
        ]
        return max(0.0, min(due)) if due else None

    def words(self) -> list[str]:
        """The inputs that wait for a lane, as text."""
        found = []
        for name, lanes in self._heard_seconds.items():
            without = [lane for lane in lanes if lane not in self._latest.get(name, {})]
            waited_for = [lane for lane in without if not self._is_silent(name, lane)]
            if waited_for and len(lanes) > 1:
                found.append(
                    f"input '{name}' waits for {len(waited_for)} of its {len(lanes)} partitions, from which "
                    "no row has come since the query has started"
                )
        return found

    def _is_silent(self, name: str, lane: int) -> bool:
        idle = self._idle_seconds.get(name)
        return idle is not None and self._now_seconds - self._heard_seconds[name][lane] >= idle


# Inputs that have become idle: since when, and whether event time may pass without them.
#
# Event time passes where every input has promised that it has: an input from which nothing comes holds all
# the others back. A user may say of an input for how long it may be silent (``idle=``). After so long it
# counts for nothing, until something comes from it again; what is behind the others by then is late, and goes
# where late rows go.
#
# Silence is the one thing about event time that a clock decides. So it is decided here alone, at the driver,
# and takes effect in a tick, which is in the journal: whoever reads the tick again asks no clock. A new
# driver is patient again.
#
# Invariant: an input with units that wait, or that are being read, is not silent.


class Silence:
    """Since when each input is silent; changed by the coordinator, which tells it the time."""

    def __init__(
        self, inputs: Collection[str], idle_seconds: Mapping[str, float], now_seconds: float
    ) -> None:
        self.names = frozenset(inputs)
        self._heard_seconds = dict.fromkeys(inputs, now_seconds)
        self._idle_seconds = idle_seconds
        self.inputs: frozenset[str] = frozenset()
        """The inputs without which event time passes."""

    def look(self, heard: Collection[str], now_seconds: float) -> None:
        """Take note of the inputs from which something has come, and of those that are silent too long."""
        self._heard_seconds.update(dict.fromkeys(heard, now_seconds))
        self.inputs = frozenset(
            name
            for name, seconds in self._idle_seconds.items()
            if now_seconds - self._heard_seconds[name] >= seconds
        )

    def seconds_until_due(self, now_seconds: float) -> float | None:
        """The seconds until the next input is silent for too long; None where that is not expected."""
        due = [
            self._heard_seconds[name] + seconds - now_seconds
            for name, seconds in self._idle_seconds.items()
            if name not in self.inputs
        ]
        return max(0.0, min(due)) if due else None

    def seconds_of(self, name: str, now_seconds: float) -> float:
        """For how long nothing has come from an input."""
        return now_seconds - self._heard_seconds[name]

    def idle_seconds_of(self, name: str) -> float | None:
        """The seconds after which event time advances without an idle input; None: never."""
        return self._idle_seconds.get(name)
