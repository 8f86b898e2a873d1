"""Verify progress, snapshots and commits of a world with crashes.

The events of each generation are judged by themselves: a restored generation begins with the counts of the
protocol, and its first changes bring what was saved. With them go the rules of snapshots
(``pointstamp.judge.cut_rules``), the same that judge a running query: what an operator has left when it is
saved, what it has seen, and that an epoch is committed when all workers have saved it.

Generations live beside each other for a while, so they are judged in the order in which things happened. Only
commits concern all of them: they are numbered in the journal, and later ones are of later epochs. When a
commit was noted says nothing of that: a driver may sleep between a commit and its note.
"""

from collections.abc import Sequence
from math import inf

from pointstamp.judge.abstract import AbstractState
from pointstamp.judge.conformance import ModelRules, Status, Verdict
from pointstamp.judge.cut_rules import CommitRules, SnapshotRules
from pointstamp.judge.rules import BrokenError, broken
from pointstamp.judge.shape import Walker
from pointstamp.simulate.crash.events import EpochCommitted, GenerationBegan, Happened
from pointstamp.worker.events import Event, SnapshotTaken


class GenerationJudge:
    """Judges one generation; BrokenError where a rule is broken."""

    def __init__(self, walker: Walker, operators: Sequence[int], began: GenerationBegan) -> None:
        state = AbstractState(walker, began.workers)
        self._models = ModelRules(state)
        self._snapshots = SnapshotRules(state, operators, began.restored)
        self._commits = CommitRules()
        self._commits.begin(began.workers, operators, began.restored, -1)
        self._rules = self._snapshots.before(self._models.of)
        self.events = 0
        """How many events of workers were judged, and found right."""

    def take(self, event: Event) -> None:
        """Judge the next event of any worker."""
        for rule in self._rules[type(event)]:
            rule(event)
        if isinstance(event, SnapshotTaken):
            self._commits.came(event)
        self.events += 1

    def committed(self, epoch: int) -> None:
        """Judge a commit."""
        self._commits.committed(epoch, self._snapshots)

    def end(self, *, at_rest: bool) -> None:
        """Check the final state: counts must balance, and at rest everything must be complete."""
        self._models.check_end(at_rest=at_rest)
        if at_rest:
            self._commits.end(self._snapshots)


def judge_generations(
    walker: Walker, operators: Sequence[int], happened: Sequence[Happened], *, is_complete: bool
) -> Verdict:
    """Judge all generations of a world; ``operators`` are those that take snapshots.

    ``is_complete`` says that the newest generation came to its end, so that everything must be complete.
    """
    judges: dict[int, GenerationJudge] = {}
    commits: list[EpochCommitted] = []
    generation, number = -1, None
    try:
        for generation, event in happened:
            if isinstance(event, GenerationBegan):
                judges[generation] = GenerationJudge(walker, operators, event)
            elif isinstance(event, EpochCommitted):
                number = judges[generation].events
                judges[generation].committed(event.epoch)
                commits.append(event)
            elif isinstance(event, Event):
                number = judges[generation].events
                judges[generation].take(event)
        number = None
        _check_order(commits)
        newest = max(judges, default=-1)
        for generation, judge in judges.items():
            judge.end(at_rest=is_complete and generation == newest)
    except BrokenError as error:
        return Verdict(Status.INVALID, error.property, f"in generation {generation}: {error}", number)
    except Exception as error:
        reason = f"the judge failed: {type(error).__name__}: {error}"
        return Verdict(Status.UNKNOWN, reason=reason, event=number)
    return Verdict(Status.VALID)


def _check_order(commits: Sequence[EpochCommitted]) -> None:
    """Later commits, by their numbers in the journal, are of later epochs."""
    last_number, last_epoch = -1.0, -inf
    for number, epoch in sorted((commit.number, commit.epoch) for commit in commits):
        if number == last_number or epoch <= last_epoch:
            broken(
                "CommitsInOrder",
                f"commit {number} is of epoch {epoch}, and commit {last_number:g} of epoch {last_epoch:g}",
            )
        last_number, last_epoch = number, epoch
