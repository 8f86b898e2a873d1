"""Flows with tables for simulated worlds, and their rows: joins, groups and loops, under inserts and deletes.

Epochs follow each other closely and delete what the ones before have inserted, so that what is done in
another order than that of epochs shows.
"""

import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import pyarrow as pa

import pointstamp as ps
from support.mutual import random_rights, rights_flow
from support.table_loops import EDGES, STARTS, loop_flow
from support.table_queries import LEFT, RIGHT, Row, table_of
from support.table_times import ROWS, timed_changes, timed_flow


def joined_flow() -> ps.Dataflow:
    """Two inputs, a left join, a reduction and the first rows of each key."""
    flow = ps.Dataflow("joined")
    a, b = (flow.table(name, schema, weight="w") for name, schema in (("a", LEFT), ("b", RIGHT)))
    both = a.join(b, "k", how="left")
    flow.output("both", both)
    flow.output("sums", both.group_by("k").agg(rows=ps.count(), n=ps.sum("n"), least=ps.min("s")))
    flow.output("top", both.select("k", "n").top(2, "k", by="n desc"))
    flow.output("all", b.agg(rows=ps.count(), n=ps.sum("n")))
    return flow


def ordered_flow() -> ps.Dataflow:
    """Functions in an order, one row of each key, and aggregates that need all rows of a key."""
    flow = ps.Dataflow("ordered")
    rows = flow.stream_input("b", RIGHT)
    flow.output(
        "last",
        rows.with_columns(
            total=ps.sum("n").over(partition_by="k", order_by="n", rows=3),
            middle=ps.median("n").over(partition_by="k", order_by="n", rows=3),
        ),
    )
    table = rows.to_table(weight="w")
    places = {"at": ps.row_number(), "total": ps.sum("n"), "after": ps.lead("n")}
    flow.output(
        "places",
        table.with_columns(
            {each: function.over(partition_by="k", order_by="n desc") for each, function in places.items()}
        ),
    )
    flow.output("one", table.distinct("k", by="n desc"))
    flow.output("middle", table.group_by("k").agg(median=ps.median("n"), all=ps.collect_list("n")))
    flow.output("whole", table.agg(rows=ps.count(), most=ps.max_by("k", "n"), spread=ps.stddev("n")))
    return flow


def upserted_flow() -> ps.Dataflow:
    """Upserts by key, the groups that they move between, and whole states."""
    flow = ps.Dataflow("upserted")
    people = flow.table("people", PEOPLE, key="id", order="version", deleted="gone")
    flow.output("people", people)
    flow.output("cities", people.count("city"))
    flow.output("timed", flow.table("timed", PEOPLE, key="id", order="version", deleted="gone", lateness=4))
    flow.output("rows", flow.table("states", "n long", snapshots=True))
    return flow


def growing_flow() -> ps.Dataflow:
    """Tables that never lose a row, of which only the first rows are kept; and those of each epoch alone."""
    flow = ps.Dataflow("growing")
    events = flow.stream_input("events", "k long, n long")
    grown, more = events.to_table(), flow.stream_input("more", "k long, m long").to_table()
    first = grown.top(2, "k", by="n desc")
    flow.output("first", first)
    flow.output("sums of the first", first.group_by("k").agg(n=ps.sum("n"), rows=ps.count()))
    flow.output("equal", grown.top(1, "k", by="n", ties=True))
    flow.output("one", grown.distinct("k", by="n"))
    flow.output("of all", grown.join(more, "k").top(3, by=("m", "n desc")))
    flow.output("of the epoch", events.top(1, "k", by="n desc"))
    return flow


def numbered_flow() -> ps.Dataflow:
    """Places that a condition bounds, which are first rows after optimization."""
    return ps.sql(
        """
        create view latest as select k, n from events
            qualify row_number() over (partition by k order by n desc) <= 2;
        create view least as select * from (
            select k, n, row_number() over (partition by k order by n) as place from events
        ) s where place = 1;
        create view most as select e.k, e.n, m.m from events e join more m on e.k = m.k
            order by m.m desc, e.n limit 3;
        """,
        events="k long, n long",
        more="k long, m long",
    )


def keyed_flow() -> ps.Dataflow:
    """Upserts whose order is that of epochs, and what is made of their table."""
    flow = ps.Dataflow("keyed")
    people = flow.table("people", PEOPLE, key="id", deleted="gone")
    flow.output("people", people)
    flow.output("cities", people.group_by("city").agg(rows=ps.count(), latest=ps.max("version")))
    flow.output("first", people.top(1, "city", by="version desc"))
    return flow


def beside_flow() -> ps.Dataflow:
    """Rows beside others: looked up once, all pairs, the nearest by n; and a table that comes out by key."""
    flow = ps.Dataflow("beside")
    a, b = (flow.table(name, schema, weight="w") for name, schema in (("a", LEFT), ("b", RIGHT)))
    events = flow.stream_input("events", "k long, n long")
    flow.output("found", events.lookup(b, "k", how="left"))
    flow.output("pairs", a.select("k", "s").join(b, how="cross"))
    flow.output("nearest", events.to_table().join_asof(b, "k", at="n", direction="nearest", how="left"))
    flow.output("upserts", b.group_by("k").agg(n=ps.max("n")).upserts("k"))
    return flow


def shared_flow() -> ps.Dataflow:
    """One table by one key in several places: beside itself, two others and events, and twice in a loop."""
    flow = ps.Dataflow("shared")
    a, b = (flow.table(name, schema, weight="w") for name, schema in (("a", LEFT), ("b", RIGHT)))
    events = flow.stream_input("events", "k long, n long")
    flow.output("with itself", b.join(b, "k"))
    both = a.join(b, "k", how="full")
    flow.output("both", both)
    flow.output("after", both.select("k", m=ps.col("n")).join(b, "k", where=ps.col("m") <= ps.col("n")))
    flow.output("found", events.lookup(b, "k"))
    flow.output("without", a.join(b, "k", how="anti"))
    flow.output("rest", b.except_(b.filter(ps.col("n") > 1)))
    flow.output("in common", b.intersect(b.filter(ps.col("n") > 1)))
    flow.output("first", b.top(1, "k", by="n desc").union(b.distinct().top(2, "k", by="n")))
    flow.output("firsts", b.top(2, "k", by="n desc"))

    def longer(keys: ps.Table, b: ps.Table) -> ps.Table:
        steps = keys.join(b, "k").select(k=ps.col("n"))
        return keys.union(steps).union(steps.join(b, "k").select(k=ps.col("n"))).distinct()

    flow.output("reached", a.select("k").distinct().iterate(longer, b))
    return flow


def begun_flow() -> ps.Dataflow:
    """Sums of a table that loses rows, and first rows of one that only grows: both begin at each worker."""
    flow = ps.Dataflow("begun")
    a = flow.table("a", LEFT, weight="w")
    events = flow.table("events", "k long, n long")
    flow.output("sums", a.group_by("k").agg(rows=ps.count(), n=ps.sum("v"), mean=ps.mean("v")))
    flow.output("all", a.agg(rows=ps.count(), n=ps.sum("v")))
    flow.output("firsts", events.top(2, "k", by="n desc"))
    flow.output("first", events.top(1, by="n"))
    return flow


PEOPLE = pa.schema({"id": pa.int64(), "city": pa.string(), "version": pa.int64(), "gone": pa.bool_()})

FLOWS: dict[str, Callable[[], ps.Dataflow]] = {
    "joined": joined_flow,
    "begun": begun_flow,
    "ordered": ordered_flow,
    "upserted": upserted_flow,
    "beside": beside_flow,
    "shared": shared_flow,
    "growing": growing_flow,
    "numbered": numbered_flow,
    "reach": lambda: loop_flow("reach"),
    "walks": lambda: loop_flow("walks"),
    "parts": lambda: loop_flow("parts"),
    "rights": rights_flow,
    "timed": lambda: timed_flow("count"),
}

BY_EPOCH: dict[str, Callable[[], ps.Dataflow]] = {"keyed": keyed_flow}
"""Flows of which rows must stay in their epochs, so they are not for worlds that gather epochs."""


def inputs_of(name: str, seed: int = 0, epochs: int = 5) -> dict[str, Any]:
    """The rows of a flow, in epochs."""
    rng = random.Random(seed)
    if name in ("joined", "beside", "shared", "begun"):
        left = _changes(rng, epochs, lambda: (rng.randrange(3), rng.choice("ab"), rng.choice([0.5, None])))
        right = _changes(rng, epochs, lambda: (rng.choice([0, 1, 2, None]), rng.randrange(4)))
        made: dict[str, Any] = {
            "a": [table_of(e, LEFT) for e in left],
            "b": [table_of(e, RIGHT) for e in right],
        }
        if name == "begun":
            del made["b"]
        if name != "joined":
            made["events"] = [
                [{"k": rng.randrange(3), "n": rng.randrange(4)} for _ in range(2)] for _ in range(epochs)
            ]
        return made
    if name == "ordered":
        # The first epoch is empty, so that there is nothing but the row of no rows.
        rows = _changes(rng, epochs - 1, lambda: (rng.choice([0, 1, None]), rng.randrange(4)))
        return {"b": [table_of(e, RIGHT) for e in [[], *rows]]}
    if name in ("growing", "numbered"):
        return {
            table: [
                [{"k": rng.randrange(3), column: rng.randrange(5)} for _ in range(rng.randrange(4))]
                for _ in range(epochs)
            ]
            for table, column in (("events", "n"), ("more", "m"))
        }
    if name == "keyed":
        return {"people": [table_of(_once_each(rows), PEOPLE) for rows in _upserts(rng, epochs)]}
    if name == "upserted":
        states = [[{"n": rng.randrange(5)} for _ in range(3)] for _ in range(epochs)]
        return {
            "people": [table_of(rows, PEOPLE) for rows in _upserts(rng, epochs)],
            "timed": [table_of(rows, PEOPLE) for rows in _upserts(rng, epochs)],
            "states": states,
        }
    if name == "rights":
        return random_rights(rng, epochs)
    if name == "timed":
        return {"rows": [table_of(rows, ROWS) for rows in timed_changes(seed, epochs)]}
    edges, starts = loop_changes(name, seed, epochs)
    return {"edges": [table_of(e, EDGES) for e in edges], "starts": [table_of(e, STARTS) for e in starts]}


def loop_changes(name: str, seed: int, epochs: int = 5) -> tuple[list[list[Row]], list[list[Row]]]:
    """The changes of edges and starts, in epochs."""
    rng = random.Random(seed)
    edges = _changes(rng, epochs, lambda: _edge(rng, 6, forward=name == "walks"), 6)
    return edges, _changes(rng, epochs, lambda: (rng.randrange(2),), 1)


def _edge(rng: random.Random, nodes: int, *, forward: bool) -> Row:
    one, other = rng.sample(range(nodes), 2)
    return (min(one, other), max(one, other)) if forward else (one, other)


def _changes(rng: random.Random, epochs: int, row: Callable[[], Row], most: int = 4) -> list[list[Row]]:
    there: Counter[Row] = Counter()
    made = []
    for _ in range(epochs):
        gone = rng.sample(sorted(there.elements(), key=repr), min(there.total(), rng.randrange(most)))
        new = [row() for _ in range(rng.randrange(1, most + 1))]
        there.subtract(gone)
        there.update(new)
        made.append([(*each, -1) for each in gone] + [(*each, 1) for each in new])
    return made


def _once_each(rows: list[Row]) -> list[Row]:
    """The last row of each key, for keys whose rows of one epoch have no order."""
    return list({row[0]: row for row in rows}.values())


def _upserts(rng: random.Random, epochs: int) -> list[list[Row]]:
    """Versions that grow, of which some come an epoch later than they should, and some twice."""
    return [
        [
            (rng.randrange(4), rng.choice("xyz"), epoch * 3 + rng.randrange(-4, 3), rng.random() < 0.4)
            for _ in range(4)
        ]
        for epoch in range(epochs)
    ]
