"""What a row does not ask for never raises, in every clause and in every aggregate with a condition."""
# ruff: noqa: E501 - a query and its answer stand together

from typing import Any

import pyarrow as pa
import pytest

import pointstamp as ps

ROWS = pa.table({"k": [1, 2, 3], "b": [0, 5, 0], "s": ["x", "7", "y"]})

QUERIES: dict[str, list[tuple[Any, ...]]] = {
    "select k, case when b <> 0 then 10 / b end as r from t": [(1, None), (2, 2.0), (3, None)],
    "select k, if(b = 0, 0, 10 % b) as r from t": [(1, 0), (2, 0), (3, 0)],
    "select k, coalesce(nullif(b, 0), 1 / k) as r from t": [(1, 1.0), (2, 5.0), (3, 1 / 3)],
    "select k, nvl(k, 1 / 0) as r, nvl2(b, k, cast(s as int)) as q from t": [(1, 1.0, 1), (2, 2.0, 2), (3, 3.0, 3)],
    "select k from t where b <> 0 and 10 / b > 1": [(2,)],
    "select k from t where b = 0 or 10 / b > 100": [(1,), (3,)],
    "select k from (select k, s from t) where s rlike '^[0-9]+$' and cast(s as int) > 3": [(2,)],
    "select k from t left join (select k as j from t) u on k = j and b <> 0 and 10 / b > 1": [(1,), (2,), (3,)],
    "select t.k, j from t left join (select k as j, 1 as one from t) u on k <= j and b <> 0 and j / b > 0.5":
        [(1, None), (2, 3), (3, None)],
    "select t.k, j from t full join (select k as j, b as c from t) u on k = j and c <> 0 and b <> 0 and k / c + j / b > 0":
        [(1, None), (2, 2), (3, None), (None, 1), (None, 3)],
    "select t.k, j from (select k as j, b as c from t) u right join t on k = j and c <> 0 and b / c >= 1":
        [(1, None), (2, 2), (3, None)],
    "select k from t left anti join (select k as j from t) u on k <= j and b <> 0 and j / b > 0.5": [(1,), (3,)],
    "select k, case when sum(b) > 0 then sum(k) / sum(b) end as r from t group by k": [(1, None), (2, 0.4), (3, None)],
    "select k from t group by k having sum(b) > 0 and 10 / sum(b) > 1": [(2,)],
    "select case when b <> 0 then 10 / b end as g, count(*) as n from t group by case when b <> 0 then 10 / b end":
        [(None, 2), (2.0, 1)],
    "select k, row_number() over (order by case when b <> 0 then 10 / b else k end) as n from t":
        [(1, 1), (2, 2), (3, 3)],
    "select sum(10 / b) filter (where b <> 0) as a, max(10 / b) filter (where b <> 0) as c from t": [(2.0, 2.0)],
    "select count(10 / b) filter (where b <> 0) as a, avg(10 / b) filter (where b <> 0) as c from t": [(1, 2.0)],
    "select max_by(10 / b, k) filter (where b <> 0) as a from t": [(2.0,)],
    "select count(distinct 10 / b) filter (where b <> 0) as a from t": [(1,)],
    "select sum(distinct 10 / b) filter (where b <> 0) as a, count(*) as n from t": [(2.0, 3)],
}  # fmt: skip


@pytest.mark.parametrize("query", QUERIES)
def test_a_branch_that_no_row_takes_does_not_raise(query: str) -> None:
    flow = ps.sql(query, t="k long, b long, s string")
    made = flow.run(t=[ROWS], workers=2)["result"][0]
    found = [tuple(row.values())[:-1] for row in made.to_pylist()]
    assert sorted(found, key=repr) == sorted(QUERIES[query], key=repr)


def test_an_aggregate_of_a_table_computes_its_argument_where_its_condition_holds() -> None:
    flow = ps.Dataflow("quotients")
    rows = flow.table("t", "k long, b long, s string")
    value, holds = 10 / ps.col("b"), ps.col("b") != 0
    flow.output(
        "of", rows.agg(a=ps.sum(value, where=holds), c=ps.first(value, by="k", where=holds), n=ps.count())
    )
    (row,) = flow.run(t=[ROWS])["of"][0].to_pylist()
    assert (row["a"], row["c"], row["n"]) == (2.0, 2.0, 3)


def test_a_branch_that_a_row_takes_raises_with_the_operator() -> None:
    with pytest.raises(ps.errors.PointstampError, match="division by zero"):
        ps.sql("select case when k > 0 then 10 / b end as r from t", t="k long, b long").run(
            t=[ROWS.drop_columns(["s"])]
        )
