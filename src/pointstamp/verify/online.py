"""Online verification of a running query, event by event.

Each worker reports its own events in order; the order between events of different workers is unknown. They
are merged into an order that respects causality: a message is pulled after the activation that sent it, a
batch of progress is applied after it was sent, and everything else depends on its own worker alone. Every
such order is a run that could have happened (Veresov et al. 2024, lemma 6.5), and the rules hold in all of
them or the run is wrong (Brun et al. 2021, sections 4 and 6): so any of them may be judged, and it does not
matter which worker's events come first.

An event whose cause was not told yet waits. It is wrong if the cause cannot come any more: when every worker
waits for another one, when the run is at an end, and after a *cut*. Between two cuts every worker is asked to
tell everything, after all had done so before the first; so the cause of an event before the first cut is told
before the second.

What is kept is bounded by what exists and what waits, not by how long the run lasts: pointstamps get new
numbers from time to time, and nothing remembers those that have passed.
"""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from math import inf
from typing import Final, NoReturn, TypeAlias

from pointstamp.verify.abstract_state import TOP, AbstractState
from pointstamp.verify.conformance import ModelRules
from pointstamp.verify.shape import Point, Shape, Stamp, Walker
from pointstamp.verify.snapshot_rules import CommitRules, SnapshotRules
from pointstamp.worker.events import (
    Event,
    MessagePulled,
    MessageSent,
    ProgressReceived,
    ProgressSent,
    ProgressSummed,
    SnapshotTaken,
    SumReceived,
)

RENUMBER_EVENTS: Final = 5_000
"""After this many events everything that has passed is forgotten."""


_CAUSED: Final = frozenset({MessagePulled, ProgressReceived, ProgressSummed, SumReceived})
"""The events that have their cause on another worker."""


class Online:
    """Judges one generation; every method raises ``BrokenError`` if a rule is broken.

    ``operators`` are those that take snapshots; None for a run without snapshots. ``record`` is given every
    event when it is judged, in the merged order, the one that is wrong included.
    """

    def __init__(
        self,
        walker: Walker,
        workers: int,
        operators: Sequence[int] | None,
        *,
        restored: int = -1,
        commits: CommitRules | None = None,
        record: Callable[[Event], None] | None = None,
    ) -> None:
        self._walker = walker
        state = AbstractState(self._walker, workers)
        self._models = ModelRules(state)
        self._snapshots = None if operators is None else SnapshotRules(state, operators, restored)
        self._rules = self._models.of if self._snapshots is None else self._snapshots.before(self._models.of)
        self._commits = commits or CommitRules()
        self._record = record
        self._queues: list[deque[Event]] = [deque() for _ in range(workers)]
        self._due = [0] * workers
        self._since_renumbering = 0
        self.judged = [0] * workers
        """The number of valid events of each worker."""

    @property
    def state(self) -> AbstractState:
        """Return the verdict on the verified part of the run."""
        return self._models.state

    @property
    def waiting(self) -> int:
        """The number of events that wait for their cause."""
        return sum(map(len, self._queues))

    def take(self, worker: int, events: Iterable[Event]) -> None:
        """Take the next events of one worker, and judge whatever can be judged now."""
        queue = self._queues[worker]
        for event in events:
            queue.append(event)
            if isinstance(event, SnapshotTaken):
                self._commits.came(event)
        self._merge()

    def committed(self, epoch: int) -> None:
        """Judge a commit; all workers' events up to their snapshots were told before it."""
        assert self._snapshots is not None, "a run without snapshots commits nothing"
        self._commits.committed(epoch, self._snapshots)

    def cut(self) -> None:
        """All workers have told everything: events told before the last cut must have their causes by now."""
        if any(judged < due for judged, due in zip(self.judged, self._due, strict=True)):
            self._unexplained()
        self._due = [judged + len(queue) for judged, queue in zip(self.judged, self._queues, strict=True)]

    def end(self) -> None:
        """Check the end of a run: no event waits, and every time is complete."""
        if self.waiting:
            self._unexplained()
        self._models.check_end(at_rest=True)
        if self._snapshots is not None:
            self._commits.end(self._snapshots)

    def _merge(self) -> None:
        moved = True
        while moved:
            # Not any(), which would leave those out that come after the first.
            moved = max([self._judge_next(worker, queue) for worker, queue in enumerate(self._queues)])
        if all(self._queues):
            self._unexplained()

    def _judge_next(self, worker: int, queue: deque[Event]) -> bool:
        """Judge a worker's events up to the first without its cause, and say whether there were any."""
        before = len(queue)
        rules, record = self._rules, self._record
        while queue:
            event = queue[0]
            kind = type(event)
            if kind in _CAUSED and not self._has_cause(event):
                break
            if record is not None:
                record(event)
            for rule in rules[kind]:
                rule(event)
            queue.popleft()
            self.judged[worker] += 1
        judged = before - len(queue)
        self._since_renumbering += judged
        if self._since_renumbering >= RENUMBER_EVENTS:
            self._renumber()
        return judged > 0

    def _has_cause(self, event: Event) -> bool:
        state = self.state
        if isinstance(event, MessagePulled):
            return state.data[event.worker].get(state.walker.point(event.location, event.time), 0) > 0
        if isinstance(event, ProgressReceived):
            return event.sequence < len(state.sent[event.sender])
        if isinstance(event, SumReceived):
            return event.sequence < state.sums_made(TOP)
        assert isinstance(event, ProgressSummed)
        return all(number < len(state.sent[sender]) for sender, number in event.batches) and all(
            number < state.sums_made(root) for root, number in event.sums
        )

    def _unexplained(self) -> NoReturn:
        """Raise BrokenError for an event that waits for a cause that cannot come."""
        waiting = [queue[0] for queue in self._queues if queue]
        # Others may wait for what this one holds up; whose cause nobody has told of is to blame.
        event = next((each for each in waiting if not self._is_caused_later(each)), waiting[0])
        if self._record is not None:
            self._record(event)
        for rule in self._models.of[type(event)]:
            rule(event)
        raise AssertionError(f"{event} has no cause, but no rule is broken")

    def _is_caused_later(self, event: Event) -> bool:
        """Return whether the cause of an event waits behind another one that waits."""
        later = (other for queue in self._queues for other in islice(queue, 1, None))
        if isinstance(event, MessagePulled):
            place = (event.worker, event.location, event.time)
            return any(
                isinstance(other, MessageSent) and (other.receiver, other.target, other.time) == place
                for other in later
            )
        if isinstance(event, ProgressReceived):
            batches, sums = {(event.sender, event.sequence)}, set()
        elif isinstance(event, SumReceived):
            batches, sums = set(), {(TOP, event.sequence)}
        elif isinstance(event, ProgressSummed):
            batches, sums = set(event.batches), set(event.sums)
        else:
            return False
        return any(
            (other.worker, other.sequence) in (batches if isinstance(other, ProgressSent) else sums)
            for other in later
            if isinstance(other, ProgressSent | ProgressSummed)
        )

    def _renumber(self) -> None:
        self._walker = self._walker.fresh()
        state = self.state.renumbered(self._walker)
        self._models.go_on_with(state)
        if self._snapshots is not None:
            self._snapshots.state, self._snapshots.walker = state, state.walker
        self._since_renumbering = 0


# A walker that remembers its answers for all epochs at once, for a judge that sees epoch after epoch.
#
# No edge depends on which epoch it is: each keeps the epoch or adds to it. So if one thing could result in
# another, it could do so any number of epochs later, too, and an answer depends on how far epochs lie apart,
# not on which they are. A *place* is a location with the rounds of a time there, all of a pointstamp but its
# epoch. From place to place there is a least number of epochs that things must be apart, the *delay*; and of
# a set of pointstamps the implied frontiers are remembered as seen from its earliest epoch.
#
# The answers are those of ``Walker``, which finds all of them by walking the edges; so does this one, each
# time that it meets something new. It is not for flows with times of their own, to which nothing can be
# added.

Place: TypeAlias = int
"""A location and rounds, by number."""

Frontiers: TypeAlias = tuple[frozenset[Stamp], ...]

REMEMBERED_MAX: Final = 50_000
"""The most answers that are remembered before all are forgotten."""
_EPOCH: Final = 1 << 32
"""One epoch in the number that stands for a place in an epoch; there are fewer places."""


class _Memory:
    """The memory of the walkers of one shape, which they share."""

    def __init__(self) -> None:
        self.numbers: dict[tuple[int, tuple[int, ...]], Place] = {}
        self.places: list[tuple[int, tuple[int, ...]]] = []
        self.reached: dict[Place, Frontiers] = {}
        self.delays: dict[Place, dict[Place, float]] = {}
        """By the place where something arrives, then by the place where it comes from."""
        self.implied: dict[frozenset[int], Frontiers] = {}
        self.size = 0


class EpochWalker(Walker):
    """Answers as a ``Walker`` does, and faster the more epochs are alike."""

    def __init__(self, shape: Shape, memory: _Memory | None = None) -> None:
        super().__init__(shape)
        self._memory = memory or _Memory()
        self._delays = self._memory.delays
        self._places: list[Place] = []
        self._epochs: list[int] = []
        self._later: dict[int, dict[frozenset[Stamp], frozenset[Stamp]]] = {}

    def fresh(self) -> "EpochWalker":
        """A walker that has numbered nothing, and knows what this one has found out."""
        return EpochWalker(self.shape, self._memory if self._memory.size <= REMEMBERED_MAX else None)

    def point(self, location: int, time: Stamp) -> Point:
        """The number of a pointstamp."""
        number = self._numbers.get((location, time))
        if number is None:
            number = super().point(location, time)
            self._epochs.append(time[0])
            self._places.append(self._place(location, time[1:]))
        return number

    def less(self, lower: Point, upper: Point) -> bool:
        """Return whether one pointstamp could result in another one; never in itself."""
        return self.less_any((lower,), upper)

    def less_any(self, lowers: Iterable[Point], upper: Point) -> bool:
        """Return whether one of these pointstamps could result in another one; none does in itself."""
        places, epochs, to = self._places, self._epochs, self._places[upper]
        delays, epoch = self._delays.get(to), epochs[upper]
        if delays is None:
            delays = self._delays[to] = {}
        for lower in lowers:
            delay = delays.get(places[lower])
            if delay is None:
                delay = delays[places[lower]] = self._delay(places[lower], to)
            if epoch - epochs[lower] >= delay and lower != upper:
                return True
        return False

    def implied_frontiers(self, points: Iterable[Point]) -> Frontiers:
        """For each location the minimal times that any of these pointstamps could result in."""
        places, epochs, minimal = self._places, self._epochs, self._minimal(points)
        first = epochs[minimal[0]] if minimal else 0
        key = frozenset([places[point] + (epochs[point] - first) * _EPOCH for point in minimal])
        known = self._memory.implied.get(key)
        if known is None:
            seen = (self.points[point] for point in minimal)
            known = self._walk((at, (epoch - first, *rounds)) for at, (epoch, *rounds) in seen)
            self._memory.implied[key] = known
            self._memory.size += len(known)
        later = self._later.setdefault(first, {})
        return tuple([later.get(times) or self._delayed(times, first) if times else times for times in known])

    def earliest(self, points: Iterable[Point]) -> Iterable[Point]:
        """Those of these pointstamps that none of the others is in an earlier epoch."""
        places, epochs = self._places, self._epochs
        found: dict[Place, Point] = {}
        for point in points:
            other = found.setdefault(places[point], point)
            if epochs[point] < epochs[other]:
                found[places[point]] = point
        return found.values()

    def _minimal(self, points: Iterable[Point]) -> list[Point]:
        """These pointstamps without those that an earlier one could result in, which add nothing."""
        found: list[Point] = []
        for point in sorted(self.earliest(points), key=self._epochs.__getitem__):
            if not self.less_any(found, point):
                found.append(point)
        return found

    def _delayed(self, times: frozenset[Stamp], epochs: int) -> frozenset[Stamp]:
        """The times so many epochs later."""
        found = frozenset([(time[0] + epochs, *time[1:]) for time in times])
        self._later[epochs][times] = found
        return found

    def _place(self, location: int, rounds: tuple[int, ...]) -> Place:
        memory = self._memory
        number = memory.numbers.get((location, rounds))
        if number is None:
            number = memory.numbers[location, rounds] = len(memory.places)
            memory.places.append((location, rounds))
        return number

    def _delay(self, origin: Place, to: Place) -> float:
        """The least number of epochs on a path between two places."""
        memory = self._memory
        memory.size += 1
        reached = memory.reached.get(origin)
        if reached is None:
            location, rounds = memory.places[origin]
            reached = memory.reached[origin] = self._walk([(location, (0, *rounds))])
            memory.size += len(reached)
        location, rounds = memory.places[to]
        return min((time[0] for time in reached[location] if self.below(time[1:], rounds)), default=inf)
