"""The optimized plans of the queries of TPC-H and Nexmark.

Families:
- golden: the plans are those in the files of ``golden``, which ``support.golden_plans`` writes. A rule that
  fires no more, or makes a plan worse, is seen there;
- two languages: what is written in SQL and with verbs, and means the same, has one optimized plan.
"""

from pathlib import Path

import pytest

from pointstamp.plan.optimizer import Optimized
from support.canonical_plans import canonical
from support.golden_plans import (
    FOLDER,
    PLANS,
    TABLE,
    golden,
    optimized,
    optimized_verbs,
    table_of_rules,
    tpch_plan,
)

WRITE = "Write the files again with `PYTHONPATH=.:tests .venv/bin/python -m support.golden_plans`."


@pytest.mark.parametrize("name", PLANS)
def test_the_optimized_plan_is_the_one_in_its_file(name: str) -> None:
    assert golden(optimized(name)) == (FOLDER / f"{name}.txt").read_text(), WRITE


def test_the_rules_fire_in_the_queries_of_their_table() -> None:
    assert table_of_rules({name: optimized(name) for name in PLANS}) == (FOLDER / TABLE).read_text(), WRITE


@pytest.mark.parametrize("name", PLANS)
def test_a_query_in_sql_and_with_verbs_has_one_optimized_plan(name: str) -> None:
    (of_sql,), (of_verbs,) = optimized(name).roots, optimized_verbs(name).roots
    assert canonical(of_verbs) == canonical(of_sql)


def test_the_page_of_plans_shows_a_query_as_it_is_written_and_as_it_is_optimized() -> None:
    page = (Path(__file__).parents[2] / "docs" / "reference" / "sql" / "plans.md").read_text()
    written = golden(Optimized((tpch_plan("q3"),), ()))
    assert f"```text\n{written}```" in page
    assert f"```text\n{(FOLDER / 'tpch_q3.txt').read_text()}```" in page
