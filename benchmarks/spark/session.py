"""What the benchmarks on Spark share: a session as a user would start it, turns, and lines of figures.

The session has two slots, and settings that favour Spark's own side where they matter: as many shuffle
partitions as slots, and memory enough that nothing spills. The Python of its tasks is this environment's.
Contenders of one case run in the same session, one after the other, each until it has had three turns or half
a minute; the best turn counts. Figures come with the load of the machine at the end of their case.
"""

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from time import perf_counter
from typing import TypeVar

from benchmarks.figures import report, timed
from pyspark.sql import SparkSession

SLOTS = 2
TURNS_MAX = 3
TURN_SECONDS_MAX = 30.0
NOTHING_MORE: Mapping[str, str] = {}

T = TypeVar("T")


@contextmanager
def session(
    name: str,
    slots: int = SLOTS,
    settings: Mapping[str, str] = NOTHING_MORE,
    *,
    master: str | None = None,
) -> Iterator[SparkSession]:
    """A Spark of some slots on this machine, or of a master, on loopback, stopped at the end."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    begin = perf_counter()
    builder = (
        SparkSession.builder.master(master or f"local[{slots}]")
        .appName(name)
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.memory", "6g")
        .config("spark.sql.shuffle.partitions", str(SLOTS))
    )
    for setting, value in settings.items():
        builder = builder.config(setting, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")  # a job that is cancelled tells its whole stack
    report("the session itself", seconds=perf_counter() - begin)
    try:
        yield spark
    finally:
        spark.stop()


def best_of_turns(act: Callable[[], T], check: Callable[[T], None]) -> float:
    """The best seconds of some turns; every answer is checked."""
    taken: list[float] = []
    while len(taken) < TURNS_MAX and sum(taken) < TURN_SECONDS_MAX:
        seconds, answer = timed(act)
        check(answer)
        taken.append(seconds)
    return min(taken)
