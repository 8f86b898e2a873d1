"""Signatures: equal where the same is computed, different where anything else is.

Families:
- parameters: every field of every operator, changed in every place that a value has;
- names: what an operator is called, and the names of internal columns;
- recursion: loops by their bodies, variables by their places;
- functions: by what they compute, or as the user pins them;
- comparison: what becomes of state when one plan takes the place of another.
"""

from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pointstamp as ps
from pointstamp.plan import logical, streams
from pointstamp.plan.logical import Iterate, LogicalOperator, Recursive, Scan, Variable, rewrite, walk
from pointstamp.plan.serialization import read_plan, write_plan
from pointstamp.plan.signatures import ANNOTATIONS, compare, has_state, signatures
from pointstamp.reduce.aggregate import Aggregate
from support.operator_instances import COLUMNS, changed, changes_of, doubled, kinds_of_operators, operators

ORDERS = Scan("orders", COLUMNS)
CUSTOMERS = Scan("customers", COLUMNS)


def _signature(operator: LogicalOperator) -> str:
    below = list(walk([operator]))
    fed = {each.variable for each in below if isinstance(each, streams.Feedback)}
    variables = [each for each in below if isinstance(each, streams.LoopVariable | streams.FlowVariable)]
    feedbacks = [streams.Feedback(each, ORDERS) for each in variables if each not in fed]
    return signatures([operator, *feedbacks])[operator]


# Parameters.


KINDS = [kind for kind in kinds_of_operators() if kind is not streams.Lowered]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_every_change_of_a_parameter_changes_the_signature(kind: type[LogicalOperator]) -> None:
    tried: set[str] = set()

    @settings(max_examples=12, deadline=None)
    @given(operators(kind))
    def check(operator: LogicalOperator) -> None:
        before = _signature(operator)
        pinned = getattr(operator, "version", None) is not None
        for each in fields(operator):
            if each.name in ANNOTATIONS:
                continue
            value = getattr(operator, each.name)
            for new in changes_of(value):
                is_function = callable(value) and not isinstance(value, type)
                is_same = _signature(changed(operator, each.name, new)) == before
                assert is_same == (is_function and pinned), f"{each.name}: {value!r} and {new!r}"
                tried.add(each.name)

    check()
    assert tried == {each.name for each in fields(kind)} - ANNOTATIONS


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_the_order_of_inputs_changes_the_signature(kind: type[LogicalOperator]) -> None:
    @settings(max_examples=12, deadline=None)
    @given(operators(kind))
    def check(operator: LogicalOperator) -> None:
        if kind is Iterate or len(operator.inputs) < 2:
            return
        turned = operator.with_inputs(operator.inputs[::-1])
        is_palindrome = [*map(_signature, operator.inputs)] == [*map(_signature, operator.inputs[::-1])]
        assert (_signature(turned) == _signature(operator)) == is_palindrome

    check()


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_names_and_origins_are_not_in_the_signature(kind: type[LogicalOperator]) -> None:
    @settings(max_examples=12, deadline=None)
    @given(operators(kind), st.text(max_size=3))
    def check(operator: LogicalOperator, name: str) -> None:
        before = _signature(operator)
        (named,) = rewrite(
            [operator],
            lambda each: each if isinstance(each, Variable) else replace(each, name=name, origin=name),
        )
        assert _signature(named) == before
        assert _signature(read_plan(write_plan({"out": operator}))["out"]) == before

    check()


def test_two_plans_of_one_meaning_need_not_be_one_object() -> None:
    shared = logical.Filter(ORDERS, ps.col("n") > 1)
    twice = [logical.Filter(ORDERS, ps.col("n") > 1) for _ in range(2)]
    one = logical.Join(shared, shared, "inner", (("k", "k"),))
    other = logical.Join(twice[0], twice[1], "inner", (("k", "k"),))
    assert _signature(one) == _signature(other)


def test_a_change_is_seen_in_everything_that_reads_it_and_in_nothing_else() -> None:
    def plan(least: int) -> list[LogicalOperator]:
        left = logical.Distinct(logical.Filter(ORDERS, ps.col("n") > least))
        right = logical.Distinct(CUSTOMERS)
        return [left, right, logical.Join(left, right, "inner", (("k", "k"),))]

    one, other = plan(1), plan(2)
    same = [
        signatures(one)[before] == signatures(other)[after] for before, after in zip(one, other, strict=True)
    ]
    assert same == [False, True, False]


# Internal names.


def _internal(first: str, second: str, *, turned: bool = False) -> LogicalOperator:
    """A plan with internal columns, in every place where an operator names one."""
    wanted = ((first, ps.col("n") + 1), (second, ps.col("n") + 2), ("k", ps.col("k")))
    one = logical.Project(ORDERS, wanted)
    other = logical.Project(CUSTOMERS, (wanted[1], wanted[0], wanted[2]) if turned else wanted)
    united = logical.Union((one, other))
    large = logical.Filter(united, ps.col(first) > ps.col(second))
    joined = logical.Join(large, other, "inner", ((first, first),))
    least = logical.TopK(joined, 3, (second,), (f"{first} desc nulls last", "k"))
    return logical.Aggregate(least, (second,), (("total", Aggregate("sum", first)),))


def test_internal_names_do_not_matter() -> None:
    assert _signature(_internal("__a1", "__a2")) == _signature(_internal("__b7", "__a1"))


def test_the_places_of_internal_columns_matter() -> None:
    assert _signature(_internal("__a1", "__a2")) != _signature(_internal("__a1", "__a2", turned=True))
    rows = logical.Project(ORDERS, (("__a", ps.col("n")), ("__b", ps.col("w"))))
    for name in ("__a", "__b"):
        other = "__b" if name == "__a" else "__a"
        assert _signature(logical.Filter(rows, ps.col(name) > 1)) != _signature(
            logical.Filter(rows, ps.col(other) > 1)
        )


def test_a_union_of_internal_columns_finds_them_by_name() -> None:
    def union(second: tuple[str, str]) -> LogicalOperator:
        one = logical.Project(ORDERS, (("__a", ps.col("n")), ("__b", ps.col("w"))))
        other = logical.Project(CUSTOMERS, ((second[0], ps.col("n")), (second[1], ps.col("w"))))
        return logical.Union((one, other))

    assert _signature(union(("__a", "__b"))) != _signature(union(("__b", "__a")))


def test_a_text_that_looks_like_an_internal_column_is_a_text() -> None:
    def plan(column: str, text: str) -> LogicalOperator:
        rows = logical.Project(ORDERS, ((column, ps.col("k")),))
        lag = ps.lag(column, default=text)
        ordered = logical.WindowFunctions(rows, (), (column,), (("before", lag),))
        return logical.Filter(ordered, (ps.col(column) == text) | ps.col(column).like(text))

    assert _signature(plan("__a", "__a")) != _signature(plan("__b", "__b"))
    assert _signature(plan("__a", "__c")) == _signature(plan("__b", "__c"))


def test_the_columns_of_users_and_inputs_matter() -> None:
    one, other = (logical.Project(ORDERS, ((name, ps.col("n")),)) for name in ("a", "b"))
    assert _signature(one) != _signature(other)
    first, second = (Scan("orders", pa.schema({name: pa.int64()})) for name in ("__a", "__b"))
    assert _signature(logical.Distinct(first)) != _signature(logical.Distinct(second))


# Recursion.

EDGES = Scan("edges", pa.schema({"src": pa.int64(), "dst": pa.int64()}))


def _closure(
    name: str = "v", *, least: int = 0, turned: bool = False
) -> tuple[LogicalOperator, LogicalOperator]:
    """Paths in two variables, and the join inside the loop."""
    variables = [Variable(EDGES.schema, name=f"{name}{n}") for n in range(2)]
    read = variables[::-1] if turned else variables
    step = logical.Join(
        logical.Project(read[0], (("src", ps.col("src")), ("mid", ps.col("dst")))),
        logical.Project(EDGES, (("mid", ps.col("src")), ("dst", ps.col("dst")))),
        "inner",
        (("mid", "mid"),),
    )
    found = logical.Project(step, (("src", ps.col("src")), ("dst", ps.col("dst"))))
    kept = logical.Filter(logical.Union((EDGES, found)), ps.col("src") > least)
    bodies = (logical.Distinct(kept), logical.Distinct(variables[0]))
    return Recursive(Iterate(tuple(variables), (EDGES, None), bodies)), step


def test_a_loop_has_one_signature_whatever_its_variables_are_called() -> None:
    assert _signature(_closure()[0]) == _signature(_closure("w")[0])


def test_which_variable_a_body_reads_is_in_the_signature() -> None:
    assert _signature(_closure()[0]) != _signature(_closure(turned=True)[0])


def test_an_operator_in_a_loop_has_the_signature_of_the_complete_loop() -> None:
    (one, step), (other, other_step) = _closure(), _closure(least=5)
    assert signatures([one])[step] != signatures([other])[other_step]
    again, again_step = _closure("w")
    assert signatures([one])[step] == signatures([again])[again_step]


def test_variables_of_nested_loops_are_told_apart() -> None:
    def nested(read: int) -> LogicalOperator:
        outer, inner = Variable(EDGES.schema), Variable(EDGES.schema)
        both = (outer, inner)
        body = logical.Distinct(logical.Union((both[read], logical.Filter(inner, ps.col("src") > 0), outer)))
        found = Recursive(Iterate((inner,), (outer,), (body,)))
        return Recursive(Iterate((outer,), (EDGES,), (logical.Distinct(found),)))

    assert _signature(nested(0)) != _signature(nested(1))
    assert _signature(nested(0)) == _signature(nested(0))


def test_the_variables_of_an_epoch_are_told_apart_and_depend_on_its_streams() -> None:
    clicks, views = (streams.Input(name, EDGES.schema) for name in ("clicks", "views"))

    def per_epoch(read: int, parts: tuple[LogicalOperator, ...]) -> tuple[LogicalOperator, LogicalOperator]:
        variables = (Variable(EDGES.schema), Variable(EDGES.schema))
        kept = logical.Distinct(variables[read])
        return streams.PerEpoch(parts, variables, kept), kept

    (one, kept), (again, same) = per_epoch(0, (clicks, views)), per_epoch(0, (clicks, views))
    assert _signature(one) == _signature(again) != _signature(per_epoch(1, (clicks, views))[0])
    assert signatures([one])[kept] == signatures([again])[same]
    other, other_kept = per_epoch(0, (views, clicks))
    assert _signature(one) != _signature(other)
    assert signatures([one])[kept] != signatures([other])[other_kept]


def _wired(
    fed: tuple[int, int], *, read: int = 0, least: int = 0
) -> tuple[list[LogicalOperator], LogicalOperator]:
    """A loop of streams with two variables, each fed with one of them, and what reads the loop outside."""
    clicks = streams.Input("clicks", EDGES.schema)
    loop = streams.LoopScope(clicks)
    variables = [streams.LoopVariable(loop, EDGES.schema) for _ in range(2)]
    bodies = [
        logical.Filter(logical.Union((variables[0], streams.EnterLoop(clicks, loop))), ps.col("src") > least),
        logical.Filter(variables[1], ps.col("dst") > 1),
    ]
    feedbacks = [
        streams.Feedback(each, bodies[which], loop) for each, which in zip(variables, fed, strict=True)
    ]
    left = streams.LeaveLoop(bodies[read], loop)
    running = streams.StreamAggregate(left, ("src",), (("n", ps.count()),), is_running=True)
    return [running, *feedbacks], running


def test_what_reads_a_loop_of_streams_depends_on_everything_that_is_fed() -> None:
    def signature(*given: Any, **more: Any) -> str:  # noqa: ANN401
        roots, running = _wired(*given, **more)
        return signatures(roots)[running]

    assert signature((0, 1)) == signature((0, 1))
    others = [signature((1, 0)), signature((0, 0)), signature((0, 1), read=1), signature((0, 1), least=1)]
    assert len({signature((0, 1)), *others}) == 5


def test_what_was_lowered_by_hand_has_no_signature() -> None:
    distinct = logical.Distinct(streams.Lowered(COLUMNS))
    assert signatures([distinct]) == {}
    assert compare([distinct], [distinct]).same == ()


def test_what_reads_a_variable_that_is_not_fed_has_no_signature_and_no_state_to_use() -> None:
    roots, running = _wired((0, 1))
    assert running not in signatures([running])
    assert compare([running], [running]).same == ()
    assert compare(roots, roots).same == (running,)


# Functions.


def test_a_function_counts_by_what_it_computes() -> None:
    def make(amount: int) -> Callable[[pa.RecordBatch], pa.RecordBatch]:
        return lambda batch: batch.slice(amount)

    def mapped(amount: int, version: str | None = None) -> str:
        return _signature(logical.MapBatches(ORDERS, make(amount), COLUMNS, version))

    assert mapped(1) == mapped(1) != mapped(2)
    assert mapped(1, "a") == mapped(2, "a") != mapped(2, "b")
    assert mapped(1, "a") != mapped(1)


# Comparison.


def test_an_edit_keeps_what_it_does_not_touch_and_fills_the_rest_from_there() -> None:
    def plan(least: int) -> list[LogicalOperator]:
        counted = logical.Aggregate(ORDERS, ("k", "n"), (("rows", ps.count()),), name="counted")
        large = logical.Filter(counted, ps.col("rows") > least)
        best = logical.TopK(large, 3, (), ("rows desc",), name="best")
        named = logical.Join(best, CUSTOMERS, "inner", (("k", "k"),), name="named")
        return [named]

    assert str(compare(plan(1), plan(1))) == "\n".join(
        ["same: Aggregate 'counted'", "same: TopK 'best'", "same: Join 'named'"]
    )
    assert str(compare(plan(1), plan(2))) == "\n".join(
        [
            "same: Aggregate 'counted'",
            "new: TopK 'best', filled from Aggregate 'counted'",
            "new: Join 'named', filled from Aggregate 'counted' and input 'customers'",
            "gone: TopK 'best'",
            "gone: Join 'named'",
        ]
    )


def test_a_new_view_is_filled_from_the_state_of_another_one() -> None:
    distinct = logical.Distinct(logical.Filter(ORDERS, ps.col("n") > 1), name="old view")
    again = logical.Distinct(logical.Filter(ORDERS, ps.col("n") > 1), name="other name")
    total = logical.Aggregate(again, ("k",), (("rows", ps.count()),), name="new view")
    assert str(compare([distinct], [total])) == (
        "same: Distinct 'other name'\nnew: Aggregate 'new view', filled from Distinct 'other name'"
    )


def test_a_changed_loop_is_filled_from_outside_of_it() -> None:
    def plan(least: int) -> list[LogicalOperator]:
        edges = logical.Distinct(EDGES, name="edges")
        variable = Variable(EDGES.schema)
        body = logical.Distinct(
            logical.Union((edges, logical.Filter(variable, ps.col("src") > least))), name="paths"
        )
        return [logical.Distinct(Recursive(Iterate((variable,), (edges,), (body,))), name="result")]

    found = compare(plan(1), plan(2))
    assert [str(each) for each in found.same] == ["Distinct 'edges'"]
    assert {str(each.operator): [*map(str, each.sources)] for each in found.new} == {
        "Distinct 'paths'": ["Distinct 'edges'"],
        "Distinct 'result'": ["Distinct 'edges'"],
    }
    assert compare(plan(1), plan(1)).new == ()


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_everything_stateful_is_same_new_or_gone(data: st.DataObject) -> None:
    kinds = st.sampled_from([kind for kind in KINDS if kind is not Iterate])
    before, after = (data.draw(kinds.flatmap(operators)) for _ in range(2))
    found = compare([before], [after])
    stateful = {each for each in walk([after]) if has_state(each)}
    assert {*found.same, *(each.operator for each in found.new)} == stateful
    has_variables = any(
        isinstance(each, streams.LoopVariable | streams.FlowVariable) for each in walk([after])
    )
    assert set(found.gone) <= {each for each in walk([before]) if has_state(each)}
    assert all(each.sources for each in found.new if _reads_an_input(each.operator))
    same = compare([after], [after])
    if not has_variables:
        assert set(same.same) == stateful
        assert same.new == ()
        assert same.gone == ()


def _reads_an_input(operator: LogicalOperator) -> bool:
    return bool(operator.inputs) and any(isinstance(each, Scan | streams.Input) for each in walk([operator]))


def test_only_inputs_that_check_or_replace_rows_keep_something() -> None:
    weights = Scan("orders", COLUMNS, "weights", "w")
    assert not has_state(ORDERS)
    assert has_state(weights)
    assert not has_state(replace(weights, trusted=True))
    assert has_state(Scan("orders", COLUMNS, "upserts", keys=("k",), trusted=True))
    assert not has_state(logical.MapBatches(ORDERS, doubled, COLUMNS))
