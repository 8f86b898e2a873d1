"""Graph algorithms in worlds that the simulator chooses emitted the same in each of them, to the last bit.

Families, and what only each can find:
- worlds without failures: phases and rounds of an epoch that are taken before the ones they rest on are over,
  and sums that depend on which message comes first;
- worlds in which workers and drivers die: steps, keys, ranks or edges that are saved without something;
- generations with other numbers of workers: vertices that come back to a worker that does not own them.
"""

import pytest

from pointstamp.simulate.case import prepared
from pointstamp.simulate.crash.events import GenerationBegan
from pointstamp.simulate.crash.seeds import CrashSimulator
from pointstamp.simulate.seeds import FindingKind, Report, Simulator, cases, simulate
from pointstamp.simulate.world import Ended
from support.broken_recovery import Rescaled
from support.graph_worlds import GRAPH_WORLDS


def check_valid(report: Report) -> None:
    assert report.finding is None, f"seed {report.finding.case.seed}: {report.finding.reason}"
    assert not report.unknown


@pytest.mark.parametrize("name", GRAPH_WORLDS)
def test_what_is_put_out_does_not_depend_on_the_schedule(name: str) -> None:
    world = GRAPH_WORLDS[name]
    plan = world.flow().plan
    check_valid(simulate(Simulator(plan, prepared(plan, world.rows(1))), cases(range(world.seeds), 2, 3)))


@pytest.mark.parametrize("name", GRAPH_WORLDS)
def test_what_is_published_does_not_depend_on_crashes(name: str) -> None:
    world = GRAPH_WORLDS[name]
    plan = world.flow().plan
    rows = prepared(plan, world.rows(2))
    check_valid(
        simulate(CrashSimulator(plan, rows), cases(range(2, 2 + (world.seeds + 1) // 2), 1, 3, (1, 4)))
    )


@pytest.mark.parametrize("name", GRAPH_WORLDS)
def test_generations_may_differ_in_their_number_of_workers(name: str) -> None:
    world = GRAPH_WORLDS[name]
    plan = world.flow().plan
    simulator = CrashSimulator(plan, prepared(plan, world.rows(3)))
    simulator.world = Rescaled
    sizes: set[int] = set()
    for case in cases(range(world.seeds), 1, 1, (2, 4)):
        run = simulator.crash_run(case)
        assert run.ended is Ended.COMPLETE, (case, run.reason)
        assert simulator.compared(run, {}) == (FindingKind.VALID, ""), case
        sizes |= {event.workers for _, event in run.happened if isinstance(event, GenerationBegan)}
    assert len(sizes) > 1


@pytest.mark.long
@pytest.mark.parametrize("name", GRAPH_WORLDS)
def test_many_worlds_of_a_flow_publish_the_same(name: str) -> None:
    world = GRAPH_WORLDS[name]
    plan = world.flow().plan
    for seed in range(4, 6):
        rows = prepared(plan, world.rows(seed))
        check_valid(simulate(Simulator(plan, rows), cases(range(8), 1, 4)))
        check_valid(simulate(CrashSimulator(plan, rows), cases(range(8), 1, 4, (0, 4))))
