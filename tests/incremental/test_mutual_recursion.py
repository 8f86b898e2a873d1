"""Tables that are made of each other: ``ps.iterate`` with several tables, beside brute force.

Families:
- who may read what, with groups in groups and folders in folders: rights that are given and taken back, over
  random epochs, with inputs that arrive together and one by one;
- even and odd steps, where one table begins without rows;
- misuse.
"""

import random
from collections import Counter
from collections.abc import Callable
from itertools import pairwise

import pyarrow as pa
import pytest

import pointstamp as ps
from pointstamp.errors import FlowError, LoopError, SchemaError
from pointstamp.plan.logical import Iterate, walk
from support.mutual import INPUTS, Facts, brute_rights, rights_flow
from support.table_queries import put_out, table_of


def _changes(before: Facts, after: Facts) -> dict[str, list[tuple[str, str, int]]]:
    """The rows of each input with their weights between two moments."""
    return {
        name: [(*row, 1) for row in sorted(after[name] - before[name])]
        + [(*row, -1) for row in sorted(before[name] - after[name])]
        for name in INPUTS
    }


def _history(chance: random.Random, epochs: int) -> list[Facts]:
    """Facts that come and go; groups and folders may be in a cycle."""
    users, groups = ["u1", "u2", "u3"], ["g1", "g2", "g3", "g4"]
    folders, documents = ["f1", "f2", "f3"], ["d1", "d2"]
    possible = {
        "direct": [(g, u) for g in groups for u in users],
        "nested": [(g, h) for g in groups for h in groups],
        "grants": [(item, g) for item in (*folders, *documents) for g in groups],
        "parents": [(item, f) for item in (*folders, *documents) for f in folders],
        "owners": [(g, f) for g in groups for f in folders],
    }
    there: Facts = {name: set() for name in INPUTS}
    history = [there]
    for _ in range(epochs):
        there = {name: set(rows) for name, rows in there.items()}
        for name in INPUTS:
            for row in chance.sample(possible[name], chance.randrange(4)):
                there[name] ^= {row}
        history.append(there)
    return history


def _fed(history: list[Facts], *, one_by_one: bool) -> tuple[dict[str, list[pa.Table]], list[Facts]]:
    """The rows of each epoch, and what is there after it; one by one each input has epochs of its own."""
    moments: list[Facts] = [history[0]]
    for before, after in pairwise(history):
        if one_by_one:
            current = dict(before)
            for name in INPUTS:
                current = {**current, name: after[name]}
                moments.append(current)
        else:
            moments.append(after)
    changes = [_changes(before, after) for before, after in pairwise(moments)]
    fed = {name: [table_of(each[name], schema) for each in changes] for name, schema in INPUTS.items()}
    return fed, moments[1:]


@pytest.mark.parametrize("one_by_one", [False, True], ids=["together", "one by one"])
@pytest.mark.parametrize("seed", range(12))
def test_rights_are_those_of_brute_force_when_some_are_taken_back(seed: int, one_by_one: bool) -> None:
    history = _history(random.Random(seed), 6)
    fed, moments = _fed(history, one_by_one=one_by_one)
    results = rights_flow().run(fed, workers=1 + seed % 3)
    totals = {name: put_out(results[name], len(moments)) for name in ("members", "viewers")}
    for epoch, facts in enumerate(moments):
        members, viewers = brute_rights(facts)
        assert totals["members"][epoch] == Counter(members), f"seed {seed}, epoch {epoch}"
        assert totals["viewers"][epoch] == Counter(viewers), f"seed {seed}, epoch {epoch}"


def test_histories_have_rights_by_way_of_both_tables_and_revocations() -> None:
    """The test above would be weak if nobody ever had a right by recursion, or lost one."""
    by_recursion = lost = 0
    for seed in range(12):
        history = _history(random.Random(seed), 6)
        rights = [brute_rights(facts)[1] for facts in history]
        lost += sum(bool(before - after) for before, after in pairwise(rights))
        by_recursion += sum(
            bool(found - {(i, u) for i, g in facts["grants"] for h, u in facts["direct"] if h == g})
            for facts, found in zip(history, rights, strict=True)
        )
    assert by_recursion > 20
    assert lost > 10


NODE = pa.schema({"node": pa.int64()})


def _step(table: ps.Table, edges: ps.Table) -> ps.Table:
    return table.join(edges, {"node": "src"}).select(node=ps.col("dst")).distinct()


def _edges_and_starts(flow: ps.Dataflow) -> tuple[ps.Table, ps.Table]:
    edges = flow.table("edges", "src long, dst long, w long", weight="w")
    return edges, flow.table("starts", "node long, w long", weight="w")


def test_a_table_that_begins_without_rows_is_filled_by_the_others() -> None:
    flow = ps.Dataflow("turns")
    edges, starts = _edges_and_starts(flow)
    found = ps.iterate(
        {"even": "node long", "odd": NODE},
        lambda even, odd, edges, starts: {
            "odd": _step(even, edges),
            "even": _step(odd, edges).union(starts).distinct(),
        },
        *(edges, starts),
        max_rounds=20,
        name="by turns",
    )
    assert list(found) == ["even", "odd"]
    for name, table in found.items():
        flow.output(name, table)
    rows = {
        "edges": [pa.table({"src": [0, 1, 2], "dst": [1, 2, 0], "w": [1, 1, 1]}), _row(2, 0, -1)],
        "starts": [pa.table({"node": [0], "w": [1]})],
    }
    results = flow.run(rows)
    evens, odds = (put_out(results[name], 2) for name in ("even", "odd"))
    assert [sorted(each) for each in evens] == [[(0,), (1,), (2,)], [(0,), (2,)]]
    assert [sorted(each) for each in odds] == [[(0,), (1,), (2,)], [(1,)]]
    loops = {each for each in walk(list(flow.logical_plan.values())) if isinstance(each, Iterate)}
    assert [[each.name for each in loop.variables] for loop in loops] == [["even", "odd"]]


def _row(src: int, dst: int, weight: int) -> pa.Table:
    return pa.table({"src": [src], "dst": [dst], "w": [weight]})


def test_a_recursion_that_needs_more_rounds_is_an_error() -> None:
    flow = ps.Dataflow("grows")
    _, starts = _edges_and_starts(flow)
    made = ps.iterate(
        {"a": starts, "b": starts},
        lambda a, b: {"a": b.select(node=ps.col("node") + 1), "b": a},
        max_rounds=5,
    )
    flow.output("a", made["a"])
    with pytest.raises(LoopError, match="5"):
        flow.run(starts=[pa.table({"node": [0], "w": [1]})], edges=[])


MISUSE: list[tuple[Callable[[ps.Table, ps.Table], object], type[Exception], str]] = [
    (lambda a, _: ps.iterate({}, dict, a), FlowError, "needs starts by name"),
    (lambda *_: ps.iterate({"a": NODE}, lambda a: {"a": a}), FlowError, "reads no table"),
    (lambda a, _: ps.iterate({"a": a}, lambda a: a), FlowError, "tables by name, got Table"),
    (lambda a, _: ps.iterate({"a": a, "b": a}, lambda a, b: {"a": b}), FlowError, r"for \['a'\]"),
    (lambda a, e: ps.iterate({"a": a}, lambda a, e: {"a": e}, e), SchemaError, "same columns"),
    (lambda a, e: ps.iterate({"a": a}, lambda a: {"a": a.join(e, {"node": "src"})}), FlowError, "one scope"),
    (lambda a, _: ps.iterate({"a": a}, lambda a: {"a": a.changes()}), FlowError, "needs a table"),
]


@pytest.mark.parametrize(("ask", "kind", "said"), MISUSE)
def test_misuse_is_rejected_where_it_is_written(
    ask: Callable[[ps.Table, ps.Table], object], kind: type[Exception], said: str
) -> None:
    edges, starts = _edges_and_starts(ps.Dataflow("misuse"))
    with pytest.raises(kind, match=said):
        ask(starts, edges)
