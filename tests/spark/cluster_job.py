"""The main program of the cluster tests: a loop and a query on a master, checked against this process.

Run as a program of its own, because a process has one SparkContext. Prints one line of JSON.
"""

import gc
import json
import os
import sys

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from pyspark.sql.functions import count_distinct, udf

import pointstamp as ps
from pointstamp.mesh.mesh import Mesh


def halving() -> ps.Dataflow:
    """Each number is halved until nothing is left; how often is each number seen?"""
    flow = ps.Dataflow("halving")
    numbers = flow.stream_input("numbers", "x long")
    with numbers.loop("halve") as loop:
        again = loop.variable("x long")
        now = loop.enter(numbers).union(again).exchange("x")
        half = now.map_batches(lambda batch: pa.record_batch({"x": pc.shift_right(batch["x"], 1)}))
        loop.feedback(again, half.filter(pc.field("x") > 0))
        flow.output("seen", loop.leave(now).count("x"))
    return flow


def query_is_right(spark: SparkSession, folder: str) -> bool:
    """Whether a query over three files publishes the counts of each epoch."""
    os.makedirs(f"{folder}/in")
    for number in range(3):
        pq.write_table(pa.table({"x": [number, 7, 7]}), f"{folder}/in/{number}.parquet")
    flow = ps.Dataflow("counting")
    flow.output("counts", flow.stream_input("numbers", "x long").group_by("x", running=True).count())
    numbers = ps.io.files(f"{folder}/in", in_order=True)
    query = flow.start(
        on=spark,
        numbers=numbers,
        checkpoint=f"{folder}/checkpoint",
        output=f"{folder}/out",
        workers=2,
        available_now=True,
    )
    query.await_termination()
    found = ps.read_changes(f"{folder}/out", "counts").select(["epoch", "x", "count"]).to_pylist()
    rows = sorted(tuple(row.values()) for row in found)
    return rows == sorted((n, *row) for n in range(3) for row in ((n, 1), (7, 2 * n + 2)))


def neighbours() -> ps.Dataflow:
    """How many workers each worker reaches through unix sockets, though they are of different executors."""
    flow = ps.Dataflow("neighbours")
    counts = flow.stream_input("numbers", "x long").count("x")  # they come when all have met
    flow.output("near", counts.map_batches(_near, schema="near long"))
    return flow


def _near(batch: pa.RecordBatch) -> pa.RecordBatch:
    del batch
    meshes = [each for each in gc.get_objects() if type(each) is Mesh]  # others may be proxies
    return pa.record_batch({"near": pa.array([len(mesh.near) for mesh in meshes], pa.int64())})


def main(master: str, folder: str) -> None:
    spark = (
        SparkSession.builder.master(master)
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.executor.memory", "600m")
        .config("spark.executor.cores", "1")
        .config("spark.cores.max", "2")
        .config("spark.sql.shuffle.partitions", "2")
        .getOrCreate()
    )
    table = pa.table({"x": list(range(1, 300)), "at": [n % 3 for n in range(1, 300)]})
    flow = halving()
    here = flow.run(numbers=table, epoch="at")["seen"].table()
    there = flow.run(on=spark, numbers=spark.createDataFrame(table.to_pandas()), epoch="at", output=folder)[
        "seen"
    ]
    rows = spark.range(100).withColumnRenamed("id", "x")
    near = neighbours().run(on=spark, numbers=rows, output=f"{folder}-near")["near"]
    process = udf(lambda _: os.getppid(), "long")
    processes = spark.range(0, 100, 1, 8).select(count_distinct(process("id"))).collect()[0][0]
    report = {
        "same": sorted(map(tuple, there.collect()))
        == sorted(tuple(row.values()) for row in here.to_pylist()),
        "query": query_is_right(spark, f"{folder}-query"),
        "rows": there.count(),
        "processes": processes,
        "elastic": spark.conf.get("spark.dynamicAllocation.enabled", "false"),
        "near": sorted({row["near"] for row in near.collect()}),
        "application": spark.sparkContext.applicationId,
    }
    sys.stdout.write(json.dumps(report) + "\n")
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
