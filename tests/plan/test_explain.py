"""Plans as text: what a user wrote, what the optimizer made of it, and what runs.

Families:
- trees: a plan with shared parts and a plan with a recursion, as they are shown;
- operators: every class has a line, and every parameter is in it;
- expressions: the text has the parentheses that its meaning needs;
- sections: rules, physical operators, and the data.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pointstamp as ps
from pointstamp.expressions.tree import Call, Expression, Literal
from pointstamp.plan import logical
from pointstamp.plan.explain import (
    PhysicalOperator,
    PhysicalPlan,
    explain_plan,
    expression_text,
    operator_text,
    plan_text,
)
from pointstamp.plan.logical import Iterate, LogicalOperator, Recursive, Scan, Variable
from pointstamp.plan.signatures import ANNOTATIONS
from pointstamp.reduce.aggregate import Aggregate
from support.operator_instances import COLUMNS, changed, kinds_of_operators, operators

ORDERS = Scan("orders", pa.schema({"id": pa.int64(), "city": pa.string(), "price": pa.int64()}))
EDGES = Scan("edges", pa.schema({"src": pa.int64(), "dst": pa.int64(), "w": pa.int64()}), "weights", "w")


def _orders() -> dict[str, LogicalOperator]:
    large = logical.Filter(ORDERS, (ps.col("price") > 10) & ps.col("city").is_not_null(), origin="flow.py:12")
    total = Aggregate("sum", ps.col("price") * 2, where=ps.col("id") > 7)
    sums = logical.Aggregate(large, ("city",), (("total", total), ("rows", Aggregate("count"))), name="sums")
    best = logical.TopK(sums, 3, (), ("total desc",))
    return {"best": best, "all": logical.Join(large, sums, "left", (("city", "city"),))}


ORDERS_TEXT = """\
output 'best'
└─ TopK 3 by=[total desc]
   └─ #1 Aggregate 'sums' keys=[city] total = sum(price * 2) filter (where id > 7), rows = count(*)
      └─ #2 Filter price > 10 and city is not null (flow.py:12)
         └─ Scan orders
output 'all'
└─ Join kind=left keys=[city]
   ├─ #2 Filter, as above
   └─ #1 Aggregate 'sums', as above"""


def test_a_shared_part_is_written_once() -> None:
    assert plan_text(_orders()) == ORDERS_TEXT


def test_a_recursion_shows_how_each_variable_begins_and_what_it_becomes() -> None:
    even, odd = (Variable(pa.schema({"node": pa.int64()}), name=name) for name in ("even", None))
    start = logical.Project(logical.Filter(EDGES, ps.col("src") == 0), (("node", ps.col("src")),))

    def step(table: LogicalOperator) -> LogicalOperator:
        joined = logical.Join(table, EDGES, "inner", (("node", "src"),))
        return logical.Project(joined, (("node", ps.col("dst")),))

    bodies = (logical.Distinct(logical.Union((start, step(odd)))), logical.Distinct(step(even)))
    loop = Iterate((even, odd), (start, None), bodies, rounds_max=9)
    assert (
        plan_text({"odd": Recursive(loop, 1)})
        == """\
output 'odd'
└─ Recursive place=1
   └─ Iterate rounds_max=9
      ├─ even begins as #1 Project node = src
      │  └─ Filter src = 0
      │     └─ #2 Scan edges kind=weights marker=w
      ├─ even becomes Distinct
      │  └─ Union
      │     ├─ #1 Project, as above
      │     └─ Project node = dst
      │        └─ Join keys=[node = src]
      │           ├─ variable 2 of the round before
      │           └─ #2 Scan, as above
      └─ variable 2 becomes Distinct
         └─ Project node = dst
            └─ Join keys=[node = src]
               ├─ even of the round before
               └─ #2 Scan, as above"""
    )


def test_a_long_chain_can_be_shown() -> None:
    rows: LogicalOperator = ORDERS
    for _ in range(3000):
        rows = logical.Distinct(rows)
    assert plan_text({"out": rows}).count("Distinct") == 3000


# Operators.


@pytest.mark.parametrize("kind", kinds_of_operators(), ids=lambda kind: kind.__name__)
def test_every_parameter_of_an_operator_is_in_its_line(kind: type[LogicalOperator]) -> None:
    @settings(max_examples=12, deadline=None)
    @given(operators(kind))
    def check(operator: LogicalOperator) -> None:
        line = operator_text(operator)
        assert line.startswith(kind.__name__)
        assert "\n" not in line
        for each in fields(operator):
            value = getattr(operator, each.name)
            is_number = isinstance(value, int) and not isinstance(value, bool)
            if is_number and each.name not in ANNOTATIONS:
                assert operator_text(changed(operator, each.name, value + 7)) != line, each.name
            if isinstance(value, bool) and each.name != "trusted":
                assert operator_text(changed(operator, each.name, not value)) != line, each.name

    check()


def test_a_trusted_input_says_what_it_saves() -> None:
    saved = "trusted: keeps no rows to check deletions, which saves up to 16 bytes of each"
    weights = Scan("orders", COLUMNS, "weights", "w", trusted=True)
    assert operator_text(weights) == f"Scan orders kind=weights marker=w {saved}"
    assert saved not in operator_text(Scan("orders", COLUMNS, "weights", "w"))


# Expressions.

NUMBERS = st.recursive(
    st.integers(0, 9).map(Literal),
    lambda inner: st.builds(
        lambda function, one, other: Call(function, (one, other)),
        st.sampled_from(["add", "subtract", "multiply"]),
        inner,
        inner,
    ),
    max_leaves=12,
)


def _value(expression: Expression) -> int:
    match expression:
        case Literal(value):
            return int(value)
        case Call("add", (one, other)):
            return _value(one) + _value(other)
        case Call("subtract", (one, other)):
            return _value(one) - _value(other)
        case Call(_, (one, other)):
            return _value(one) * _value(other)
    raise AssertionError(expression)


@given(NUMBERS)
def test_the_text_of_an_expression_has_its_value(expression: Expression) -> None:
    assert eval(expression_text(expression)) == _value(expression)  # noqa: S307 - digits and operators


BOOLEANS = st.recursive(
    st.sampled_from([True, False]).map(Literal),
    lambda inner: st.one_of(
        st.builds(
            lambda function, one, other: Call(function, (one, other)),
            st.sampled_from(["and", "or"]),
            inner,
            inner,
        ),
        inner.map(lambda each: Call("not", (each,))),
    ),
    max_leaves=12,
)


def _truth(expression: Expression) -> bool:
    match expression:
        case Literal(value):
            return bool(value)
        case Call("and", (one, other)):
            return _truth(one) and _truth(other)
        case Call("or", (one, other)):
            return _truth(one) or _truth(other)
        case Call("not", (inner,)):
            return not _truth(inner)
    raise AssertionError(expression)


@given(BOOLEANS)
def test_the_text_of_a_condition_has_its_truth(expression: Expression) -> None:
    text = expression_text(expression).replace("true", "True").replace("false", "False")
    assert eval(text) == _truth(expression)  # noqa: S307 - three words


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        (ps.col("odd name") == "it's", "\"odd name\" = 'it''s'"),
        (ps.when(ps.col("a") > 0, "up").otherwise(None), "case when a > 0 then 'up' else null end"),
        (ps.col("a").cast("long").is_in(1, 2), "cast(a as long) in (1, 2)"),
        (ps.col("k").like("a%"), "k like 'a%'"),
        (ps.functions.upper(ps.col("k")), "upper(k)"),
        ((ps.col("a") == 1) == (ps.col("b") == 2), "(a = 1) = (b = 2)"),
    ],
)
def test_an_expression_is_shown_as_sql(expression: Expression, text: str) -> None:
    shown = expression_text(expression)
    assert shown == text or shown == text.replace("(a = 1) = ", "a = 1 = ")


# Sections.


@dataclass(frozen=True)
class Fired:
    rule: str
    removed: tuple[str, ...]
    added: tuple[str, ...]


RUNS = PhysicalPlan(
    "output 'best': ...\n",
    (PhysicalOperator("sums", "operator", ("orders",), ("by city",), "sums", ("best",)),),
)


def test_the_sections_follow_the_way_of_a_plan() -> None:
    roots = {"best": _orders()["best"]}
    pruned = {"best": logical.Distinct(roots["best"])}
    fired = [Fired("prune_columns", ("Scan",), ("Scan columns=[city]",))]
    text = explain_plan(roots, pruned, fired, RUNS)
    titles = [line for line in text.splitlines() if line.startswith("==")]
    assert titles == [
        "== Logical plan ==",
        "== Optimized plan ==",
        "== Rules that fired ==",
        "== Physical operators with state ==",
    ]
    assert "prune_columns\n  - Scan\n  + Scan columns=[city]\n" in text
    assert text.endswith("output 'best': ...\n")
    assert "== Optimized plan ==\nthe same\n\n== Rules that fired ==\nnone\n" in explain_plan(roots, roots)
    assert "Optimized" not in explain_plan(roots)


def test_the_data_has_operators_by_position_with_their_signatures() -> None:
    data = json.loads(explain_plan(_orders(), _orders(), [Fired("a", (), ("b",))], RUNS, "json"))
    operators_shown = data["logical"]["operators"]
    assert [each["is"] for each in operators_shown] == ["Scan", "Filter", "Aggregate", "TopK", "Join"]
    assert data["logical"]["outputs"] == {"best": 3, "all": 4}
    assert [each["inputs"] for each in operators_shown] == [[], [0], [1], [2], [1, 2]]
    assert [each["has_state"] for each in operators_shown] == [False, False, True, True, True]
    assert operators_shown[2]["columns"] == {"city": "string", "total": "int64", "rows": "int64"}
    assert operators_shown[1]["origin"] == "flow.py:12"
    assert len({each["signature"] for each in operators_shown}) == 5
    assert data["optimized"] == data["logical"]
    assert data["rules"] == [{"rule": "a", "removed": [], "added": ["b"]}]
    physical: Mapping[str, object] = data["physical"][0]
    assert physical["keeps"] == "sums"
    assert physical["outputs"] == ["best"]
