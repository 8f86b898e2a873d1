"""Run a flow in many worlds with crashes, and compare with a failure-free run.

Each world is judged three times, and each judge finds what the others cannot:

- *published*: every epoch's rows are those of a run on one worker without failures that is fed the same
  ticks; the sink sees to it that nothing is published twice or changed. It sees rows, so it finds state that
  was not saved, and input that was lost or read twice.
- *conformance*: the events of each generation by themselves, under the rules of progress tracking, of
  snapshots and of commits (this module). It finds progress that a recovery has broken, and snapshots that are
  taken too early, also where no crash shows it.
- *explained*: all generations together (``explaining``). It finds what was lost or doubled
  between two generations, and snapshots that have seen too much, also where no row shows it.

Where another query began with a savepoint, it is judged in the same way, for what it adds.

A world without crashes goes the same way: then hold-back and snapshots alone must change nothing.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from typing import Final

from pointstamp.errors import FlowError, RecoveryError
from pointstamp.flow.plan import Plan
from pointstamp.journal.history import Entry, Savepoint
from pointstamp.journal.journal import Journal
from pointstamp.journal.ledger import Ledger
from pointstamp.simulate.case import Case
from pointstamp.simulate.crash.events import EpochCommitted, GenerationBegan, Happened
from pointstamp.simulate.crash.explaining import Explained, explain_run
from pointstamp.simulate.crash.setting import CrashRun, KeptChoices
from pointstamp.simulate.crash.trace import CrashHeader, CrashTrace
from pointstamp.simulate.crash.world import CrashWorld
from pointstamp.simulate.feed import Items
from pointstamp.simulate.seeds import FindingKind, Outcome, Outputs, Simulator
from pointstamp.simulate.world import STEPS_MAX, Ended, World
from pointstamp.verify.abstract_state import AbstractState, BrokenError, broken
from pointstamp.verify.conformance import ModelRules, Status, Verdict
from pointstamp.verify.plan_shape import has_own_times
from pointstamp.verify.shape import Walker
from pointstamp.verify.snapshot_rules import CommitRules, SnapshotRules
from pointstamp.worker.events import Event, SnapshotTaken


@dataclass(frozen=True, slots=True)
class CrashOutcome(Outcome):
    """The result of one world with crashes; ``objections`` says what each judge has against it."""

    objections: Mapping[str, str] = field(default_factory=dict)
    explained: Explained | None = None


class CrashSimulator(Simulator):
    """One flow with its inputs; runs any case of it, with or without crashes."""

    world: type[CrashWorld] = CrashWorld

    def __init__(
        self, plan: Plan, inputs: Mapping[str, Items], *, file: str = "FLOW.py", steps_max: int = STEPS_MAX
    ) -> None:
        if has_own_times(plan):
            raise FlowError(
                f"flow '{plan.name}' has custom times, but snapshots need epochs, so crashes cannot be "
                "simulated. Leave --crashes out, or use epochs."
            )
        super().__init__(plan, inputs, file=file, steps_max=steps_max)
        self._operators = [int(node.index) for node in plan.nodes if not node.kind.is_door]

    def run(self, case: Case) -> Outcome:
        """Run one world, and judge it."""
        if case.crashes is None:
            return super().run(case)
        outcome = self.judged(case, self.crash_run(case))
        run = outcome.run
        assert isinstance(run, CrashRun)
        if outcome.kind is not FindingKind.VALID or run.successor is None:
            return outcome
        after = self.judged(case, run.successor)
        if after.kind is FindingKind.VALID:
            return outcome
        words = f"a query that began with a savepoint of epoch {run.successor.since}: {after.reason}"
        return replace(after, reason=words)

    def judged(self, case: Case, run: CrashRun) -> CrashOutcome:
        """Return the verdicts on a world, or on the query that resumed from its savepoint."""
        objections: dict[str, str] = {}
        verdict = judge_generations(
            self._walker, self._operators, run.happened, is_complete=run.ended is Ended.COMPLETE
        )
        if verdict.status is Status.INVALID:
            objections["conformance"] = str(verdict)
        if run.ended in (Ended.FAILED, Ended.STUCK):
            objections["failed"] = self._failure(run)
        explained = self._explained(case, run)
        if explained is not None and explained.flaw is not None:
            objections["explained"] = explained.flaw
        kind, reason = FindingKind.VALID, ""
        if run.ended is Ended.GIVEN_UP or verdict.status is Status.UNKNOWN:
            kind, reason = FindingKind.UNKNOWN, run.reason or str(verdict)
        else:
            kind, reason = self.compared(run, objections)
        return CrashOutcome(case, kind, reason, verdict, run, objections, explained)

    def crash_run(self, case: Case) -> CrashRun:
        """Let the world of a case happen, without judging it."""
        assert case.crashes is not None
        world = self.world(
            self.plan,
            case.select(self.inputs),
            workers=case.workers,
            crashes=case.crashes,
            seed=case.seed,
            kept=case.choices,
            steps_max=self._steps_max,
        )
        return run_with_successor(world, steps_max=self._steps_max)

    def compared(self, run: CrashRun, objections: dict[str, str]) -> tuple[FindingKind, str]:
        """Return the difference from a failure-free run, then the most helpful objection."""
        expected = self._without_failures(run)
        if expected is None:
            return FindingKind.UNKNOWN, "on one worker the flow does not complete with these rows"
        # What operators keep for epochs after the last tick is computed by nobody when the query ends, unless
        # that is the end of time; and what was published before a savepoint is not published after it.
        last = max(run.published_through, run.complete_to - 1)
        published = {at: rows for at, rows in expected.items() if run.since < at[1][0] <= last}
        difference = self.difference(published, run.outputs)
        if difference is not None:
            objections["published"] = f"{difference}{_undeclared(run)}"
        for judge_name, kind in _KINDS.items():
            if judge_name in objections:
                return kind, objections[judge_name]
        return FindingKind.VALID, ""

    def _without_failures(self, run: CrashRun) -> Outputs | None:
        alone = World(self.plan, run.fed, workers=1, seed=0, kept=frozenset()).run()
        return alone.outputs if alone.ended is Ended.COMPLETE else None

    def _failure(self, run: CrashRun) -> str:
        return f"the query is stuck: {run.reason}" if run.ended is Ended.STUCK else run.reason

    def _explained(self, case: Case, run: CrashRun) -> Explained | None:
        if run.ended is not Ended.COMPLETE:
            return None
        return explain_run(
            self._walker,
            case.workers,
            run.happened,
            committed=run.published_through,
            is_complete=True,
            since=run.since,
        )


def crash_trace(simulator: Simulator, outcome: CrashOutcome) -> CrashTrace:
    """The recorded result of a world with crashes."""
    run, case = outcome.run, outcome.case
    assert isinstance(run, CrashRun)
    header = CrashHeader(
        simulator.plan.name,
        case.workers,
        simulator.shape,
        run.ended.value,
        outcome.reason,
        case.command(simulator.file),
        run.published_through,
        since=run.since,
    )
    return CrashTrace(header, tuple(run.happened))


_KINDS = {
    "failed": FindingKind.FAILED,
    "published": FindingKind.DIFFERS,
    "conformance": FindingKind.INVALID,
    "explained": FindingKind.UNEXPLAINED,
}


def _undeclared(run: CrashRun) -> str:
    """The operators with state that no snapshot has."""
    is_restored = run.crashes or run.since >= 0
    return "".join(f"\n{words}" for words in run.undeclared) if is_restored else ""


# Verify progress, snapshots and commits of a world with crashes.
#
# The events of each generation are judged by themselves: a restored generation begins with the counts of the
# protocol, and its first changes bring what was saved. With them go the rules of snapshots
# (``pointstamp.verify.snapshot_rules``), the same that judge a running query: what an operator has left when
# it is saved, what it has seen, and that an epoch is committed when all workers have saved it.
#
# Generations live beside each other for a while, so they are judged in the order in which things happened.
# Only commits concern all of them: they are numbered in the journal, and later ones are of later epochs. When
# a commit was noted says nothing of that: a driver may sleep between a commit and its note.


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
        """The number of verified, valid events of workers."""

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
        reason = f"the verifier failed: {type(error).__name__}: {error}"
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


# Start a simulated query from a savepoint of another one.
#
# By then the first query has continued for long, has forgotten old snapshots and removed what it needs no
# more; every savepoint that was answered must still be there. The second query has a storage and a sink of
# its own, crashes of its own, and the same sources. It must publish what the first would have published after
# that epoch, had it taken the same ticks: the first one's up to the savepoint, and then its own.

_CRASHES: Final = (0, 1, 2)


def run_with_successor(world: CrashWorld, *, steps_max: int) -> CrashRun:
    """Let a world happen, and then what begins with one of its savepoints, if there are any."""
    run = world.run()
    answered = world.user.savepoints
    if run.ended is not Ended.COMPLETE or not answered:
        return run
    names = sorted(answered)
    name = names[world.further.choose(len(names))]
    try:
        savepoint = _found(world, name)
    except RecoveryError as error:
        run.ended, run.error, run.reason = Ended.FAILED, error, str(error)
        return run
    successor = type(world)(
        world.spec.plan,
        world.feed.inputs,
        workers=world.spec.workers,
        crashes=_CRASHES[world.further.choose(len(_CRASHES))],
        seed=0,
        steps_max=steps_max,
        begins_with=KeptChoices(world, name),
    )
    known = dict.fromkeys(world.feed.columns, savepoint.open_from)
    successor.user.said, successor.user.asked = dict(known), dict(known)
    run.successor = after = successor.run()
    after.since = savepoint.commits[-1].epoch
    before = {number: tick for number, tick in run.ticks.items() if number <= savepoint.last_tick}
    after.fed = world.feed.items_of([tick for _, tick in sorted({**before, **after.ticks}.items())])
    run.choices = after.choices
    return run


def _found(world: CrashWorld, name: str) -> Savepoint:
    """The savepoint as the journal has it; it must not be older than the answer said."""
    world.durability.stand_aside()
    journal: Journal[Entry] = Journal.open(world.storage, Entry, query=world.spec.query_id)
    savepoints = Ledger(journal, world.spec.sources).savepoints
    epoch = world.user.savepoints[name]
    for savepoint in savepoints:
        if savepoint.name == name and savepoint.commits[-1].epoch >= epoch:
            return savepoint
    there = ", ".join(f"'{each.name}' of epoch {each.commits[-1].epoch}" for each in savepoints) or "none"
    raise RecoveryError(f"savepoint '{name}' was taken at epoch {epoch}, but the journal has {there}.")
