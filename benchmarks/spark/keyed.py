"""A keyed count on Spark: a flow against Spark's own groupBy, in one session.

    .venv/bin/python -m benchmarks.spark.keyed [--rows 10000000] [--keys 100000]

One JSON line per contender: the flow as it is, of which Spark itself counts before rows are packed; the flow
with ``push=False``, of which the workers do everything; and Spark alone. All read the same Parquet files and
end when the counts lie in Parquet files; ``seconds`` is the best of their turns, after one that does not
count. For the flow that includes its gang: ``gang_seconds`` is what the same flow takes for a single row.
``ratio`` is the flow's time by groupBy's, and ``ratio_without_gang`` that without the gang's start; the aim
is 1.3. The lines of the case "where the time goes" are parts of the way, each measured by itself up to that
point: the rows read by Spark, handed to Python as Arrow, packed by owner, and shuffled and sorted. With
``push=False`` the flow goes only up to the second of them, because there is a partition for each worker; rows
of other inputs are packed. Every count is compared with numpy's.

To beat, measured on such a machine: groupBy().count() 1.84 s. Spark counts before it shuffles, and never
leaves the JVM; with ``push=False`` a flow has every row turned into Arrow and sent to its worker.
"""

import argparse
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count
from pathlib import Path
from statistics import median

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
from benchmarks.figures import report, timed
from benchmarks.spark.session import SLOTS, TURNS_MAX, best_of_turns, session
from pyspark.sql import DataFrame, SparkSession

from pointstamp import Dataflow, QueryOptions
from pointstamp.spark.row_packing import PACKED_DDL, input_specs, packer

Counts = npt.NDArray[np.int64]


def counting() -> Dataflow:
    """A flow that counts its rows by key."""
    flow = Dataflow("keyed")
    flow.output("counts", flow.stream_input("rows", "key long").count("key"))
    return flow


def with_flow(spark: SparkSession, rows: DataFrame, folder: str, *, push: bool = True) -> None:
    """The counts by a flow."""
    counting().run(on=spark, rows=rows, output=folder, options=QueryOptions(pushdown=push))


def with_spark(spark: SparkSession, rows: DataFrame, folder: str) -> None:
    """The counts by Spark itself."""
    rows.groupBy("key").count().write.parquet(folder)


def check(folder: str, expected: Counts) -> None:
    """Raise unless the files below a folder hold these counts."""
    files = sorted(Path(folder).rglob("*.parquet"))
    table = pa.concat_tables([pq.ParquetFile(file).read(["key", "count"]) for file in files])
    found = np.zeros_like(expected)
    found[table["key"].to_numpy()] = table["count"].to_numpy()
    if not (np.array_equal(found, expected) and table.num_rows == np.count_nonzero(expected)):
        raise AssertionError("the counts are not those that numpy finds")


def written(keys: Counts, folder: Path) -> str:
    """Where the rows lie, in a file for each slot."""
    folder.mkdir()
    for slot in range(SLOTS):
        pq.write_table(pa.table({"key": keys[slot::SLOTS]}), folder / f"{slot}.parquet")
    return str(folder)


def seconds_of(way: Callable[[str], None], folder: str, expected: Counts) -> float:
    """The best seconds of a way, warm; every answer is checked."""
    turns = count()

    def turn() -> str:
        answer = f"{folder}/turn-{next(turns)}"
        way(answer)
        return answer

    turn()
    return best_of_turns(turn, lambda answer: check(answer, expected))


def parts(rows: DataFrame) -> Iterator[tuple[str, DataFrame]]:
    """The way of packed rows, step by step, each step with all before it."""
    plan = counting().plan
    (spec,) = input_specs(plan, plan.graph(), {})
    packed = rows.mapInArrow(packer(spec, SLOTS), PACKED_DDL)
    yield "read", rows
    yield "handed to Python", rows.mapInArrow(_nothing, "key long")
    yield "packed", packed
    yield "shuffled and sorted", packed.repartitionById(SLOTS, packed["worker"]).sortWithinPartitions("epoch")


def _nothing(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    return (batch for batch in batches if batch.num_rows < 0)


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(description="A keyed count on Spark.")
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--keys", type=int, default=100_000)
    given = parser.parse_args()
    keys = np.random.default_rng(0).integers(0, given.keys, given.rows)
    expected = np.bincount(keys, minlength=given.keys)
    case = f"count of {given.rows} rows over {given.keys} keys"
    with session("keyed") as spark, tempfile.TemporaryDirectory(prefix="pointstamp-bench-") as folder:
        rows = spark.read.parquet(written(keys, Path(folder, "rows")))
        ours = seconds_of(partial(with_flow, spark, rows), f"{folder}/flow", expected)
        alone = seconds_of(partial(with_flow, spark, rows, push=False), f"{folder}/alone", expected)
        theirs = seconds_of(partial(with_spark, spark, rows), f"{folder}/spark", expected)
        one = spark.range(1).toDF("key")
        gang = median(
            timed(partial(with_flow, spark, one, f"{folder}/gang-{turn}"))[0] for turn in range(TURNS_MAX)
        )
        report(case, contender="flow", seconds=ours, gang_seconds=gang, seconds_without_gang=ours - gang)
        report(case, contender="flow, push=False", seconds=alone, seconds_without_gang=alone - gang)
        report(
            case,
            contender="groupBy().count()",
            seconds=theirs,
            ratio=ours / theirs,
            ratio_without_gang=(ours - gang) / theirs,
            ratio_not_pushed=(alone - gang) / theirs,
        )
        for name, part in parts(rows):
            writing = part.write.format("noop").mode("overwrite")
            report("where the time goes", up_to=name, seconds=best_of_turns(writing.save, lambda _: None))


if __name__ == "__main__":
    main()
