"""A recursive view under deletions, beside Spark's own ``with recursive`` in batch.

    .venv/bin/python -m benchmarks.sql.reachability [--nodes 100000] [--epochs 20] [--without-spark]

Which parts does a part consist of? Every node but a few has one parent, an earlier node, so the edges are
trees; asked is which nodes are reached from the first one, and how far away they are. Each epoch gives 50
nodes another parent: 50 edges go, and 50 come. The text is the same for both, with UNION ALL, because Spark
has no other. One JSON line: ``load_s`` for all edges, the median and the tenth percentile of the milliseconds
of an epoch, on one worker, and ``spark_ms`` for all edges that are there at the end, from Parquet, the best
of three turns, with the limits of Spark's recursion raised. Both answers are compared.
"""

import argparse
import tempfile
from pathlib import Path
from time import perf_counter
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
from benchmarks.figures import report, timed
from benchmarks.sql.answers import Rows, added_up, check_same

import pointstamp as ps

MOVED: Final = 50
TURNS: Final = 3
QUERY: Final = """
    with recursive r(node, far) as (
        select dst, cast(1 as long) from edges where src = 0
        union all select e.dst, r.far + 1 from r join edges e on r.node = e.src)
    select node, far from r"""

Parents = npt.NDArray[np.int64]


def main() -> None:
    """Measure, and print one line."""
    asked = argparse.ArgumentParser()
    asked.add_argument("--nodes", type=int, default=100_000)
    asked.add_argument("--epochs", type=int, default=20)
    asked.add_argument("--without-spark", action="store_true")
    given = asked.parse_args()
    random = np.random.default_rng(3)
    nodes = np.arange(1, given.nodes)
    parents = random.integers(0, nodes)
    flow = ps.sql("create table edges (src long, dst long, w long) tblproperties ('weight' = 'w');" + QUERY)
    results: list[pa.Table] = []
    with flow.open(on_result=lambda _name, _epoch, table: results.append(table)) as session:

        def epoch(number: int, change: pa.Table) -> float:
            begun = perf_counter()
            session.input("edges").send(change)
            session.input("edges").advance_to(number + 1)
            session.settle()
            return perf_counter() - begun

        load = epoch(0, _edges(nodes, parents, 1))
        taken = [epoch(number + 1, _moved(random, nodes, parents)) for number in range(given.epochs)]
    ours = added_up(results)
    spark_ms = None if given.without_spark else _by_spark(_edges(nodes, parents, 1), ours)
    update_ms = float(np.median(taken)) * 1e3
    report(
        "reachability",
        nodes=given.nodes,
        reached=len(ours),
        changed_rows=2 * MOVED,
        load_s=load,
        update_ms=update_ms,
        best_ms=float(np.quantile(taken, 0.1)) * 1e3,
        spark_ms=spark_ms,
        times_spark=None if spark_ms is None else spark_ms / update_ms,
    )


def _edges(nodes: Parents, parents: Parents, weight: int) -> pa.Table:
    return pa.table({"src": parents, "dst": nodes, "w": np.full(len(nodes), weight)})


def _moved(random: np.random.Generator, nodes: Parents, parents: Parents) -> pa.Table:
    """Some nodes get other parents."""
    at = random.choice(len(nodes), MOVED, replace=False)
    gone = _edges(nodes[at], parents[at].copy(), -1)
    parents[at] = random.integers(0, nodes[at])
    return pa.concat_tables([gone, _edges(nodes[at], parents[at], 1)])


def _by_spark(edges: pa.Table, ours: Rows) -> float:
    from benchmarks.spark.session import session

    taken = []
    with tempfile.TemporaryDirectory() as folder, session("reachability") as spark:
        pq.write_table(edges, Path(folder) / "edges.parquet")
        spark.read.parquet(f"{folder}/edges.parquet").createOrReplaceTempView("edges")
        spark.conf.set("spark.sql.cteRecursionRowLimit", str(100_000_000))
        for _ in range(TURNS):
            seconds, found = timed(lambda: spark.sql(QUERY).collect())
            taken.append(seconds)
        check_same(ours, [tuple(row) for row in found], "ours and Spark's")
    return min(taken) * 1e3


if __name__ == "__main__":
    main()
