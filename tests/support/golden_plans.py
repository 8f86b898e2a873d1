"""The optimized plans of the 22 queries of TPC-H and the 23 of Nexmark as text, and which rules made them.

    PYTHONPATH=.:tests .venv/bin/python -m support.golden_plans

writes the files in tests/plan/golden again: one for each query, and ``rules.txt``, a table of the rules and
the queries in which each fired. A change of a plan is seen in the review of these files.
"""

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from benchmarks.sql import tpch_verbs
from benchmarks.sql.tpch_changes import declared, tables_in
from benchmarks.sql.tpch_queries import queries
from examples.nexmark import queries as nexmark_queries
from examples.nexmark.events import SCHEMAS
from examples.nexmark.flows import inputs_of
from examples.nexmark.sql import SQL

import pointstamp as ps
from pointstamp.plan.explain import plan_text
from pointstamp.plan.logical import LogicalOperator, Scan, rewrite
from pointstamp.plan.optimizer import ALL, Optimized, optimize
from support import nexmark_verbs
from support.nexmark_sql import SPARK

FOLDER: Final = Path(__file__).parent.parent / "plan" / "golden"
TABLE: Final = "rules.txt"
_SCALE: Final = 1.0
_TITLE: Final = "rule"


def tpch_plan(name: str) -> LogicalOperator:
    """Return a query of TPC-H as it is written in SQL."""
    query = queries(_SCALE)[name]
    return _plan(declared(tables_in(query)) + query)


def nexmark_plan(name: str) -> LogicalOperator:
    """Return a query of Nexmark as it is written in SQL, over inputs that only grow."""
    query = SPARK.get(name, SQL[name].replace("exclude (", "except ("))
    used = [each for each in SCHEMAS if re.search(rf"\b{each}\b", query)]
    return _plan("".join(f"create table {each} ({SCHEMAS[each]});\n" for each in used) + query)


def tpch_verbs_plan(name: str) -> LogicalOperator:
    """Return a query of TPC-H as it is written with verbs."""
    return tpch_verbs.flow_of(getattr(tpch_verbs, name)).logical_plan["result"]


def nexmark_verbs_plan(name: str) -> LogicalOperator:
    """Return a query of Nexmark as it is written with verbs, over tables."""
    query = getattr(nexmark_verbs, name, None) or getattr(nexmark_queries, name)
    flow = ps.Dataflow(name)
    tables = {each: flow.table(each, SCHEMAS[each]) for each in inputs_of(query)}
    flow.output("result", query(**tables))
    return flow.logical_plan["result"]


PLANS: Final = {
    **{f"tpch_q{number}": (tpch_plan, tpch_verbs_plan, f"q{number}") for number in range(1, 23)},
    **{f"nexmark_q{number}": (nexmark_plan, nexmark_verbs_plan, f"q{number}") for number in range(23)},
}
"""What makes the plan of each query from SQL, and from verbs."""


def _plan(text: str) -> LogicalOperator:
    return ps.sql(text).logical_plan["result"]


def optimized(name: str) -> Optimized:
    """Return the optimized plan of a query, and the rules that fired."""
    of_sql, _, query = PLANS[name]
    return optimize([of_sql(query)])


def optimized_verbs(name: str) -> Optimized:
    """Return the optimized plan of a query that is written with verbs."""
    _, of_verbs, query = PLANS[name]
    return optimize([of_verbs(query)])


def golden(made: Optimized) -> str:
    """Return an optimized plan as compact text: without names, and without the places of the text."""

    def bare(operator: LogicalOperator) -> LogicalOperator:
        source = {"source": None} if isinstance(operator, Scan) else {}
        return replace(operator, name=None, origin=None, **source)

    (root,) = rewrite(made.roots, bare)
    return plan_text({"result": root}) + "\n"


def table_of_rules(fired: Mapping[str, Optimized]) -> str:
    """Return for each rule the queries in which it fired."""
    lines = [f"{_TITLE:<20} TPC-H; Nexmark"]
    for rule in ALL:
        found = [name for name, each in fired.items() if rule.__name__ in {one.rule for one in each.fired}]
        both = (
            " ".join(name.rpartition("_")[2] for name in found if name.startswith(which))
            for which in ("tpch", "nexmark")
        )
        lines.append(f"{rule.__name__:<20} {'; '.join(each or 'none' for each in both)}")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Write all files."""
    made = {name: optimized(name) for name in PLANS}
    FOLDER.mkdir(exist_ok=True)
    for name, each in made.items():
        (FOLDER / f"{name}.txt").write_text(golden(each))
    (FOLDER / TABLE).write_text(table_of_rules(made))


if __name__ == "__main__":
    main()
