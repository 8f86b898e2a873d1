"""Run a flow in many simulated worlds, and compare with one worker.

The run to compare with has one worker and leaves nothing to chance. Every other world must emit the same
rows at the same times, because a flow must not depend on the schedule. A world that does not, or whose trace
the judge refuses, or in which an operator fails, is a finding; a world that does not come to an end is
unknown. The first finding is shrunk (``pointstamp.simulate.shrink``).
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, Final, TypeAlias

import pyarrow as pa

from pointstamp.flow.plan import Plan
from pointstamp.simulate.case import Case, RowName
from pointstamp.simulate.feed import Items, in_event_time
from pointstamp.simulate.world import STEPS_MAX, Ended, SharedPlan, World, WorldRun
from pointstamp.topology.domain import Time, TimeOrder
from pointstamp.verify.conformance import Status, Verdict, judge
from pointstamp.verify.plan_shape import walker_of
from pointstamp.verify.trace import Header, Trace

NOTHING_BY_CHANCE: Final = Case(seed=0, workers=1, choices=frozenset())
"""The world to compare with."""

UNKNOWN_MAX: Final = 10
"""After so many worlds that do not end, no more are tried."""

_EXPECTED_MAX: Final = 100
"""So many runs on one worker are remembered: while shrinking each is used a few times and never again."""


class FindingKind(Enum):
    """The result of a world."""

    VALID = "valid"
    INVALID = "invalid"
    FAILED = "failed"
    DIFFERS = "differs"
    UNEXPLAINED = "unexplained"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of one world, and why."""

    case: Case
    kind: FindingKind
    reason: str
    verdict: Verdict
    run: WorldRun

    @property
    def is_finding(self) -> bool:
        """Whether something is wrong, in the flow or in pointstamp."""
        return self.kind not in (FindingKind.VALID, FindingKind.UNKNOWN)

    def is_like(self, other: "Outcome") -> bool:
        """Return whether both are the same kind of failure."""
        return self.kind is other.kind and self.verdict.property == other.verdict.property


# Compare the outputs of two runs as multisets, per output and time.
#
# Floating point sums depend on the order of their terms, and no schedule promises one; rows that differ in
# floats by no more than a billionth part count as equal.

Outputs: TypeAlias = Mapping[tuple[str, Time], Sequence[pa.RecordBatch]]
"""The rows that a run emitted, by output and time."""

Row: TypeAlias = tuple[Any, ...]

TOLERANCE: Final = 1e-9
_SHOWN_MAX: Final = 5


@dataclass(frozen=True, slots=True)
class Difference:
    """Rows of one output and epoch, or root time, that one run has and the other has not."""

    output: str
    time: Any
    missing: tuple[Mapping[str, Any], ...]
    unexpected: tuple[Mapping[str, Any], ...]
    is_epoch: bool = True

    def __str__(self) -> str:
        when = f"{'epoch' if self.is_epoch else 'time'} {self.time}"
        parts = [f"output '{self.output}', {when}, differs from the one-worker run"]
        for what, rows in (("missing", self.missing), ("not expected", self.unexpected)):
            parts += [f"  {what}: {row}" for row in rows[:_SHOWN_MAX]]
            if len(rows) > _SHOWN_MAX:
                parts.append(f"  {what}: {len(rows) - _SHOWN_MAX} more rows")
        return "\n".join(parts)


def first_difference(expected: Outputs, got: Outputs, own: TimeOrder[Any] | None = None) -> Difference | None:
    """Return the first difference of two runs, by epoch and then by output; None if equal.

    Where a flow has custom times, its order sorts them.
    """

    def place(part: tuple[str, Time]) -> tuple[Any, ...]:
        output, time = part
        # Incomparable times may sort alike; the same one must come first in every process.
        return (time, output) if own is None else (own.sort_key(time[0]), repr(time), output)

    for output, time in sorted({*expected, *got}, key=place):
        wanted, came = expected.get((output, time), ()), got.get((output, time), ())
        missing, unexpected = _apart(_rows(wanted), _rows(came))
        if missing or unexpected:
            names = (wanted or came)[0].schema.names
            return Difference(
                output,
                time[0],
                tuple(dict(zip(names, row, strict=True)) for row in missing),
                tuple(dict(zip(names, row, strict=True)) for row in unexpected),
                is_epoch=own is None,
            )
    return None


def _rows(batches: Sequence[pa.RecordBatch]) -> Counter[Row]:
    rows: Counter[Row] = Counter()
    for batch in batches:
        rows.update(zip(*(map(_frozen, column.to_pylist()) for column in batch.columns), strict=True))
    return rows


def _frozen(value: Any) -> Any:  # noqa: ANN401 - any value of a column
    """The value as one that can be counted; NaN equals itself here."""
    if isinstance(value, list):
        return tuple(map(_frozen, value))
    if isinstance(value, dict):
        return tuple((name, _frozen(part)) for name, part in value.items())
    if isinstance(value, float) and math.isnan(value):
        return "NaN"
    return value


def _apart(wanted: Counter[Row], came: Counter[Row]) -> tuple[list[Row], list[Row]]:
    if wanted == came:
        return [], []
    missing = sorted((wanted - came).elements(), key=repr)
    unexpected = sorted((came - wanted).elements(), key=repr)
    for row in list(missing):
        alike = next((other for other in unexpected if _alike(row, other)), None)
        if alike is not None:
            missing.remove(row)
            unexpected.remove(alike)
    return missing, unexpected


def _alike(a: Any, b: Any) -> bool:  # noqa: ANN401 - any values of a row
    if isinstance(a, float) and isinstance(b, float):
        return math.isclose(a, b, rel_tol=TOLERANCE, abs_tol=TOLERANCE)
    if isinstance(a, tuple) and isinstance(b, tuple) and len(a) == len(b):
        return all(map(_alike, a, b))
    return bool(a == b)


class Simulator:
    """One flow with its inputs; runs any case of it."""

    def __init__(
        self, plan: Plan, inputs: Mapping[str, Items], *, file: str = "FLOW.py", steps_max: int = STEPS_MAX
    ) -> None:
        self.plan = SharedPlan.of(plan)
        self.inputs = inputs
        self.file = file
        self._walker = walker_of(plan)
        self.shape = self._walker.shape
        self._steps_max = steps_max
        self._expected: dict[tuple[tuple[int, ...] | None, tuple[RowName, ...] | None], WorldRun] = {}

    def run(self, case: Case) -> Outcome:
        """Run one world, judge it, and compare what it emitted with the run on one worker."""
        run = self._world(case)
        at_rest = run.ended in (Ended.COMPLETE, Ended.STUCK)
        verdict = judge(self._walker, case.workers, run.events, at_rest=at_rest)
        kind, reason = self._found(case, run, verdict)
        return Outcome(case, kind, reason, verdict, run)

    def trace(self, outcome: Outcome) -> Trace:
        """The recorded result of a world."""
        run = outcome.run
        header = Header(
            self.plan.name,
            outcome.case.workers,
            self.shape,
            run.ended.value,
            outcome.reason if outcome.is_finding else run.reason,
            outcome.case.command(self.file),
        )
        return Trace(header, tuple(run.events))

    def difference(self, expected: Outputs, got: Outputs) -> Difference | None:
        """Return the first difference of the outputs of two worlds."""
        own = self.plan.root if self.shape.has_own_times else None
        return first_difference(expected, got, own)

    def _found(self, case: Case, run: WorldRun, verdict: Verdict) -> tuple[FindingKind, str]:
        if verdict.status is Status.INVALID:
            return FindingKind.INVALID, str(verdict)
        if run.ended is Ended.FAILED:
            return FindingKind.FAILED, run.reason
        if run.ended is Ended.STUCK:
            return FindingKind.FAILED, f"the flow is stuck: {run.reason}"
        if run.ended is Ended.GIVEN_UP or verdict.status is Status.UNKNOWN:
            return FindingKind.UNKNOWN, run.reason or str(verdict)
        expected = self._one_worker_outputs(case)
        if expected is None:
            return FindingKind.UNKNOWN, "on one worker the flow does not complete with these rows"
        difference = self.difference(expected, run.outputs)
        return (FindingKind.DIFFERS, str(difference)) if difference is not None else (FindingKind.VALID, "")

    def _one_worker_outputs(self, case: Case) -> Outputs | None:
        key = (case.epochs, case.rows)
        if key not in self._expected:
            if len(self._expected) >= _EXPECTED_MAX:
                self._expected.clear()
            self._expected[key] = self._world(replace(NOTHING_BY_CHANCE, epochs=case.epochs, rows=case.rows))
        expected = self._expected[key]
        return expected.outputs if expected.ended is Ended.COMPLETE else None

    def _world(self, case: Case) -> WorldRun:
        inputs = in_event_time(self.plan, case.select(self.inputs))
        return World(
            self.plan,
            inputs,
            workers=case.workers,
            seed=case.seed,
            kept=case.choices,
            steps_max=self._steps_max,
        ).run()


@dataclass(slots=True)
class Report:
    """The result of many worlds."""

    worlds: int = 0
    events: int = 0
    crashes: int = 0
    unknown: list[Outcome] = field(default_factory=list)
    finding: Outcome | None = None
    last: Outcome | None = None
    """The outcome of the last world."""
    is_repeatable: bool = True
    """Whether the finding, made smaller, came again when it was repeated."""

    def add(self, outcome: Outcome) -> Outcome:
        """Record the result of one more world."""
        self.worlds += 1
        self.last = outcome
        self.events += len(outcome.run.events)
        self.crashes += outcome.run.crashes
        if outcome.kind is FindingKind.UNKNOWN:
            self.unknown.append(outcome)
        if outcome.is_finding:
            self.finding = outcome
        return outcome

    @property
    def has_nothing_to_compare_with(self) -> bool:
        """Whether the run on one worker did not come to an end."""
        return any(outcome.case == NOTHING_BY_CHANCE for outcome in self.unknown)

    @property
    def verdict(self) -> Status:
        """Invalid if anything was found, valid only if every world was."""
        if self.finding is not None:
            return Status.INVALID
        return Status.UNKNOWN if self.unknown or not self.worlds else Status.VALID


Notice: TypeAlias = Callable[[Report, Outcome], None]
"""Is called after each world with all so far and that one."""


def cases(
    seeds: Iterable[int], fewest: int, most: int, crashes: tuple[int, int] | None = None
) -> Iterable[Case]:
    """One case per seed, with numbers of workers in turn, and for each of them numbers of crashes."""
    for seed in seeds:
        yield Case(
            seed,
            workers_of(seed, fewest, most),
            crashes=None if crashes is None else crashes_of(seed, most - fewest + 1, *crashes),
        )


def workers_of(seed: int, fewest: int, most: int) -> int:
    """Return the number of workers of this seed."""
    return fewest + seed % (most - fewest + 1)


def crashes_of(seed: int, turns: int, fewest: int, most: int) -> int:
    """Return the number of crashes of this seed."""
    return fewest + seed // turns % (most - fewest + 1)


def replay(simulator: Simulator, case: Case) -> tuple[Report, Outcome]:
    """Run one world again."""
    report = Report()
    return report, report.add(simulator.run(case))


def simulate(simulator: Simulator, wanted: Iterable[Case], notice: Notice | None = None) -> Report:
    """Run the world to compare with, then these, until one fails or too many do not come to an end."""
    report = Report()
    for case in (NOTHING_BY_CHANCE, *wanted):
        outcome = report.add(simulator.run(case))
        if notice is not None:
            notice(report, outcome)
        if outcome.is_finding or len(report.unknown) >= UNKNOWN_MAX or report.has_nothing_to_compare_with:
            break
    return report
