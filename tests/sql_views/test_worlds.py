"""Views in worlds that the simulator chooses: schedules, crashes and other numbers of workers change nothing.

What only they find: a row of the text, or of an aggregate of nothing, that is sent again after a crash.
"""

import pytest

import pointstamp as ps
from pointstamp.simulate.case import prepared
from pointstamp.simulate.crash.seeds import CrashSimulator
from pointstamp.simulate.seeds import FindingKind, Simulator, cases, simulate
from pointstamp.simulate.world import Ended
from support.broken_recovery import Rescaled
from support.sql_cases import declared, fed

VIEWS = {
    "subqueries": """
        select t.k, count(*) as n, (select max(a) from u) as m from t left join u on t.k = u.k
        where t.a not in (select a from u where c = 'x') or exists (select 1 from u where u.k = t.k)
        group by t.k""",
    "orders": """
        select s.k, s.a, v.n from (
            select k, a, row_number() over (partition by k order by a desc) as place from t) s
        join (values (1, 'one'), (2, 'two'), (3, 'three')) as v(k, n) on s.k = v.k where place <= 2""",
    "copies": """
        select k, sum(distinct a) as s, count(*) as n
        from (select k, a from t except all select k, a from u) q
        where a >= all (select a from u where c = 'x' and a is not null) group by k""",
    "recursion": """
        with recursive r(n) as (
            select k from u where c = 'x' union select t.a from r join t on r.n = t.k)
        select n, (select count(*) from t) as c from r""",
}


def inputs_of(plan_inputs: list[str], seed: int) -> dict[str, list[object]]:
    made = fed(seed, epochs=4, size=5).changes
    return {name: [table.to_pylist() for table in made[name]] for name in plan_inputs}


def simulators(name: str, seed: int = 1) -> tuple[Simulator, CrashSimulator]:
    plan = ps.sql(declared("t", "u") + VIEWS[name]).plan
    rows = prepared(plan, inputs_of(["t", "u"], seed))
    return Simulator(plan, rows), CrashSimulator(plan, rows)


@pytest.mark.parametrize("name", VIEWS)
def test_a_view_does_not_depend_on_the_schedule_or_on_crashes(name: str) -> None:
    plain, crashing = simulators(name)
    for report in (
        simulate(plain, cases(range(2), 1, 3)),
        simulate(crashing, cases(range(2), 1, 3, (1, 3))),
    ):
        assert report.finding is None, f"seed {report.finding.case.seed}: {report.finding.reason}"
        assert not report.unknown


@pytest.mark.parametrize("name", VIEWS)
def test_a_view_goes_on_with_another_number_of_workers(name: str) -> None:
    _, simulator = simulators(name)
    simulator.world = Rescaled
    for case in cases(range(2), 1, 1, (1, 3)):
        run = simulator.crash_run(case)
        assert run.ended is Ended.COMPLETE, (case, run.reason)
        assert simulator.compared(run, {}) == (FindingKind.VALID, ""), case


@pytest.mark.long
@pytest.mark.parametrize("name", VIEWS)
def test_a_view_is_the_same_in_many_worlds(name: str) -> None:
    for seed in range(2):
        plain, crashing = simulators(name, seed)
        assert simulate(plain, cases(range(10), 1, 4)).finding is None
        assert simulate(crashing, cases(range(10), 1, 4, (0, 4))).finding is None
