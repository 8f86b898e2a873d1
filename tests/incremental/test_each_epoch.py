"""What a stream does within an epoch is what a batch query does with the rows of that epoch, and of no other.

- every verb beside DuckDB, epoch by epoch, on one to three workers;
- in a loop, where each round is a time of its own, beside brute force;
- in worlds that the simulator chooses, with crashes, where nothing of an epoch may stay behind;
- the last rows over all epochs, beside brute force;
- what is refused.
"""

import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pointstamp as ps
from pointstamp.errors import FlowError, SchemaError
from pointstamp.simulate.case import prepared
from pointstamp.simulate.crash.seeds import CrashSimulator
from pointstamp.simulate.seeds import Simulator, cases, simulate
from support.table_queries import ENGINE, Row, canonical, table_of
from support.table_rolling import judge_rolling

A = pa.schema({"k": pa.int64(), "n": pa.int64()})
B = pa.schema({"k": pa.int64(), "m": pa.int64()})
_ROWS = st.lists(
    st.tuples(st.one_of(st.none(), st.integers(0, 2)), st.one_of(st.none(), st.integers(0, 3))), max_size=6
)

Made = Callable[[ps.Stream, ps.Stream], ps.Stream]
VERBS: dict[str, tuple[Made, str]] = {
    "distinct": (lambda a, b: a.distinct(), "select distinct k, n from a"),
    "distinct by key": (
        lambda a, b: a.distinct("k", by="n desc"),
        "select k, n from a qualify row_number() over (partition by k order by n desc nulls last) = 1",
    ),
    "top": (
        lambda a, b: a.top(2, "k", by="n"),
        "select k, n from a qualify row_number() over (partition by k order by n nulls first) <= 2",
    ),
    "top of all": (
        lambda a, b: a.top(3, by=["n desc", "k"]),
        "select k, n from a order by n desc nulls last, k nulls first limit 3",
    ),
    "ranks": (
        lambda a, b: a.top(2, "k", by="n", ties=True, rank="place"),
        "select k, n, rank() over (partition by k order by n nulls first) as r from a qualify r <= 2",
    ),
    "with order": (
        lambda a, b: a.with_columns(
            total=ps.sum("n").over(partition_by="k", order_by="n"),
            name=ps.lag("n").over(partition_by="k", order_by="n"),
        ),
        "select k, n, (sum(n) over (w rows unbounded preceding))::bigint, lag(n) over w from a "
        "window w as (partition by k order by n nulls first)",
    ),
    "reduce": (
        lambda a, b: a.group_by("k").agg(middle=ps.median("n"), all=ps.count_distinct("n"), rows=ps.count()),
        "select k, median(n), count(distinct n), count(*) from a group by k",
    ),
    "reduce of all": (
        lambda a, b: a.agg(rows=ps.count(), total=ps.sum("n")),
        "select count(*), sum(n)::bigint from a having count(*) > 0",
    ),
    "count of all": (lambda a, b: a.count(), "select count(*) from a having count(*) > 0"),
    "join": (lambda a, b: a.join(b, "k"), "select a.k, n, m from a join b on a.k = b.k"),
    "join where": (
        lambda a, b: a.join(b, {"n": "m"}, where=ps.col("k") < ps.col("k_right")),
        "select a.k, n, b.k from a join b on n = m and a.k < b.k",
    ),
    **{
        how: (
            lambda a, b, how=how: a.join(b, "k", how=how),  # type: ignore[misc]
            f"select coalesce(a.k, b.k), n, m from a {how} join b on a.k = b.k",  # noqa: S608
        )
        for how in ("left", "right", "full")
    },
    "semi": (lambda a, b: a.join(b, "k", how="semi"), "select k, n from a semi join b using (k)"),
    "anti": (lambda a, b: a.join(b, "k", how="anti"), "select k, n from a anti join b using (k)"),
    "cross": (lambda a, b: a.join(b.rename({"k": "j"}), how="cross"), "select a.k, n, b.k, m from a, b"),
}


@pytest.mark.parametrize("verb", sorted(VERBS))
@settings(max_examples=6, deadline=None)
@given(left=st.lists(_ROWS, min_size=1, max_size=3), data=st.data(), workers=st.integers(1, 3))
def test_a_verb_is_duckdbs_in_every_epoch_by_itself(
    verb: str, left: list[list[Row]], data: st.DataObject, workers: int
) -> None:
    right = data.draw(st.lists(_ROWS, min_size=len(left), max_size=len(left)))
    make, sql = VERBS[verb]
    flow = ps.Dataflow("law")
    flow.output("out", make(flow.stream_input("a", A), flow.stream_input("b", B)))
    rows = {"a": [table_of(each, A) for each in left], "b": [table_of(each, B) for each in right]}
    found = flow.run(rows, workers=workers)["out"]
    for epoch in range(len(left)):
        ENGINE.register("a", rows["a"][epoch])
        ENGINE.register("b", rows["b"][epoch])
        wanted = Counter(map(canonical, ENGINE.execute(sql).fetchall()))
        sent = found[epoch].to_pylist() if epoch in found else []
        assert Counter(canonical(tuple(row.values())) for row in sent) == wanted, f"{verb}, epoch {epoch}"


def all_verbs() -> ps.Dataflow:
    """A flow with some of them, and one of them behind another."""
    flow = ps.Dataflow("each epoch")
    a, b = flow.stream_input("a", A), flow.stream_input("b", B)
    for verb in ("with order", "reduce", "full", "top of all"):
        flow.output(verb, VERBS[verb][0](a, b))
    flow.output("chain", a.join(b, "k").distinct("k").top(1, by="n"))
    return flow


EPOCHS: dict[str, Any] = {
    "a": [table_of([(k % 3, k * e % 4) for k in range(5)], A) for e in range(5)],
    "b": [table_of([(k % 2 + e % 2, k * e % 3) for k in range(3)], B) for e in range(5)],
}


def test_what_is_sent_does_not_depend_on_the_schedule_nor_on_crashes() -> None:
    plan = all_verbs().plan
    rows = prepared(plan, EPOCHS)
    for report in (
        simulate(Simulator(plan, rows), cases(range(4), 1, 4)),
        simulate(CrashSimulator(plan, rows), cases(range(2), 1, 3, (1, 4))),
    ):
        assert report.finding is None, report.finding.reason
        assert not report.unknown


def test_in_a_loop_each_round_is_by_itself() -> None:
    """Numbers are halved; in each round the greatest of the round is noted."""
    flow = ps.Dataflow("halves")
    numbers = flow.stream_input("numbers", "n long")
    with numbers.loop("halving") as loop:
        again = loop.variable("n long")
        now = loop.enter(numbers).union(again)
        loop.feedback(again, now.filter(ps.col("n") > 1).select(n=(ps.col("n") / 2).cast("long")).distinct())
        flow.output("greatest", loop.leave(now.top(1, by="n desc")))
    found = flow.run(numbers=[[{"n": n} for n in (8, 9, 3)], [{"n": 5}]], workers=2)["greatest"]
    assert sorted(row["n"] for row in found[0].to_pylist()) == [1, 2, 4, 9]
    assert sorted(row["n"] for row in found[1].to_pylist()) == [1, 2, 5]


# The last rows over all epochs.


@settings(max_examples=20, deadline=None)
@given(epochs=st.lists(_ROWS, min_size=1, max_size=4), last=st.integers(1, 4), workers=st.integers(1, 3))
def test_every_row_is_answered_by_the_last_rows_up_to_it(
    epochs: list[list[Row]], last: int, workers: int
) -> None:
    judge_rolling(epochs, last, workers)


def test_small_epochs_after_a_large_one_find_rows_that_came_and_went_since() -> None:
    """What is kept is added up before it is looked at: the large epoch lies in a run of its own for long."""
    rng = random.Random(3)
    large, *small = ([(rng.randrange(50), rng.randrange(1_000)) for _ in range(n)] for n in (500, *[3] * 60))
    judge_rolling([large, *small], 4, 1)


def test_without_keys_the_last_rows_are_those_of_all() -> None:
    flow = ps.Dataflow("test")
    numbers = flow.stream_input("x", "n long")
    flow.output(
        "out",
        numbers.with_columns(name=ps.sum(ps.col("n") * 10, where=ps.col("n") > 1).over(order_by="n", rows=2)),
    )
    found = flow.run(x=[[{"n": 1}, {"n": 2}], [{"n": 3}]], workers=2)["out"]
    assert [sorted(row.items()) for row in found[1].to_pylist()] == [[("n", 3), ("name", 50)]]
    assert sorted((row["n"], row["name"]) for row in found[0].to_pylist()) == [(1, None), (2, 20)]


def in_a_loop(stream: Any) -> None:  # noqa: ANN401 - a stream
    with stream.loop() as loop:
        loop.enter(stream).with_columns(n=ps.count().over(partition_by="shop", order_by="price", rows=2))


def streams() -> tuple[Any, Any]:
    flow = ps.Dataflow("test")
    return flow.stream_input("sales", "shop string, price long"), flow.stream_input(
        "shops", "shop string, city string"
    )


CASES: list[tuple[Callable[[Any, Any], Any], type[Exception], str]] = [
    (lambda a, b: a.join(b.to_table(), "shop"), FlowError, "needs a stream, got Table.*lookup"),
    (lambda a, b: a.join(b, "city"), SchemaError, "needs the column 'city'"),
    (lambda a, b: a.top(1, by="prise"), SchemaError, "needs the column 'prise'"),
    (lambda a, b: a.distinct("city"), SchemaError, "needs the column 'city'"),
    (
        lambda a, b: a.group_by("shop", running=True).agg(m=ps.median("price")),
        FlowError,
        r"'agg' of stream 'sales' cannot be running: 'm' is median\(price\)\. Use a table",
    ),
    (lambda a, b: a.group_by(running=True).count(), FlowError, "cannot be running: it has no key column"),
    (lambda a, b: a.agg(m=ps.median("shop")), SchemaError, "median needs a column of numbers"),
    (
        lambda a, b: a.group_by("shop", running=True).count().distinct(),
        FlowError,
        "'distinct' of stream 'count' accumulates what .* while the old one is not retracted",
    ),
    (
        lambda a, b: a.with_columns(n=ps.count().over(partition_by="shop", order_by="price", rows=0)),
        FlowError,
        r"count\(\): over\(rows=0\) must have at least 1 row",
    ),
    (
        lambda a, b: a.with_columns(n=ps.count().over(partition_by="city", order_by="price", rows=2)),
        SchemaError,
        "the column 'city'",
    ),
    (
        lambda a, b: a.with_columns(n=ps.count().over(partition_by="shop", order_by="prise", rows=2)),
        SchemaError,
        "the column 'prise'",
    ),
    (
        lambda a, b: a.with_columns(shop=ps.count().over(order_by="price", rows=2)),
        SchemaError,
        "the column 'shop' already exists",
    ),
    (
        lambda a, b: in_a_loop(a),
        FlowError,
        "'rolling' of .* cannot be used in a loop, where no row is the last one",
    ),
    (
        lambda a, b: (
            a.group_by("shop", running=True).count().with_columns(n=ps.count().over(order_by="count", rows=2))
        ),
        FlowError,
        "accumulates what .* while the old one is not retracted",
    ),
    (lambda a, b: a.dropDuplicates(), AttributeError, r"here that is distinct\(\), or distinct\('key'\)"),
    (lambda a, b: a.tpo(), AttributeError, "has no 'tpo'. Did you mean 'top'"),
]


@pytest.mark.parametrize(("asked", "kind", "said"), CASES)
def test_what_cannot_be_asked_of_an_epoch_is_refused_in_words(
    asked: Callable[[Any, Any], Any], kind: type[Exception], said: str
) -> None:
    with pytest.raises(kind, match=said):
        asked(*streams())
