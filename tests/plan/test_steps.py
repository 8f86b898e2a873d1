"""Which physical operators are parts of what a user wrote.

Families:
- the queries of TPC-H: every operator is a part of a step, none of which has a name that nobody gave;
- steps of verbs have the name and the line that the user gave them, and what changes a plan keeps them.
"""

import re

import pytest

import pointstamp as ps
from pointstamp.plan import optimizer
from support.tpch import SCHEMAS
from support.tpch_sql import SQL

INTERNAL = re.compile(r"^as |^columns|^all rows|__|: arguments|^drop|^changes of")


def _view(query: str) -> ps.Dataflow:
    used = {each: schema for each, schema in SCHEMAS.items() if re.search(rf"\b{each}\b", query)}
    tables = "".join(
        f"create table {each} ({schema}, w long) tblproperties ('weight' = 'w');\n"
        for each, schema in used.items()
    )
    return ps.sql(tables + query)


@pytest.mark.parametrize("name", SQL)
@pytest.mark.parametrize("rules", ["none", "all"])
def test_every_operator_of_a_query_is_part_of_a_step(
    name: str, rules: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pointstamp.dataflow.record.RULES", list(optimizer.ALL) if rules == "all" else [])
    nodes = _view(SQL[name]).plan.nodes
    operators = [each for each in nodes if not each.kind.is_door]
    steps = {each.step.number: each.step for each in operators if each.step is not None}
    assert all(each.step is not None for each in operators)
    assert 2 <= len(steps) < len(operators)
    assert not [each.name for each in steps.values() if INTERNAL.search(each.name)]
    assert {"result"} <= {each.name for each in steps.values()}


def test_a_step_has_the_name_and_the_line_that_the_user_gave() -> None:
    flow = ps.Dataflow("named")
    rows = flow.table("rows", "k long, v long")
    flow.output(
        "sums", rows.filter(ps.col("v") > 1).named("large").group_by("k").agg(n=ps.sum("v")).named("by k")
    )
    steps = {each.step.name: each.step for each in flow.plan.nodes if each.step is not None}
    assert list(steps) == ["rows", "large", "by k", "sums"]
    assert re.fullmatch(r"test_steps\.py:\d+", steps["by k"].origin)
    assert steps["large"].words == "Filter 'large' v > 1"
