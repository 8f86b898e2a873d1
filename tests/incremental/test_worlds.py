"""Tables in worlds that the simulator chooses emitted the same in each of them.

Families, and what only each can find:
- worlds without failures: times that are taken in another order than that of epochs and rounds;
- worlds in which workers and drivers die: state that is saved without something, or restored twice;
- generations with other numbers of workers: rows that come back to a worker that does not own them.
"""

import pytest

from pointstamp.arrangement import runs
from pointstamp.incremental import aggregate_operators, exact_sums, top_k
from pointstamp.simulate.case import prepared
from pointstamp.simulate.crash.events import GenerationBegan
from pointstamp.simulate.crash.seeds import CrashSimulator
from pointstamp.simulate.seeds import FindingKind, Report, Simulator, cases, simulate
from pointstamp.simulate.world import Ended
from support.broken_recovery import Rescaled
from support.table_worlds import FLOWS, inputs_of

# The loop in a loop takes ten times as long as the others.
WORLDS = {name: 2 if name == "parts" else 4 for name in FLOWS}


@pytest.fixture(autouse=True)
def _parts_of_few_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let sums and first rows begin at each worker also for a few rows."""
    monkeypatch.setattr(aggregate_operators, "PARTS_ROWS_MIN", 0)
    monkeypatch.setattr(top_k, "FIRST_ROWS_MIN", 0)
    monkeypatch.setattr(exact_sums, "_REPEATS", 0)


def test_a_flow_has_sums_and_first_rows_that_begin_at_each_worker() -> None:
    names = [node.name for node in FLOWS["begun"]().plan.nodes]
    assert len([name for name in names if "in parts" in name]) == 4


def check_valid(report: Report) -> None:
    assert report.finding is None, f"seed {report.finding.case.seed}: {report.finding.reason}"
    assert not report.unknown


@pytest.mark.parametrize("name", FLOWS)
def test_what_is_put_out_does_not_depend_on_the_schedule(name: str) -> None:
    plan = FLOWS[name]().plan
    check_valid(simulate(Simulator(plan, prepared(plan, inputs_of(name))), cases(range(WORLDS[name]), 1, 4)))


@pytest.mark.parametrize("name", FLOWS)
def test_what_is_published_does_not_depend_on_crashes(name: str) -> None:
    plan = FLOWS[name]().plan
    check_valid(
        simulate(
            CrashSimulator(plan, prepared(plan, inputs_of(name))),
            cases(range(WORLDS[name] // 2), 1, 3, (1, 4)),
        )
    )


@pytest.mark.parametrize("name", FLOWS)
def test_generations_may_differ_in_their_number_of_workers(name: str) -> None:
    plan = FLOWS[name]().plan
    simulator = CrashSimulator(plan, prepared(plan, inputs_of(name)))
    simulator.world = Rescaled
    sizes: set[int] = set()
    for case in cases(range(WORLDS[name] // 2), 1, 1, (1, 4)):
        run = simulator.crash_run(case)
        assert run.ended is Ended.COMPLETE, (case, run.reason)
        assert simulator.compared(run, {}) == (FindingKind.VALID, ""), case
        sizes |= {event.workers for _, event in run.happened if isinstance(event, GenerationBegan)}
    assert len(sizes) > 1


@pytest.mark.parametrize("name", ["joined", "shared"])
def test_a_merge_that_is_under_way_at_a_crash_changes_nothing(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = FLOWS[name]().plan
    simulator = CrashSimulator(plan, prepared(plan, inputs_of(name)))
    given = list(cases(range(3), 1, 2, (1, 4)))
    wanted = [simulator.compared(simulator.crash_run(case), {}) for case in given]
    for constant in ("_MERGED_ROWS_PER_ROW", "_SLICE_ROWS_MIN", "_AT_ONCE_ROWS_MAX", "_AT_ONCE_TIMES_MAX"):
        monkeypatch.setattr(runs, constant, 1)
    assert wanted == [simulator.compared(simulator.crash_run(case), {}) for case in given]
    assert set(wanted) == {(FindingKind.VALID, "")}


@pytest.mark.long
@pytest.mark.parametrize("name", FLOWS)
def test_many_worlds_of_a_flow_publish_the_same(name: str) -> None:
    plan = FLOWS[name]().plan
    rows, worlds = prepared(plan, inputs_of(name, 1)), range(WORLDS[name])
    check_valid(simulate(Simulator(plan, rows), cases(worlds, 1, 4)))
    check_valid(simulate(CrashSimulator(plan, rows), cases(worlds, 1, 4, (0, 4))))
