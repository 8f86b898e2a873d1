"""The aggregates of tables: SQL's, under inserts and deletes.

- every aggregate beside DuckDB, after every epoch, with nulls, copies and conditions;
- what a float must not do: drift, overflow on the way, or depend on the order of rows;
- aggregates of one's own, functions and accumulators, beside the same by brute force;
- the same aggregates on streams, in each epoch by itself and running, where they can be.
"""

import datetime as dt
import math
from collections import Counter
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pointstamp as ps
from pointstamp.errors import FlowError, SchemaError
from support.table_aggregates import SALES, SALES_ROWS, Asked, judge_sales, rounded
from support.table_queries import Row, accumulated, changes, table_of

OK = ps.col("ok")

# Of each key, as our aggregate and as DuckDB's.
AGGREGATES: dict[str, tuple[ps.functions.Aggregate, str]] = {
    "count": (ps.count(), "count(*)"),
    "count of values": (ps.count("v"), "count(v)"),
    "count where": (ps.count(where=OK), "count(*) filter (where ok)"),
    "count of values where": (ps.count("v", where=OK), "count(v) filter (where ok)"),
    "count distinct": (ps.count_distinct("v"), "count(distinct v)"),
    "count distinct where": (ps.count_distinct("s", where=~OK), "count(distinct s) filter (where not ok)"),
    "sum": (ps.sum("n", where=ps.col("n") < 9), "(sum(n) filter (where n < 9))::bigint"),
    "sum of floats": (ps.sum("v"), "sum(v)"),
    "sum of decimals": (ps.sum("d"), "sum(d)::decimal(20, 2)"),
    "sum of an expression": (ps.sum(ps.col("v") * 2 + 1, where=OK), "sum(v * 2 + 1) filter (where ok)"),
    "mean": (ps.mean("n"), "avg(n)"),
    "mean of floats": (ps.mean(ps.col("v"), where=OK), "avg(v) filter (where ok)"),
    "mean of decimals": (ps.mean("d"), "avg(d::double)"),
    "min": (ps.min("s"), "min(s)"),
    "max": (ps.max("d", where=OK), "max(d) filter (where ok)"),
    "max of booleans": (ps.max("ok"), "max(ok)"),
    "max_by": (
        ps.max_by("s", "v"),
        "first(s order by v desc, s desc nulls last) filter (where v is not null)",
    ),
    "min_by": (
        ps.min_by("s", ps.col("n") * -1, where=OK),
        "first(s order by -n, s nulls first) filter (where ok and n is not null)",
    ),
    "first": (
        ps.first("s", by=["n desc", "v"]),
        "first(s order by n desc nulls last, v nulls first, s nulls first)",
    ),
    "last": (
        ps.last(ps.col("n") + 1, by="v", where=OK),
        "last(n + 1 order by v nulls first, n nulls first) filter (where ok)",
    ),
    "median": (ps.median("v"), "median(v)"),
    "median of integers": (ps.median("n", where=ps.col("n") < 9), "median(n) filter (where n < 9)"),
    "quantile": (ps.quantile("v", 0.25), "quantile_cont(v, 0.25)"),
    "least quantile": (ps.quantile("v", 0), "quantile_cont(v, 0.0)"),
    "greatest quantile": (ps.quantile("d", 1), "quantile_cont(d::double, 1.0)"),
    "var_samp": (ps.var_samp("v"), "var_samp(v)"),
    "variance": (ps.variance("n", where=ps.col("n") < 9), "var_samp(n) filter (where n < 9)"),
    "var_pop": (ps.var_pop("v", where=OK), "var_pop(v) filter (where ok)"),
    "stddev": (ps.stddev("v"), "stddev_samp(v)"),
    "stddev_samp": (ps.stddev_samp("d"), "stddev_samp(d)"),
    "stddev_pop": (ps.stddev_pop("v"), "stddev_pop(v)"),
    "bool_and": (ps.bool_and("ok"), "bool_and(ok)"),
    "bool_or": (ps.bool_or(ps.col("n") > 1), "bool_or(n > 1)"),
    "collect_list": (
        ps.collect_list("n", where=OK),
        "coalesce(list(n order by n) filter (where ok and n is not null), [])",
    ),
    "collect_set": (
        ps.collect_set("s"),
        "coalesce(list(distinct s order by s) filter (where s is not null), [])",
    ),
}  # fmt: skip


def by_key(names: list[str]) -> Asked:
    wanted: Any = {f"x{at}": AGGREGATES[name][0] for at, name in enumerate(names)}
    asked = ", ".join(AGGREGATES[name][1] for name in names)
    return Asked(lambda a: a.group_by("k").agg(wanted), f"select k, {asked} from a group by k")  # noqa: S608


@settings(max_examples=20, deadline=None)
@given(
    names=st.lists(st.sampled_from(sorted(AGGREGATES)), min_size=1, max_size=12, unique=True),
    data=st.data(),
    workers=st.integers(1, 3),
    epochs=st.integers(1, 4),
)
def test_aggregates_are_duckdbs_after_every_epoch(
    names: list[str], data: st.DataObject, workers: int, epochs: int
) -> None:
    judge_sales(by_key(names), data.draw(changes(SALES_ROWS, epochs)), workers)


@settings(max_examples=25, deadline=None)
@given(
    names=st.lists(st.sampled_from(sorted(AGGREGATES)), min_size=1, max_size=12, unique=True),
    data=st.data(),
    workers=st.integers(1, 3),
    epochs=st.integers(1, 4),
)
def test_aggregates_of_all_rows_are_one_row_in_every_epoch(
    names: list[str], data: st.DataObject, workers: int, epochs: int
) -> None:
    wanted: Any = {f"x{at}": AGGREGATES[name][0] for at, name in enumerate(names)}
    asked = ", ".join(AGGREGATES[name][1] for name in names)
    query = Asked(lambda a: a.agg(wanted), f"select {asked} from a")  # noqa: S608
    judge_sales(query, data.draw(changes(SALES_ROWS, epochs)), workers)


ROWS: list[list[Row]] = [
    [
        (0, "a", 0.5, 1, Decimal("0.01"), True, 1),
        (0, "a", 0.5, 1, Decimal("0.01"), True, 1),
        (0, "b", 3.25, None, None, False, 1),
        (0, None, 3.25, 3, Decimal("-2.50"), True, 1),
        (None, None, None, None, None, None, 1),
        (1, "b", -0.0, 2**60, Decimal("99999999.99"), None, 1),
    ],
    [(0, "a", 0.5, 1, Decimal("0.01"), True, -1), (1, "", 1e9, -2, None, True, 1)],
    [(0, "b", 3.25, None, None, False, -1), (1, "b", -0.0, 2**60, Decimal("99999999.99"), None, -1)],
]


@pytest.mark.parametrize("name", sorted(AGGREGATES))
def test_each_aggregate_of_some_rows_is_duckdbs(name: str) -> None:
    judge_sales(by_key([name]), ROWS, 2)


@pytest.mark.long
@settings(max_examples=250, deadline=None)
@given(
    names=st.lists(st.sampled_from(sorted(AGGREGATES)), min_size=1, max_size=34, unique=True),
    data=st.data(),
    workers=st.integers(1, 3),
    epochs=st.integers(1, 8),
)
def test_many_aggregates_are_duckdbs_after_every_epoch(
    names: list[str], data: st.DataObject, workers: int, epochs: int
) -> None:
    judge_sales(by_key(names), data.draw(changes(SALES_ROWS, epochs)), workers)


# Floats.


def results(
    values: list[list[tuple[float, int]]], **aggregates: ps.functions.Aggregate
) -> list[dict[str, Any]]:
    """The row of all values after each epoch."""
    flow = ps.Dataflow("test")
    flow.output("all", flow.table("x", "v double, w long", weight="w").agg(aggregates))
    data = [[{"v": v, "w": w} for v, w in epoch] for epoch in values]
    found = flow.run(x=data)["all"]
    shown: list[dict[str, Any]] = []
    for epoch in range(len(values)):
        rows = [row for row in (found[epoch].to_pylist() if epoch in found else []) if row.pop("diff") > 0]
        shown.append(rows[0] if rows else shown[-1])
    return shown


FLOATS = st.floats(allow_nan=False, allow_infinity=False) | st.sampled_from([1e308, -1e308, 0.1, 5e-324])


@settings(max_examples=25, deadline=None)
@given(kept=st.lists(FLOATS, min_size=1, max_size=6), gone=st.lists(FLOATS, min_size=1, max_size=6))
def test_deleting_what_was_inserted_gives_exactly_what_was_there_before(
    kept: list[float], gone: list[float]
) -> None:
    wanted = {name: AGGREGATES[name][0] for name in ("sum of floats", "var_samp", "stddev", "median")}
    wanted["mean"] = ps.mean("v")
    first, _, last = results(
        [[(v, 1) for v in kept], [(v, 1) for v in gone], [(v, -1) for v in reversed(gone)]], **wanted
    )
    assert repr(first) == repr(last)


def test_a_sum_that_is_too_large_only_on_the_way_is_not_too_large() -> None:
    found = results([[(1e308, 1), (1.7e308, 1), (-1e308, 1)], [(-1e308, -1)]], total=ps.sum("v"))
    assert [row["total"] for row in found] == [1.7e308, math.inf]


@pytest.mark.parametrize(
    ("values", "total"),
    [
        ([math.inf, 1e308, 1e308], math.inf),
        ([math.inf, -math.inf], math.nan),
        ([1e308, 1e308, -math.inf], -math.inf),
    ],
)
def test_infinities_add_up_whatever_their_order(values: list[float], total: float) -> None:
    for order in (values, values[::-1]):
        assert repr(results([[(v, 1) for v in order]], total=ps.sum("v"))[0]["total"]) == repr(total)


def test_copies_of_one_value_have_no_variance() -> None:
    assert results([[(0.1, 3)]], x=ps.var_samp("v")) == [{"x": 0.0}]


def test_a_large_mean_leaves_the_variance_of_small_differences() -> None:
    values = [(1e15 + each, 1) for each in (1, 2, 3)]
    assert results([values], x=ps.variance("v")) == [{"x": 1.0}]


def test_integers_are_added_without_overflow_and_must_fit_at_the_end() -> None:
    flow = ps.Dataflow("test")
    rows = flow.table("x", "n long, w long", weight="w")
    flow.output("all", rows.agg(total=ps.sum("n"), mean=ps.mean("n")))
    large = [{"n": 2**62, "w": 3}, {"n": -(2**62) + 1, "w": 2}]
    assert flow.run(x=[large])["all"][0].to_pylist() == [
        {"total": 2**62 + 2, "mean": (2**62 + 2) / 5, "diff": 1}
    ]
    said = "the sum .* does not fit int64. Cast the values to double"
    with pytest.raises(FlowError, match=said):
        flow.run(x=[[{"n": 2**62, "w": 2}]])


# One's own.


def spread(rows: pa.RecordBatch) -> float | None:
    """How far the values are apart."""
    found = pc.min_max(rows["v"]).as_py()
    return None if found["min"] is None else found["max"] - found["min"]


def joined(rows: pa.RecordBatch) -> str:
    """All texts one after the other, with a mark for null."""
    return ",".join("-" if each is None else each for each in rows["s"].to_pylist())


class Product:
    """The product of a column of numbers, one after the other."""

    column = "v"

    def result_type(self, column_type: pa.DataType) -> pa.DataType:
        return pa.float64()

    def empty(self) -> dict[str, float]:
        return {"product": 1.0}

    def update(self, state: Any, slots: Any, values: pa.Array) -> None:  # noqa: ANN401 - as the protocol
        np.multiply.at(state["product"], slots, values.to_numpy())

    def merge(self, state: Any, slots: Any, other: Any) -> None:  # noqa: ANN401 - as the protocol
        state["product"][slots] *= other["product"]

    def result(self, state: Any) -> Any:  # noqa: ANN401 - as the protocol
        return state["product"]


@settings(max_examples=30, deadline=None)
@given(data=st.data(), workers=st.integers(1, 3), epochs=st.integers(1, 4))
def test_ones_own_aggregates_are_those_of_the_rows_that_are_there(
    data: st.DataObject, workers: int, epochs: int
) -> None:
    given = data.draw(changes(SALES_ROWS, epochs))
    flow = ps.Dataflow("test")
    table = flow.table("a", SALES, weight="w")
    own: Any = {
        "spread": ps.aggregate(spread, "double", "v", where=OK),
        "texts": ps.aggregate(joined, "string", "s"),
        "rows": ps.aggregate(lambda rows: rows.num_rows, pa.int64()),
        "product": Product(),
    }
    flow.output("own", table.group_by("k").agg(own))
    found = flow.run(a=[table_of(rows, SALES) for rows in given], workers=workers)["own"]
    total: Counter[Row] = Counter()
    for epoch in range(epochs):
        for row in found[epoch].to_pylist() if epoch in found else []:
            total[rounded(list(row.values())[:-1])] += row["diff"]
        total = +total
        assert total == Counter(map(rounded, own_by_hand(accumulated(given[: epoch + 1]))))


def own_by_hand(rows: list[Row]) -> list[Row]:
    made = []
    for key in {row[0] for row in rows}:
        group = [row for row in rows if row[0] == key]
        values = [row[2] for row in group if row[5] and row[2] is not None]
        texts = sorted(row[1] for row in group if row[1] is not None)
        nulls = sum(row[1] is None for row in group)
        there = [row[2] for row in group if row[2] is not None]
        made.append(
            (
                key,
                max(values) - min(values) if values else None,
                ",".join(["-"] * nulls + texts),
                len(group),
                math.prod(there) if there else None,
            )
        )
    return made


def test_a_function_that_does_not_keep_its_promise_is_named() -> None:
    flow = ps.Dataflow("test")
    rows = flow.table("x", "v double")
    flow.output("own", rows.agg(x=ps.aggregate(spread, "string")))
    with pytest.raises(SchemaError, match=r"aggregate spread\(\) must return string, got 1.5 for 2 rows"):
        flow.run(x=[[{"v": 1.0}, {"v": 2.5}]])


# Streams.


def of_stream(rows: list[dict[str, Any]], *, running: bool = False, **aggregates: Any) -> Any:  # noqa: ANN401
    flow = ps.Dataflow("test")
    sales = flow.stream_input("sales", "shop string, price long, pieces long, paid boolean")
    flow.output("out", sales.group_by("shop", running=running).agg(aggregates))
    return flow.run(sales=[rows, rows[:1]], workers=2)["out"]


ORDERS = [
    {"shop": "a", "price": 2, "pieces": 3, "paid": True},
    {"shop": "a", "price": 5, "pieces": 1, "paid": None},
    {"shop": "b", "price": 7, "pieces": 1, "paid": False},
]


@pytest.mark.parametrize("running", [False, True])
def test_a_stream_aggregates_expressions_and_only_where_a_condition_holds(running: bool) -> None:
    volume = ps.col("price") * ps.col("pieces")
    paid = ps.col("paid")
    found = of_stream(
        ORDERS,
        running=running,
        total=ps.sum(volume),
        paid=ps.sum(volume, where=paid),
        orders=ps.count(where=paid),
        dearest=ps.max("price"),
    )
    assert sorted(found[0].to_pylist(), key=lambda row: row["shop"]) == [
        {"shop": "a", "total": 11, "paid": 6, "orders": 1, "dearest": 5},
        {"shop": "b", "total": 7, "paid": None, "orders": 0, "dearest": 7},
    ]
    again = {"shop": "a", "total": 17, "paid": 12, "orders": 2, "dearest": 5}
    once = {"shop": "a", "total": 6, "paid": 6, "orders": 1, "dearest": 2}
    assert found[1].to_pylist() == [again if running else once]


def test_a_stream_of_updates_has_no_aggregate_of_an_expression() -> None:
    least = (
        ps.Dataflow("test").stream_input("x", "k long, v long").group_by("k", running=True).agg(v=ps.min("v"))
    )
    with pytest.raises(FlowError, match=r"'v' is min\(negate.*which would include rows that were replaced"):
        least.group_by("k", running=True).agg(v=ps.min(-ps.col("v")))
    with pytest.raises(FlowError, match=r"'v' is min\(v\) where .*would include rows that were replaced"):
        least.group_by("k", running=True).agg(v=ps.min("v", where=ps.col("v") > 1))


# Types.

DAY = dt.date(2020, 1, 1)
VALUES: dict[pa.DataType, list[Any]] = {
    pa.int8(): [1, None, -3],
    pa.uint64(): [2**63, None, 1],
    pa.float32(): [1.5, None, math.nan],
    pa.decimal256(50, 3): [Decimal("1.2"), None, Decimal("-3")],
    pa.date32(): [DAY, None, DAY],
    pa.timestamp("us", "UTC"): [dt.datetime(2020, 1, 1, tzinfo=dt.UTC), None, None],
    pa.duration("us"): [dt.timedelta(1), None, dt.timedelta(2)],
    pa.time64("us"): [dt.time(1), None, dt.time(2)],
    pa.large_string(): ["a", None, "b"],
    pa.binary(): [b"a", None, b"b"],
    pa.bool_(): [True, None, False],
    pa.dictionary(pa.int32(), pa.string()): ["x", None, "y"],
    pa.list_(pa.int64()): [[1], None, [2, 3]],
    pa.struct({"a": pa.int64()}): [{"a": 1}, None, {"a": 2}],
}
ANY_OF: dict[str, Any] = {
    **{name: getattr(ps, name) for name in ("count", "count_distinct", "min", "max", "collect_list")},
    **{name: getattr(ps, name) for name in ("mean", "median", "var_pop", "bool_or", "collect_set")},
    "sum": lambda column: ps.sum(column, where=ps.col("k") < 1),
    "max_by": lambda column: ps.max_by("k", column),
    "min_by": lambda column: ps.min_by(column, "k"),
    "first": lambda column: ps.first(column, by="k desc"),
    "own": lambda column: ps.aggregate(lambda rows: rows.num_rows, "long", column),
}
IN_ORDER = ("lag", "first_value", "count", "mean", "min", "max")
"""Functions of `over`."""


@pytest.mark.parametrize("kind", VALUES, ids=str)
def test_a_type_that_is_accepted_can_be_aggregated_and_put_in_order(kind: pa.DataType) -> None:
    schema = pa.schema({"k": pa.int64(), "v": kind})
    flow = ps.Dataflow("test")
    table = flow.table("x", schema)
    wanted = {name: make("v") for name, make in ANY_OF.items() if is_accepted(table, name)}
    flow.output("reduced", table.group_by("k").agg(wanted))
    flow.output("whole", table.agg(wanted))
    places = {name: getattr(ps, name)("v") for name in IN_ORDER if is_accepted(table, name)}
    flow.output(
        "placed",
        table.with_columns(
            {each: function.over(partition_by="k", order_by="k") for each, function in places.items()}
        ),
    )
    rows = pa.table([pa.array([1, 1, 1]), pa.array(VALUES[kind], kind)], schema=schema)
    found = flow.run(x=[rows, rows], workers=2)
    assert found["reduced"][1].num_rows == found["whole"][1].num_rows == 2
    assert {"count", "collect_set", "min_by", "first", "own"} <= wanted.keys()


def is_accepted(table: ps.Table, name: str) -> bool:
    try:
        if name in ANY_OF:
            table.group_by("k").agg(x=ANY_OF[name]("v"))
        else:
            table.with_columns(x=getattr(ps, name)("v").over(partition_by="k", order_by="k"))
    except SchemaError:
        return False
    return True
