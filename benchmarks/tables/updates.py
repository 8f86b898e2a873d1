"""What a change of 1,000 rows costs a table of a million, beside DuckDB and polars from scratch.

    .venv/bin/python -m benchmarks.tables.updates [rows ...] [--only NAME] [--epochs N] [--profile]

One JSON line per query and size: ``first_s`` for the table's first epoch, then the median, 99th percentile
and maximum of the milliseconds from sending a change to having the result's, on one worker in this process;
``best_ms`` is the tenth percentile, and ``cpu_ms`` and ``cpu_max_ms`` the median and the maximum of the
processor's time: they tell more where others use the machine, too.
``aim_ms`` is for a million rows. ``duckdb_ms`` and ``polars_ms`` are the same query over what is there at the
end, with two threads, the tables loaded beforehand: what recomputing costs each time. ``mb`` is the memory of
the process after the last epoch, without the frames of the peers. What was emitted, added up, is compared
with DuckDB's result. For Pathway see ``pathway_peer.py``.
"""

import argparse
import cProfile
import pstats
from time import perf_counter, process_time

import numpy as np
import pyarrow as pa
from benchmarks.figures import report, timed
from benchmarks.tables.cases import (
    CASES,
    Case,
    added_up,
    by_duckdb,
    changes_of,
    check_same,
    flow_of,
    tables_of,
)

CHANGE = 1_000


def main() -> None:
    """Run the queries at the sizes that are asked for."""
    asked = argparse.ArgumentParser()
    asked.add_argument("rows", nargs="*", type=int, default=[1_000_000])
    asked.add_argument("--only")
    asked.add_argument("--epochs", type=int, default=200)
    asked.add_argument("--profile", action="store_true")
    given = asked.parse_args()
    for case in CASES:
        if given.only in (None, case.name):
            for rows in given.rows:
                report(case.name, **measured(case, rows, given.epochs, profiled=given.profile))


def measured(case: Case, rows: int, epochs: int, *, profiled: bool = False) -> dict[str, float]:
    """Measure one query: its figures."""
    tables = tables_of(case, rows)
    results: list[pa.Table] = []
    with flow_of(case).open(on_result=lambda _name, _epoch, table: results.append(table)) as session:
        inputs = {name: session.input(name) for name in tables}

        def epoch(number: int, change: dict[str, pa.RecordBatch]) -> tuple[float, float]:
            started, cpu = perf_counter(), process_time()
            for name, batch in change.items():
                inputs[name].send(batch)
                inputs[name].advance_to(number + 1)
            session.settle()
            return perf_counter() - started, process_time() - cpu

        first = epoch(0, {name: each.first() for name, each in tables.items()})
        changes = changes_of(tables, epochs, CHANGE)
        profile = cProfile.Profile()
        if profiled:
            profile.enable()
        taken, cpu = np.array([epoch(number + 1, change) for number, change in enumerate(changes)]).T * 1e3
        profile.disable()
        resident = _resident_mb()
    if profiled:
        pstats.Stats(profile).sort_stats("tottime").print_stats(25)
    frames = {name: each.frame() for name, each in tables.items()}
    duckdb_s, wanted = timed(lambda: by_duckdb(case, frames))
    polars_s, theirs = timed(lambda: case.polars(*frames.values()))
    check_same(added_up(results), wanted, f"{case.name}: ours and DuckDB")
    check_same(wanted, theirs, f"{case.name}: DuckDB and polars")
    return {
        "rows": rows,
        "first_s": first[0],
        "median_ms": float(np.median(taken)),
        "best_ms": float(np.quantile(taken, 0.1)),
        "cpu_ms": float(np.median(cpu)),
        "cpu_max_ms": float(cpu.max()),
        "p99_ms": float(np.quantile(taken, 0.99)),
        "max_ms": float(taken.max()),
        "aim_ms": case.aim_ms,
        "duckdb_ms": duckdb_s * 1e3,
        "polars_ms": polars_s * 1e3,
        "times_duckdb": duckdb_s * 1e3 / float(np.median(taken)),
        "mb": resident,
    }


def _resident_mb() -> float:
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * 4096 / 1e6


if __name__ == "__main__":
    main()
