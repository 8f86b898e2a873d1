"""What a stored row takes in memory, against its size in Arrow and 16 bytes.

    .venv/bin/python -m benchmarks.tables.memory [--rows N]

One JSON line for each thing that an operator keeps: its rows, the bytes of a row, ``arrow``, the bytes that
the row's own columns take in Arrow, and ``ratio``: the bytes by those of Arrow and 16 more. Aim: at most 2.
A hash takes 8 bytes, and a row has one of its key and one of itself; the weight takes 8, and an order 8.
"""

import argparse

import numpy as np
import pyarrow as pa
from benchmarks.figures import report

import pointstamp as ps
from pointstamp.driver.status import status_of

EXTRA = 16


def main() -> None:
    """Fill each table and look at what is kept."""
    asked = argparse.ArgumentParser()
    asked.add_argument("--rows", type=int, default=1_000_000)
    count = asked.parse_args().rows
    random = np.random.default_rng(5)
    names = pa.array([f"customer {number:08d}" for number in random.integers(0, count, count)])
    rows = pa.table({"id": np.arange(count), "k": random.integers(0, count // 10, count), "name": names})
    rows = rows.append_column("v", pa.array(random.normal(size=count)))
    flow = ps.Dataflow("memory")
    table = flow.table("rows", rows.schema)
    flow.output("join", table.join(table.select("k", "v"), "k", where=ps.col("id") < 0))
    flow.output("distinct", table.select("k", "name").distinct())
    flow.output("top", table.top(3, "k", by="v desc"))
    flow.output("sums", table.group_by("k").agg(n=ps.count(), total=ps.sum("id")))
    flow.output("floats", table.group_by("k").agg(total=ps.sum("v")).named("floats"))
    flow.output("extremes", table.group_by("k").agg(most=ps.max("id")).named("extremes"))
    columns = {
        "join: left": ["id", "k", "name", "v"],
        "join: right": ["k", "v"],
        "distinct: rows": ["k", "name"],
        "top: rows": ["id", "k", "name", "v"],
        "extremes: greatest of id": ["k", "id"],
    }
    with flow.open() as session:
        session.input("rows").send(rows)
        session.input("rows").advance_to(1)
        session.settle()
        for each in status_of(session).kept:
            size = each.size_bytes / each.rows
            own = rows.select(columns[each.name]).nbytes / count if each.name in columns else None
            ratio = None if own is None else size / (own + EXTRA)
            report(each.name, rows=each.rows, bytes=size, arrow=own, ratio=ratio)


if __name__ == "__main__":
    main()
