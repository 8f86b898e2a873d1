"""Nexmark on Spark: events per second of each query as a job with two workers.

    .venv/bin/python -m benchmarks.nexmark.on_spark [--events 1000000] [--epochs 20] [--queries q3 q4]

One JSON line per query. The events lie as Parquet files, and a run ends when its changes do. ``seconds`` has
everything in it: the gang's start, reading, the shuffle by which every worker gets its rows, and writing;
``gang_seconds`` is what the same flow takes for one event of each input. A first run that does not count
warms Spark up. The answer of each, added up, is compared with DuckDB's.
"""

import argparse
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from benchmarks.figures import report, timed
from benchmarks.nexmark.answers import added_up, all_rows, check, made_events
from benchmarks.nexmark.throughput import QUERIES
from benchmarks.spark.session import SLOTS, session
from examples.nexmark import queries
from examples.nexmark.events import Epochs
from examples.nexmark.flows import Query, flow_of, inputs_of
from pyspark.sql import SparkSession


def written(inputs: Epochs, folder: Path) -> Path:
    """The events with their epochs, as a Parquet file for each slot."""
    for name, tables in inputs.items():
        (folder / name).mkdir(parents=True)
        sizes = [table.num_rows for table in tables]
        epochs = pa.array(np.repeat(np.arange(len(tables)), sizes))
        table = pa.concat_tables(tables).append_column("epoch", epochs)
        size = -(-table.num_rows // SLOTS)
        for slot in range(SLOTS):
            pq.write_table(table.slice(slot * size, size), folder / name / f"{slot}.parquet")
    return folder


def measure(spark: SparkSession, name: str, folder: Path, inputs: Epochs, events: int) -> None:
    """One line."""
    query: Query = getattr(queries, name)
    frames = {each: spark.read.parquet(str(folder / each)) for each in inputs_of(query)}
    few = {each: frame.limit(1) for each, frame in frames.items()}
    gang, _ = timed(lambda: flow_of(query).run(few, on=spark, epoch="epoch"))
    answer = folder / f"answer-{name}"
    seconds, _ = timed(lambda: flow_of(query).run(frames, on=spark, epoch="epoch", output=str(answer)))
    files = sorted(answer.rglob("*.parquet"))
    found = pa.concat_tables([pq.ParquetFile(file).read() for file in files]).drop(["epoch"])
    check(name, all_rows(inputs, frames), added_up({0: found}))
    report(
        name,
        contender="Spark, two workers",
        events=events,
        events_per_s=round(events / seconds),
        seconds=seconds,
        gang_seconds=gang,
    )


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(description="Nexmark on Spark.")
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--queries", nargs="+", default=QUERIES)
    given = parser.parse_args()
    inputs = made_events(given.events, given.epochs)
    with session("nexmark") as spark, tempfile.TemporaryDirectory(prefix="pointstamp-bench-") as temporary:
        folder = written(inputs, Path(temporary))
        flow_of(queries.q2).run(on=spark, bid=spark.read.parquet(str(folder / "bid")), epoch="epoch")
        for name in given.queries:
            measure(spark, name, folder, inputs, given.events)


if __name__ == "__main__":
    main()
