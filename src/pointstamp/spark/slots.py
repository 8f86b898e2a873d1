"""The number of workers that a session can run at once.

All workers of a flow run at the same time, one to a slot. In classic sessions the scheduler knows the
executors that have registered. Connect sessions have no scheduler to ask and no RDDs: there the number of
partitions that Spark gives to a range is used, which is its number of cores unless another default is set.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic, sleep
from typing import Any, Final

from pyspark.sql import SparkSession

from pointstamp.errors import FlowError

REGISTRATION_SECONDS_MAX: Final = 30.0
"""Executors of a cluster register some seconds after the session starts; this is how long we wait."""

_LOOK_SECONDS: Final = 0.5
_BUSY_LOOK_SECONDS: Final = 0.05
_ELASTIC_WORKERS: Final = 2
"""How many workers a query has at least, by default, where Spark starts executors for them."""
_log = logging.getLogger("pointstamp.spark")
# Either setting makes the partitions of a range say nothing about slots.
_DEFAULTS: Final = ("spark.default.parallelism", "spark.sql.leafNodeDefaultParallelism")


@dataclass(frozen=True, slots=True)
class SlotPlan:
    """How the workers of a query share the slots of a session with each other and with other jobs."""

    wish: int
    """How many workers the query is to have."""
    least: int = 1
    """With how many it runs."""
    reserve: int = 0
    """How many slots stay free for other jobs."""
    crews: int = 1
    """How many times the workers run: twice with spare ones."""
    is_elastic: bool = False
    """Whether Spark starts executors for tasks that wait (dynamic allocation)."""
    is_eager: bool = False
    """Whether tasks that come late join the workers at once, in a new generation."""

    def capped(self, slots: int | None, *, hurries: bool = False) -> int:
        """How many workers to start where Spark has so many slots now; at least ``least``.

        With dynamic allocation all are started: tasks that wait are what makes Spark ask for executors. So
        are they in a hurry, which waits for none of them, unless slots are left to other jobs, and where
        Spark has lost all executors: others will come.
        """
        if not slots or self.is_elastic or (hurries and not self.reserve):
            return self.wish
        return max(self.least, min(self.wish, (slots - self.reserve) // self.crews))


def plan_slots(
    spark: SparkSession,
    wanted: int | None,
    *,
    least: int | None = None,
    reserve: int = 0,
    stays: bool = False,
    crews: int = 1,
    barrier: bool = False,
) -> SlotPlan:
    """Decide how many workers a flow wishes for, and check that Spark can run the least of them.

    ``reserve`` slots must be left for jobs that run at the same time. A query that ``stays`` leaves one slot
    free by default: a session whose slots are all taken runs no other job. With ``barrier`` all workers must
    run at once, and dynamic allocation is rejected.
    """
    if barrier and is_elastic(spark):
        raise FlowError(
            "Spark rejects barrier stages under dynamic allocation. Leave out barrier=True, or set "
            "spark.dynamicAllocation.enabled=false and a fixed number of executors."
        )
    _check_wanted(wanted)
    _check_wanted(least)
    lowest = least or 1
    if wanted is not None and lowest > wanted:
        raise FlowError(f"min_workers={lowest} is more than workers={wanted}. Give at most workers=.")
    if is_elastic(spark):
        now = slots_now(spark) or 0
        wish = wanted or max(lowest, now - 1, _ELASTIC_WORKERS)
        return SlotPlan(wish, lowest, reserve, crews, is_elastic=True)
    slots = _slots(spark, None if wanted is None else wanted * crews + reserve)
    if slots is None:
        if wanted is None:
            raise _unknown()
        return SlotPlan(wanted, lowest, reserve, crews)
    left = max(reserve, 1 if stays and slots > 1 and wanted is None else 0)
    wish = max(lowest, (slots - left) // crews) if wanted is None else wanted
    if lowest * crews + reserve > slots:
        again = ", the spare workers need as many again" if crews > 1 else ""
        streaming = f"{again} and Structured Streaming needs one more" if reserve else again
        raise _too_few(lowest, slots, lowest * crews + reserve, streaming)
    plan = SlotPlan(wish, lowest, left, crews)
    if plan.capped(slots) < wish:
        _log.warning(
            "%d workers were requested, but Spark has %d slots: the flow starts with %d workers.%s",
            wish,
            slots,
            plan.capped(slots),
            " It uses more when it restarts and Spark has more slots." if stays else "",
        )
    return plan


def check_in_driver(
    workers: int | None, min_workers: int | None, *, barrier: bool = False, spare_crew: bool = False
) -> None:
    """FlowError for options about Spark tasks, of which there are none."""
    given = {"workers": (workers or 1) > 1, "min_workers": (min_workers or 1) > 1}
    given |= {"barrier": barrier, "spare_crew": spare_crew}
    for name in (name for name, is_given in given.items() if is_given):
        raise FlowError(
            f"in_driver=True runs the flow with one worker in this process, so {name}= does not apply. Leave "
            f"out {name}= or in_driver=."
        )


def is_elastic(spark: SparkSession) -> bool:
    """Whether Spark starts and ends executors as tasks need them."""
    return _setting(spark, "spark.dynamicAllocation.enabled") == "true"


def _slots(spark: SparkSession, wanted: int | None) -> int | None:
    return _slots_of_connect(spark) if is_connect(spark) else _slots_of_classic(spark, wanted)


def _check_wanted(count: int | None) -> None:
    if count is not None and count < 1:
        raise FlowError(f"workers must be at least 1, got {count}. Give a larger number.")


def _unknown() -> FlowError:
    return FlowError(
        f"the number of slots of this session is unknown ({' or '.join(_DEFAULTS)} is set). Give "
        "workers=, at most the number of cores that all executors have together."
    )


def _too_few(count: int, slots: int, needed: int, besides: str) -> FlowError:
    return FlowError(
        f"{count} workers were requested, but Spark has {slots} slots, and each worker needs one{besides}. "
        f"Request fewer, or start Spark with more cores (local[{needed}], more "
        "executors, or a larger spark.executor.cores or spark.cores.max)."
    )


def slots_now(spark: SparkSession) -> int | None:
    """How many tasks Spark can run at once now, taken slots included; None where it does not say."""
    try:
        return None if is_connect(spark) else _scheduler(spark)()
    except Exception:  # py4j's, when there is no Java any more
        return None


def slots_busy(spark: SparkSession, *, wait_seconds: float = 0.0) -> int:
    """How many slots still run tasks after a while; 0 where Spark does not say."""
    deadline = monotonic() + wait_seconds
    while True:
        try:
            context: Any = spark.sparkContext
            # Not public in Python.
            executors = context._jsc.sc().statusTracker().getExecutorInfos()  # noqa: SLF001
            busy = sum(int(each.numRunningTasks()) for each in executors)
        except Exception:  # py4j's; Connect has no context
            return 0
        if not busy or monotonic() > deadline:
            return busy
        sleep(_BUSY_LOOK_SECONDS)


def task_failures_max(spark: SparkSession) -> int:
    """How often the same task may fail in this session before Spark gives its job up."""
    if not is_connect(spark) and is_local(spark):
        master = _setting(spark, "spark.master") or ""
        return int(master.rpartition(",")[2].strip(" ]")) if "," in master else 1
    return int(_setting(spark, "spark.task.maxFailures") or 4)


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
