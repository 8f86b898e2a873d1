"""The abstract state that a trace describes: the exchange protocol and the combined tracker, rebuilt.

The variables have the names of Brun et al. (2021): ``caps[w]`` what worker w owns, ``data[w]`` what messages
in flight to w carry, ``temp[w]`` what w has not told yet, ``glob[q]`` what q takes to exist, and rec,
derived, what truly exists. ``shown[q]`` are the frontiers that q's operators may read. Counts are
dictionaries without zeros, over pointstamps by number.

An activation of an operator is one perf_op; until it ends, what it pulled, sent, minted and dropped gathers
in ``Activation``. This file only keeps the books; the rules say what is allowed
(``pointstamp.verify.exchange_rules``, ``pointstamp.verify.frontier_rules``).
"""

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final, NoReturn, TypeAlias

from pointstamp.verify.shape import Point, Stamp, Walker, first_points
from pointstamp.worker.events import Event

Counts: TypeAlias = dict[Point, int]
"""A signed multiset that changes; no count is zero."""

Parts: TypeAlias = tuple[tuple[int, int], ...]
"""Batches of progress by worker and number."""

TOP: Final = 0
"""The root whose sums all workers receive."""


@dataclass(slots=True)
class Activation:
    """The actions of an operator since its activation began."""

    pulled: Counts = field(default_factory=dict)
    sent: list[tuple[Point, Point, int]] = field(default_factory=list)
    """Source pointstamp, target pointstamp, receiver."""
    held: Counts = field(default_factory=dict)
    """Capabilities that came and went, netted."""


class Batches:
    """The batches of one worker, numbered from its first; those that all workers have received are freed."""

    def __init__(self, first: int = 0, kept: Iterable[Counts] = ()) -> None:
        self._first = first
        self._kept = deque(kept)

    def __len__(self) -> int:
        """The number of batches ever sent."""
        return self._first + len(self._kept)

    def __getitem__(self, number: int) -> Counts:
        return self._kept[number - self._first]

    def append(self, batch: Counts) -> None:
        """Take the next one."""
        self._kept.append(batch)

    def since(self, number: int) -> Iterable[Counts]:
        """Those from this one on."""
        return islice(self._kept, number - self._first, None)

    def forget_before(self, number: int) -> None:
        """Forget the batches before this one, which will not be asked for again."""
        while self._first < number:
            self._kept.popleft()
            self._first += 1

    def each(self, change: Callable[[Counts], Counts]) -> "Batches":
        """The same ones, changed."""
        return Batches(self._first, map(change, self._kept))


class AbstractState:
    """The state after some events of a trace; changed by the judge alone."""

    def __init__(self, walker: Walker, workers: int) -> None:
        first = first_points(walker)
        everybody = range(workers)
        self.walker = walker
        self.workers = workers
        self.caps: list[Counts] = [dict.fromkeys(first, 1) for _ in everybody]
        self.data: list[Counts] = [{} for _ in everybody]
        self.temp: list[Counts] = [{} for _ in everybody]
        self.glob: list[Counts] = [dict.fromkeys(first, workers) for _ in everybody]
        self.sent: list[Batches] = [Batches() for _ in everybody]
        """The batches of progress that w has sent; msg[w][q] are those that q has not received."""
        self.heard: list[list[int]] = [[0] * workers for _ in everybody]
        """heard[q][w]: how many batches of w were applied by q."""
        self.sums: list[deque[Parts]] = [deque() for _ in everybody]
        """The parts of the sums of each root that were not taken yet."""
        self.sums_taken: list[int] = [0] * workers
        """The number of taken sums of each root: by the top, or, for the sums of the top, by all
        workers."""
        self.summed: list[int] = [0] * workers
        """The number of batches of each worker that are in a sum."""
        self.sums_heard: list[int] = [0] * workers
        """The number of sums of the top that each worker has applied."""
        self.shown: list[list[frozenset[Stamp]] | None] = [None for _ in everybody]
        """None until w has propagated for the first time: an empty frontier would mean complete."""
        self.activations = [Activation() for _ in everybody]
        self.notified: list[dict[int, list[Stamp]]] = [{} for _ in everybody]
        """For each operator the maximal times of which it was told that they are complete."""
        self.asked: list[dict[int, set[Stamp]]] = [{} for _ in everybody]
        """For each operator the times that it has asked to be told of, and has not been told yet."""
        self._rec_at: list[Counts] = [{} for _ in walker.shape.ports]
        for point in first:
            add(self._rec_at[walker.points[point][0]], point, workers)

    # rec, kept per location.

    def rec(self, point: Point) -> int:
        """Return the true count of a pointstamp."""
        return self._rec_at[self.walker.points[point][0]].get(point, 0)

    def rec_at(self, location: int) -> Mapping[Point, int]:
        """Return the true pointstamps at a location."""
        return self._rec_at[location]

    def all_rec(self) -> Counts:
        """All pointstamps that truly exist, with their counts."""
        return {point: count for at in self._rec_at for point, count in at.items()}

    # Actions.

    def recv_cap(self, w: int, point: Point) -> None:
        """A message is pulled: w now owns what it carried, and rec does not change."""
        add(self.data[w], point, -1)
        add(self.caps[w], point, 1)
        add(self.activations[w].pulled, point, 1)

    def perf_op(self, w: int, reported: Counts) -> Activation:
        """The activation ends: what it did takes effect at once, and w has yet to tell what it reported."""
        done, self.activations[w] = self.activations[w], Activation()
        for point, count in done.pulled.items():
            add(self.caps[w], point, -count)
            self._add_rec(point, -count)
        for point, count in done.held.items():
            add(self.caps[w], point, count)
            self._add_rec(point, count)
        for _, point, receiver in done.sent:
            add(self.data[receiver], point, 1)
            self._add_rec(point, 1)
        for point, count in reported.items():
            add(self.temp[w], point, count)
        return done

    def send_upd(self, w: int, batch: Counts) -> None:
        """Worker w sends all workers, itself included, a part of what it has not sent yet."""
        for point, count in batch.items():
            add(self.temp[w], point, -count)
        self.sent[w].append(batch)

    def recv_upd(self, w: int, q: int) -> Counts:
        """Worker q receives the oldest batch of w that it has not received."""
        batch = self.sent[w][self.heard[q][w]]
        self.heard[q][w] += 1
        self.sent[w].forget_before(min(heard[w] for heard in self.heard))
        for point, count in batch.items():
            add(self.glob[q], point, count)
        return batch

    def sum_made(self, root: int, parts: Parts, batches: Mapping[int, int]) -> None:
        """A root has made its next sum: all its parts, and how many of them it took from each worker."""
        for w, number in batches.items():
            self.summed[w] += number
        self.sums[root].append(parts)

    def sums_made(self, root: int) -> int:
        """Return the number of sums of a root."""
        return self.sums_taken[root] + len(self.sums[root])

    def sum_taken(self, root: int) -> Parts:
        """The top takes the next sum of another root."""
        self.sums_taken[root] += 1
        return self.sums[root].popleft()

    def sum_heard(self, q: int) -> Parts:
        """Worker q receives the next sum of the top; what all have received is freed."""
        parts = self.sums[TOP][self.sums_heard[q] - self.sums_taken[TOP]]
        self.sums_heard[q] += 1
        while self.sums_taken[TOP] < min(self.sums_heard):
            self.sums_taken[TOP] += 1
            self.sums[TOP].popleft()
        return parts

    def unheard(self, q: int) -> Counts:
        """Return the sum of all changes in flight to q."""
        total: Counts = {}
        for w, batches in enumerate(self.sent):
            for batch in batches.since(self.heard[q][w]):
                for point, count in batch.items():
                    add(total, point, count)
        return total

    def _add_rec(self, point: Point, count: int) -> None:
        add(self._rec_at[self.walker.points[point][0]], point, count)

    # Going on forever.

    def renumbered(self, walker: Walker) -> "AbstractState":
        """The same state with the numbers of a fresh walker, which knows nothing that has passed."""

        def number(point: Point) -> Point:
            return walker.point(*self.walker.points[point])

        def moved(counts: Counts) -> Counts:
            return {number(point): count for point, count in counts.items()}

        fresh = AbstractState(walker, self.workers)
        fresh.caps, fresh.data = list(map(moved, self.caps)), list(map(moved, self.data))
        fresh.temp, fresh.glob = list(map(moved, self.temp)), list(map(moved, self.glob))
        fresh.sent = [batches.each(moved) for batches in self.sent]
        fresh.heard, fresh.shown = self.heard, self.shown
        fresh.sums, fresh.sums_taken = self.sums, self.sums_taken
        fresh.summed, fresh.sums_heard = self.summed, self.sums_heard
        fresh.notified, fresh.asked = self.notified, self.asked
        fresh.activations = [
            Activation(
                moved(done.pulled),
                [(number(source), number(target), receiver) for source, target, receiver in done.sent],
                moved(done.held),
            )
            for done in self.activations
        ]
        fresh._rec_at = list(map(moved, self._rec_at))
        return fresh


def add(counts: Counts, point: Point, count: int) -> None:
    """Change one count; a zero is not kept."""
    after = counts.get(point, 0) + count
    if after:
        counts[point] = after
    else:
        counts.pop(point, None)


def summed(walker: Walker, changes: Iterable[tuple[int, Stamp, int]]) -> Counts:
    """Changes to pointstamps, as events report them, summed up."""
    total: Counts = {}
    for location, time, count in changes:
        add(total, walker.point(location, time), count)
    return total


# Shared parts of all rules: the state so far, and descriptions of violations.

RulesOf: TypeAlias = dict[type[Event], tuple[Callable[[Any], None], ...]]
"""The rules to check for an event, by its kind; a dictionary, because it is used for every event."""


class BrokenError(Exception):
    """A property does not hold; raised by rules, caught by the judge and never seen outside."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(reason)
        self.property = name


def broken(name: str, reason: str) -> NoReturn:
    """Say that a property does not hold, and why."""
    raise BrokenError(name, reason)


class Rules:
    """Rules about the state of one trace."""

    def __init__(self, state: AbstractState) -> None:
        self.state = state
        self.walker = state.walker

    def shown(self, worker: int) -> list[frozenset[Stamp]]:
        """The frontiers that a worker's operators may read."""
        frontiers = self.state.shown[worker]
        if frontiers is None:
            raise ValueError(f"worker {worker} took a step before its frontiers were propagated")
        return frontiers

    def expects(self, worker: int, point: Point) -> bool:
        """Return whether a worker's frontier has not passed the pointstamp."""
        location, time = self.walker.points[point]
        below = self.walker.below
        for lower in self.shown(worker)[location]:  # noqa: SIM110 - asked all the time
            if below(lower, time):
                return True
        return False

    def check_exists_safely(self, point: Point, workers: Iterable[int]) -> None:
        """SafeCombined for one pointstamp and some workers.

        Its own location is enough: whatever it could result in, frontiers that have converged expect that
        too if they expect the pointstamp itself.
        """
        if self.state.rec(point) < 1:
            return
        for q in workers:
            if self.state.shown[q] is not None and not self.expects(q, point):
                location = self.walker.points[point][0]
                broken(
                    "SafeCombined",
                    f"{self.describe(point)} exists, and on worker {q} {self.at(location)} is "
                    f"{times_text(self.shown(q)[location])}",
                )

    def describe(self, point: Point) -> str:
        """A pointstamp as text."""
        return self.walker.describe(point)

    def name(self, operator: int) -> str:
        """An operator as text."""
        return self.walker.shape.operator(operator)

    def at(self, location: int) -> str:
        """The frontier of a location as text."""
        return f"the frontier of {self.walker.shape.ports[location].name}"

    def show(self, counts: Counts) -> str:
        """A signed multiset as text."""
        return ", ".join(f"{count:+} of {self.describe(point)}" for point, count in sorted(counts.items()))


def times_text(times: Iterable[Stamp]) -> str:
    """A frontier for a reader."""
    return "{" + ", ".join(sorted(map(str, times))) + "}"
