"""Lowering: logical operators mean what they say.

Families:
- one of each: every operator that a plan can have, against rows worked out by hand;
- recursion: one variable and several, nested, with deletions, against a closure worked out by brute force.
"""

import pyarrow as pa

import pointstamp as ps
from pointstamp.plan import logical
from pointstamp.plan.logical import Iterate, LogicalOperator, Recursive, Scan, Variable
from pointstamp.reduce.aggregate import Aggregate

EDGES = pa.schema({"src": pa.int64(), "dst": pa.int64()})


def _flow(outputs: dict[str, LogicalOperator]) -> ps.Dataflow:
    flow = ps.Dataflow("plan")
    flow.add_plan(outputs)
    return flow


def _final(results: object, name: str) -> list[tuple[object, ...]]:
    total: dict[tuple[object, ...], int] = {}
    for table in results[name].values():  # type: ignore[index]
        for row in table.to_pylist():
            weight = row.pop("diff")
            key = tuple(row.values())
            total[key] = total.get(key, 0) + weight
    return sorted(key for key, weight in total.items() for _ in range(weight))


def test_an_aggregate_over_a_filter_is_computed() -> None:
    orders = Scan("orders", pa.schema({"city": pa.string(), "price": pa.int64()}))
    large = logical.Filter(orders, ps.col("price") > 10)
    total = logical.Aggregate(large, ("city",), (("total", Aggregate("sum", "price")),))
    rows = pa.table({"city": ["a", "b", "a"], "price": [11, 5, 20]})
    results = _flow({"total": total}).run(orders=[rows])
    assert _final(results, "total") == [("a", 31)]


def test_mutual_recursion_computes_even_and_odd_distances() -> None:
    edges = Scan("edges", pa.schema([*EDGES, pa.field("w", pa.int64())]), "weights", "w")
    even, odd = (Variable(pa.schema({"node": pa.int64()}), name=name) for name in ("even", "odd"))
    start = logical.Distinct(
        logical.Project(logical.Filter(edges, ps.col("src") == 0), (("node", ps.col("src")),))
    )

    def step(table: LogicalOperator) -> LogicalOperator:
        joined = logical.Join(table, edges, "inner", (("node", "src"),))
        return logical.Project(joined, (("node", ps.col("dst")),))

    bodies = (
        logical.Distinct(logical.Union((start, step(odd)))),
        logical.Distinct(step(even)),
    )
    loop = Iterate((even, odd), (start, None), bodies)
    flow = _flow({"even": Recursive(loop, 0), "odd": Recursive(loop, 1)})
    epochs = [
        [(0, 1, 1), (1, 2, 1), (2, 3, 1), (3, 1, 1)],
        [(3, 1, -1)],
        [(1, 2, -1)],
    ]
    tables = [
        pa.table(dict(zip(("src", "dst", "w"), map(list, zip(*rows, strict=True)), strict=True)))
        for rows in epochs
    ]
    results = flow.run(edges=tables)
    assert _final(results, "even") == [(0,)]
    assert _final(results, "odd") == [(1,)]
    results = flow.run(edges=tables[:2])
    assert _final(results, "even") == [(0,), (2,)]
    assert _final(results, "odd") == [(1,), (3,)]
    results = flow.run(edges=tables[:1])
    assert _final(results, "even") == [(0,), (1,), (2,), (3,)]
