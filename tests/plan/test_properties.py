"""Properties: what is derived of an operator is true of every table that it makes.

Families:
- one by one: what each operator keeps, loses and adds, worked out by hand;
- recursion: properties that hold in every round survive, others do not;
- random plans: every key, bound and dependency that is derived holds in the tables that are computed, what is
  append-only never loses a row, and what no reader uses can be any value.
"""

from random import Random

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pointstamp.errors import OperatorError
from pointstamp.expressions.tree import col, lit
from pointstamp.plan import logical
from pointstamp.plan.logical import (
    Aggregate,
    Distinct,
    Filter,
    Iterate,
    Join,
    LogicalOperator,
    Project,
    Recursive,
    TopK,
    Union,
    Variable,
    loops_of,
    walk,
)
from pointstamp.plan.properties import Properties, properties_of, used_columns
from pointstamp.reduce.aggregate import Aggregate as Aggregated
from support.random_plans import Rows, World, divides_by_zero, make_world, run, scan


def _of(operator: LogicalOperator) -> Properties:
    return properties_of([operator])[operator]


def _keys(operator: LogicalOperator) -> set[str]:
    return {" ".join(sorted(key)) for key in _of(operator).keys}


# One by one.


def test_a_table_of_upserts_has_its_key_as_long_as_all_of_it_is_there() -> None:
    assert _keys(scan("k")) == {"k"}
    assert _keys(Project(scan("k"), (("id", col("k")), ("v", col("v"))))) == {"id"}
    assert _keys(Project(scan("k"), (("v", col("v")),))) == set()
    assert _keys(Project(scan("k"), (("k", col("k") + 1),))) == set()


def test_distinct_aggregate_and_top_make_keys() -> None:
    counted = (("n", Aggregated("count")),)
    assert _keys(Distinct(scan("g"))) == {"a d"}
    assert _keys(Aggregate(scan("g"), ("a",), counted)) == {"a"}
    assert _keys(Aggregate(scan("g"), (), counted)) == {""}
    assert _keys(TopK(scan("g"), 1, ("a",), ("d",))) == {"a"}
    assert _keys(TopK(scan("g"), 2, ("a",), ("d",))) == set()
    assert _keys(TopK(scan("g"), 1, ("a",), ("d",), ties=True)) == set()


def test_a_join_keeps_the_keys_of_a_side_whose_rows_it_does_not_repeat() -> None:
    keyed, pairs = scan("k"), Distinct(scan("g"))
    assert _keys(Join(pairs, keyed, "inner", (("a", "k"),))) == {"a d"}
    assert _keys(Join(pairs, keyed, "left", (("a", "k"),))) == {"a d"}
    assert _keys(Join(keyed, pairs, "inner", (("v", "a"),))) == {"d k v"}
    assert _keys(Join(keyed, pairs, "full", (("k", "a"),))) == set()
    assert _keys(Join(keyed, scan("t"), "inner", (("v", "a"),))) == set()
    assert _keys(Join(keyed, scan("t"), "semi", (("v", "a"),))) == {"k"}


def test_a_dependency_follows_from_a_key_an_expression_and_an_equality() -> None:
    joined = _of(Join(scan("t"), scan("k"), "inner", (("a", "k"),)))
    assert joined.closure(["a"]) == {"a", "v"}
    made = _of(Project(scan("g"), (("a", col("a")), ("more", col("a") + 1), ("d", col("d")))))
    assert made.closure(["a"]) == {"a", "more"}
    equal = _of(Filter(scan("g"), (col("a") == col("d")) & (col("a") > 1)))
    assert equal.closure(["d"]) == {"a", "d"}
    constant = _of(Filter(scan("g"), col("a") == lit(1)))
    assert constant.closure([]) == {"a"}
    assert _of(Filter(Distinct(scan("g")), col("a") == lit(1))).is_key(["d"])


def test_only_what_grows_is_append_only() -> None:
    grows = scan("g")
    assert _of(Join(grows, grows, "inner", (("a", "a"),))).is_append_only
    assert _of(Distinct(Union((grows, grows)))).is_append_only
    for operator in (
        scan("t"),
        scan("k"),
        Join(grows, grows, "left", (("a", "a"),)),
        Join(grows, grows, "anti", (("a", "a"),)),
        Join(grows, scan("t"), "inner", (("a", "a"),)),
        Aggregate(grows, ("a",), (("n", Aggregated("count")),)),
        TopK(grows, 1, (), ("a",)),
        logical.Except(grows, grows),
    ):
        assert not _of(operator).is_append_only, operator


def test_a_function_of_a_user_is_opaque_downstream_and_needs_all_columns() -> None:
    mapped = logical.MapBatches(scan("g"), lambda batch: batch, scan("g").schema)
    root = Project(Filter(mapped, col("a") > 1), (("a", col("a")),))
    found = properties_of([root])
    assert not found[root].is_deterministic
    assert found[mapped.input].is_deterministic
    used = used_columns([root], found)
    assert used[mapped.input] == {"a", "d"}
    assert used[mapped] == {"a"}


def test_columns_are_used_by_all_readers() -> None:
    rows = scan("t")
    one = Aggregate(rows, ("a",), (("n", Aggregated("count")),))
    other = Join(rows, scan("u"), "semi", (("b", "a"),))
    small = Project(other, (("b", col("b")),))
    used = used_columns([one, small], properties_of([one, small]))
    assert used[rows] == {"a", "b"}
    assert used[other.right] == {"a"}


def test_windows_place_rows_in_event_time() -> None:
    windowed = logical.TimeWindow(scan("g"), "d", 10)
    assert _of(windowed).event_times == {"d", "window_start", "window_end"}
    assert _of(Project(windowed, (("since", col("window_start")),))).event_times == {"since"}
    assert _keys(logical.TimeWindow(Distinct(scan("g")), "d", 10)) == {"a d"}
    assert _keys(logical.TimeWindow(Distinct(scan("g")), "d", 10, 5)) == {"a d window_start"}


def test_rows_are_bounded_by_limits_and_values() -> None:
    values = logical.Values(pa.record_batch({"x": pa.array([1, 2, 3])}))
    assert _of(values).rows_max == 3
    assert _of(TopK(values, 2, (), ("x",))).rows_max == 2
    assert _of(TopK(values, 9, (), ("x",))).rows_max == 3
    assert _of(Join(TopK(values, 2, (), ("x",)), values, "cross")).rows_max == 6
    assert _of(TopK(scan("g"), 2, ("a",), ("d",))).rows_max is None
    assert _of(TopK(scan("g"), 2, (), ("d",), ties=True)).rows_max is None


# Recursion.


def _closure(*, is_distinct: bool, has_tag: bool = False) -> tuple[Recursive, Variable]:
    edges = Project(scan("g"), (("src", col("a")), ("dst", col("d"))))
    start: LogicalOperator = Project(edges, (("root", col("src")), ("node", col("dst"))))
    if has_tag:
        start = Project(start, (("root", col("root")), ("node", col("node")), ("tag", lit(0).cast("long"))))
    variable = Variable(start.schema, name="reached")
    columns = [("root", col("root")), ("node", col("dst"))]
    columns += [("tag", col("tag"))] if has_tag else []
    step = Project(Join(variable, edges, "inner", (("node", "src"),)), tuple(columns))
    body: LogicalOperator = Union((start, step))
    body = Distinct(body) if is_distinct else body
    first = Distinct(start) if is_distinct else start
    return Recursive(Iterate((variable,), (first,), (body,))), variable


def test_a_key_of_a_recursion_is_one_of_its_start_and_of_its_body() -> None:
    recursive, variable = _closure(is_distinct=True)
    found = properties_of([recursive])
    assert found[recursive].keys == found[variable].keys == {frozenset(["root", "node"])}
    recursive, variable = _closure(is_distinct=False)
    found = properties_of([recursive])
    assert found[recursive].may_repeat
    assert found[variable].may_repeat


def test_a_recursion_of_joins_and_unions_is_monotone_and_append_only() -> None:
    recursive, variable = _closure(is_distinct=True)
    found = properties_of([recursive])
    assert all(each.is_monotone for each in found.values())
    assert found[recursive].is_append_only
    least = Aggregate(recursive.iterate.bodies[0], ("root",), (("node", Aggregated("min", "node")),))
    shortest = Recursive(Iterate((variable,), recursive.iterate.starts, (least,)))
    assert not properties_of([shortest])[least].is_monotone


def test_a_column_that_a_recursion_only_passes_on_is_unused_if_its_readers_do_not_look_at_it() -> None:
    recursive, variable = _closure(is_distinct=False, has_tag=True)
    assert used_columns([recursive], properties_of([recursive]))[variable] == {"root", "node", "tag"}
    narrow = Project(recursive, (("node", col("node")),))
    assert used_columns([narrow], properties_of([narrow]))[variable] == {"node"}


def test_a_variable_that_starts_without_rows_is_what_its_body_makes_of_it() -> None:
    one, other = (Variable(pa.schema({"a": pa.int64()})) for _ in range(2))
    start = Distinct(Project(scan("g"), (("a", col("a")),)))
    loop = Iterate((one, other), (start, None), (start, Union((one, other))))
    found = properties_of([Recursive(loop, 0), Recursive(loop, 1)])
    assert found[one].keys == {frozenset(["a"])}
    assert found[other].may_repeat
    assert found[other].rows_max is None


# Random plans.


@st.composite
def _worlds(draw: st.DrawFn) -> World:
    return make_world(lambda count: draw(st.integers(0, count - 1)))


def _wrong(properties: Properties, names: list[str], tables: list[Rows]) -> str | None:
    """Return a property that does not hold for the tables of some epochs."""
    for number, table in enumerate(tables):
        rows = [dict(zip(names, row, strict=True)) for row in table.elements()]
        for key in properties.keys:
            if len({tuple(row[name] for name in sorted(key)) for row in rows}) < len(rows):
                return f"{sorted(key)} is no key of {rows}"
        for given_, column in properties.dependencies:
            values = {(tuple(row[name] for name in sorted(given_)), row[column]) for row in rows}
            if len({one for one, _ in values}) < len(values):
                return f"{sorted(given_)} do not decide {column} in {rows}"
        if properties.rows_max is not None and len(rows) > properties.rows_max:
            return f"{len(rows)} rows are more than {properties.rows_max}"
        if properties.is_append_only and number and not tables[number - 1] <= table:
            return f"{tables[number - 1] - table} are gone"
    return None


@given(_worlds())
@settings(max_examples=12)
def test_derived_properties_hold_in_the_tables_of_random_plans(world: World) -> None:
    _check(world)


@pytest.mark.long
@given(st.integers(0, 2**64))
def test_derived_properties_hold_in_the_tables_of_many_random_plans(seed: int) -> None:
    _check(make_world(Random(seed).randrange))


def _check(world: World) -> None:
    found, loops = properties_of(world.roots), loops_of(world.roots)
    operators = [
        each for each in walk(world.roots) if not isinstance(each, Variable | Iterate) and not loops[each]
    ]
    try:
        tables = run({str(place): each for place, each in enumerate(operators)}, world.epochs)
    except OperatorError as error:
        if divides_by_zero(error):
            return
        raise
    for place, each in enumerate(operators):
        assert (wrong := _wrong(found[each], each.schema.names, tables[str(place)])) is None, (each, wrong)
