"""What a change of 1,000 rows costs a view of TPC-H, beside DuckDB and Spark recomputing it.

    .venv/bin/python -m benchmarks.sql.tpch [--scale 0.3] [--only q1 q2 ...] [--epochs 20] [--without-spark]

One JSON line for each query is added to ``results.jsonl`` beside this file, or where ``--results`` says; a
query that has a line there for its scale is not run again, so a run that was stopped continues. A query that
fails is told, and the others are run. At the end docs/benchmarks/tpch.md is made of all lines. At scale 0.3
all queries
are reckoned to take a quarter of an hour on two idle cores, mostly to make and to load tables.

A query runs in a process of its own: it loads the tables in two epochs (``load_s``), then each epoch changes
1,000 rows of those that it reads: orders with their lines come and go, customers, parts, offers and lines are
replaced. ``update_ms`` is the median from sending a change to having that of the view, on one worker,
``worst_ms`` the longest, ``cpu_ms`` and ``worst_cpu_ms`` the same in the processor's time. ``state_mb`` is
what operators keep, ``input_mb`` of it what the inputs keep to refuse a deletion of what is not there.

``duckdb_ms`` is the query over all rows that are there at the end, in tables of DuckDB's own, with two
threads; ``spark_ms`` is the same in Spark over Parquet files, with two slots. ``duckdb_cpu_ms`` and
``spark_cpu_ms`` are the processor's time for it. Of each the best of a few turns counts, and all three
answers are compared. ``times_duckdb`` and the like are how many updates one recomputation is worth.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from contextlib import nullcontext
from pathlib import Path
from time import perf_counter, process_time
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from benchmarks.sql.answers import added_up, rows_of_table
from benchmarks.sql.page import PAGE, RESULTS, measured, page
from benchmarks.sql.tpch_changes import Changes, ChangingTables, declared, tables_in
from benchmarks.sql.tpch_peers import by_duckdb, by_spark
from benchmarks.sql.tpch_queries import NAMES, queries

import pointstamp as ps
from pointstamp.driver.status import status_of

LOADS: Final = 2
CHANGE: Final = 1_000
QUERY_SECONDS_MAX: Final = 900


def main() -> None:
    """Run the queries that have no line yet, and make the page."""
    asked = argparse.ArgumentParser()
    asked.add_argument("--scale", type=float, default=0.3)
    asked.add_argument("--only", nargs="*", default=NAMES)
    asked.add_argument("--epochs", type=int, default=20)
    asked.add_argument("--without-spark", action="store_true")
    asked.add_argument("--results", type=Path, default=RESULTS)
    asked.add_argument("--folder", type=Path, help="keep one query up to date, and leave its tables here")
    asked.add_argument("--trusted", action="store_true", help="with --folder: do not check deletions")
    given = asked.parse_args()
    if given.folder is not None:
        kept = kept_up_to_date(given.only[0], given.scale, given.epochs, given.folder, trusted=given.trusted)
        print(json.dumps(kept))
        return
    failed = run_missing(given)
    if given.results == RESULTS:
        PAGE.write_text(page())
    if failed:
        sys.exit(f"{', '.join(failed)} failed; the same command runs them again.")


def run_missing(given: argparse.Namespace) -> list[str]:
    """Run the queries that have no line yet; those that failed."""
    done = measured(given.results.read_text() if given.results.exists() else "")
    wanted = [name for name in given.only if (given.scale, name) not in done]
    failed = []
    with nullcontext() if given.without_spark or not wanted else _session() as spark:
        for name in wanted:
            try:
                line = json.dumps({"case": name, "scale": given.scale, **compared(name, given, spark)})
            except (AssertionError, subprocess.SubprocessError) as error:
                print(f"{name}: {error}", file=sys.stderr, flush=True)
                failed.append(name)
                continue
            with given.results.open("a") as file:
                file.write(line + "\n")
            print(line, flush=True)
    return failed


def compared(name: str, given: argparse.Namespace, spark: Any) -> dict[str, float]:  # noqa: ANN401 - untyped
    """The figures of one query by all engines."""
    query = queries(given.scale)[name]
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "benchmarks.sql.tpch", "--only", name, "--scale", str(given.scale)]
        command += ["--epochs", str(given.epochs), "--folder", folder]
        ran = subprocess.run(  # noqa: S603 - ourselves
            command, check=True, stdout=subprocess.PIPE, text=True, timeout=QUERY_SECONDS_MAX
        )
        figures: dict[str, float] = json.loads(ran.stdout.splitlines()[-1])
        ours = rows_of_table(pq.read_table(Path(folder) / "result.parquet"))
        figures |= by_duckdb(query, Path(folder), ours, name)
        if spark is not None:
            figures |= by_spark(query, Path(folder), ours, name, spark)
    for peer in ("duckdb", "spark"):
        if f"{peer}_ms" in figures:
            figures[f"times_{peer}"] = figures[f"{peer}_ms"] / figures["update_ms"]
            figures[f"times_{peer}_cpu"] = figures[f"{peer}_cpu_ms"] / figures["cpu_ms"]
    return {key: round(each, 3) for key, each in figures.items()} | {"load": round(os.getloadavg()[0], 1)}


def kept_up_to_date(
    name: str, scale: float, epochs: int, folder: Path, *, trusted: bool = False
) -> dict[str, float]:
    """Load the tables of a query, change them, and leave them and the answer in a folder."""
    query = queries(scale)[name]
    tables = ChangingTables(scale, tables_in(query))
    results: list[pa.Table] = []
    flow = ps.sql(declared(tables.names, trusted=trusted) + query, name=name)
    with flow.open(on_result=lambda _name, _epoch, table: results.append(table)) as session:

        def epoch(number: int, change: Changes) -> tuple[float, float]:
            ready = {name: table.combine_chunks() for name, table in change.items()}
            started, cpu = perf_counter(), process_time()
            for name, table in ready.items():
                session.input(name).send(table)
                session.input(name).advance_to(number + 1)
            session.settle()
            return perf_counter() - started, process_time() - cpu

        loads = [epoch(number, change) for number, change in enumerate(tables.loaded(LOADS))]
        changed, taken = 0, []
        for number in range(LOADS, LOADS + epochs):
            change = tables.change(CHANGE)
            changed += sum(table.num_rows for table in change.values())
            taken.append(epoch(number, change))
        kept = status_of(session).kept
    seconds, cpu_seconds = np.array(taken).T
    load, load_cpu = np.array(loads).sum(axis=0)
    rows = added_up(results)
    schema = pa.schema(list(results[0].schema)[:-1])
    columns = [pa.array([row[n] for row in rows], each.type) for n, each in enumerate(schema)]
    pq.write_table(pa.table(columns, schema=schema), folder / "result.parquet")
    for each in tables.names:
        pq.write_table(tables.there(each), folder / f"{each}.parquet")
    return {
        "rows": sum(tables.there(each).num_rows for each in tables.names),
        "answer_rows": len(rows),
        "load_s": float(load),
        "load_cpu_s": float(load_cpu),
        "changed_rows": changed / epochs,
        "update_ms": float(np.median(seconds)) * 1e3,
        "worst_ms": float(seconds.max()) * 1e3,
        "cpu_ms": float(np.median(cpu_seconds)) * 1e3,
        "worst_cpu_ms": float(cpu_seconds.max()) * 1e3,
        "state_mb": sum(each.size_bytes for each in kept) / 1e6,
        "input_mb": sum(each.size_bytes for each in kept if "border" in each.name) / 1e6,
    }


def _session() -> Any:  # noqa: ANN401 - untyped
    from benchmarks.spark.session import session

    return session("TPC-H")


if __name__ == "__main__":
    main()
