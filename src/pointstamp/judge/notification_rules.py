"""The rules of notifications for a trace: each was asked for, and each request is served, once, where it was.

A request is an event of its own, so that the runtime's list of them need not be trusted (Abadi & Isard 2015:
a node is notified of a time that it has requested, and the request is used up by that). When a time may be
told is said by ``pointstamp.judge.frontier_rules``; that none is forgotten is judged at the end of a run and,
for what an epoch has left, when an operator is saved (``pointstamp.judge.cut_rules``).
"""

from pointstamp.judge.roots import Stamp
from pointstamp.judge.rules import Rules, broken
from pointstamp.worker.events import NotificationAsked, Notified


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
                f"on worker {w} {self.name(operator)} was told that {time} is complete, but has no pending "
                f"request for it; its requests: {known}",
            )
        pending.discard(time)

    def check_served(self) -> None:
        """At rest everything is complete, so no request is left."""
        for w, of_worker in enumerate(self.state.asked):
            for operator, pending in of_worker.items():
                if pending:
                    broken(
                        "AskedIsServed",
                        f"on worker {w} {self.name(operator)} asked for {min(pending, key=str)}, but was "
                        "never told that it is complete",
                    )
