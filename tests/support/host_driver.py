"""A driver on a host of its own: ``python -m support.host_driver MASTER ADDRESS FOLDER``.

It counts the words of the files that arrive in FOLDER/in, on two workers of a Spark cluster, says each epoch
that it has published and why it restarts, and ends when FOLDER/end is there.
"""

import logging
import os
import sys
from pathlib import Path

import pointstamp as ps
from support.streams import words_flow


def say(*words: object) -> None:
    sys.stdout.write(" ".join(map(str, words)) + "\n")
    sys.stdout.flush()


def main(master: str, address: str, folder: Path) -> None:
    from pyspark.sql import SparkSession

    logging.basicConfig(level=logging.WARNING, stream=sys.stderr)
    os.environ["PYSPARK_PYTHON"] = sys.executable
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
    query = words_flow("words").start(
        spark,
        words=ps.files(folder / "in"),
        checkpoint=f"{folder}/checkpoint",
        output=f"{folder}/output",
        workers=2,
        restarts=ps.RestartPolicy(restarts_max=1_000, pause_seconds=1.0),
        silence_seconds_max=4.0,
    )
    seen, lost = -1, ""
    while not query.awaitTermination(0.05):
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
