"""The models' state after each event of a trace.

``ModelSteps`` lets the judge take events one by one, and says after each what has become different in the
abstract state (``pointstamp.verify.abstract_state``): the counts of what truly exists, the frontiers that
follow from them, and the frontiers that follow from what one worker has been told. It checks nothing itself;
whether an event may happen is said by the rules that it was given.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple, TypeAlias

from pointstamp.verify.abstract_state import AbstractState, Counts
from pointstamp.verify.shape import Stamp
from pointstamp.worker.events import ActivationEnded, Event, ProgressReceived

CountAt: TypeAlias = tuple[int, Stamp, int]
"""A location, a time, and how many there are."""

Frontiers: TypeAlias = Mapping[int, tuple[Stamp, ...]]
"""Frontiers by location, each in the order of sorting."""


class ModelChange(NamedTuple):
    """The changes of an event to the models' state."""

    exists: tuple[CountAt, ...]
    frontiers: Frontiers
    """The frontiers that the true pointstamps imply."""
    implied: Frontiers
    """The frontiers that the counts of the event's worker imply."""


class WorkerView(NamedTuple):
    """The models' state of one worker."""

    owns: tuple[CountAt, ...]
    arriving: tuple[CountAt, ...]
    """Messages in flight to it."""
    told: tuple[CountAt, ...]
    """The counts of the worker."""
    shown: Frontiers
    """The frontiers that its operators may read; none before its first propagation."""
    implied: Frontiers


class ModelState(NamedTuple):
    """All that a page shows of the models' state."""

    exists: tuple[CountAt, ...]
    frontiers: Frontiers
    workers: tuple[WorkerView, ...]


class ModelSteps:
    """Follows a run in the models' state; ``rules`` lets an event happen there, or raises BrokenError."""

    def __init__(self, state: AbstractState, rules: Callable[[Event], None]) -> None:
        self._state = state
        self._rules = rules
        self._frontiers = self._implied(state.all_rec())
        self._told = [self._implied(told) for told in state.glob]

    def pass_over(self, event: Event) -> None:
        """Let an event happen without saying what it changes; ``whole`` finds out later."""
        self._rules(event)

    def take(self, event: Event) -> ModelChange:
        """Let the next event happen, and say what it has changed."""
        self._rules(event)
        state = self._state
        if isinstance(event, ActivationEnded):
            points = {state.walker.point(at, time) for at, time, _ in event.changes}
            exists = tuple((*state.walker.points[point], state.rec(point)) for point in sorted(points))
            before, self._frontiers = self._frontiers, self._implied(state.all_rec())
            return ModelChange(exists, _moved(before, self._frontiers), {})
        if isinstance(event, ProgressReceived):
            known, w = self._told[event.worker], event.worker
            self._told[w] = self._implied(state.glob[w])
            return ModelChange((), {}, _moved(known, self._told[w]))
        return ModelChange((), {}, {})

    def whole(self) -> ModelState:
        """The complete state as it is now."""
        state = self._state
        self._frontiers = self._implied(state.all_rec())
        self._told = [self._implied(told) for told in state.glob]
        workers = tuple(
            WorkerView(
                self._counted(state.caps[w]),
                self._counted(state.data[w]),
                self._counted(state.glob[w]),
                _by_location(state.shown[w] or ()),
                _by_location(self._told[w]),
            )
            for w in range(state.workers)
        )
        return ModelState(self._counted(state.all_rec()), _by_location(self._frontiers), workers)

    def _implied(self, counts: Counts) -> tuple[frozenset[Stamp], ...]:
        return self._state.walker.implied_frontiers([point for point, count in counts.items() if count > 0])

    def _counted(self, counts: Counts) -> tuple[CountAt, ...]:
        points = self._state.walker.points
        return tuple((*points[point], count) for point, count in sorted(counts.items()))


def _moved(before: tuple[frozenset[Stamp], ...], after: tuple[frozenset[Stamp], ...]) -> Frontiers:
    return {at: _sorted(times) for at, times in enumerate(after) if times != before[at]}


def _by_location(frontiers: Iterable[frozenset[Stamp]]) -> Frontiers:
    return {at: _sorted(times) for at, times in enumerate(frontiers)}


def _sorted(times: frozenset[Stamp]) -> tuple[Stamp, ...]:
    return tuple(sorted(times))
