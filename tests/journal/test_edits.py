"""The law over edits: a changed flow is rejected, or gives the table of the new flow.

Families:
- verbs: every parameter of every verb of streams, tables and graphs has an edit, found by introspection;
- cycles: what a cycle of streams is made of, edited;
- operators: every value that any operator of a plan was made with, changed in place, gives another shape;
  and every class of operators, logical and physical, is in one of these plans;
- aggregates and functions of the user;
- what is no edit: names of variables, comments, docstrings, lines, processes, hash seeds.
"""

import dataclasses
import enum
import functools
import importlib
import inspect
import os
import pkgutil
import subprocess
import sys
import textwrap
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import fields, is_dataclass
from itertools import combinations
from typing import Any
from unittest.mock import MagicMock

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import pointstamp as ps
from incremental.test_shown import all_operations
from pointstamp import graphs
from pointstamp.dataflow import record
from pointstamp.dataflow.table import consolidated
from pointstamp.errors import PointstampError, RecoveryError
from pointstamp.expressions.compiler import Compiled
from pointstamp.expressions.tree import Expression
from pointstamp.flow.plan import Plan
from pointstamp.journal.flow_shape import check_shape, operator_shape, shape_of
from pointstamp.operators.spec import spec_of
from pointstamp.plan import canonical, signatures
from pointstamp.plan.canonical import attributes
from pointstamp.plan.logical import LogicalOperator, walk
from pointstamp.reduce.over import Windowed
from pointstamp.timely import Summary, delay
from pointstamp.topology.ports import OperatorIndex, SourcePort
from support.edits import (
    GRAPHS,
    OTHER_WORDS,
    ROWS,
    STREAMS,
    TABLES,
    WINDOWS,
    Case,
    parameters_of,
    verbs_of,
    with_name,
)
from support.operator_instances import kinds_of_operators

CASES = {"Stream": STREAMS, "Table": TABLES, "graphs": GRAPHS, "windows": WINDOWS}


def is_rejected(before: Plan, now: Plan, *, accept: bool = False) -> bool:
    try:
        check_shape(shape_of(before, "q"), shape_of(now, "q"), accept_changes=accept)
    except RecoveryError:
        return True
    return False


# Verbs.


@pytest.mark.parametrize("kind", [ps.Stream, ps.Table])
def test_every_parameter_of_every_verb_has_an_edit(kind: type) -> None:
    cases = CASES[kind.__name__]
    assert sorted(verbs_of(kind)) == sorted(cases)
    for verb, case in cases.items():
        assert sorted({*parameters_of(getattr(kind, verb))} - {"name"}) == sorted(case.edits), verb


def test_every_parameter_of_a_window_has_an_edit() -> None:
    for verb, case in WINDOWS.items():
        assert sorted(parameters_of(Windowed.over)) == sorted(case.edits), verb


def test_every_parameter_of_every_graph_algorithm_has_an_edit() -> None:
    assert sorted(set(graphs.__all__) - set(OTHER_WORDS)) == sorted(GRAPHS)
    for verb, case in GRAPHS.items():
        assert sorted(parameters_of(getattr(graphs, verb))) == sorted(case.edits), verb


def outcome(before: ps.Dataflow, now: ps.Dataflow) -> str:
    """Rejected; or right, if both flows give the same outputs; or wrong."""
    if is_rejected(before.plan, now.plan):
        return "rejected"
    return "right" if outputs_of(before) == outputs_of(now) else "wrong"


def outputs_of(flow: ps.Dataflow) -> dict[str, list[Any]]:
    edges = ("src", "dst", "length")
    data = {
        name: [
            pa.table(
                dict(zip(edges if name == "d" else ("k", "at", "n"), zip(*rows, strict=True), strict=True))
            )
        ]
        for name, rows in ROWS.items()
    }
    try:
        results = flow.run(data)
    except PointstampError as error:  # rows that a verb rejects: the other flow must do so, too
        return {"raised": [type(error)]}
    return {
        name: sorted((time, repr(row)) for time, table in output.items() for row in table.to_pylist())
        for name, output in results.items()
    }


def edits_of(verbs: Mapping[str, Case], kind: type | None) -> Iterator[tuple[str, str, Case, Any]]:
    for verb, case in verbs.items():
        edits = dict(case.edits)
        if kind is not None and "name" in parameters_of(getattr(kind, verb)):
            edits["name"] = with_name(case.base)
        for parameter, calling in edits.items():
            yield verb, parameter, case, calling


@pytest.mark.parametrize("kind", ["Stream", "Table", "graphs", "windows"])
def test_a_changed_parameter_is_rejected_or_gives_the_table_of_the_new_flow(kind: str) -> None:
    found: dict[str, list[str]] = {}
    flows = {verb: case.flow(verb, case.base) for verb, case in CASES[kind].items()}
    for verb, case in CASES[kind].items():
        assert not is_rejected(flows[verb].plan, case.flow(verb, case.base).plan), verb
    for verb, parameter, case, calling in edits_of(CASES[kind], getattr(ps, kind, None)):
        now = case.flow(verb, calling)
        found.setdefault(outcome(flows[verb], now), []).append(f"{verb}({parameter})")
        is_accepted = not is_rejected(flows[verb].plan, now.plan, accept=True)
        may_be = parameter == "name" or f"{verb}({parameter})" in {*FUNCTIONS_OF_VERBS, *RIGHT[kind]}
        assert is_accepted == may_be, f"{verb}({parameter})"
    assert "wrong" not in found, found
    # What an operator is called does not matter. Few other edits change nothing: those are told apart by
    # hand, so that none slips in among them.
    assert [each for each in found.pop("right", []) if not each.endswith("(name)")] == RIGHT[kind]
    assert len(found["rejected"]) >= AT_LEAST[kind]


RIGHT = {
    "Stream": ["join_interval(at)"],
    "Table": ["join_interval(at)"],
    "graphs": [],
    "windows": [],
}
AT_LEAST = {"Stream": 60, "Table": 55, "graphs": 30, "windows": 9}


FUNCTIONS_OF_VERBS = ("map_batches(function)", "flat_map(function)", "map(function)", "inspect(function)")
"""The edits that a user may accept; all other parameters, and edges, are rejected in any case."""


# Cycles of streams, and conditions that are no expressions.


def cycle(
    *,
    schema: str = "k long",
    summary: Summary = delay(1),  # noqa: B008 - it never changes
    condition: Any = pc.field("k") < 5,  # noqa: ANN401, B008 - any condition
    fed: str = "kept",
    has_probe: bool = False,
) -> ps.Dataflow:
    """A flow in which rows come again in a later epoch."""
    flow = ps.Dataflow("cycle")
    rows = flow.stream_input("a", schema)
    again = flow.variable(schema, summary)
    both = rows.union(again)
    more = both.map_batches(_plus_one)
    streams = {"kept": more.filter(condition), "all": more, "split": more.split(condition)[0]}
    flow.feedback(again, streams[fed])
    flow.output("out", streams["kept"])
    flow.output("changes", consolidated(both.to_table(), "changes"))
    if has_probe:
        both.probe()
    return flow


def _plus_one(batch: pa.RecordBatch) -> pa.RecordBatch:
    return batch.set_column(0, batch.schema.field(0), pc.add(batch.column(0), 1))


CYCLES: dict[str, dict[str, Any]] = {
    "schema": {"schema": "k int"},
    "summary": {"summary": delay(2)},
    "condition": {"condition": pc.field("k") < 6},
    "condition of an expression": {"condition": ps.col("k") < 5},
    "condition of a function": {"condition": lambda batch: pc.less(batch.column(0), 5)},
    "what is fed": {"fed": "all"},
    "what is fed, by a split": {"fed": "split"},
}


@pytest.mark.parametrize("edit", CYCLES)
def test_an_edited_cycle_is_rejected(edit: str) -> None:
    assert is_rejected(cycle().plan, cycle(**CYCLES[edit]).plan, accept=True)


def test_a_cycle_that_is_written_again_is_the_same_also_with_a_probe() -> None:
    assert not is_rejected(cycle().plan, cycle().plan)
    assert not is_rejected(cycle().plan, cycle(has_probe=True).plan)


def test_a_condition_that_is_another_function_is_rejected_unless_that_is_accepted() -> None:
    before, now = (cycle(condition=_written(TEXT.format(least))).plan for least in (5, 6))
    assert not is_rejected(before, cycle(condition=_written(TEXT.format(5))).plan)
    assert is_rejected(before, now)
    assert not is_rejected(before, now, accept=True)


TEXT = "import pyarrow.compute as pc\ndef function(batch): return pc.less(batch.column(0), {})"


# Inputs, aggregates and views.


def declared(**changed: Any) -> ps.Dataflow:  # noqa: ANN401 - arguments of input
    flow = ps.Dataflow("inputs")
    said = {"name": "a", "schema": "k long, at long", "epochs": ps.by_event_time("at", every=5, lateness=3)}
    flow.output("out", flow.stream_input(**{**said, **changed}))
    return flow


def keyed(**changed: Any) -> ps.Dataflow:  # noqa: ANN401 - arguments of table
    flow = ps.Dataflow("tables")
    said = {"name": "a", "schema": "k long, j long, n long, gone boolean", "key": "k", "order": "n"}
    flow.output("out", flow.table(**{**said, **changed}))
    return flow


FREE = object()
"""Of a parameter that may change: it only decides what is logged."""
PLAIN: dict[str, Any] = {"key": None, "order": None, "schema": "k long, op string, n long, gone boolean"}
NEEDS: dict[tuple[str, str], dict[str, Any]] = {
    ("stream_input", "late_output"): {"late": "output"},
    ("table", "late"): {"lateness": 3},
    ("table", "weight"): PLAIN,
    ("table", "operation"): PLAIN,
    ("table", "snapshots"): PLAIN,
    ("table", "empty"): {**PLAIN, "snapshots": True},
    ("table", "format"): {"order": None},
    ("table", "value"): {"order": None, "format": "debezium"},
    ("table", "trusted"): {**PLAIN, "operation": "op"},
}
"""Parameters that others need."""

INPUTS: dict[str, tuple[Callable[..., ps.Dataflow], dict[str, Any]]] = {
    "stream_input": (
        declared,
        {
            "name": "b",
            "schema": "k int, at long",
            "epochs": ps.by_event_time("at", every=6, lateness=3),
            "late": "drop",
            "late_output": "behind",
            "extra_columns": FREE,
        },
    ),
    "table": (
        keyed,
        {
            "name": "b",
            "schema": "k int, j long, n long, gone boolean",
            "key": "j",
            "order": "j",
            "deleted": "gone",
            "weight": "n",
            "operation": "op",
            "snapshots": True,
            "empty": "gone",
            "format": "debezium",
            "value": "v",
            "trusted": True,
            "lateness": 3,
            "late": "drop",
            "extra_columns": FREE,
        },
    ),
}


@pytest.mark.parametrize("verb", INPUTS)
def test_every_parameter_of_an_input_is_in_its_shape(verb: str) -> None:
    make, edits = INPUTS[verb]
    assert sorted(edits) == sorted(parameters_of(getattr(ps.Dataflow, verb)))
    for parameter, value in edits.items():
        extra = NEEDS.get((verb, parameter), {})
        if value is FREE:
            assert not is_rejected(make().plan, make(**{parameter: "ignore"}).plan), parameter
            continue
        assert is_rejected(make(**extra).plan, make(**{**extra, parameter: value}).plan, accept=True), (
            parameter
        )


def test_late_rows_that_were_an_error_may_be_dropped_from_now_on() -> None:
    strict, lenient = (declared(late=late) for late in ("error", "drop"))
    assert not is_rejected(strict.plan, lenient.plan)
    assert is_rejected(lenient.plan, strict.plan)


AGGREGATES = {
    name: make
    for name in ps.__all__
    if inspect.isfunction(make := getattr(ps, name)) and make.__module__.startswith("pointstamp.reduce")
}


def test_every_aggregate_is_told_from_every_other_by_its_column_too() -> None:
    shapes: dict[str, str] = {}
    for name, make in AGGREGATES.items():
        for arguments in _arguments(make):
            flow = ps.Dataflow("aggregates")
            rows = flow.table("a", "k long, n long, m long, b boolean, c boolean")
            flow.output("out", rows.group_by("k").agg(v=make(*arguments)))
            shapes[f"{name}{arguments}"] = repr(shape_of(flow.plan, "q").operators)
    assert len(shapes) > 20
    same = [(a, b) for a, b in combinations(shapes, 2) if shapes[a] == shapes[b]]
    assert all(
        {_alias(a), _alias(b)} <= {"var_samp", "variance", "stddev", "stddev_samp"} for a, b in same
    ), same


def _alias(name: str) -> str:
    return name.partition("(")[0]


def _arguments(make: Callable[..., Any]) -> Iterator[tuple[Any, ...]]:
    required = [
        name
        for name, each in inspect.signature(make).parameters.items()
        if each.default is inspect.Parameter.empty and each.kind is not inspect.Parameter.VAR_POSITIONAL
    ]
    for first, second in (
        (("n", "m"), ("m", "n")) if "bool" not in make.__name__ else (("b", "c"), ("c", "b"))
    ):
        if make.__name__ in ("count", "aggregate"):
            return
        if make.__name__ == "quantile":
            yield from ((first, 0.5), (first, 0.25))
        else:
            yield (first, second)[: max(1, len(required))]


VIEW = "select x.k, count(*) c from t x group by x.k"
VIEWS = {
    "another table": (VIEW, VIEW.replace("from t x", "from u x")),
    "a literal": ("select k from t where n > 1", "select k from t where n > 2"),
    "values": (
        "select t.k, v.w from t join (values (1, 'one'), (2, 'two')) v(k, w) on t.k = v.k",
        "select t.k, v.w from t join (values (1, 'ONE'), (2, 'two')) v(k, w) on t.k = v.k",
    ),
    "exists": (
        "select k from t where exists (select 1 from u where u.k = t.k)",
        "select k from t where exists (select 1 from w where w.k = t.k)",
    ),
    "scalar subquery": (
        "select k, (select max(n) from u) m from t",
        "select k, (select max(n) from w) m from t",
    ),
    "in": ("select k from t where k in (select k from u)", "select k from t where k in (select k from w)"),
    "left": (
        "select t.k, u.n from t left join u on t.k = u.k",
        "select u.k, t.n from u left join t on t.k = u.k",
    ),
    "semi": (
        "select t.k, t.n from t left semi join u on t.k = u.k",
        "select u.k, u.n from u left semi join t on t.k = u.k",
    ),
    "except": ("select k from t except select k from u", "select k from u except select k from t"),
    "recursive": (
        "with recursive r(k) as (select k from t union select r.k + 1 from r where r.k < 5) select * from r",
        "with recursive r(k) as (select k from t union select r.k + 1 from r where r.k < 6) select * from r",
    ),
    "window": (
        "select k, sum(n) over (partition by k order by n) s from t",
        "select k, sum(n) over (partition by k order by n desc) s from t",
    ),
    "order": ("select k, n from t order by n limit 2", "select k, n from t order by k limit 2"),
}


@pytest.mark.parametrize("edit", VIEWS)
def test_an_edited_view_is_rejected(edit: str) -> None:
    plans = [
        ps.sql(text, t="k long, n long", u="k long, n long", w="k long, n long").plan for text in VIEWS[edit]
    ]
    assert is_rejected(*plans, accept=True)
    again = [
        ps.sql(VIEWS[edit][0], t="k long, n long", u="k long, n long", w="k long, n long") for _ in range(2)
    ]
    assert not is_rejected(*(each.plan for each in again))


# Functions.


def computing(function: Callable[..., Any]) -> Plan:
    flow = ps.Dataflow("functions")
    flow.output("out", flow.stream_input("a", "k long").map_batches(function))
    return flow.plan


def _written(text: str, **names: Any) -> Callable[..., Any]:  # noqa: ANN401 - values of its module
    made: dict[str, Any] = {"__name__": "job", **names}
    exec(textwrap.dedent(text), made)  # noqa: S102 - the text stands here
    function: Callable[..., Any] = made["function"]
    return function


ONE = "def function(batch):\n    rows = batch.num_rows\n    return batch.slice(0, rows - 1)"
NO_EDITS = {
    "variables": ONE.replace("rows", "count").replace("batch.num_count", "batch.num_rows"),
    "comments": ONE.replace("    return", "    # the last one is not needed\n    return"),
    "docstring": ONE.replace("    rows", '    """All but the last."""\n    rows', 1),
    "lines": f"import os\n\n\n\n{ONE}",
    "name": ONE.replace("def function", "def other") + "\nfunction = other",
    "annotations": ONE.replace("(batch)", "(batch: 'object') -> 'object'"),
}


@pytest.mark.parametrize("what", NO_EDITS)
def test_what_does_not_change_what_a_function_computes_is_no_edit(what: str) -> None:
    assert not is_rejected(computing(_written(ONE)), computing(_written(NO_EDITS[what])))


def _captures(value: Any) -> Callable[..., Any]:  # noqa: ANN401 - whatever is captured
    return lambda batch: batch.slice(value)


FUNCTIONS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "constant": (_written(ONE), _written(ONE.replace("- 1", "- 2"))),
    "operation": (_written(ONE), _written(ONE.replace("- 1", "+ 1"))),
    "captured": (_captures(1), _captures(2)),
    "captured list": (_captures([1]), _captures([2])),
    "captured table": (_captures(pa.table({"x": [1]})), _captures(pa.table({"x": [2]}))),
    "captured array": (_captures(np.array([1, 2])), _captures(np.array([1, 3]))),
    "captured function": (_captures(_captures(1)), _captures(_captures(2))),
    "default": (
        _written("def function(batch, n=1): return batch"),
        _written("def function(batch, n=2): return batch"),
    ),
    "global": (
        _written("def function(batch): return batch.slice(LIMIT)", LIMIT=1),
        _written("def function(batch): return batch.slice(LIMIT)", LIMIT=2),
    ),
    "helper": (
        _written("def helper(x): return x\ndef function(batch): return helper(batch)"),
        _written("def helper(x): return x.slice(1)\ndef function(batch): return helper(batch)"),
    ),
    "partial": (functools.partial(_captures, 1), functools.partial(_captures, 2)),
    "library": (functools.partial(pc.add, y=1), functools.partial(pc.subtract, y=1)),
}


@pytest.mark.parametrize("what", FUNCTIONS)
def test_a_function_that_computes_something_else_is_rejected_unless_that_is_accepted(what: str) -> None:
    before, now = (computing(each) for each in FUNCTIONS[what])
    assert is_rejected(before, now)
    if what not in ("partial", "library"):  # whose arguments are parameters
        assert not is_rejected(before, now, accept=True)


def test_what_cannot_be_pickled_counts_by_its_class_and_a_proxy_is_not_asked_for_ever() -> None:
    assert not is_rejected(computing(_captures(threading.Lock())), computing(_captures(threading.Lock())))
    assert not is_rejected(computing(_captures(MagicMock())), computing(_captures(MagicMock())))
    texts = (ONE, ONE, ONE.replace("- 1", "- 2"))
    cached = [computing(functools.cache(_written(each))) for each in texts]
    assert not is_rejected(cached[0], cached[1])
    assert is_rejected(cached[0], cached[2])


def test_functions_that_call_each_other_have_a_shape() -> None:
    text = "def other(batch): return function(batch)\ndef function(batch): return other(batch)"
    assert not is_rejected(computing(_written(text)), computing(_written(text)))
    assert is_rejected(computing(_written(text)), computing(_written(text.replace("return other", "other"))))


def test_an_expression_that_is_nested_deeply_has_a_shape() -> None:
    def nested(last: int) -> Plan:
        flow = ps.Dataflow("deep")
        column = ps.col("k")
        for number in range(200):
            column = column + (last if number == 199 else 1)
        flow.output("out", flow.stream_input("a", "k long").select(k=column))
        return flow.plan

    limit = sys.getrecursionlimit()
    assert not is_rejected(nested(1), nested(1))
    assert is_rejected(nested(1), nested(2))
    assert sys.getrecursionlimit() == limit


# Operators: whatever they were made with.


def everything(*, has_edits: bool = True) -> Iterator[Plan]:
    """Plans with all operators."""
    yield all_operations().plan
    for cases in CASES.values():
        for verb, case in cases.items():
            for calling in (case.base, *(case.edits.values() if has_edits else ())):
                yield case.flow(verb, calling).plan
    yield _in_event_time().plan
    yield cycle(has_probe=True).plan
    yield keyed(lateness=2, deleted="gone").plan
    yield _with_texts_as_ids().plan
    yield ps.sql(
        "select a.k, sum(a.n) s, (select max(n) from b) m from a "
        "where exists (select 1 from b where b.k = a.k) and a.k in (select k from b) group by a.k "
        "union all select x, y, z from values (1, 2, 3) as v(x, y, z)",
        a="k long, n long",
        b="k long, n long",
    ).plan


def _in_event_time() -> ps.Dataflow:
    flow = ps.Dataflow("event time")
    at = flow.stream_input("a", "k long, at long", epochs=ps.by_event_time("at", every=5, lateness=3))
    flow.output("late enough", at.window("at", 5).emit_on_close("window_end"))
    flow.output("sessions", at.session_window("k", at="at", gap=2))
    return flow


def _with_texts_as_ids() -> ps.Dataflow:
    flow = ps.Dataflow("texts")
    graph = graphs.Graph(flow.table("a", "src string, dst string"))
    flow.output("bfs", graphs.bfs(graph, "a"))
    flow.output("wcc", graphs.wcc(graph))
    flow.output("cdlp", graphs.cdlp(graph))
    return flow


def changed_values(value: Any, depth: int = 0) -> Iterator[Any]:  # noqa: ANN401 - any part of a plan
    """Values that differ in one place from this one, found without a look at what the value is for."""
    if isinstance(value, Compiled):
        yield dataclasses.replace(value, tree=ps.lit("another"))
        yield dataclasses.replace(value, type=pa.large_string())
    elif isinstance(value, Expression):
        yield ps.lit("another")
    elif isinstance(value, functools.partial):
        for number, each in enumerate(value.args):
            for other in changed_values(each, depth + 1):
                args = [*value.args[:number], other, *value.args[number + 1 :]]
                yield functools.partial(value.func, *args, **value.keywords)
        for name, each in value.keywords.items():
            for other in changed_values(each, depth + 1):
                yield functools.partial(value.func, *value.args, **{**value.keywords, name: other})
    elif isinstance(value, SourcePort):
        yield SourcePort(OperatorIndex(0 if value.operator else 1), 0)
    elif is_dataclass(value) and not isinstance(value, type):
        for each in fields(value):
            for other in changed_values(getattr(value, each.name), depth + 1):
                new = copy(value)
                object.__setattr__(new, each.name, other)
                yield new
    elif isinstance(value, Mapping):
        yield {**value, "another": 1}
        for key, each in value.items():
            for other in changed_values(each, depth + 1):
                yield {**value, key: other}
    elif isinstance(value, list | tuple) and not hasattr(value, "_fields"):
        yield (*value, 1)
        for number, each in enumerate(value):
            for other in changed_values(each, depth + 1):
                yield (*value[:number], other, *value[number + 1 :])
    else:
        yield from _other(value)


def _other(value: Any) -> Iterator[Any]:  # noqa: ANN401 - as above
    match value:
        case bool():
            yield not value
        case enum.Enum():
            yield from [each for each in type(value) if each is not value][:1]
        case int() | float():
            yield value + 1
        case str():
            yield f"{value}'"
        case None:
            yield 1
        case pa.Schema():
            yield value.append(pa.field("another", pa.int8()))
        case pa.DataType():
            yield pa.large_string() if value != pa.large_string() else pa.int8()
        case pa.RecordBatch():
            yield pa.record_batch({"another": [1]})
        case np.ndarray():
            return  # working memory
        case _ if callable(value):
            yield print
        case _:
            for name, each in attributes(value):
                for other in changed_values(each):
                    new = copy(value)
                    object.__setattr__(new, name, other)
                    yield new


def made_of(plans: Iterable[Plan]) -> tuple[Counter[str], list[str]]:
    """How many changed values of operators were tried, by operator, and those that a shape misses."""
    tried: Counter[str] = Counter()
    missed: list[str] = []
    seen: set[str] = set()
    for plan in plans:
        for node in plan.nodes:
            if node.logic is None:
                continue
            shape = operator_shape(plan, node)
            if repr(shape) in seen:
                continue
            seen.add(repr(shape))
            name = spec_of(node.logic).kind.__qualname__
            for number, other in enumerate(changed_values(node.logic)):
                tried[name] += 1
                if operator_shape(plan, dataclasses.replace(node, logic=other)) == shape:
                    missed.append(f"{node.name}: {name}, change {number}")
    return tried, missed


def test_whatever_an_operator_was_made_with_is_in_its_shape() -> None:
    tried, missed = made_of(everything())
    assert missed == []
    assert tried.total() > 3_000
    lacking = operators_with_parameters() - set(tried)
    assert lacking == set(), "these operators take parameters, and no plan of these tests has them"


def test_every_logical_operator_is_in_a_plan_of_these_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    found: set[str] = set()
    identify = signatures.identify

    def noting(nodes: Any, parts_of: Any, roots: Sequence[LogicalOperator]) -> None:  # noqa: ANN401 - passed on
        found.update(type(each).__name__ for each in walk(roots))
        identify(nodes, parts_of, roots)

    monkeypatch.setattr(record, "identify", noting)
    for plan in everything(has_edits=False):
        assert plan.nodes
    lacking = {each.__name__ for each in kinds_of_operators()} - found
    assert lacking == {"Lowered"}, "these operators are in no plan, so none of their fields was changed"


def test_a_shape_that_leaves_a_field_out_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        canonical, "fields", lambda value: [each for each in fields(value) if each.name != "keys"]
    )
    _, missed = made_of([all_operations().plan])
    assert missed


def operators_with_parameters() -> set[str]:
    """The classes of this package that are operators and take arguments."""
    found = set()
    for package in ("operators", "reduce", "flow", "incremental", "graphs"):
        module = importlib.import_module(f"pointstamp.{package}")
        for info in pkgutil.walk_packages(module.__path__, f"{module.__name__}."):
            for each in vars(importlib.import_module(info.name)).values():
                if isinstance(each, type) and each.__module__ == info.name and _is_operator(each):
                    found.add(each.__qualname__)
    return found


def _is_operator(kind: type) -> bool:
    takes_arguments = any("__init__" in vars(each) for each in kind.__mro__[:-1])
    is_abstract = getattr(kind, "_is_protocol", False) or bool(type.__subclasses__(kind))
    return hasattr(kind, "on_receive") and takes_arguments and not is_abstract


# The same in every process.


def test_a_shape_is_the_same_in_every_process_and_for_every_hash_seed() -> None:
    program = """
        import sys
        sys.path[:0] = ["tests"]
        from journal.test_edits import everything
        from pointstamp.journal.flow_shape import shape_of
        import hashlib
        digest = hashlib.sha256()
        for plan in everything(has_edits=False):
            text = repr(shape_of(plan, "q"))
            assert " at 0x" not in text and __import__("os").getcwd() not in text
            digest.update(text.encode())
        print(digest.hexdigest())
    """
    said = set()
    for seed, core in (("1", "python"), ("2", "")):
        seeded = {**os.environ, "PYTHONHASHSEED": seed, **({"POINTSTAMP_CORE": core} if core else {})}
        command = [sys.executable, "-c", textwrap.dedent(program)]
        ran = subprocess.run(command, capture_output=True, check=True, env=seeded)
        said.add(ran.stdout.decode())
    assert len(said) == 1


def test_a_shape_of_many_operators_is_small() -> None:
    plan = all_operations().plan
    assert len(msgspec.msgpack.encode(shape_of(plan, "q"))) < 2_000 * len(plan.nodes)
