"""Ranks and communities in worlds that the simulator chooses are the same in each of them, to the last bit.

Families, and what only each can find:
- worlds without failures: rounds of an epoch that are taken before those of the epoch before are over, and
  sums that depend on which message comes first;
- worlds in which workers and drivers die: ranks that are saved without what has come in for them;
- generations with other numbers of workers: vertices that come back to a worker that does not own them.
"""

import pytest

from pointstamp.simulate.case import prepared
from pointstamp.simulate.crash.events import GenerationBegan
from pointstamp.simulate.crash.seeds import CrashSimulator
from pointstamp.simulate.seeds import FindingKind, Report, Simulator, cases, simulate
from pointstamp.simulate.world import Ended
from support.broken_recovery import Rescaled
from support.ranked_worlds import FLOWS, inputs_of


def check_valid(report: Report) -> None:
    assert report.finding is None, f"seed {report.finding.case.seed}: {report.finding.reason}"
    assert not report.unknown


@pytest.mark.parametrize("name", FLOWS)
def test_what_is_put_out_does_not_depend_on_the_schedule(name: str) -> None:
    plan = FLOWS[name]().plan
    check_valid(simulate(Simulator(plan, prepared(plan, inputs_of(name))), cases(range(3), 2, 3)))


@pytest.mark.parametrize("name", FLOWS)
def test_what_is_published_does_not_depend_on_crashes(name: str) -> None:
    plan = FLOWS[name]().plan
    rows = prepared(plan, inputs_of(name))
    check_valid(simulate(CrashSimulator(plan, rows), cases(range(2, 5), 1, 3, (2, 5))))


@pytest.mark.parametrize("name", FLOWS)
def test_generations_may_differ_in_their_number_of_workers(name: str) -> None:
    plan = FLOWS[name]().plan
    simulator = CrashSimulator(plan, prepared(plan, inputs_of(name)))
    simulator.world = Rescaled
    sizes: set[int] = set()
    for case in cases(range(3), 1, 1, (2, 4)):
        run = simulator.crash_run(case)
        assert run.ended is Ended.COMPLETE, (case, run.reason)
        assert simulator.compared(run, {}) == (FindingKind.VALID, ""), case
        sizes |= {event.workers for _, event in run.happened if isinstance(event, GenerationBegan)}
    assert len(sizes) > 1


@pytest.mark.long
@pytest.mark.parametrize("name", FLOWS)
def test_many_worlds_of_a_flow_publish_the_same(name: str) -> None:
    plan = FLOWS[name]().plan
    for seed in range(2):
        rows = prepared(plan, inputs_of(name, seed))
        check_valid(simulate(Simulator(plan, rows), cases(range(10), 2, 4)))
        check_valid(simulate(CrashSimulator(plan, rows), cases(range(10), 1, 4, (0, 4))))
