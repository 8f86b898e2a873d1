"""Spark itself works here: Java is found, Arrow moves, and a gang of two tasks meets at a barrier."""

from collections.abc import Iterator

import pyarrow as pa
import pytest
from pyspark import BarrierTaskContext
from pyspark.sql import SparkSession


@pytest.mark.spark
def test_two_barrier_tasks_of_map_in_arrow_meet_and_return_their_rows(spark: SparkSession) -> None:
    def meet(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = BarrierTaskContext.get()
        assert context is not None
        rows = sum(batch.num_rows for batch in batches)
        everyone = context.allGather(str(context.partitionId()))
        columns = [[context.partitionId()], [rows], [",".join(sorted(everyone))]]
        yield pa.RecordBatch.from_arrays(
            [pa.array(columns[0], pa.int64()), pa.array(columns[1], pa.int64()), pa.array(columns[2])],
            names=["task", "rows", "met"],
        )

    frame = spark.range(0, 100, 1, numPartitions=2)
    reports = frame.mapInArrow(meet, "task long, rows long, met string", barrier=True).collect()

    assert sorted(row.task for row in reports) == [0, 1]
    assert sum(row.rows for row in reports) == 100
    assert {row.met for row in reports} == {"0,1"}
