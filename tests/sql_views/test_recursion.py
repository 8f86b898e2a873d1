"""Recursive views with deletions are what a fixpoint from scratch says, after every epoch.

- reachability, same generation and bill of materials against DuckDB's own WITH RECURSIVE;
- common tables and views that refer to each other, against one recursion of DuckDB, and brute force;
- shortest paths with min in the recursion, which SQL engines refuse or do not end, against Bellman and Ford.
"""

from collections import Counter
from random import Random
from typing import Any

import pyarrow as pa
import pytest

import pointstamp as ps
from pointstamp.errors import PointstampError, SqlError
from support.batch_answers import Fed, judge
from support.mutual import INPUTS, Facts, brute_rights, random_rights
from support.table_queries import put_out

EDGES = "create table edges (src long, dst long, cost long, w long) tblproperties ('weight' = 'w');\n"

REACHED = """
    with recursive r(node) as (
        select 1 as node from edges where src = 1
        union select e.dst from r join edges e on r.node = e.src)
    select node from r"""

GENERATIONS = """
    with recursive same(a, b) as (
        select p.dst, q.dst from edges p join edges q on p.src = q.src
        union select p.dst, q.dst from same s join edges p on s.a = p.src join edges q on s.b = q.src)
    select a, b from same"""

PARTS = """
    with recursive parts(whole, part, n) as (
        select src, dst, cost from edges
        union all select p.whole, e.dst, p.n * e.cost from parts p join edges e on p.part = e.src)
    select whole, part, sum(n) as n, count(*) as ways from parts group by whole, part"""

SHORTEST = """
    with recursive d(node, cost) as (
        select src, cast(0 as long) from edges where src = 1
        union select e.dst, min(d.cost + e.cost) from d join edges e on d.node = e.src group by e.dst)
    select node, min(cost) as cost from d group by node"""


def changes(seed: int, epochs: int, *, forward: bool) -> Fed:
    """Random edges that come and go; going forward only, they have no cycle."""
    random = Random(seed)
    there: list[tuple[int, int, int]] = []
    made: dict[str, list[pa.Table]] = {"edges": []}
    after: dict[str, list[pa.Table]] = {"edges": []}
    for _ in range(epochs):
        gone = [each for each in there if random.random() < 0.35]
        new = []
        for _ in range(6):
            src, dst = random.randrange(1, 7), random.randrange(1, 7)
            if forward and src >= dst:
                src, dst = min(src, dst), max(src, dst) + 1
            new.append((src, dst, random.randrange(1, 5)))
        there = [*there, *new]
        for each in gone:
            there.remove(each)
        made["edges"].append(_table([(*each, 1) for each in new] + [(*each, -1) for each in gone], "w"))
        after["edges"].append(_table(there))
    return Fed(made, after)


def _table(rows: list[tuple[Any, ...]], *more: str) -> pa.Table:
    names = ["src", "dst", "cost", *more]
    return pa.table({name: pa.array([row[n] for row in rows], pa.int64()) for n, name in enumerate(names)})


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("query", [REACHED, GENERATIONS], ids=["reached", "generations"])
def test_a_recursive_view_is_duckdbs_after_every_deletion(query: str, seed: int) -> None:
    assert judge(ps.sql(EDGES + query), query, changes(seed, 5, forward=False), 1 + seed % 2) == 5


@pytest.mark.parametrize("seed", range(3))
def test_with_union_all_every_way_counts(seed: int) -> None:
    assert judge(ps.sql(EDGES + PARTS), PARTS, changes(seed, 5, forward=True), 1 + seed % 2) == 5


def test_with_union_all_a_cycle_is_an_error_after_so_many_rounds() -> None:
    flow = ps.sql(EDGES + PARTS, max_rounds=10)
    with pytest.raises(PointstampError, match="round"):
        flow.run(edges=[_table([(1, 2, 1, 1), (2, 1, 1, 1)], "w")])


@pytest.mark.parametrize("seed", range(4))
def test_shortest_paths_follow_edges_that_come_and_go(seed: int) -> None:
    fed = changes(seed, 5, forward=False)
    results = ps.sql(EDGES + SHORTEST).run(edges=fed.changes["edges"], workers=1 + seed % 3)["result"]
    so_far: dict[tuple[int, int], int] = {}
    for epoch, there in enumerate(fed.there["edges"]):
        for row in results[epoch].to_pylist():
            key = row["node"], row["cost"]
            so_far[key] = so_far.get(key, 0) + row["diff"]
        found = {key for key, weight in so_far.items() if weight}
        assert all(weight in (0, 1) for weight in so_far.values())
        assert found == set(bellman_ford(there.to_pylist()).items())


def bellman_ford(edges: list[dict[str, int]]) -> dict[int, int]:
    costs = {1: 0} if any(each["src"] == 1 for each in edges) else {}
    for _ in range(len(edges) + 1):
        for each in edges:
            if each["src"] in costs:
                found = costs[each["src"]] + each["cost"]
                costs[each["dst"]] = min(found, costs.get(each["dst"], found))
    return costs


# Recursions that refer to each other.

TURNS = """
    with recursive even(node) as (
        select src from edges where src = 1
        union select e.dst from odd o join edges e on o.node = e.src),
    odd as (select e.dst as node from even v join edges e on v.node = e.src)
    select node, 0 as odd from even union all select node, 1 from odd"""

TURNS_IN_ONE = """
    with recursive turns(node, odd) as (
        select src, 0 from edges where src = 1
        union select e.dst, 1 - t.odd from turns t join edges e on t.node = e.src)
    select node, odd from turns"""
"""The same for DuckDB, which has no recursions that refer to each other."""


@pytest.mark.parametrize("seed", range(4))
def test_recursions_that_refer_to_each_other_are_duckdbs_one_recursion(seed: int) -> None:
    assert judge(ps.sql(EDGES + TURNS), TURNS_IN_ONE, changes(seed, 5, forward=False), 1 + seed % 2) == 5


RIGHTS = """
    create view members as
        select grp, user from direct
        union select n.grp, m.user from nested n join members m on n.sub = m.grp
        union select o.grp, v.user from owners o join viewers v on o.folder = v.item;
    create view viewers(item, user) as
        select g.item, m.user from grants g join members m on g.grp = m.grp
        union select p.item, v.user from parents p join viewers v on p.folder = v.item;
    create view count_of_viewers as select item, count(*) as n from viewers group by item;
"""


@pytest.mark.parametrize("seed", range(6))
def test_views_of_one_text_that_refer_to_each_other_are_brute_forces(seed: int) -> None:
    tables = "".join(
        f"create table {name} ({schema.names[0]} string, {schema.names[1]} string, w long) "
        "tblproperties ('weight' = 'w');\n"
        for name, schema in INPUTS.items()
    )
    fed = random_rights(Random(seed), 6)
    results = ps.sql(tables + RIGHTS).run(fed, workers=1 + seed % 3)
    totals = {name: put_out(results[name], 6) for name in ("members", "viewers", "count_of_viewers")}
    facts: Facts = {name: set() for name in INPUTS}
    for epoch in range(6):
        for name, epochs in fed.items():
            for row in epochs[epoch].to_pylist():
                *pair, weight = row.values()
                (facts[name].add if weight > 0 else facts[name].discard)((pair[0], pair[1]))
        members, viewers = brute_rights(facts)
        assert totals["members"][epoch] == Counter(members)
        assert totals["viewers"][epoch] == Counter(viewers)
        assert totals["count_of_viewers"][epoch] == Counter(Counter(item for item, _ in viewers).items())


MUTUAL_REFUSED = [
    ("a(n) as (select n from b), b as (select n from a)", "the column types of"),
    ("a as (select src as n from edges union all select n from b), b as (select n from a)", "UNION ALL"),
    ("a as (select src as n from edges union select n from b), b as (select n, 1 as m from a union "
     "select src, dst from edges where src not in (select n from a))", "subquery"),
    ("a as (select src as n from edges union select n from b), b as (select src as n from edges except "
     "select n from a)", "EXCEPT"),
    ("a as (select src as n from edges union select n, 1 from b), b as (select n from a)", "2 columns"),
    ("a as (select src as n from edges union select count(n) from b), b as (select n from a)", "count"),
]  # fmt: skip


@pytest.mark.parametrize(("tables", "said"), MUTUAL_REFUSED)
def test_what_recursions_that_refer_to_each_other_cannot_be_is_said_with_its_place(
    tables: str, said: str
) -> None:
    with pytest.raises(SqlError, match=f"^line .*{said}"):
        ps.sql(EDGES + f"with recursive {tables} select * from a")  # noqa: S608 - texts of our own


def test_a_common_table_between_two_that_need_each_other_may_read_them() -> None:
    query = """
        with recursive even(node) as (
            select src from edges where src = 1
            union select e.dst from odd o join edges e on o.node = e.src),
        far as (select node from even where node > 2),
        odd as (select e.dst as node from even v join edges e on v.node = e.src)
        select node from far"""
    wanted = "select node from turns where odd = 0 and node > 2"
    one = TURNS_IN_ONE.replace("select node, odd from turns", wanted)
    assert judge(ps.sql(EDGES + query), one, changes(1, 4, forward=False), 2) == 4
