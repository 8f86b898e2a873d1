"""From a topic of Kafka to another: how long until what was sent can be read there, committed.

    .venv/bin/python -m benchmarks.surroundings.kafka [--epochs 200] [--rows 1000] [--without-spark]

Some records are sent, and when a reader of committed records has all that was made of them, the next are
sent. One JSON line per contender, with ``ms_median`` and ``ms_p99`` from the first record's sending to the
last one's arrival, and ``cpu_ms``, the processor time of this process for each epoch, sender and reader with
it:

- *copy*: a process that reads and writes, in a transaction an epoch, and does nothing else: what Kafka and
  its client cost. ``ratio`` is by this one;
- *pointstamp*: one worker in the driver's process, exactly once;
- *Structured Streaming*: the same with Spark's source and sink, which writes at least once.

A broker is started on loopback. Flink is not measured: it is not to be had by a package of Python alone.
The aim is a median below 25 ms, exactly once.
"""

import argparse
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic, perf_counter, process_time

import numpy as np
from benchmarks.figures import report
from confluent_kafka import Consumer, Producer, TopicPartition
from scripts.jars import jars

import pointstamp as ps

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))

from support.kafka_broker import address, new_topic

WARM_UP = 20
ARRIVE_SECONDS_MAX = 300.0


def reader(topic: str) -> Consumer:
    """A reader of committed records, which waits as little as it can."""
    settings = {"bootstrap.servers": address(), "group.id": "bench", "enable.auto.commit": False}
    consumer = Consumer({**settings, "isolation.level": "read_committed", "fetch.wait.max.ms": 100})
    consumer.assign([TopicPartition(topic, 0, 0)])
    return consumer


def arrivals(source: str, target: str, epochs: int, rows: int) -> list[float]:
    """The ms that each epoch took, one after the other."""
    producer, consumer = Producer({"bootstrap.servers": address(), "linger.ms": 0}), reader(target)
    taken = []
    for epoch in range(epochs + WARM_UP):
        begin = perf_counter()
        for number in range(epoch * rows, (epoch + 1) * rows):
            producer.produce(source, b'{"n": %d}' % number)
        producer.flush()
        left, deadline = rows, monotonic() + ARRIVE_SECONDS_MAX
        while left > 0:
            if monotonic() > deadline:
                raise SystemExit(f"of epoch {epoch}, {left} records did not arrive")
            message = consumer.poll(1.0)
            left -= 0 if message is None or message.error() else 1
        taken.append((perf_counter() - begin) * 1000)
    consumer.close()
    return taken[WARM_UP:]


@contextmanager
def copying(source: str, target: str) -> Iterator[None]:
    """Copy records in transactions, in a thread."""
    stop = threading.Event()

    def copy() -> None:
        consumer = reader(source)
        producer = Producer({"bootstrap.servers": address(), "transactional.id": target, "linger.ms": 0})
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

    thread = threading.Thread(target=copy)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


@contextmanager
def with_pointstamp(source: str, target: str) -> Iterator[None]:
    """A query that doubles numbers."""
    flow = ps.Dataflow("doubled")
    flow.output("doubled", flow.input("numbers", "n long").with_columns(twice=ps.col("n") * 2))
    with tempfile.TemporaryDirectory(prefix="pointstamp-bench-", dir=Path.cwd()) as folder:
        query = flow.start_local(
            numbers=ps.kafka(address(), source),
            checkpoint=folder,
            output=ps.KafkaSink(address(), target),
        )
        try:
            yield
        finally:
            query.stop(finish=False)


@contextmanager
def with_spark(source: str, target: str) -> Iterator[None]:
    """The same by Structured Streaming, as fast as it goes."""
    from pyspark.sql import SparkSession

    found = ",".join(str(jar) for jar in sorted(jars("spark-kafka").glob("*.jar")))
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.jars", found)
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("OFF")
    rows = spark.readStream.format("kafka").option("kafka.bootstrap.servers", address())
    read = rows.option("subscribe", source).option("startingOffsets", "earliest").load()
    twice = read.selectExpr("get_json_object(cast(value as string), '$.n') n").selectExpr(
        "to_json(struct(n, 2 * n as twice)) value"
    )
    with tempfile.TemporaryDirectory(prefix="pointstamp-bench-", dir=Path.cwd()) as folder:
        written = twice.writeStream.format("kafka").option("kafka.bootstrap.servers", address())
        query = written.option("topic", target).option("checkpointLocation", folder).start()
        try:
            yield
        finally:
            query.stop()
            spark.stop()


def main() -> None:
    """Measure each contender."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=200)
    parser.add_argument("--rows", type=int, default=1_000)
    parser.add_argument("--without-spark", action="store_true")
    options = parser.parse_args()
    contenders: dict[str, Callable[[str, str], object]] = {"copy": copying, "pointstamp": with_pointstamp}
    if not options.without_spark:
        contenders["Structured Streaming"] = with_spark
    best = 0.0
    for name, contender in contenders.items():
        source, target = new_topic(), new_topic()
        begin = process_time()
        with contender(source, target):  # type: ignore[attr-defined]  # each is a context
            taken = arrivals(source, target, options.epochs, options.rows)
        median = float(np.median(taken))
        best = best or median
        report(
            name,
            ms_median=median,
            ms_p99=float(np.percentile(taken, 99)),
            cpu_ms=(process_time() - begin) * 1000 / (options.epochs + WARM_UP),
            ratio=median / best,
        )


if __name__ == "__main__":
    main()
