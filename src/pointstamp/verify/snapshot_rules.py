"""The rules of snapshots, for running queries and simulated crashes.

A snapshot of epoch e is taken operator by operator, each when nothing of an epoch up to e can reach it any
more. Together they are a cut from which a run may continue as if it had never failed (Veresov et al. 2024,
for graphs with cycles too) if the conditions below hold. They are looked up in the abstract state of Brun et
al. (2021), in what truly exists, and not in what a worker believes.

Kept: for each instance of an operator the last epoch that it has set aside, and the latest that it has seen
anything of. Not judged, because no event shows it: that what is stored is the state, with everything that was
left for later epochs.
"""

from collections.abc import Iterable, Sequence
from math import inf
from typing import Final

from pointstamp.verify.abstract_state import AbstractState, Rules, RulesOf, broken
from pointstamp.worker.events import (
    ActivationEnded,
    CapabilityChanged,
    Event,
    FrontiersMoved,
    FrontiersShown,
    MessagePulled,
    MessageSent,
    NotificationAsked,
    Notified,
    ProgressReceived,
    ProgressSent,
    ProgressSummed,
    SnapshotTaken,
    SumReceived,
    WorkerStarted,
)

SNAPSHOT_PROPERTIES: Final = {
    "SnapshotOwnWorkDone": (
        "an operator that takes the snapshot of an epoch owns and awaits nothing up to it"
    ),
    "SnapshotNothingArrives": (
        "nothing that exists could still bring an earlier epoch to an operator that has taken it"
    ),
    "SnapshotHeldBack": "no operator sees anything beyond an epoch before its snapshot is taken",
    "SnapshotsInOrder": "every operator takes the snapshots of later and later epochs",
    "NothingAfterSnapshot": (
        "an operator that has taken the snapshot of an epoch handles, mints and sends nothing of it"
    ),
    "RestoredStart": (
        "a worker that continues after an epoch holds nothing of it when it first tells how far it is"
    ),
    "CommitWhole": "an epoch is committed when every operator of every worker has taken its snapshot",
    "CommitEvery": "an epoch of which a snapshot was taken is committed, and before any later one",
    "CommitsInOrder": "later and later epochs are committed, each once, over all restarts",
}
"""Every property of snapshots and commits that is judged, and what it says."""


class SnapshotRules(Rules):
    """One method for each event that snapshots have to do with."""

    def __init__(self, state: AbstractState, operators: Sequence[int], restored: int) -> None:
        super().__init__(state)
        self._restored = restored
        self._taken = [dict.fromkeys(operators, restored) for _ in range(state.workers)]
        self._seen: list[dict[int, float]] = [{} for _ in range(state.workers)]
        self._has_told = [False] * state.workers
        self._operators = [port.operator for port in self.walker.shape.ports]
        self._inputs: dict[int, list[int]] = {}
        for location, port in enumerate(self.walker.shape.ports):
            if not port.is_output:
                self._inputs.setdefault(port.operator, []).append(location)

        self.rules: RulesOf = {
            MessagePulled: (self._message_pulled,),
            NotificationAsked: (self._notification_asked,),
            Notified: (self._notified,),
            FrontiersShown: (self._frontiers_shown,),
            CapabilityChanged: (self._capability_changed,),
            MessageSent: (self._message_sent,),
            SnapshotTaken: (self._snapshot_taken,),
            ProgressSent: (self._progress_sent,),
            ProgressReceived: (),
            ProgressSummed: (),
            SumReceived: (),
            FrontiersMoved: (),
            ActivationEnded: (),
            WorkerStarted: (),
        }

    def before(self, others: RulesOf) -> RulesOf:
        """These rules, if there are any for a kind of event, and then the others."""
        return {kind: (self.take, *rules) if self.rules[kind] else rules for kind, rules in others.items()}

    def take(self, event: Event) -> None:
        """Check that an event may happen now, before it does."""
        for rule in self.rules[type(event)]:
            rule(event)

    def _message_pulled(self, event: MessagePulled) -> None:
        self._handled(event.worker, self._operators[event.location], event.time[0], "pulled a message")

    def _notification_asked(self, event: NotificationAsked) -> None:
        self._check_not_taken(event.worker, event.operator, event.time[0], "asked for a notification")

    def _notified(self, event: Notified) -> None:
        self._handled(event.worker, event.operator, event.time[0], "was notified of a time")

    def _frontiers_shown(self, event: FrontiersShown) -> None:
        for times in event.frontiers.values():
            complete_through = min([time[0] for time in times], default=inf) - 1
            self._saw(event.worker, event.operator, complete_through)

    def _capability_changed(self, event: CapabilityChanged) -> None:
        if event.diff > 0:
            operator = self._operators[event.location]
            self._check_not_taken(event.worker, operator, event.time[0], "acquired a capability")

    def _message_sent(self, event: MessageSent) -> None:
        self._check_not_taken(event.worker, self._operators[event.source], event.time[0], "sent a message")

    def _progress_sent(self, event: ProgressSent) -> None:
        if not self._has_told[event.worker]:
            self._has_told[event.worker] = True
            self._check_restored(event.worker)

    def _snapshot_taken(self, event: SnapshotTaken) -> None:
        w, operator, epoch = event.worker, event.operator, event.epoch
        who = f"worker {w} took the snapshot of epoch {epoch} of {self.name(operator)}"
        before = self._taken[w][operator]
        if epoch <= before:
            broken("SnapshotsInOrder", f"{who} after that of epoch {before}")
        points, ports = self.walker.points, self.walker.shape.ports
        for point in self.state.caps[w]:
            location, time = points[point]
            if ports[location].operator == operator and time[0] <= epoch:
                broken("SnapshotOwnWorkDone", f"{who}, which owns {self.describe(point)}")
        for time in self.state.asked[w].get(operator, ()):
            if time[0] <= epoch:
                broken("SnapshotOwnWorkDone", f"{who}, which was not notified yet that {time} is complete")
        implied = self.walker.implied_frontiers(self.state.all_rec())
        for location in self._inputs.get(operator, ()):
            for time in implied[location]:
                if time[0] <= epoch:
                    broken(
                        "SnapshotNothingArrives",
                        f"{who}, and {time} may still arrive at {ports[location].name}",
                    )
        seen = self._seen[w].get(operator, -1)
        if seen > epoch:
            broken("SnapshotHeldBack", f"{who}, which has seen something of epoch {seen}")
        self._taken[w][operator] = epoch

    def _handled(self, w: int, operator: int, epoch: int, act: str) -> None:
        self._check_not_taken(w, operator, epoch, act)
        self._saw(w, operator, epoch)

    def _saw(self, w: int, operator: int, epoch: float) -> None:
        if epoch > self._seen[w].get(operator, -1):
            self._seen[w][operator] = epoch

    def _check_not_taken(self, w: int, operator: int, epoch: int, act: str) -> None:
        taken = self._taken[w].get(operator)
        if taken is not None and epoch <= taken:
            broken(
                "NothingAfterSnapshot",
                f"on worker {w} {self.name(operator)} {act} of epoch {epoch} after the snapshot of epoch "
                f"{taken} was taken or restored",
            )

    def _check_restored(self, w: int) -> None:
        for point in self.state.caps[w]:
            if self.walker.points[point][1][0] <= self._restored:
                broken(
                    "RestoredStart",
                    f"worker {w} continued after epoch {self._restored} and holds {self.describe(point)}",
                )


class CommitRules:
    """Judges commits by the workers' events; over all generations of one query.

    A worker tells everything that has happened before it says that an epoch is saved, so an event that was
    not told when the epoch is committed had not happened. Snapshots of later epochs may have been told, too:
    they say nothing about this one, so every epoch that is not committed yet is kept.
    """

    def __init__(self) -> None:
        self._committed = -1
        self._taken: dict[tuple[int, int], set[int]] = {}

    def begin(self, workers: int, operators: Iterable[int], restored: int, committed: int) -> None:
        """A generation begins."""
        self._committed = max(self._committed, restored, committed)
        self._taken = {(w, operator): set() for operator in operators for w in range(workers)}

    def came(self, event: SnapshotTaken) -> None:
        """A worker has told that a snapshot was taken."""
        self._taken.setdefault((event.worker, event.operator), set()).add(event.epoch)

    def committed(self, epoch: int, shown: "SnapshotRules") -> None:
        """Check that an epoch may be committed."""
        if epoch <= self._committed:
            broken("CommitsInOrder", f"epoch {epoch} was committed after epoch {self._committed}")
        for (w, operator), taken in self._taken.items():
            if epoch not in taken:
                broken(
                    "CommitWhole",
                    f"epoch {epoch} was committed, and on worker {w} {shown.name(operator)} had taken no "
                    f"snapshot of it; it had taken those of epochs {sorted(taken) or 'none'}",
                )
        self._check_every(epoch, f"epoch {epoch} was committed", shown)
        self._committed = epoch
        for taken in self._taken.values():
            taken.difference_update([each for each in taken if each <= epoch])

    def end(self, shown: "SnapshotRules") -> None:
        """All events were told: every snapshot that was taken must be committed."""
        self._check_every(inf, "the run has ended", shown)

    def _check_every(self, before: float, when: str, shown: "SnapshotRules") -> None:
        for (w, operator), taken in self._taken.items():
            passed = [epoch for epoch in taken if self._committed < epoch < before]
            if passed:
                broken(
                    "CommitEvery",
                    f"{when}, and epoch {min(passed)}, of which on worker {w} {shown.name(operator)} had "
                    "taken the snapshot, never was",
                )
