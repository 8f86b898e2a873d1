"""What a change of 1 % of the facts costs a view of TPC-DS, beside Spark recomputing it.

    .venv/bin/python -m benchmarks.views.tpcds [--scale 0.1] [--only 1 2 ...] [--epochs 5]

One JSON line for each query is added to ``results.jsonl`` beside this file, or where ``--results`` says; a
query that has a line there for its scale is not run again, so a run that was stopped continues. A view that
is rejected has a line with the reason. At the end docs/benchmarks/views.md is made of all lines.

Each query is a text in Spark's SQL that ``ps.views`` keeps up to date on one worker. ``analysis_ms`` is what
Spark's analyzer takes, ``define_ms`` what the definition of the view takes besides. The tables are loaded in
two epochs (``load_s``); then each epoch changes 1 % of the rows of every table of facts that the query reads:
half of them are deleted, and half replaced by a row with the measure of another one. ``refresh_ms`` is the
median from sending a change to having that of the view, ``worst_ms`` the longest. ``state_mb`` is what
operators keep.

``spark_ms`` is the query over Parquet files of all rows that are there at the end, in two slots with code
generation, the best of three turns in the same session. The ``cpu`` figures are the processor's time. Both
answers are compared; ``times_spark`` is how many refreshes one recomputation is worth.
"""

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from time import perf_counter, process_time
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
from benchmarks.figures import timed
from benchmarks.spark.session import session
from benchmarks.sql.answers import added_up, check_same, rows_of_table
from benchmarks.views.page import PAGE, RESULTS, measured, page
from benchmarks.views.tpcds_data import Benchmark, benchmark

import pointstamp as ps
from pointstamp.driver.status import status_of
from pointstamp.errors import PointstampError

FACTS: Final = {
    "catalog_returns": "cr_return_amount",
    "catalog_sales": "cs_quantity",
    "inventory": "inv_quantity_on_hand",
    "store_returns": "sr_return_amt",
    "store_sales": "ss_sales_price",
    "web_returns": "wr_net_loss",
    "web_sales": "ws_net_paid",
}
"""The tables of facts, and the column that gets another value where a row is replaced."""
SHARE: Final = 0.01
LOADS: Final = 2
TURNS: Final = 3
WEIGHT: Final = "w"

Changes = dict[str, pa.Table]


class ChangingFacts:
    """The tables that a query reads, epoch by epoch, and the rows that are there."""

    def __init__(self, ds: Benchmark, names: list[str], seed: int = 1) -> None:
        self._random = np.random.default_rng(seed)
        self.there = {name: ds.tables[name] for name in names}

    def loaded(self) -> list[Changes]:
        """All rows over some epochs."""
        made: list[Changes] = [{} for _ in range(LOADS)]
        for name, table in self.there.items():
            order = pa.array(self._random.permutation(table.num_rows))
            bounds = [table.num_rows * n // LOADS for n in range(LOADS + 1)]
            for n in range(LOADS):
                part = table.take(order[bounds[n] : bounds[n + 1]])
                made[n][name] = _weighed(part, np.ones(part.num_rows, np.int64))
        return made

    def change(self) -> Changes:
        """The changes of an epoch."""
        return {name: self._changed(name) for name in self.there}

    def _changed(self, name: str) -> pa.Table:
        table = self.there[name]
        if name not in FACTS:
            return _weighed(table.slice(0, 0), np.zeros(0, np.int64))
        count = max(2, round(table.num_rows * SHARE))
        chosen = self._random.choice(table.num_rows, count, replace=False)
        gone = table.take(pa.array(chosen))
        new = gone.slice(0, count // 2)
        place = new.schema.get_field_index(FACTS[name])
        others = table.column(place).take(pa.array(self._random.integers(0, table.num_rows, new.num_rows)))
        new = new.set_column(place, new.schema.field(place), others)
        stays = np.ones(table.num_rows, np.bool_)
        stays[chosen] = False
        self.there[name] = pa.concat_tables([table.filter(pa.array(stays)), new]).combine_chunks()
        return pa.concat_tables(
            [_weighed(gone, np.full(count, -1)), _weighed(new, np.ones(new.num_rows, np.int64))]
        )


def _weighed(table: pa.Table, weights: npt.NDArray[np.int64]) -> pa.Table:
    return table.append_column(WEIGHT, pa.array(weights, pa.int64()))


def main() -> None:
    """Run the queries that have no line yet, and make the page."""
    asked = argparse.ArgumentParser()
    asked.add_argument("--scale", type=float, default=0.1)
    asked.add_argument("--only", nargs="*", type=int, default=list(range(1, 100)))
    asked.add_argument("--epochs", type=int, default=5)
    asked.add_argument("--results", type=Path, default=RESULTS)
    given = asked.parse_args()
    failed = run_missing(given)
    if given.results == RESULTS:
        PAGE.write_text(page())
    if failed:
        sys.exit(f"{', '.join(map(str, failed))} failed; the same command runs them again.")


def run_missing(given: argparse.Namespace) -> list[int]:
    """Run the queries that have no line yet; those that failed."""
    done = measured(given.results.read_text() if given.results.exists() else "")
    wanted = [number for number in given.only if (given.scale, number) not in done]
    failed: list[int] = []
    if not wanted:
        return failed
    ds = benchmark(given.scale)
    with session("TPC-DS") as spark, tempfile.TemporaryDirectory() as folder:
        for number in wanted:
            try:
                figures = of_query(spark, ds, number, given.epochs, Path(folder))
            except AssertionError as error:
                print(f"q{number}: {error}", file=sys.stderr, flush=True)
                failed.append(number)
                continue
            load = round(os.getloadavg()[0], 1)
            line = json.dumps({"query": number, "scale": given.scale, **figures, "load": load})
            with given.results.open("a") as file:
                file.write(line + "\n")
            print(line, flush=True)
    return failed


def of_query(
    spark: Any,  # noqa: ANN401 - untyped
    ds: Benchmark,
    number: int,
    epochs: int,
    folder: Path,
) -> Mapping[str, float | str]:
    """The figures of one query; AssertionError if the two answers differ."""
    names, text = ds.read_by(number), ds.in_spark(number)
    tables = ChangingFacts(ds, names)
    _register(spark, {name: ds.tables[name].slice(0, 0) for name in names}, folder)
    analysis, frame = timed(lambda: spark.sql(text))
    try:
        define, flow = timed(
            lambda: ps.views(
                spark, {"result": frame}, changes=dict.fromkeys(names, WEIGHT), name=f"q{number}"
            )
        )
    except PointstampError as error:
        return {"rejected": str(error)}
    results: list[pa.Table] = []
    with flow.open(on_result=lambda _name, _epoch, table: results.append(table)) as run:

        def epoch(at: int, change: Changes) -> tuple[float, float]:
            ready = {name: table.combine_chunks() for name, table in change.items()}
            started, cpu = perf_counter(), process_time()
            for name, table in ready.items():
                run.input(name).send(table)
                run.input(name).advance_to(at + 1)
            run.settle()
            return perf_counter() - started, process_time() - cpu

        loads = [epoch(at, change) for at, change in enumerate(tables.loaded())]
        changed, taken = 0, []
        for at in range(LOADS, LOADS + epochs):
            change = tables.change()
            changed += sum(table.num_rows for table in change.values())
            taken.append(epoch(at, change))
        kept = status_of(run).kept
    seconds, cpu_seconds = np.array(taken).T
    load, load_cpu = np.array(loads).sum(axis=0)
    _register(spark, tables.there, folder)
    ours = added_up(results)
    spark_s, spark_cpu_s = _recomputed(spark, text, lambda found: check_same(ours, found, f"q{number}"))
    figures = {
        "rows": sum(table.num_rows for table in tables.there.values()),
        "answer_rows": len(ours),
        "analysis_ms": analysis * 1e3,
        "define_ms": define * 1e3,
        "load_s": float(load),
        "load_cpu_s": float(load_cpu),
        "changed_rows": changed / epochs,
        "refresh_ms": float(np.median(seconds)) * 1e3,
        "worst_ms": float(seconds.max()) * 1e3,
        "refresh_cpu_ms": float(np.median(cpu_seconds)) * 1e3,
        "worst_cpu_ms": float(cpu_seconds.max()) * 1e3,
        "state_mb": sum(each.size_bytes for each in kept) / 1e6,
        "spark_ms": spark_s * 1e3,
        "spark_cpu_ms": spark_cpu_s * 1e3,
    }
    figures["times_spark"] = figures["spark_ms"] / figures["refresh_ms"]
    figures["times_spark_cpu"] = figures["spark_cpu_ms"] / figures["refresh_cpu_ms"]
    return {key: round(each, 3) for key, each in figures.items()}


def _register(spark: Any, tables: Mapping[str, pa.Table], folder: Path) -> None:  # noqa: ANN401 - untyped
    """Temporary views of files with these rows."""
    for name, table in tables.items():
        path = folder / f"{name}.parquet"
        pq.write_table(table, path)
        spark.catalog.refreshByPath(str(path))
        spark.read.parquet(str(path)).createOrReplaceTempView(name)


def _recomputed(spark: Any, text: str, check: Callable[[Any], None]) -> tuple[float, float]:  # noqa: ANN401
    """The best seconds of some turns, and the best of the processor's; the last answer is checked."""
    java = spark._jvm.java.lang.ProcessHandle.current()  # noqa: SLF001 - the way to Java that PySpark has

    def cpu() -> float:
        return float(java.info().totalCpuDuration().get().toNanos()) / 1e9

    taken, found = [], None
    for _ in range(TURNS):
        before = cpu()
        seconds, found = timed(lambda: spark.sql(text).toArrow())
        taken.append((seconds, cpu() - before))
    check(rows_of_table(found))
    seconds, cpu_seconds = np.array(taken).T
    return float(seconds.min()), float(cpu_seconds.min())


if __name__ == "__main__":
    main()
