"""Expressions that can raise, over joins: they raise for rows that a table contains, and for no others.

A join computes with changes, so it may meet a row with one that was deleted in the same epoch, or in an
earlier one. Brute force says which pairs there are after each epoch, and divides by the same numbers.

- single cases: a pair that is gone, and one that stays, in one batch and in several;
- random tables: conditions of joins of every kind, and expressions over the rows that a join emits;
- loops: a pair of a later round that the epoch deletes there.
"""

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from unittest.mock import patch

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pointstamp as ps
from pointstamp.errors import OperatorError
from pointstamp.expressions.tree import Expression
from pointstamp.flow.physical_stream import PhysicalStream
from pointstamp.flow.plan import How
from pointstamp.incremental import hash_join, joins, operations
from support.table_loops import ROUNDS_MAX, STARTS
from support.table_queries import Epochs, Row, accumulated, changes, put_out, table_of

LEFT = pa.schema({"k": pa.int64(), "a": pa.int64(), "w": pa.int64()})
RIGHT = pa.schema({"k": pa.int64(), "b": pa.int64(), "w": pa.int64()})
RATED = pa.schema({"src": pa.int64(), "dst": pa.int64(), "rate": pa.int64(), "w": pa.int64()})
SEVEN = ps.lit(7)

Make = Callable[[ps.Table, ps.Table], ps.Table]


def found(
    make: Make, left: Epochs, right: Epochs, workers: int = 1, *, in_one_batch: bool = True
) -> list[Counter[Row]] | None:
    """Return a table after each epoch; None if it raises because of a division by zero."""
    flow = ps.Dataflow("test")
    tables = (flow.table(name, schema, weight="w") for name, schema in (("left", LEFT), ("right", RIGHT)))
    flow.output("out", make(*tables))

    def batches(rows: Sequence[Row], schema: pa.Schema) -> pa.Table:
        parts = [rows] if in_one_batch else [[row] for row in rows]
        return pa.concat_tables([table_of([], schema), *(table_of(part, schema) for part in parts)])

    inputs = {
        "left": [batches(rows, LEFT) for rows in left],
        "right": [batches(rows, RIGHT) for rows in right],
    }
    return tables_of(flow, inputs, workers)


def tables_of(
    flow: ps.Dataflow, inputs: dict[str, list[pa.Table]], workers: int
) -> list[Counter[Row]] | None:
    """Return what the output ``out`` contains after each epoch; None for a division by zero."""
    try:
        results = flow.run(inputs, workers=workers)
    except OperatorError as error:
        if "by zero" not in str(error):
            raise
        return None
    return put_out(results["out"], max(map(len, inputs.values())))


# Single cases. The right row with 0 is deleted when, or before, the left row arrives.

TOGETHER = ([[], [(1, 5, 1)]], [[(1, 0, 1)], [(1, 0, -1), (1, 3, 1)]])
EARLIER = ([[], [], [(1, 5, 1)]], [[(1, 0, 1), (1, 3, 1)], [(1, 0, -1)], []])
LEFT_GONE = ([[(1, 5, 1)], [(1, 5, -1)]], [[], [(1, 0, 1)]])
STAYS = ([[], [(1, 5, 1)]], [[(1, 0, 1)], [(1, 3, 1)]])
MAKES: dict[str, Make] = {
    "condition": lambda a, b: a.join(b, "k", where=SEVEN % ps.col("b") == 1),
    "filter": lambda a, b: a.join(b, "k").filter(SEVEN % ps.col("b") == 1),
    "column": lambda a, b: a.join(b, "k").select("k", "a", b=SEVEN % ps.col("b") + 2),
}


@pytest.mark.parametrize("workers", [1, 2, 3])
@pytest.mark.parametrize("make", MAKES.values(), ids=MAKES)
def test_a_pair_raises_only_if_the_table_contains_it(make: Make, workers: int) -> None:
    there = Counter({(1, 5, 3): 1})
    assert found(make, *TOGETHER, workers) == [Counter(), there]
    assert found(make, *EARLIER, workers) == [Counter(), Counter(), there]
    assert found(make, *LEFT_GONE, workers) == [Counter(), Counter()]
    assert found(make, *STAYS, workers) is None


@pytest.mark.parametrize("how", ["left", "right", "full", "semi", "anti"])
def test_the_condition_of_every_join_raises_only_for_pairs_that_the_table_contains(how: How) -> None:
    def make(a: ps.Table, b: ps.Table) -> ps.Table:
        return a.join(b, "k", how=how, where=SEVEN % ps.col("b") == 1).select("k")

    rows: Counter[Row] = Counter() if how == "anti" else Counter({(1,): 1})
    for left, right in (TOGETHER, EARLIER):
        tables = found(make, left, right)
        assert tables is not None
        assert tables[-1] == rows
    assert found(make, *STAYS) is None


# Random tables.

KINDS = ("inner", "left", "right", "full", "semi", "anti")
VALUES = st.integers(0, 3)
ROWS = st.tuples(st.sampled_from([1, 1, 2, None]), VALUES)


def brute(how: str, left: Sequence[Row], right: Sequence[Row]) -> Counter[Row]:
    """Join on equal keys where ``7 % (a - b) == 1``; a remainder has the sign of 7, as in SQL."""
    pairs = [(one, two) for one in left for two in right if one[0] == two[0] and one[0] is not None]
    pairs = [(one, two) for one, two in pairs if math.fmod(7, divisor(one[1] - two[1])) == 1]
    if how in ("semi", "anti"):
        met = {one for one, _ in pairs}
        return Counter(one for one in left if (one in met) == (how == "semi"))
    made = [(*one, two[1]) for one, two in pairs]
    if how in ("left", "full"):
        made += [(*one, None) for one in left if one not in {one for one, _ in pairs}]
    if how in ("right", "full"):
        made += [(two[0], None, two[1]) for two in right if two not in {two for _, two in pairs}]
    return Counter(made)


def divisor(value: int) -> int:
    if value == 0:
        raise ZeroDivisionError
    return value


def expected(make: Callable[[int], Counter[Row]], epochs: int) -> list[Counter[Row]] | None:
    """Return what brute force makes of each epoch; None if it divides by zero for one of them."""
    try:
        return [make(number) for number in range(1, epochs + 1)]
    except ZeroDivisionError:
        return None


def check_condition(
    how: How, left: Epochs, right: Epochs, workers: int, *, in_one_batch: bool = True
) -> None:
    wanted = expected(lambda n: brute(how, accumulated(left[:n]), accumulated(right[:n])), len(left))
    where = SEVEN % (ps.col("a") - ps.col("b")) == 1
    made = found(
        lambda a, b: a.join(b, "k", how=how, where=where), left, right, workers, in_one_batch=in_one_batch
    )
    assert made == wanted


@pytest.mark.parametrize("how", KINDS)
@settings(max_examples=20, deadline=None)
@given(data=st.data(), workers=st.integers(1, 3), epochs=st.integers(1, 5), in_one_batch=st.booleans())
def test_the_condition_of_a_join_raises_only_for_pairs_that_there_are(
    how: How, data: st.DataObject, workers: int, epochs: int, in_one_batch: bool
) -> None:
    left, right = data.draw(changes(ROWS, epochs)), data.draw(changes(ROWS, epochs))
    check_condition(how, left, right, workers, in_one_batch=in_one_batch)


def check_column(how: How, left: Epochs, right: Epochs, workers: int) -> None:
    """A column over a join with another condition, in which a null of the join counts as a 2."""

    def rows(number: int) -> Counter[Row]:
        ours, theirs = accumulated(left[:number]), accumulated(right[:number])
        pairs = [(x, y) for x in ours for y in theirs if x[0] == y[0] and x[0] is not None and x[1] <= y[1]]
        made = [(*x, y[1]) for x, y in pairs]
        made += [(*x, None) for x in ours if how == "left" and x not in {x for x, _ in pairs}]
        if how == "anti":
            made = [x for x in ours if x not in {x for x, _ in pairs}]
        rest = (
            math.fmod(7, divisor(row[1] - (2 if row[-1] is None else row[-1] * (how != "anti"))))
            for row in made
        )
        return Counter((*row, int(each)) for row, each in zip(made, rest, strict=True))

    def make(a: ps.Table, b: ps.Table) -> ps.Table:
        joined = a.join(b, "k", how=how, where=ps.col("a") <= ps.col("b"))
        other = ps.lit(0) if how == "anti" else ps.functions.coalesce(ps.col("b"), ps.lit(2).cast("long"))
        return joined.with_columns(rest=SEVEN % (ps.col("a") - other))

    assert found(make, left, right, workers) == expected(rows, len(left))


@pytest.mark.parametrize("how", ["inner", "left", "anti"])
@settings(max_examples=20, deadline=None)
@given(data=st.data(), workers=st.integers(1, 3), epochs=st.integers(1, 5))
def test_an_expression_over_a_join_raises_only_for_rows_that_there_are(
    how: How, data: st.DataObject, workers: int, epochs: int
) -> None:
    check_column(how, data.draw(changes(ROWS, epochs)), data.draw(changes(ROWS, epochs)), workers)


# Loops.


def reach_rated(starts: ps.Table, edges: ps.Table) -> ps.Table:
    """The nodes that are reached by edges whose rate is not divided by 7."""
    once = starts.distinct()
    where = SEVEN % ps.col("rate") == 1
    return once.iterate(
        lambda x, roots, inner: (
            x.join(inner, {"node": "src"}, where=where).select(node=ps.col("dst")).union(roots).distinct()
        ),
        once,
        edges,
        max_rounds=ROUNDS_MAX,
    )


def reached(starts: Sequence[Row], edges: Sequence[Row]) -> Counter[Row]:
    """Return what is reached; an edge is looked at if its source is."""
    known = {node for (node,) in starts}
    while more := {b for a, b, rate in edges if a in known and 7 % divisor(rate) == 1} - known:
        known |= more
    return Counter((node,) for node in known)


def check_loop(starts: Epochs, edges: Epochs, workers: int) -> None:
    flow = ps.Dataflow("test")
    flow.output(
        "out", reach_rated(flow.table("starts", STARTS, weight="w"), flow.table("edges", RATED, weight="w"))
    )
    inputs = {
        "starts": [table_of(rows, STARTS) for rows in starts],
        "edges": [table_of(r, RATED) for r in edges],
    }
    wanted = expected(lambda n: reached(accumulated(starts[:n]), accumulated(edges[:n])), len(edges))
    assert tables_of(flow, inputs, workers) == wanted


CHAIN = [(0, 1, 3, 1), (1, 2, 3, 1), (2, 3, 3, 1)]
NEW_AND_CUT = [(3, 4, 0, 1), (1, 2, 3, -1)]
"""An edge that cannot be divided by, and the deletion that keeps its source from being reached."""
NEW = [(3, 4, 0, 1)]


@pytest.mark.parametrize("workers", [1, 2, 3])
@pytest.mark.parametrize("edges", [NEW_AND_CUT, NEW_AND_CUT[::-1], NEW], ids=["cut", "cut first", "not cut"])
def test_a_pair_of_a_later_round_raises_only_if_that_round_has_it(edges: list[Row], workers: int) -> None:
    check_loop([[(0, 1)], [], []], [CHAIN, edges, [(2, 3, 3, -1)]], workers)


NODES = st.integers(0, 3)


@settings(max_examples=40, deadline=None)
@given(data=st.data(), workers=st.integers(1, 3), epochs=st.integers(1, 5))
def test_the_condition_of_a_join_in_a_loop_raises_only_for_pairs_that_there_are(
    data: st.DataObject, workers: int, epochs: int
) -> None:
    edge = st.tuples(NODES, NODES, st.sampled_from([3, 3, 3, 2, 7, 0]))
    check_loop(data.draw(changes(st.tuples(NODES), epochs)), data.draw(changes(edge, epochs)), workers)


# Mistakes that these tests find.


def _as_they_are(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    return pa.concat_batches(batches)


@pytest.mark.parametrize(
    ("name", "broken"), [("rows_may_cancel", lambda _: False), ("added_up", _as_they_are)]
)
def test_pairs_that_pass_are_found(name: str, broken: Callable[..., object]) -> None:
    with patch.object(hash_join, name, broken), pytest.raises(AssertionError, match="None == "):
        test_a_pair_raises_only_if_the_table_contains_it(MAKES["filter"], 1)


def test_a_condition_that_is_evaluated_before_its_round_is_found() -> None:
    with patch.object(hash_join, "added_up", _as_they_are), pytest.raises(AssertionError, match="None == "):
        test_a_pair_of_a_later_round_raises_only_if_that_round_has_it(NEW_AND_CUT, 1)


def test_rows_that_are_sent_and_subtracted_are_found() -> None:
    def not_standing(
        side: PhysicalStream, found: PhysicalStream, row: Mapping[str, Expression], name: str, others: str
    ) -> PhysicalStream:
        return operations.subtract(side, joins._standing(side, found, row, name), others)

    with patch.object(joins, "_not_standing", not_standing), pytest.raises(AssertionError, match="None == "):
        check_column("anti", [[(1, 0, 1)]], [[(1, 1, 1)]], 1)
