"""What the place of a row among the rows of its key says of it: SQL's window functions, under deletions.

- every function beside DuckDB, after every epoch, with nulls, copies, ties and several keys;
- what a change sends: the rows that differ, and no others;
- one's own names, and what a running sum must not do.
"""

from collections import Counter
from decimal import ROUND_HALF_UP, Decimal, localcontext
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pointstamp as ps
from pointstamp.errors import FlowError
from pointstamp.incremental.window_functions import RowFrame
from support.table_aggregates import SALES_ROWS, Asked, judge_sales
from support.table_queries import Row, changes

# The total order that n and what it leaves open come to: k is the same, then s, v, d, ok.
TIES = "k nulls first, s nulls first, v nulls first, n nulls first, d nulls first, ok nulls first"
ORDERS: dict[str, str] = {
    "n": "n nulls first",
    "n desc": "n desc nulls last",
    "n desc nulls first": "n desc nulls first",
    "s asc nulls last": "s nulls last",
}

FUNCTIONS: dict[str, tuple[ps.functions.OrderFunction | ps.functions.Aggregate, str]] = {
    "row_number": (ps.row_number(), "row_number() over ({w})"),
    "rank": (ps.rank(), "rank() over ({by})"),
    "dense_rank": (ps.dense_rank(), "dense_rank() over ({by})"),
    "lag": (ps.lag("s"), "lag(s) over ({w})"),
    "lag 2": (ps.lag("n", 2, 7), "lag(n, 2, 7) over ({w})"),
    "lag 0": (ps.lag("n", 0, 7), "n"),
    "lead": (ps.lead("v"), "lead(v) over ({w})"),
    "lead of an expression": (ps.lead(ps.col("n") % 2, 1, 5), "lead(n % 2, 1, 5) over ({w})"),
    "first_value": (ps.first_value("d"), "first_value(d) over ({w} rows unbounded preceding)"),
    "last_value": (
        ps.last_value("n"),
        "last_value(n) over ({w} rows between unbounded preceding and unbounded following)",
    ),
    "running_count": (ps.count(), "count(*) over ({w} rows unbounded preceding)"),
    "running_count of values": (ps.count("v"), "count(v) over ({w} rows unbounded preceding)"),
    "running_sum": (
        ps.sum(ps.col("n") % 100),
        "(sum(n % 100) over ({w} rows unbounded preceding))::bigint",
    ),
    "running_sum of floats": (ps.sum("v"), "sum(v) over ({w} rows unbounded preceding)"),
    "running_sum of decimals": (
        ps.sum("d"),
        "(sum(d) over ({w} rows unbounded preceding))::decimal(20, 2)",
    ),
    "running_mean": (ps.mean("v"), "avg(v) over ({w} rows unbounded preceding)"),
    "running_mean of integers": (
        ps.mean(ps.col("n") % 100),
        "avg(n % 100) over ({w} rows unbounded preceding)",
    ),
    "running_min": (ps.min("v"), "min(v) over ({w} rows unbounded preceding)"),
    "running_max": (ps.max("s"), "max(s) over ({w} rows unbounded preceding)"),
    "running_max of decimals": (ps.max("d"), "max(d) over ({w} rows unbounded preceding)"),
}


def placed(names: list[str], order: str, keys: tuple[str, ...]) -> Asked:
    wanted = {f"x{at}": FUNCTIONS[name][0] for at, name in enumerate(names)}
    by = ("partition by k " if keys else "") + f"order by {ORDERS[order]}"
    asked = ", ".join(FUNCTIONS[name][1].format(by=by, w=f"{by}, {TIES}") for name in names)
    return Asked(
        lambda a: a.with_columns(
            {each: function.over(partition_by=keys, order_by=order) for each, function in wanted.items()}
        ),
        f"select k, s, v, n, d, ok, {asked} from a",  # noqa: S608 - our own text
    )


NAMES = st.lists(st.sampled_from(sorted(FUNCTIONS)), min_size=1, max_size=8, unique=True)
ORDER = st.sampled_from(sorted(ORDERS))
KEYS = st.sampled_from([("k",), ("k",), ()])


@settings(max_examples=20, deadline=None)
@given(
    names=NAMES, order=st.sampled_from(sorted(ORDERS)), keys=KEYS, data=st.data(), workers=st.integers(1, 3)
)
def test_functions_in_an_order_are_duckdbs_after_every_epoch(
    names: list[str], order: str, keys: tuple[str, ...], data: st.DataObject, workers: int
) -> None:
    epochs = data.draw(changes(SALES_ROWS, data.draw(st.integers(1, 4))))
    judge_sales(placed(names, order, keys), epochs, workers)


@pytest.mark.long
@settings(max_examples=100, deadline=None)
@given(
    names=NAMES, order=st.sampled_from(sorted(ORDERS)), keys=KEYS, data=st.data(), workers=st.integers(1, 3)
)
def test_many_functions_in_an_order_are_duckdbs_after_every_epoch(
    names: list[str], order: str, keys: tuple[str, ...], data: st.DataObject, workers: int
) -> None:
    epochs = data.draw(changes(SALES_ROWS, data.draw(st.integers(1, 8))))
    judge_sales(placed(names, order, keys), epochs, workers)


ROWS: list[list[Row]] = [
    [
        (0, "a", 0.5, 1, Decimal("0.01"), True, 1),
        (0, "a", 0.5, 1, Decimal("0.01"), True, 1),
        (0, "b", 3.25, 1, None, False, 1),
        (0, None, None, 3, Decimal("-2.50"), True, 1),
        (1, "b", -0.0, None, Decimal("99999999.99"), None, 1),
        (None, None, None, 2, None, None, 1),
    ],
    [(0, "a", 0.5, 1, Decimal("0.01"), True, -1), (1, "", 1e9, -2, None, True, 1)],
    [(0, "b", 3.25, 1, None, False, -1)],
]


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_each_function_of_some_rows_is_duckdbs(name: str) -> None:
    for order in ORDERS:
        judge_sales(placed([name], order, ("k",)), ROWS, 2)


def run(table: Any, **epochs: Any) -> list[list[Row]]:  # noqa: ANN401 - from a table to a table
    flow = ps.Dataflow("test")
    flow.output("out", table(flow.table("x", "k long, n long, w long", weight="w")))
    found = flow.run(**epochs)["out"]
    return [sorted(tuple(row.values()) for row in found[epoch].to_pylist()) for epoch in sorted(found)]


def rows(*given: tuple[int, int, int]) -> list[dict[str, int]]:
    return [dict(zip(("k", "n", "w"), row, strict=True)) for row in given]


def test_only_rows_that_differ_are_sent() -> None:
    found = run(
        lambda t: t.with_columns(before=ps.lag("n").over(partition_by="k", order_by="n")),
        x=[rows((1, 1, 1), (1, 3, 1), (1, 9, 1)), rows((1, 2, 1))],
    )
    assert found[1] == [(1, 2, 1, 1), (1, 3, 1, -1), (1, 3, 2, 1)]


def test_copies_of_a_row_have_places_of_their_own() -> None:
    found = run(
        lambda t: t.with_columns(
            at=ps.row_number().over(partition_by="k", order_by="n"),
            place=ps.rank().over(partition_by="k", order_by="n"),
        ),
        x=[rows((1, 1, 2), (1, 3, 1))],
    )
    assert found == [[(1, 1, 1, 1, 1), (1, 1, 2, 1, 1), (1, 3, 3, 3, 1)]]


def test_a_column_may_be_called_as_an_option() -> None:
    flow = ps.Dataflow("test")
    table = flow.table("x", "k long, n long")
    made = table.with_columns(
        {"by": ps.rank().over(partition_by="k", order_by="n")},
        name=ps.row_number().over(partition_by="k", order_by="n"),
    )
    assert made.schema.names == ["k", "n", "by", "name"]


def test_a_running_sum_that_does_not_fit_is_refused() -> None:
    with pytest.raises(FlowError, match="the running sum 'total' of a key does not fit int64"):
        run(
            lambda t: t.with_columns(total=ps.sum("n").over(partition_by="k", order_by="n")),
            x=[rows((1, 2**62, 3))],
        )


def test_a_running_sum_of_one_key_does_not_depend_on_another() -> None:
    flow = ps.Dataflow("test")
    table = flow.table("x", "k long, v double")
    flow.output("out", table.with_columns(total=ps.sum("v").over(partition_by="k", order_by="v")))
    found = flow.run(x=[[{"k": k, "v": v} for k, v in ((0, 1e16), (1, 0.1), (2, 1e300), (3, 0.2))]])["out"]
    assert Counter(row["total"] == row["v"] for row in found[0].to_pylist()) == {True: 4}


def test_running_sums_and_averages_of_decimals_have_all_their_digits() -> None:
    flow = ps.Dataflow("test")
    rows = flow.table("x", "k long, n long, d decimal(34, 2)")
    functions = {"s": ps.sum("d"), "m": ps.functions.OrderFunction("running_avg", "d")}
    frame = RowFrame(1, 0)
    functions |= {"t": ps.functions.OrderFunction("running_sum", "d", frame=frame)}
    flow.output(
        "out",
        rows.with_columns(
            {each: function.over(partition_by="k", order_by="n") for each, function in functions.items()}
        ),
    )
    large = Decimal(10**30) + 1
    fed = [{"k": 1, "n": n, "d": d} for n, d in enumerate([large, Decimal("0.01"), Decimal("-0.02")])]
    found = sorted(flow.run(x=[fed])["out"][0].to_pylist(), key=lambda row: row["n"])
    with localcontext(prec=60):
        sums = [large, large + Decimal("0.01"), large - Decimal("0.01")]
        assert [row["s"] for row in found] == sums
        assert [row["t"] for row in found] == [*sums[:2], Decimal("-0.01")]
        means = [(each / n).quantize(Decimal("0.000001"), ROUND_HALF_UP) for n, each in enumerate(sums, 1)]
        assert [row["m"] for row in found] == means
