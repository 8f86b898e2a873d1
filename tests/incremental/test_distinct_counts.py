"""Counts of different values, beside other aggregates that are sums or ends, are DuckDB's after every epoch.

- of each key and of all rows, several in one reduction, of columns of one type and of several;
- in a loop in a loop it is the query "different" of test_law.py;
- values that are not made distinct before they are counted are found.
"""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pointstamp as ps
from pointstamp.incremental import operations
from support.table_aggregates import SALES_ROWS, Asked, judge_sales
from support.table_queries import Row, changes

OK = ps.col("ok")

DIFFERENT: dict[str, tuple[ps.functions.Aggregate, str]] = {
    "texts": (ps.count_distinct("s"), "count(distinct s)"),
    "texts where": (ps.count_distinct("s", where=OK), "count(distinct s) filter (where ok)"),
    "integers": (ps.count_distinct("n"), "count(distinct n)"),
    "integers where": (ps.count_distinct("n", where=~OK), "count(distinct n) filter (where not ok)"),
    "expressions": (ps.count_distinct(ps.col("n") % 2), "count(distinct n % 2)"),
    "decimals": (ps.count_distinct("d"), "count(distinct d)"),
    "booleans": (ps.count_distinct("ok"), "count(distinct ok)"),
    "keys": (ps.count_distinct("k"), "count(distinct k)"),
}
BESIDE: dict[str, tuple[ps.functions.Aggregate, str]] = {
    "rows": (ps.count(), "count(*)"),
    "rows where": (ps.count(where=OK), "count(*) filter (where ok)"),
    "values": (ps.count("s"), "count(s)"),
    "values of the key": (ps.count("k"), "count(k)"),
    "sum": (ps.sum("d"), "sum(d)::decimal(20, 2)"),
    "min": (ps.min("s"), "min(s)"),
    "max": (ps.max("d", where=OK), "max(d) filter (where ok)"),
}


def asked(names: list[str], keys: tuple[str, ...]) -> Asked:
    both = DIFFERENT | BESIDE
    wanted: Any = {f"x{at}": both[name][0] for at, name in enumerate(names)}
    columns = ", ".join([*keys, *(both[name][1] for name in names)])
    grouped = f"group by {', '.join(keys)}" if keys else ""
    return Asked(lambda a: a.group_by(*keys).agg(wanted), f"select {columns} from a {grouped}")  # noqa: S608


NAMES = st.tuples(
    st.lists(st.sampled_from(sorted(DIFFERENT)), min_size=1, max_size=5, unique=True),
    st.lists(st.sampled_from(sorted(BESIDE)), max_size=4, unique=True),
).map(lambda both: [*both[0], *both[1]])


@settings(max_examples=25, deadline=None)
@given(
    names=NAMES,
    data=st.data(),
    keys=st.sampled_from([(), ("k",), ("k", "ok")]),
    workers=st.integers(1, 3),
    epochs=st.integers(1, 4),
)
def test_counts_of_different_values_are_duckdbs_after_every_epoch(
    names: list[str], data: st.DataObject, keys: tuple[str, ...], workers: int, epochs: int
) -> None:
    judge_sales(asked(names, keys), data.draw(changes(SALES_ROWS, epochs)), workers)


@pytest.mark.long
@settings(max_examples=120, deadline=None)
@given(
    names=NAMES,
    data=st.data(),
    keys=st.sampled_from([(), ("k",), ("k", "ok")]),
    workers=st.integers(1, 3),
    epochs=st.integers(1, 8),
)
def test_many_counts_of_different_values_are_duckdbs(
    names: list[str], data: st.DataObject, keys: tuple[str, ...], workers: int, epochs: int
) -> None:
    judge_sales(asked(names, keys), data.draw(changes(SALES_ROWS, epochs)), workers)


def test_an_aggregate_of_the_key_does_not_count_different_values() -> None:
    rows: list[list[Row]] = [[(1, "a", None, 1, None, True, 1), (1, "b", None, 2, None, True, 1)]]
    judge_sales(asked(["texts", "values of the key"], ("k",)), rows)


def test_values_that_are_not_made_distinct_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    rows: list[list[Row]] = [[(1, "a", None, 1, None, True, 1), (1, "a", None, 2, None, True, 1)]]
    judge_sales(asked(["texts"], ("k",)), rows)
    monkeypatch.setattr(operations, "distinct", lambda changes, name: changes)
    with pytest.raises(AssertionError, match="epoch 0"):
        judge_sales(asked(["texts"], ("k",)), rows)
