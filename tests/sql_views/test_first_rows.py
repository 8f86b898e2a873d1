# ruff: noqa: E501 - a query is read best in one line
"""Where a query wants the first rows only, only these are sent on: the operator is ``top``."""

import pytest

import pointstamp as ps

QUERIES = {
    "select k, a from t qualify row_number() over (partition by k order by a) <= 2": True,
    "select * from (select k, rank() over (partition by k order by a) as r from t) s where r < 3": True,
    "select * from (select k, row_number() over (order by a) as r from t) s where s.r = 1": True,
    "select * from (select k, row_number() over (order by a) as r from t) s where r > 1": False,
    "select * from (select k, row_number() over (order by a) as r, max(a) over () as m from t) s where r = 1": False,
    "select * from (select k, row_number() over (order by a) as r from t order by k limit 5) s where r = 1": None,
}


@pytest.mark.parametrize("text", QUERIES)
def test_the_first_rows_alone_are_kept_where_they_alone_are_wanted(text: str) -> None:
    names = [node.name.split(" ")[0] for node in ps.sql(text, t="k long, a long").plan.nodes]
    wants_top = QUERIES[text]
    assert ("over" in names) == (not wants_top)
    assert names.count("top") == (1 if wants_top or wants_top is None else 0)


def test_an_order_without_a_limit_is_left_out_and_that_is_said(caplog: pytest.LogCaptureFixture) -> None:
    ps.sql("select k, a from t order by a limit 3", t="k long, a long")
    assert not caplog.records
    ps.sql("select k, a from t\norder by a", t="k long, a long")
    assert [each.getMessage().partition(",")[0] for each in caplog.records] == ["line 2"]
    assert "ORDER BY is ignored, because a view has no order" in caplog.text
