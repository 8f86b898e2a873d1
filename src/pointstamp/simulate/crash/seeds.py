"""Run a flow in many worlds with crashes, and compare with a failure-free run.

Each world is judged three times, and each judge finds what the others cannot:

- *published*: every epoch's rows are those of a run on one worker without failures that is fed the same
  ticks; the sink sees to it that nothing is published twice or changed. It sees rows, so it finds state that
  was not saved, and input that was lost or read twice.
- *conformance*: the events of each generation by themselves, under the rules of progress tracking, of
  snapshots and of commits (``judging``). It finds progress that a recovery has broken, and snapshots that are
  taken too early, also where no crash shows it.
- *explained*: all generations together (``explaining``). It finds what was lost or doubled
  between two generations, and snapshots that have seen too much, also where no row shows it.

Where another query began with a savepoint, it is judged in the same way, for what it adds.

A world without crashes goes the same way: then hold-back and snapshots alone must change nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from pointstamp.errors import FlowError
from pointstamp.flow.plan import Plan
from pointstamp.judge.conformance import Status
from pointstamp.judge.plan_shape import has_own_times
from pointstamp.simulate.case import Case
from pointstamp.simulate.crash.explaining import Explained, explain_run
from pointstamp.simulate.crash.judging import judge_generations
from pointstamp.simulate.crash.savepoints import run_with_successor
from pointstamp.simulate.crash.setting import CrashRun
from pointstamp.simulate.crash.trace import CrashHeader, CrashTrace
from pointstamp.simulate.crash.world import CrashWorld
from pointstamp.simulate.feed import Items
from pointstamp.simulate.outputs import Outputs
from pointstamp.simulate.seeds import FindingKind, Outcome, Simulator
from pointstamp.simulate.world import STEPS_MAX, Ended, World


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
    """Which operators have kept something that no snapshot holds."""
    is_restored = run.crashes or run.since >= 0
    return "".join(f"\n{words}" for words in run.undeclared) if is_restored else ""
