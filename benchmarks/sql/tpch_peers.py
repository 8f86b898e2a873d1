"""DuckDB and Spark working a query of TPC-H out again, over the tables that a folder has as Parquet files.

Both have two threads. DuckDB has the rows in tables of its own, Spark reads the files. Of a few turns the
best counts, in wall time and in the processor's time.
"""

from collections.abc import Callable
from pathlib import Path
from time import process_time
from typing import Any, Final

import duckdb
import pyarrow.parquet as pq
from benchmarks.figures import timed
from benchmarks.sql.answers import Rows, check_same, rows_of_table
from benchmarks.sql.tpch_changes import tables_in

TURNS_MAX: Final = 3
TURN_SECONDS_MAX: Final = 10.0
"""When so much time has passed there is no other turn."""


def by_duckdb(query: str, folder: Path, ours: Rows, name: str) -> dict[str, float]:
    """The figures of DuckDB; AssertionError if its answer is another."""
    engine = duckdb.connect(config={"threads": 2})
    for table in tables_in(query):
        engine.execute(f"create table {table} as from '{folder / table}.parquet'")
    columns = ", ".join(pq.read_schema(folder / "result.parquet").names)
    text = f"select {columns} from ({query})"  # noqa: S608 - our own text

    def check(found: Any) -> None:  # noqa: ANN401 - untyped
        check_same(ours, rows_of_table(found), f"{name}: ours and DuckDB's")

    seconds, cpu_seconds = _best(lambda: engine.sql(text).to_arrow_table(), process_time, check)
    return {"duckdb_ms": seconds * 1e3, "duckdb_cpu_ms": cpu_seconds * 1e3}


def by_spark(query: str, folder: Path, ours: Rows, name: str, spark: Any) -> dict[str, float]:  # noqa: ANN401 - untyped
    """The figures of Spark; AssertionError if its answer is another."""
    for table in tables_in(query):
        spark.read.parquet(str(folder / f"{table}.parquet")).createOrReplaceTempView(table)
    java = spark._jvm.java.lang.ProcessHandle.current()  # noqa: SLF001 - the way to Java that PySpark has

    def cpu() -> float:
        return float(java.info().totalCpuDuration().get().toNanos()) / 1e9

    def check(found: Any) -> None:  # noqa: ANN401 - untyped
        check_same(ours, [tuple(row) for row in found], f"{name}: ours and Spark's")

    seconds, cpu_seconds = _best(lambda: spark.sql(query).collect(), cpu, check)
    return {"spark_ms": seconds * 1e3, "spark_cpu_ms": cpu_seconds * 1e3}


def _best(
    ask: Callable[[], Any], cpu: Callable[[], float], check: Callable[[Any], None]
) -> tuple[float, float]:
    """The best seconds of some turns, and the best of the processor's; the last answer is checked."""
    taken: list[tuple[float, float]] = []
    found = None
    while len(taken) < TURNS_MAX and sum(each for each, _ in taken) < TURN_SECONDS_MAX:
        begun = cpu()
        seconds, found = timed(ask)
        taken.append((seconds, cpu() - begun))
    check(found)
    return min(each for each, _ in taken), min(each for _, each in taken)
