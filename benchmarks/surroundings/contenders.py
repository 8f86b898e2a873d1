"""Who is measured between two topics of Kafka, each as a context in which it is at work.

One task reads ``{"n": 7}`` and writes ``{"n": 7, "twice": 14}``. The other reads ``{"k": 7}`` and writes how
many records there were of each key so far, as ``k`` and ``n``, when that has changed.

- *copy* reads and writes in transactions, and does nothing else: what Kafka and its client cost;
- *pointstamp* has one worker in the driver's process, and is exactly once;
- *Structured Streaming* and its *real-time mode* write at least once: Spark's sink has no transactions;
- *Flink* is exactly once by transactions that end with its checkpoints, so their interval is its delay.
"""

import tempfile
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from confluent_kafka import Consumer, Producer, TopicPartition
from scripts.jars import jars

import pointstamp as ps

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

COUNTED = "counted"
DOUBLED = "doubled"
# The end of an epoch of real-time mode; it writes all the time, and saves where it is so often.
REAL_TIME_EPOCH = "10 seconds"


class Contender(Protocol):
    """Somebody at work between two topics."""

    def __call__(self, task: str, address: str, source: str, target: str) -> AbstractContextManager[None]:
        """Begin, and end with the context."""
        ...


def reader(address: str, topic: str) -> Consumer:
    """A reader of committed records, which waits as little as it can."""
    settings = {"bootstrap.servers": address, "group.id": "bench", "enable.auto.commit": False}
    consumer = Consumer({**settings, "isolation.level": "read_committed", "fetch.wait.max.ms": 100})
    consumer.assign([TopicPartition(topic, 0, 0)])
    return consumer


def _folder() -> "tempfile.TemporaryDirectory[str]":
    return tempfile.TemporaryDirectory(prefix="pointstamp-bench-", dir=Path.cwd(), ignore_cleanup_errors=True)


@contextmanager
def copy(task: str, address: str, source: str, target: str) -> Iterator[None]:
    """Copy records in transactions, in a thread, whatever the task is."""
    del task
    stop = threading.Event()

    def work() -> None:
        consumer = reader(address, source)
        producer = Producer({"bootstrap.servers": address, "transactional.id": target, "linger.ms": 0})
        producer.init_transactions(60)
        while not stop.is_set():
            first = consumer.poll(0.1)
            if first is None or first.error():
                continue
            producer.begin_transaction()
            for message in [first, *consumer.consume(10_000, 0)]:
                producer.produce(target, message.value())
            producer.commit_transaction(60)
        consumer.close()

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


@contextmanager
def pointstamp(
    task: str,
    address: str,
    source: str,
    target: str,
    rows_per_tick: int = 200_000,
    bytes_per_tick: int | None = None,
) -> Iterator[None]:
    """A query in this process."""
    flow = ps.Dataflow(task)
    sink = ps.io.KafkaSink(address, target)
    records = ps.io.kafka(address, source, rows_per_tick=rows_per_tick, bytes_per_tick=bytes_per_tick)
    if task == DOUBLED:
        numbers = flow.stream_input("records", "n long")
        flow.output(task, numbers.with_columns(twice=ps.col("n") * 2))
    else:
        counts = flow.table("records", "k long").group_by("k").agg(n=ps.count())
        flow.output(task, counts.upserts("k", deleted="gone"))
        sink = ps.io.KafkaSink(address, target, key="k", deleted="gone")
    with _folder() as folder:
        query = flow.start(records=records, checkpoint=folder, output=sink)
        try:
            yield
        finally:
            query.stop(finish=False)


@contextmanager
def structured_streaming(task: str, address: str, source: str, target: str) -> Iterator[None]:
    """The same by micro-batches of Spark, one after the other."""
    with _spark() as spark:
        yield from _streaming(spark, task, address, source, target, {})


@contextmanager
def real_time_mode(task: str, address: str, source: str, target: str) -> Iterator[None]:
    """The same by Spark's real-time mode."""
    with _spark() as spark:
        yield from _streaming(spark, task, address, source, target, {"realTime": REAL_TIME_EPOCH})


def _streaming(
    spark: "SparkSession", task: str, address: str, source: str, target: str, trigger: dict[str, str]
) -> Iterator[None]:
    rows = spark.readStream.format("kafka").option("kafka.bootstrap.servers", address)
    read = rows.option("subscribe", source).option("startingOffsets", "earliest").load()
    made = _task_of_spark(task, read)
    with _folder() as folder:
        writer = made.writeStream.format("kafka").option("kafka.bootstrap.servers", address)
        writer = writer.outputMode("update").option("topic", target).option("checkpointLocation", folder)
        query = (writer.trigger(**trigger) if trigger else writer).start()
        try:
            yield
        finally:
            failure = query.exception()
            query.stop()
        if failure is not None:
            raise failure


def _task_of_spark(task: str, read: "DataFrame") -> "DataFrame":
    field = "n" if task == DOUBLED else "k"
    numbers = read.selectExpr(f"cast(get_json_object(cast(value as string), '$.{field}') as bigint) {field}")
    if task == DOUBLED:
        return numbers.selectExpr("to_json(struct(n, 2 * n as twice)) value")
    counts = numbers.groupBy("k").count()
    return counts.selectExpr("cast(k as string) key", "to_json(struct(k, count as n)) value")


@contextmanager
def _spark() -> "Iterator[SparkSession]":
    from pyspark.sql import SparkSession

    found = ",".join(str(jar) for jar in sorted(jars("spark-kafka").glob("*.jar")))
    settings = {
        "spark.jars": found,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.shuffle.partitions": "2",
    }
    builder = SparkSession.builder.master("local[2]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    try:
        yield spark
    finally:
        spark.stop()


@contextmanager
def flink(task: str, address: str, source: str, target: str) -> Iterator[None]:
    """The same by Flink's SQL, in a JVM of its own."""
    from benchmarks.surroundings.flink import working

    with _folder() as folder, working(task == DOUBLED, address, source, target, folder):
        yield


CONTENDERS: dict[str, Contender] = {
    "copy": copy,
    "pointstamp": pointstamp,
    "Structured Streaming": structured_streaming,
    "real-time mode": real_time_mode,
    "Flink": flink,
}
"""By name, in the order in which they are measured."""
TICKS: dict[str, Contender] = {
    **{f"pointstamp, {rows} rows": partial(pointstamp, rows_per_tick=rows) for rows in (100, 10_000)},
    **{f"pointstamp, {size} bytes": partial(pointstamp, bytes_per_tick=size) for size in (10_000, 1_000_000)},
}
"""The same with ticks of so much at most: what a limit costs, and gives."""
