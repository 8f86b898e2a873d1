"""Each rule fires, and where it must not it does not: plans before and after, as text.

Families:
- golden: what a rule makes of a plan;
- unsound: plans that look alike, of which the rule must keep its hands off;
- the optimizer: rules together, names, what fired.
"""

from textwrap import dedent, indent

import pyarrow as pa

import pointstamp as ps
from pointstamp.expressions.tree import col, lit, when
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
)
from pointstamp.plan.optimizer import optimize, plan_text
from pointstamp.plan.rules.aggregate_in_parts import aggregate_in_parts
from pointstamp.plan.rules.fold_constants import fold_constants
from pointstamp.plan.rules.fuse_rows import fuse_rows
from pointstamp.plan.rules.narrow_joins import narrow_joins
from pointstamp.plan.rules.order_joins import order_joins
from pointstamp.plan.rules.prune_columns import prune_columns
from pointstamp.plan.rules.push_into_recursion import push_into_recursion
from pointstamp.plan.rules.push_predicates import push_predicates
from pointstamp.plan.rules.push_top import push_top
from pointstamp.plan.rules.rewriting import Rule
from pointstamp.plan.rules.share_subplans import share_subplans
from pointstamp.plan.rules.use_keys import use_keys
from pointstamp.reduce.aggregate import Aggregate as Aggregated
from support.random_plans import scan

LONG = pa.int64()


def _after(rule: Rule, *roots: LogicalOperator) -> str:
    """Return a plan as text after a rule; a second time the rule changes nothing."""
    made = rule(roots)
    assert all(new.schema.equals(old.schema) for new, old in zip(made, roots, strict=True))
    again = rule(made)
    assert plan_text(again) == plan_text(made)
    return plan_text(made)


def _is_kept(rule: Rule, *roots: LogicalOperator) -> bool:
    return plan_text(rule(roots)) == plan_text(roots)


def _text(text: str) -> str:
    return dedent(text).strip("\n")


def _ratio() -> ps.Expression:
    """Return an expression that raises where d is 0."""
    return lit(10).cast("long") % col("d")


# Golden.


def test_a_contradiction_empties_a_part_of_a_plan_and_constants_are_folded() -> None:
    never = Filter(scan("t"), (col("a") > 5) & (col("a") < 3))
    some = Filter(scan("u"), (lit(1) < lit(2)) & (col("c") > lit(2) * 3))
    union = Union((Project(never, (("a", col("a")),)), Project(some, (("a", col("a")),))))
    assert _after(fold_constants, union) == _text("""
        Project(columns=[a: col('a')])
          Filter(condition=(col('c') > 6))
            Scan(input=u, kind=weights, marker=w)
    """)


def test_each_condition_on_a_join_is_evaluated_on_its_side_and_one_that_can_raise_stays() -> None:
    joined = Join(scan("t"), Join(scan("g"), scan("k"), "left", (("a", "k"),)), "inner", (("a", "a"),))
    condition = (col("b") > 1) & (col("v") > 2) & (col("a") == 3) & (_ratio() > 1)
    assert _after(push_predicates, Filter(joined, condition)) == _text("""
        Filter(condition=((cast(10 as long) % col('d')) > 1))
          Join(keys=[a])
            Filter(condition=((col('b') > 1) & (col('a') == 3)))
              Scan(input=t, kind=weights, marker=w)
            Filter(condition=(col('v') > 2))
              Join(kind=left, keys=[[a, k]])
                Filter(condition=(col('a') == 3))
                  Scan(input=g)
                Filter(condition=(col('k') == 3))
                  Scan(input=k, kind=upserts, marker=gone, keys=[k])
    """)


def test_a_condition_on_keys_passes_an_aggregate_a_union_and_projections() -> None:
    one = Project(scan("g"), (("x", col("a")), ("d", col("d"))))
    other = Project(scan("t"), (("x", col("a") + col("b")), ("d", col("b"))))
    counted = Aggregate(Union((one, other)), ("x",), (("n", Aggregated("count")),))
    assert _after(push_predicates, Filter(counted, (col("x") > 1) & (col("n") > 2))) == _text("""
        Filter(condition=(col('n') > 2))
          Aggregate(keys=[x], aggregates=[[n, count()]])
            Union
              Project(columns=[x: col('a'), d: col('d')])
                Filter(condition=(col('a') > 1))
                  Scan(input=g)
              Project(columns=[x: (col('a') + col('b')), d: col('b')])
                Filter(condition=((col('a') + col('b')) > 1))
                  Scan(input=t, kind=weights, marker=w)
    """)


def _closure() -> Recursive:
    edges = Distinct(Project(scan("g"), (("src", col("a")), ("dst", col("d")))))
    start = Project(edges, (("root", col("src")), ("node", col("dst")), ("tag", col("src"))))
    variable = Variable(start.schema, name="reached")
    columns = (("root", col("root")), ("node", col("dst")), ("tag", col("tag")))
    step = Project(Join(variable, edges, "inner", (("node", "src"),)), columns)
    return Recursive(Iterate((variable,), (start,), (Distinct(Union((start, step))),)))


def test_a_condition_on_the_column_that_a_recursion_keeps_restricts_where_it_starts() -> None:
    filtered = Filter(_closure(), (col("root") == 1) & (col("node") > 0))
    assert _after(push_into_recursion, filtered) == _text("""
        Filter(condition=(col('node') > 0))
          Recursive
            Iterate
              #1 = Variable 'reached'
              Filter(condition=(col('root') == 1))
                #2 = Project(columns=[root: col('src'), node: col('dst'), tag: col('src')])
                  #3 = Distinct
                    Project(columns=[src: col('a'), dst: col('d')])
                      Scan(input=g)
              Distinct
                Union
                  Filter(condition=(col('root') == 1))
                    #2
                  Project(columns=[root: col('root'), node: col('dst'), tag: col('tag')])
                    Join(keys=[[node, src]])
                      #1
                      #3
    """)


def test_a_full_join_loses_the_side_that_a_condition_rejects_and_a_distinct_needs_partners_only() -> None:
    outer = Filter(Join(scan("t"), scan("u"), "full", (("a", "a"),)), col("c") > 0)
    pairs = Distinct(Project(Join(scan("t"), scan("g"), "inner", (("a", "a"),)), (("b", col("b")),)))
    assert _after(narrow_joins, outer, pairs) == _text("""
        Filter(condition=(col('c') > 0))
          Join(kind=right, keys=[a])
            Scan(input=t, kind=weights, marker=w)
            Scan(input=u, kind=weights, marker=w)
        Distinct
          Project(columns=[b: col('b')])
            Join(kind=semi, keys=[a])
              Scan(input=t, kind=weights, marker=w)
              Scan(input=g)
    """)


def test_a_key_makes_distinct_aggregate_and_unused_outer_join_needless() -> None:
    keyed = scan("k")
    asked = (("n", Aggregated("count", "v")), ("m", Aggregated("max", "v")))
    joined = Join(scan("t"), keyed, "left", (("a", "k"),))
    assert _after(
        use_keys, Distinct(keyed), Aggregate(keyed, ("k",), asked), Project(joined, (("b", col("b")),))
    ) == _text("""
        #1 = Scan(input=k, kind=upserts, marker=gone, keys=[k])
        Project(columns=[k: col('k'), n: CASE, m: col('v')])
          #1
        Project(columns=[b: col('b')])
          Project(columns=[a: col('a'), b: col('b'), s: col('s'), v: null])
            Scan(input=t, kind=weights, marker=w)
    """).replace("CASE", "case when not(is_null(col('v'))) then 1 else 0 end")


def test_a_join_by_key_comes_before_one_that_multiplies_rows() -> None:
    other = Project(scan("u"), (("a", col("a")), ("c", col("c"))))
    many = Join(scan("t"), other, "inner", (("a", "a"),))
    assert _after(order_joins, Join(many, scan("k"), "inner", (("b", "k"),))) == _text("""
        Project(columns=[a: col('a'), b: col('b'), s: col('s'), c: col('c'), v: col('v')])
          Join(keys=[a])
            Join(keys=[[b, k]])
              Scan(input=t, kind=weights, marker=w)
              Scan(input=k, kind=upserts, marker=gone, keys=[k])
            Project(columns=[a: col('a'), c: col('c')])
              Scan(input=u, kind=weights, marker=w)
    """)


def test_first_rows_are_chosen_before_a_left_join_by_key() -> None:
    joined = Join(scan("t"), scan("k"), "left", (("a", "k"),))
    assert _after(push_top, TopK(joined, 3, (), ("b desc",))) == _text("""
        Join(kind=left, keys=[[a, k]])
          TopK(count=3, by=[b desc])
            Scan(input=t, kind=weights, marker=w)
          Scan(input=k, kind=upserts, marker=gone, keys=[k])
    """)


def test_equal_operators_of_several_outputs_are_one() -> None:
    def large() -> LogicalOperator:
        return Filter(scan("t"), col("a") > 1)

    assert _after(share_subplans, Distinct(large()), Union((large(), scan("t")))) == _text("""
        Distinct
          #1 = Filter(condition=(col('a') > 1))
            #2 = Scan(input=t, kind=weights, marker=w)
        Union
          #1
          #2
    """)


def test_equal_recursions_are_one() -> None:
    made = share_subplans([Distinct(_closure()), _closure()])
    assert made[0].inputs[0] is made[1]


def test_columns_that_no_reader_needs_are_not_read() -> None:
    joined = Join(scan("t"), scan("u"), "inner", (("a", "a"),))
    assert _after(prune_columns, Aggregate(joined, ("b",), (("n", Aggregated("count")),))) == _text("""
        Aggregate(keys=[b], aggregates=[[n, count()]])
          Join(keys=[a])
            Scan(input=t, kind=weights, marker=w, columns=[a, b])
            Scan(input=u, kind=weights, marker=w, columns=[a])
    """)


def test_a_column_of_the_right_side_keeps_its_name_when_that_of_the_left_is_pruned() -> None:
    joined = Join(scan("t"), scan("u"), "inner", (("a", "a"),))
    assert _after(prune_columns, Project(joined, (("x", col("s_right")),))) == _text("""
        Project(columns=[x: col('s_right')])
          Join(keys=[a])
            Scan(input=t, kind=weights, marker=w, columns=[a])
            Project(columns=[a: col('a'), s_right: col('s')])
              Scan(input=u, kind=weights, marker=w, columns=[a, s])
    """)


def test_columns_are_pruned_in_a_recursion_without_distinct() -> None:
    variable = Variable(pa.schema({"a": LONG, "d": LONG}), name="counted")
    more = Project(Filter(variable, col("a") < 3), (("a", col("a") + lit(1).cast("long")), ("d", col("d"))))
    counted = Recursive(Iterate((variable,), (scan("g"),), (Union((scan("g"), more)),)))
    assert _after(prune_columns, Project(counted, (("a", col("a")),))) == _text("""
        Project(columns=[a: col('a')])
          Recursive
            Iterate
              #1 = Variable 'counted'
              Scan(input=g, columns=[a])
              Union
                Scan(input=g, columns=[a])
                Project(columns=[a: (col('a') + cast(1 as long))])
                  Filter(condition=(col('a') < 3))
                    #1
    """)


def test_neighboring_steps_of_rows_are_one_step_and_a_null_is_no_yes() -> None:
    first = Project(scan("g"), (("x", col("a") + 1), ("d", col("d"))))
    second = Project(first, (("y", col("x") * 2), ("d", col("d"))))
    filtered = Filter(Filter(second, col("y") > 1), _ratio() > 1)
    assert _after(fuse_rows, Project(filtered, (("y", col("y")),))) == _text("""
        Project(columns=[y: col('y')])
          Filter(condition=(coalesce((col('y') > 1), False) & ((cast(10 as long) % col('d')) > 1)))
            Project(columns=[y: ((col('a') + 1) * 2), d: col('d')])
              Scan(input=g)
    """)


# Unsound.


def test_a_global_aggregate_of_no_rows_has_a_row() -> None:
    never = Filter(scan("t"), (col("a") > 5) & (col("a") < 3))
    made = fold_constants([Aggregate(never, (), (("n", Aggregated("count")),))])
    assert isinstance(made[0], Aggregate)


def test_a_condition_is_not_pushed_to_the_side_of_nulls_nor_below_what_is_shared_or_global() -> None:
    outer = Join(scan("t"), scan("u"), "left", (("a", "a"),))
    assert _is_kept(push_predicates, Filter(outer, col("c").is_null()))
    shared = Join(scan("t"), scan("u"), "inner", (("a", "a"),))
    assert _is_kept(push_predicates, Filter(shared, col("c") > 1), shared)
    counted = Aggregate(scan("t"), (), (("n", Aggregated("count")),))
    assert _is_kept(push_predicates, Filter(counted, col("n") > 1))
    top = TopK(scan("t"), 1, (), ("a",))
    assert _is_kept(push_predicates, Filter(top, col("a") > 1))


def test_a_guard_stays_before_what_it_guards() -> None:
    opaque = logical.MapBatches(scan("g"), lambda batch: batch, scan("g").schema)
    renamed = Project(opaque, (("a", col("a")), ("d", col("d"))))
    guarded = Filter(renamed, (col("d") != 0) & (_ratio() > 1))
    assert _after(push_predicates, guarded) == _text("""
        Project(columns=[a: col('a'), d: col('d')])
          Filter(condition=(coalesce((col('d') != 0), False) & ((cast(10 as long) % col('d')) > 1)))
            MapBatches(function=OPAQUE)
              Scan(input=g)
    """).replace("OPAQUE", str(opaque.function))


def test_a_condition_on_a_column_that_a_body_changes_or_of_a_shared_recursion_stays() -> None:
    assert _is_kept(push_into_recursion, Filter(_closure(), col("node") == 1))
    closure = _closure()
    assert _is_kept(push_into_recursion, Filter(closure, col("root") == 1), closure)


def test_a_condition_that_holds_for_nulls_keeps_an_outer_join() -> None:
    outer = Join(scan("t"), scan("u"), "left", (("a", "a"),))
    for condition in (
        col("c").is_null(),
        ps.functions.coalesce(col("c"), lit(1).cast("long")) == 1,
        (col("c") > 1) | (col("b") > 1),
        col("c").eq_null_safe(lit(None).cast("long")),
        when(col("c") > 1, lit(1)).otherwise(2) > 1,
    ):
        assert _is_kept(narrow_joins, Filter(outer, condition)), condition


def test_a_distinct_of_rows_that_can_repeat_stays() -> None:
    assert _is_kept(use_keys, Distinct(scan("t")))
    assert _is_kept(use_keys, Distinct(Project(scan("k"), (("v", col("v")),))))
    assert _is_kept(use_keys, Distinct(Union((scan("k"), scan("k")))))


def test_a_column_below_a_distinct_or_an_open_order_is_kept() -> None:
    assert _is_kept(prune_columns, Project(Distinct(scan("g")), (("a", col("a")),)))
    assert _is_kept(prune_columns, Project(TopK(scan("g"), 1, (), ("a",)), (("a", col("a")),)))


# The optimizer.


def test_rules_work_together_and_say_where_they_fired() -> None:
    joined = Join(scan("t"), scan("u"), "left", (("a", "a"),), name="pairs")
    wanted = Filter(joined, (col("c") > 1) & (col("b") > 2))
    optimized = optimize([Project(wanted, (("b", col("b")),), name="result")])
    assert plan_text(optimized.roots) == _text("""
        Project 'result'(columns=[b: col('b')])
          Join 'pairs'(keys=[a])
            Filter(condition=(col('b') > 2))
              Scan(input=t, kind=weights, marker=w, columns=[a, b])
            Project(columns=[a: col('a')])
              Filter(condition=(col('c') > 1))
                Scan(input=u, kind=weights, marker=w, columns=[a, c])
    """)
    rules = [each.rule for each in optimized.fired[:4]]
    assert rules == ["push_predicates", "narrow_joins", "plain_names", "prune_columns"]
    assert "Join 'pairs'(kind=left, keys=[a]) of" in optimized.fired[1].removed[0]


def test_a_plan_whose_inputs_are_all_needless_still_has_epochs() -> None:
    optimized = optimize([Filter(scan("t"), (col("a") > 5) & (col("a") < 3))])
    assert any(isinstance(each, logical.Scan) for each in logical.walk(optimized.roots))


def test_what_is_optimized_once_does_not_change_again() -> None:
    plan = Project(Filter(_closure(), (col("root") == 1) & (col("node") > 0)), (("node", col("node")),))
    once = optimize([plan])
    assert not optimize(once.roots).fired, indent(plan_text(once.roots), "  ")


# Advice.


def test_sums_begin_at_each_worker_unless_the_keys_are_a_key_and_first_rows_if_none_is_deleted() -> None:
    counted = (("n", Aggregated("count")), ("sum", Aggregated("sum", "b")))
    assert _after(aggregate_in_parts, Aggregate(scan("t"), ("a",), counted)) == _text("""
        Aggregate(keys=[a], aggregates=[[n, count()], [sum, sum(b)]], in_parts=True)
          Scan(input=t, kind=weights, marker=w)
    """)
    assert "in_parts" in _after(aggregate_in_parts, Aggregate(scan("t"), (), counted))
    assert "in_parts" in _after(aggregate_in_parts, TopK(scan("g"), 3, ("a",), ("d desc",)))
    of_key = (("n", Aggregated("count")), ("sum", Aggregated("sum", "v")))
    for kept in (
        Aggregate(scan("k"), ("k",), of_key),
        Aggregate(scan("t"), ("a",), (("most", Aggregated("max", "b")),)),
        Aggregate(scan("t"), ("a",), (("some", Aggregated("sum", "b", where=col("b") > 1)),)),
        TopK(scan("t"), 3, ("a",), ("b desc",)),
        TopK(scan("g"), 3, ("a",), ("d desc",), rank="place"),
        TopK(scan("g"), 3, ("a",), ("d desc",), ties=True),
    ):
        assert _is_kept(aggregate_in_parts, kept)


def test_sums_in_a_recursion_do_not_begin_before_the_exchange() -> None:
    variable = Variable(pa.schema({"a": LONG, "n": LONG}), name="counts")
    edges = Project(scan("g"), (("a", col("a")), ("n", col("d"))))
    body = Aggregate(Union((edges, variable)), ("a",), (("n", Aggregated("count")),))
    assert _is_kept(aggregate_in_parts, Recursive(Iterate((variable,), (edges,), (body,), 3)))
