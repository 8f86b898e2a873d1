"""Shared parts of all rules: the state so far, and descriptions of violations."""

from collections.abc import Callable, Iterable
from typing import Any, NoReturn, TypeAlias

from pointstamp.judge.abstract import AbstractState, Counts
from pointstamp.judge.roots import Stamp
from pointstamp.judge.shape import Point
from pointstamp.worker.events import Event

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
            raise ValueError(f"worker {worker} did something before its frontiers were propagated")
        return frontiers

    def expects(self, worker: int, point: Point) -> bool:
        """Whether a worker's frontier has not passed the pointstamp."""
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
