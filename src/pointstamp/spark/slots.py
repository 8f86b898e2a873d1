"""How many workers a session can run at once, found before anything starts.

A gang needs all its tasks at the same time, and Spark waits in silence for slots that never come. In classic
sessions the scheduler knows the executors that have registered. Connect sessions have no scheduler to ask and
no RDDs: there the number of partitions that Spark gives to a range is used, which is its number of cores
unless another default is set. Neither shows slots that other jobs hold at this moment; a gang that finds them
taken waits until they are free.
"""

import logging
from collections.abc import Callable
from time import monotonic, sleep
from typing import Any, Final

from pyspark.sql import SparkSession

from pointstamp.errors import FlowError

REGISTRATION_SECONDS_MAX: Final = 30.0
"""Executors of a cluster register some seconds after the session starts; this is how long we wait."""

_LOOK_SECONDS: Final = 0.5
_log = logging.getLogger("pointstamp.spark")
# Either setting makes the partitions of a range say nothing about slots.
_DEFAULTS: Final = ("spark.default.parallelism", "spark.sql.leafNodeDefaultParallelism")


def choose_workers(
    spark: SparkSession, wanted: int | None, *, spare: int = 0, stays: bool = False, crews: int = 1
) -> int:
    """How many workers to start, after a check that Spark can run them all at once, ``crews`` times.

    ``spare`` slots must be left for jobs that run beside them. A gang that ``stays`` leaves one free where
    nobody has said how many workers there are to be: a session whose slots are all taken runs no other job.
    """
    if wanted is not None and wanted < 1:
        raise FlowError(f"{wanted} workers were asked for; a flow needs at least one.")
    if _setting(spark, "spark.dynamicAllocation.enabled") == "true":
        raise FlowError(
            "a gang of workers needs all its tasks at once, and dynamic allocation gives slots one by one. "
            "Set spark.dynamicAllocation.enabled=false and a fixed number of executors."
        )
    slots = (
        _slots_of_connect(spark)
        if is_connect(spark)
        else _slots_of_classic(spark, None if wanted is None else wanted * crews + spare)
    )
    if slots is None:
        if wanted is None:
            raise FlowError(
                f"this session does not say how many slots it has ({' or '.join(_DEFAULTS)} is set). Give "
                "workers=, at most the number of cores that all executors have together."
            )
        return wanted
    left = max(spare, 1 if stays and slots > 1 else 0)
    count = (slots - left) // crews if wanted is None else wanted
    if count < 1 or count * crews + spare > slots:
        needed = max(count, 1) * crews + spare
        again = ", the spare crew needs as many again" if crews > 1 else ""
        beside = f"{again} and Structured Streaming needs one beside them" if spare else again
        raise FlowError(
            f"{max(count, 1)} workers were asked for, but Spark has {slots} slots; all workers run at once, "
            f"one to a slot{beside}. Ask for fewer, or start Spark with more cores (local[{needed}], more "
            "executors, or a larger spark.executor.cores or spark.cores.max)."
        )
    if stays and count * crews == slots:
        _log.warning(
            "the %d workers of this query%s take all slots of the Spark session: any other job in it, also "
            "one that writes the query's input, waits until the query stops. Ask for fewer workers, or start "
            "Spark with more cores.",
            count,
            " and its spare crew" if crews > 1 else "",
        )
    return count


def slots_now(spark: SparkSession) -> int | None:
    """How many tasks Spark can run at once now, taken slots included; None where it does not say."""
    try:
        return None if is_connect(spark) else _scheduler(spark)()
    except Exception:  # py4j's, when there is no Java any more
        return None


def is_connect(spark: SparkSession) -> bool:
    """Whether this is a session of Spark Connect, which has neither sparkContext nor RDDs."""
    return type(spark).__module__.startswith("pyspark.sql.connect")


def is_stopped(spark: SparkSession) -> bool:
    """Whether a session can run nothing any more."""
    if is_connect(spark):
        return bool(spark.is_stopped)
    try:
        context: Any = spark.sparkContext
        # Not public in Python; None after a stop from Python, and another may come from Java.
        return context._jsc is None or bool(context._jsc.sc().isStopped())  # noqa: SLF001
    except Exception:  # py4j's, when there is no Java any more
        return True


def is_local(spark: SparkSession) -> bool:
    """Whether the tasks run inside the driver's own process (``local[n]``)."""
    master = _setting(spark, "spark.master") or ""
    return master == "local" or master.startswith("local[")


def _slots_of_classic(spark: SparkSession, wanted: int | None) -> int:
    look = _scheduler(spark)
    if is_local(spark):
        return look()
    return wait_for_slots(look, wanted or _configured(spark))


def wait_for_slots(
    look: Callable[[], int],
    expected: int | None,
    *,
    clock: Callable[[], float] = monotonic,
    rest: Callable[[float], None] = sleep,
) -> int:
    """Wait until the expected slots have registered, or, if nothing is expected, until no more come."""
    deadline = clock() + REGISTRATION_SECONDS_MAX
    before, slots = -1, look()
    while slots < (expected or 1) or (expected is None and slots != before):
        if clock() > deadline:
            break
        rest(_LOOK_SECONDS)
        before, slots = slots, look()
    return slots


def _scheduler(spark: SparkSession) -> Callable[[], int]:
    """A function that asks Spark's scheduler how many tasks can run at once."""
    context: Any = spark.sparkContext
    try:
        # Not public in Python; the scheduler checks a barrier stage by the same number.
        inner = context._jsc.sc()  # noqa: SLF001
        profile = inner.resourceProfileManager().defaultResourceProfile()
        inner.maxNumConcurrentTasks(profile)
    except Exception:  # py4j's errors say only that another Spark names it otherwise
        return lambda: int(context.defaultParallelism)
    return lambda: int(inner.maxNumConcurrentTasks(profile))


def _configured(spark: SparkSession) -> int | None:
    """The slots that the settings promise, where they do."""
    cpus = int(_setting(spark, "spark.task.cpus") or 1)
    cores, instances = _setting(spark, "spark.executor.cores"), _setting(spark, "spark.executor.instances")
    if instances is not None:
        return int(instances) * (int(cores or 1) // cpus)
    most = _setting(spark, "spark.cores.max")
    return None if most is None else int(most) // cpus


def _slots_of_connect(spark: SparkSession) -> int | None:
    if any(_setting(spark, name) is not None for name in _DEFAULTS):
        return None
    numbers = spark.range(1 << 16).selectExpr("spark_partition_id() as part").agg({"part": "max"})
    return (int(numbers.collect()[0][0]) + 1) // int(_setting(spark, "spark.task.cpus") or 1)


def _setting(spark: SparkSession, name: str) -> str | None:
    found: str | None = spark.conf.get(name, None)
    return found
