"""Every mistake of ``support.broken_aggregates`` is found, and what is right is not taken for one."""

import statistics
from collections.abc import Callable
from fractions import Fraction

import pytest

import pointstamp as ps
from pointstamp.errors import FlowError
from support.broken_aggregates import BROKEN_AGGREGATES, AsTheyCome
from support.table_aggregates import Asked, judge_sales
from support.table_queries import Row
from support.table_rolling import judge_rolling

Judge = Callable[[], None]

# A row twice, a row for which nothing holds, keys whose values are far apart; then one of each is gone.
ROWS: list[list[Row]] = [
    [(0, "b", 1.0, 1, None, True, 1), (0, "b", 1.0, 1, None, True, 1)],
    [(0, "a", 2.0, 1, None, False, 1), (0, "c", 4.0, 2, None, True, 1)],
    [(each, "a", value, 5, None, True, 1) for each, value in ((1, 0.1), (2, 1e300), (3, 0.3), (4, 1e300))],
    [(0, "b", 1.0, 1, None, True, -1)],
    [(0, "a", 2.0, 1, None, False, -1), (1, "a", 0.1, 5, None, True, -1)],
]


def of_query(make: Callable[[ps.Table], ps.Table], sql: str) -> Judge:
    return lambda: judge_sales(Asked(make, sql), ROWS)


def of_key(aggregate: ps.functions.Aggregate, sql: str) -> Judge:
    return of_query(lambda a: a.group_by("k").agg(x=aggregate), f"select k, {sql} from a group by k")  # noqa: S608


def of_variance() -> None:
    """The variance of large numbers that are close together, beside that of fractions."""
    values = [1e9 + each for each in (0.25, 0.5, 1.75)]
    flow = ps.Dataflow("test")
    flow.output("x", flow.table("a", "v double").agg(x=ps.var_samp("v")))
    found = flow.run(a=[[{"v": v} for v in values]])["x"][0].to_pylist()
    assert found[0]["x"] == float(statistics.variance(map(Fraction, values)))


def of_epochs() -> None:
    """The rows of two epochs, each once; one of them is in both."""
    flow = ps.Dataflow("test")
    flow.output("x", flow.stream_input("a", "n long").distinct())
    found = flow.run(a=[[{"n": 1}, {"n": 1}], [{"n": 1}, {"n": 2}]])["x"]
    assert [sorted(found[epoch]["n"].to_pylist()) for epoch in (0, 1)] == [[1], [1, 2]]


ORDER = "over (partition by k order by v, s)"

JUDGES: dict[str, Judge] = {
    "the row of no rows is counted": of_query(lambda a: a.agg(n=ps.count()), "select count(*) from a"),
    "an epoch continues with the one before": of_epochs,
    "a row too few is remembered": lambda: judge_rolling([[(0, n)] for n in (5, 4, 3, 2, 1)], 3, 1),
    "copies share a place": of_query(
        lambda a: a.with_columns(x=ps.row_number().over(partition_by="k", order_by=["v", "s"])).select(
            "k", "x"
        ),
        f"select k, row_number() {ORDER} from a",  # noqa: S608
    ),
    "sums run on from one key to the next": of_query(
        lambda a: a.with_columns(x=ps.sum("v").over(partition_by="k", order_by=["v", "s"])).select("k", "x"),
        f"select k, sum(v) {ORDER[:-1]} rows unbounded preceding) from a",  # noqa: S608
    ),
    "the first row is the one that came first": of_query(
        lambda a: a.distinct("k", by="n").select("k", "s"),
        "select k, s from a qualify row_number() over (partition by k order by n, s) = 1",
    ),
    "a variance is a difference of squares": of_variance,
    "a median counts copies once": of_key(ps.median("v"), "median(v)"),
    "a list has copies once": of_key(ps.collect_list("n"), "list(n order by n)"),
    "a condition does not matter": of_query(
        lambda a: a.group_by("k").agg(x=ps.first("s", by="v desc", where=~ps.col("ok"))),
        "select k, first(s order by v desc) filter (where not ok) from a group by k",
    ),
}


def test_every_mistake_has_a_judge() -> None:
    assert JUDGES.keys() == BROKEN_AGGREGATES.keys()


@pytest.mark.parametrize("mistake", BROKEN_AGGREGATES)
def test_a_mistake_is_found_and_what_is_right_is_not(mistake: str, monkeypatch: pytest.MonkeyPatch) -> None:
    JUDGES[mistake]()
    monkeypatch.setattr(AsTheyCome, "came", [])
    BROKEN_AGGREGATES[mistake](monkeypatch)
    with pytest.raises(
        (AssertionError, FlowError),
        match=r"^epoch \d+$|epoch \d+: too many|^assert |differs from|does not fit",
    ):
        JUDGES[mistake]()
