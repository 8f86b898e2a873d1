"""A driver on a host of its own: ``python -m support.host_driver MASTER ADDRESS FOLDER``.

It counts the words of the files that arrive in FOLDER/in, on two workers of a Spark cluster, says each epoch
that it has published and why it restarts, and ends when FOLDER/end is there. A second output says which host
had rows of an epoch, and what its clock was. ``PYSPARK_PYTHON`` is the executors' Python.
"""

import logging
import socket
import sys
import time
from pathlib import Path

import pyarrow as pa

import pointstamp as ps


def say(*words: object) -> None:
    sys.stdout.write(" ".join(map(str, words)) + "\n")
    sys.stdout.flush()


def stamped(_: pa.RecordBatch) -> pa.RecordBatch:
    """The host on which this is called, and its clock in seconds."""
    return pa.record_batch({"host": [socket.gethostname()], "clock": [int(time.time())]})


def stamped_words() -> ps.Dataflow:
    flow = ps.Dataflow("words")
    words = flow.stream_input("words", "word string").exchange("word")
    flow.output("counts", words.group_by("word", running=True).count())
    flow.output("clocks", words.map_batches(stamped, "host string, clock long"))
    return flow


def main(master: str, address: str, folder: Path) -> None:
    from pyspark.sql import SparkSession

    logging.basicConfig(level=logging.WARNING, stream=sys.stderr)
    spark = (
        SparkSession.builder.master(master)
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", address)
        .config("spark.driver.bindAddress", address)
        .config("spark.driver.memory", "512m")
        .config("spark.executor.memory", "512m")
        .config("spark.deploy.maxExecutorRetries", "-1")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("OFF")
    query = stamped_words().start(
        on=spark,
        words=ps.io.files(folder / "in"),
        checkpoint=f"{folder}/checkpoint",
        output=f"{folder}/output",
        workers=2,
        options=ps.QueryOptions(
            restarts=ps.RestartPolicy(restarts_max=1_000, pause_seconds=1.0), silence_seconds_max=4.0
        ),
    )
    seen, lost = -1, ""
    while not query.await_termination(0.05):
        if query.epoch > seen:
            seen, lost = query.epoch, ""
            say("epoch", seen)
        phase, _, words = query.status["message"].partition(": ")
        if phase == "restarting" and words != lost:
            lost = words
            say("lost", *words.split())
        if (folder / "end").exists():
            query.stop()
            break
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
