"""Every mistake of ``support.broken_tables`` is found by what finds mistakes, and what is right is not.

Each test runs the same judge twice on the same rows: with the mistake it must object, without it it must not.
"""

from collections.abc import Callable

import pytest

import pointstamp as ps
from pointstamp.errors import FlowError
from pointstamp.simulate.case import prepared
from pointstamp.simulate.crash.seeds import CrashSimulator
from pointstamp.simulate.seeds import Simulator, cases, simulate
from support.broken_tables import BROKEN, Drifting
from support.random_queries import LEAVES, binary, unary
from support.table_ends import judge as judge_ends
from support.table_loops import judge_loop
from support.table_queries import Query, Row, judge
from support.table_times import judge_times, timed_changes
from support.table_worlds import FLOWS, inputs_of, loop_changes

Judge = Callable[[bool], None]
"""Objects to what is wrong; told whether something is, because to find it may take more worlds."""
RIGHT = LEAVES[1]

MOVES = binary(binary(RIGHT, LEAVES[2], "semi"), binary(RIGHT, LEAVES[2], "anti"), "union")
"""All rows of the right table; one that loses its partner leaves one part and appears in the other."""

# Rows of the right table: a key twice, a null key, and later one of each is gone.
CHANGES: list[list[Row]] = [
    [(1, 5, 1), (1, 5, 1), (2, 0, 1), (None, 3, 1)],
    [(1, 5, -1), (2, 0, -1)],
    [(2, 0, 1)],
]
KEYS: list[list[Row]] = [[(1, "a", 0.5, 1), (2, "b", 1.0, 1)], [(2, "b", 1.0, -1)], []]


def of_query(query: Query) -> Judge:
    return lambda _: judge(query, KEYS, CHANGES, 2)


def of_loop(name: str, seed: int, epochs: int = 5) -> Judge:
    return lambda _: judge_loop(name, *loop_changes(name, seed, epochs), 2)


def of_times(query: str, seed: int) -> Judge:
    return lambda _: judge_times(query, timed_changes(seed), 2)


def of_worlds(name: str, *, crashes: bool, epochs: int = 5) -> Judge:
    def judged(is_broken: bool) -> None:
        plan = FLOWS[name]().plan
        rows = prepared(plan, inputs_of(name, epochs=epochs))
        simulator = CrashSimulator(plan, rows) if crashes else Simulator(plan, rows)
        seeds = range(100 if is_broken else 2)
        report = simulate(simulator, cases(seeds, 1, 3, (1, 4) if crashes else None))
        assert report.finding is None, report.finding.reason

    return judged


JUDGES: dict[str, Judge] = {
    "a join sends at the later time": of_times("join", 0),
    "a group is looked at only where something arrives": of_loop("reach", 9),
    "bounds of times are not closed": of_times("count", 6),
    "epochs are taken out of order": of_worlds("reach", crashes=False),
    "the start goes round": of_loop("walks", 0),
    "a weight of 0 is sent on": lambda _: judge(MOVES, KEYS, [[(1, 5, 1), (2, 0, 1)], [], []], 2),
    "null keys match": of_query(binary(RIGHT, RIGHT, "join")),
    "a row of nulls is not taken back": of_query(binary(RIGHT, LEAVES[2], "left where")),
    "copies are changes of what is distinct": of_query(unary(RIGHT, "distinct")),
    "copies are changes of what is distinct, in a loop": of_times("distinct", 0),
    "the first rows are taken for all": lambda _: judge_ends("top", 0),
    "the other side is not looked at": of_query(binary(RIGHT, RIGHT, "minus")),
    "what is shared is seen too early": of_worlds("shared", crashes=False),
    "what is shared is added by everybody": of_worlds("shared", crashes=False),
    "what is shared is saved by nobody": of_worlds("shared", crashes=True),
    "a snapshot has no rounds": of_worlds("timed", crashes=True),
    "a snapshot of what changed has nothing": of_worlds("joined", crashes=True, epochs=12),
}


def test_every_mistake_has_a_judge() -> None:
    assert JUDGES.keys() == BROKEN.keys()


LONG = ("what is shared is saved by nobody", "a snapshot of what changed has nothing")
"""Mistakes that show in few worlds."""


@pytest.mark.parametrize(
    "mistake", [pytest.param(each, marks=[pytest.mark.long] if each in LONG else []) for each in BROKEN]
)
def test_a_mistake_is_found_and_what_is_right_is_not(mistake: str, monkeypatch: pytest.MonkeyPatch) -> None:
    JUDGES[mistake](False)
    BROKEN[mistake](monkeypatch)
    with pytest.raises((AssertionError, FlowError), match=r"epoch \d"):
        JUDGES[mistake](True)


def test_a_sum_of_floats_that_drifts_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    rows: list[list[Row]] = [[(1, "a", 1e16, 1), (1, "a", 1.0, 1)], [(1, "a", 1e16, -1)]]
    total = Query("sum", lambda a, b: _sums(a), "select k, (sum(v) * 2)::bigint as n from a group by k")
    judge(total, rows, [[], []], 1)
    monkeypatch.setattr("pointstamp.incremental.operations.OnSums", Drifting)
    with pytest.raises(AssertionError, match="sum, epoch"):
        judge(total, rows, [[], []], 1)


def _sums(table: ps.Table) -> ps.Table:
    return table.group_by("k").agg(n=ps.sum("v")).select("k", n=(ps.col("n") * 2).cast("long"))
