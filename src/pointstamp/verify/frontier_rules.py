"""The rules of frontiers for a trace: safe, monotone, exact.

The combined tracker of Brun et al. (2021), section 6: after a propagation every frontier is the implied
frontier of the counts (Converged), and none has passed anything that exists anywhere (SafeCombined). On top
stands the law of Abadi & Isard (2015): nothing arrives at or before a time of which completion was told.
"""

from collections.abc import Iterable

from pointstamp.verify.abstract_state import AbstractState, Rules, broken, times_text
from pointstamp.verify.shape import Stamp
from pointstamp.worker.events import (
    FrontiersMoved,
    FrontiersShown,
    MessagePulled,
    NotificationAsked,
    Notified,
)


class FrontierRules(Rules):
    """One method for each event that frontiers have to do with: check it, then let it happen."""

    def __init__(self, state: AbstractState) -> None:
        super().__init__(state)
        self._below = state.walker.below
        self._inputs: dict[int, list[int]] = {}
        for location, port in enumerate(self.walker.shape.ports):
            if not port.is_output:
                self._inputs.setdefault(port.operator, []).append(location)
        # A user's own times are sorted by the user's key, which the judge does not ask for.
        shape = self.walker.shape
        self._in_order = frozenset(() if shape.has_own_times else shape.in_order)
        self._taken: dict[tuple[int, int], Stamp] = {}

    def message_pulled(self, event: MessagePulled) -> None:
        """The law at the user's level: the message is not late."""
        w, point = event.worker, self.walker.point(event.location, event.time)
        if not self.expects(w, point):
            broken(
                "NoLateMessages", f"worker {w} pulled {self.describe(point)}, which its frontier has passed"
            )
        operator = self.walker.shape.ports[event.location].operator
        for told in self.state.notified[w].get(operator, ()):
            if self._below(event.time, told):
                broken(
                    "NoLateMessages",
                    f"worker {w} pulled {self.describe(point)} after the operator was notified that "
                    f"{told} is complete",
                )

    def frontiers_moved(self, event: FrontiersMoved) -> None:
        """propagate: nothing that exists is passed, nothing moves back, and everything is exact."""
        q, before = event.worker, self.state.shown[event.worker]
        after = list(before) if before is not None else [frozenset[Stamp]()] * len(self.walker.shape.ports)
        for at, times in event.frontiers.items():
            after[at] = frozenset(times)
        self.state.shown[q] = after
        moved: Iterable[int] = event.frontiers if before is not None else range(len(after))
        for location in moved:
            # A frontier that expects something expects the same of later epochs, too.
            for point in self.walker.earliest(self.state.rec_at(location)):
                self.check_exists_safely(point, (q,))
        if before is not None:
            for location in moved:
                self._check_not_back(q, location, before[location], after[location])
        self._check_converged(q, after)

    def _check_not_back(
        self, q: int, location: int, before: frozenset[Stamp], after: frozenset[Stamp]
    ) -> None:
        for time in after:
            if not any(self._below(earlier, time) for earlier in before):
                broken(
                    "FrontierNeverRegresses",
                    f"worker {q}: {self.at(location)} moved back from {times_text(before)} to "
                    f"{times_text(after)}",
                )

    def _check_converged(self, q: int, shown: list[frozenset[Stamp]]) -> None:
        counts = self.state.glob[q].items()
        implied = self.walker.implied_frontiers([point for point, count in counts if count > 0])
        if tuple(shown) != implied:
            location = next(at for at, times in enumerate(implied) if shown[at] != times)
            broken(
                "Converged",
                f"worker {q}: {self.at(location)} is {times_text(shown[location])}, but the counts imply "
                f"{times_text(implied[location])}",
            )

    def frontiers_shown(self, event: FrontiersShown) -> None:
        """An operator may read propagated or older frontiers only."""
        propagated = self.shown(event.worker)
        for location, times in event.frontiers.items():
            for time in propagated[location]:
                if not any(self._below(lower, time) for lower in times):
                    broken(
                        "OperatorFrontierNotAhead",
                        f"worker {event.worker}: {self.at(location)} was shown as {times_text(times)}, but "
                        f"is {times_text(propagated[location])}",
                    )

    def notified(self, event: Notified) -> None:
        """A notification: the time is complete at every input, and no later one was notified before."""
        w, operator, time = event.worker, event.operator, event.time
        for location in self._inputs.get(operator, ()):
            if any(self._below(lower, time) for lower in self.shown(w)[location]):
                broken(
                    "NotifiedComplete",
                    f"worker {w} notified that {time} is complete while {self.at(location)} was "
                    f"{times_text(self.shown(w)[location])}",
                )
        told = self.state.notified[w].setdefault(operator, [])
        for later in told:
            if time != later and self._below(time, later):
                broken("NotifiedInOrder", f"worker {w} notified of {time} after it had notified of {later}")
        told[:] = [other for other in told if not self._below(other, time)]
        told.append(time)
        if operator in self._in_order:
            self._check_taken_in_order(w, operator, time)

    def _check_taken_in_order(self, w: int, operator: int, time: Stamp) -> None:
        """No earlier time, epochs first and then rounds, can arrive, and no later one was notified."""
        before = self._taken.get((w, operator))
        if before is not None and time <= before:
            broken("TakenInOrder", f"worker {w} notified of {time} after it had notified of {before}")
        self._taken[w, operator] = time
        for location in self._inputs.get(operator, ()):
            if any(lower <= time for lower in self.shown(w)[location]):
                broken(
                    "TakenInOrder",
                    f"worker {w} notified of {time} while {self.at(location)} was "
                    f"{times_text(self.shown(w)[location])}",
                )

    def check_completes(self) -> None:
        """Nothing exists any more, and every frontier is empty."""
        state = self.state
        for w in range(state.workers):
            if state.caps[w]:
                broken("Completes", f"worker {w} never gives up {self.show(state.caps[w])}")
            if state.data[w]:
                broken("Completes", f"worker {w} never pulled {self.show(state.data[w])}")
        for q in range(state.workers):
            for location, frontier in enumerate(self.shown(q)):
                if frontier:
                    broken(
                        "Completes", f"worker {q}: {self.at(location)} stays {times_text(frontier)} forever"
                    )


# The rules of notifications for a trace: each was asked for, and each request is served, once, where it was.
#
# A request is an event of its own, so that the runtime's list of them need not be trusted (Abadi & Isard
# 2015: a node is notified of a time that it has requested, and the request is used up by that). When a time
# may be told is said by ``pointstamp.verify.frontier_rules``; that none is forgotten is judged at the end of
# a run and, for what an epoch has left, when an operator is saved (``pointstamp.verify.snapshot_rules``).


class NotificationRules(Rules):
    """One method for each event of a request's life: check it, then let it happen."""

    def asked(self, event: NotificationAsked) -> None:
        """A request: the operator has none for this time yet."""
        w, operator, time = event.worker, event.operator, event.time
        pending = self.state.asked[w].setdefault(operator, set())
        if time in pending:
            broken(
                "AskedOnce",
                f"on worker {w} {self.name(operator)} asked for {time}, though a request for it was pending",
            )
        pending.add(time)

    def notified(self, event: Notified) -> None:
        """A notification uses up a request of the same operator for the same time."""
        w, operator, time = event.worker, event.operator, event.time
        pending: set[Stamp] = self.state.asked[w].get(operator, set())
        if time not in pending:
            known = ", ".join(map(str, sorted(pending, key=str))) or "none"
            broken(
                "NotifiedWasAsked",
                f"on worker {w} {self.name(operator)} was notified that {time} is complete, but has no "
                f"pending request for it; its requests: {known}",
            )
        pending.discard(time)

    def check_served(self) -> None:
        """At rest everything is complete, so no request is left."""
        for w, of_worker in enumerate(self.state.asked):
            for operator, pending in of_worker.items():
                if pending:
                    broken(
                        "AskedIsServed",
                        f"on worker {w} {self.name(operator)} requested {min(pending, key=str)}, but was "
                        "never notified that it is complete",
                    )
