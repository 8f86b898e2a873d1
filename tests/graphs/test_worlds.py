"""Graph algorithms in worlds that the simulator chooses put out the same in each of them.

Families, and what only each can find:
- worlds without failures: phases and rounds of a search that are taken before the ones they rest on are over;
- worlds in which workers and drivers die: steps, starts or keys that are saved without something;
- generations with other numbers of workers: a vertex whose owner knows nothing of what it rests on.
"""

import pyarrow as pa
import pytest

from pointstamp.simulate.case import prepared
from pointstamp.simulate.crash.events import GenerationBegan
from pointstamp.simulate.crash.seeds import CrashSimulator
from pointstamp.simulate.seeds import FindingKind, Report, Simulator, cases, simulate
from pointstamp.simulate.world import Ended
from support.broken_recovery import Rescaled
from support.graph_flows import graph_flow, inputs_of, random_history

WORLDS = [["wcc"], ["sssp"], ["triangles"], ["k_core"], ["maximal_matching"]]


def check_valid(report: Report) -> None:
    assert report.finding is None, f"seed {report.finding.case.seed}: {report.finding.reason}"
    assert not report.unknown


def rows_of(seed: int) -> dict[str, list[pa.Table]]:
    return inputs_of(random_history(seed, vertices=5, epochs=4, most=4))


@pytest.mark.parametrize("names", WORLDS, ids=",".join)
def test_what_is_put_out_does_not_depend_on_the_schedule(names: list[str]) -> None:
    plan = graph_flow(names).plan
    check_valid(simulate(Simulator(plan, prepared(plan, rows_of(1))), cases(range(2), 1, 4)))


@pytest.mark.parametrize("names", WORLDS, ids=",".join)
def test_what_is_published_does_not_depend_on_crashes(names: list[str]) -> None:
    plan = graph_flow(names).plan
    check_valid(simulate(CrashSimulator(plan, prepared(plan, rows_of(2))), cases(range(2), 1, 3, (1, 4))))


@pytest.mark.parametrize("names", WORLDS, ids=",".join)
def test_generations_may_differ_in_their_number_of_workers(names: list[str]) -> None:
    plan = graph_flow(names).plan
    simulator = CrashSimulator(plan, prepared(plan, rows_of(3)))
    simulator.world = Rescaled
    sizes: set[int] = set()
    for case in cases(range(2), 1, 1, (1, 4)):
        run = simulator.crash_run(case)
        assert run.ended is Ended.COMPLETE, (case, run.reason)
        assert simulator.compared(run, {}) == (FindingKind.VALID, ""), case
        sizes |= {event.workers for _, event in run.happened if isinstance(event, GenerationBegan)}
    assert len(sizes) > 1


@pytest.mark.long
@pytest.mark.parametrize("names", WORLDS, ids=",".join)
def test_many_worlds_of_a_flow_publish_the_same(names: list[str]) -> None:
    plan = graph_flow(names).plan
    for seed in range(4, 6):
        rows = prepared(plan, rows_of(seed))
        check_valid(simulate(Simulator(plan, rows), cases(range(6), 1, 4)))
        check_valid(simulate(CrashSimulator(plan, rows), cases(range(4), 1, 4, (0, 4))))
