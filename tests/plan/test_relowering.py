"""Nothing of a flow is lost in the record of what was written: it is lowered again, and gives the same plan.

Families:
- the examples, TPC-H and Nexmark in SQL and in verbs, the cases of SQL, all graph algorithms, loops of
  tables, event time: the same nodes, names, wires and parameters;
- the same flows as plans for rules, in which loops of tables are recursions: the same operators;
- the columns that logical operators derive are those of what they are lowered to.
"""

import inspect
import re
import runpy
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from examples.nexmark import queries as nexmark
from examples.nexmark.events import SCHEMAS as NEXMARK_SCHEMAS
from examples.nexmark.flows import flow_of as nexmark_flow
from examples.nexmark.sql import SQL as NEXMARK

import pointstamp as ps
from pointstamp.plan.logical import walk
from support import tpch_queries
from support.event_worlds import EVENT_FLOWS
from support.graph_cases import ALL_CASES, story_flow
from support.graph_flows import ALGORITHMS, graph_flow
from support.nexmark_sql import SPARK
from support.relowering import check_record, check_schemas, check_structured, record_of_flow
from support.sql_cases import CASES, declared, used_in
from support.table_loops import LOOPS, loop_flow
from support.tpch import SCHEMAS
from support.tpch_sql import SQL as TPCH

EXAMPLES = [
    path
    for path in sorted((Path(__file__).parent.parent.parent / "examples").glob("[0-9]*.py"))
    if path.name != "15_dataframe_view.py"  # it makes its flow of a Spark session
]


def _tpch_verbs(name: str) -> ps.Dataflow:
    query = getattr(tpch_queries, name)
    flow = ps.Dataflow(name)
    inputs = list(inspect.signature(query).parameters)
    tables = {each: flow.table(each, f"{SCHEMAS[each]}, w long", weight="w") for each in inputs}
    flow.output("result", query(**tables))
    return flow


def _sql(query: str, schemas: dict[str, str]) -> ps.Dataflow:
    used = {each: schema for each, schema in schemas.items() if re.search(rf"\b{each}\b", query)}
    tables = "".join(
        f"create table {each} ({schema}, w long) tblproperties ('weight' = 'w');\n"
        for each, schema in used.items()
    )
    return ps.sql(tables + query)


def _nexmark_text(name: str) -> str:
    return SPARK.get(name, NEXMARK[name].replace("exclude (", "except ("))


def _example(path: Path) -> ps.Dataflow:
    flow = runpy.run_path(str(path), run_name="an example")["flow"]
    assert isinstance(flow, ps.Dataflow)
    return flow


def _flows() -> Iterator[tuple[str, Callable[[], ps.Dataflow]]]:
    for path in EXAMPLES:
        yield f"example {path.stem}", partial(_example, path)
    for number in range(1, 23):
        yield f"TPC-H q{number} in verbs", partial(_tpch_verbs, f"q{number}")
        yield f"TPC-H q{number} in SQL", partial(_sql, TPCH[f"q{number}"], SCHEMAS)
    for number in range(23):
        yield f"Nexmark q{number} in verbs", partial(nexmark_flow, getattr(nexmark, f"q{number}"))
        yield f"Nexmark q{number} in SQL", partial(_sql, _nexmark_text(f"q{number}"), NEXMARK_SCHEMAS)
    for case in CASES:
        yield f"SQL: {case.name}", partial(ps.sql, declared(*used_in(case.sql)) + case.sql)
    for name in ALGORITHMS:
        yield f"algorithm {name}", partial(graph_flow, [name])
    for name, graph_case in ALL_CASES.items():
        yield (
            f"graph: {name}",
            partial(story_flow, [name], "long", directed=True, grows=graph_case.grows),
        )
    for name in LOOPS:
        yield f"loop {name}", partial(loop_flow, name)
    for name, make in EVENT_FLOWS.items():
        yield f"event time: {name}", make


FLOWS = dict(_flows())


def test_every_operator_knows_where_a_user_wrote_it() -> None:
    flow = ps.Dataflow("origins")
    rows = flow.table("rows", "k long")
    here = inspect.currentframe()
    assert here is not None
    line = here.f_lineno + 1
    counted = rows.count("k")
    flow.output("counted", counted)
    assert flow.logical_plan["counted"].origin == f"{__file__}:{line}"
    text = "create table t (k long, w long);\nselect k from (\n  select k, count(*) as n from t group by k)"
    query = ps.sql(text).logical_plan["result"]
    origins = {type(each).__name__: each.origin for each in walk([query])}
    assert origins["Aggregate"] == "SQL, line 3, column 10"
    assert str(query.origin).startswith("SQL, line 2, column ")


@pytest.mark.parametrize("name", FLOWS)
def test_a_flow_is_lowered_again_to_the_plan_that_runs(name: str) -> None:
    flow = FLOWS[name]()
    assert flow.logical_plan.keys() <= flow.plan.output_schemas().keys()
    assert flow.logical_plan
    record = record_of_flow(flow)
    check_record(record)
    check_schemas(record)
    check_structured(record)
