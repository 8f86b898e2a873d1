"""Slots and failures: what can be known before the start, and what Spark's messages become.

Families:
- sessions that answer from a table, without Spark: a Connect session is never asked for its sparkContext,
  which it has not; executors that come late are waited for, and not for ever;
- functions that cannot be pickled: whose they are is said before Spark sees them;
- messages in the shape that Spark gives them: each becomes one sentence;
- a real session: the scheduler's own number is used, and what real tasks die of comes back as text.
"""

import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import pointstamp as ps
from pointstamp.errors import FlowError, OperatorError, PointstampError, RecoveryError, TransportError
from pointstamp.spark import job, worker_formation
from pointstamp.spark.failures import check_sendable, in_words
from pointstamp.spark.rendezvous import versions
from pointstamp.spark.slots import (
    REGISTRATION_SECONDS_MAX,
    SlotPlan,
    check_in_driver,
    is_connect,
    plan_slots,
    slots_busy,
    task_failures_max,
    wait_for_slots,
)

SECONDS_MAX = 120


class _Settings:
    def __init__(self, settings: dict[str, str]) -> None:
        self._settings = settings

    def get(self, name: str, default: str | None) -> str | None:
        return self._settings.get(name, default)


class _Range:
    """A DataFrame that answers the one question which is asked of it."""

    def __init__(self, partitions: int) -> None:
        self._partitions = partitions

    def selectExpr(self, *_: str) -> "_Range":  # noqa: N802 - Spark's name
        return self

    def agg(self, _: dict[str, str]) -> "_Range":
        return self

    def collect(self) -> list[tuple[int]]:
        return [(self._partitions - 1,)]


class _ConnectSession:
    """A session that has what Connect sessions have, and raises for anything else, as they do."""

    def __init__(self, slots: int, **settings: str) -> None:
        self._slots = slots
        self.conf = _Settings({name.replace("_", "."): value for name, value in settings.items()})

    def range(self, _: int) -> _Range:
        return _Range(self._slots)

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401
        raise AttributeError(f"[JVM_ATTRIBUTE_NOT_SUPPORTED] {name}")


_ConnectSession.__module__ = "pyspark.sql.connect.session"


def connect(slots: int, **settings: str) -> SparkSession:
    return cast("SparkSession", _ConnectSession(slots, **settings))


def test_a_connect_session_is_asked_without_its_spark_context() -> None:
    assert is_connect(connect(4))
    assert plan_slots(connect(4), None).wish == 4
    assert plan_slots(connect(4), 3).wish == 3
    assert plan_slots(connect(4, spark_task_cpus="2"), None).wish == 2
    with pytest.raises(FlowError, match=r"5 workers were requested, but Spark has 4 slots"):
        plan_slots(connect(4), 5, least=5)


def test_a_query_leaves_a_slot_for_other_jobs_by_default() -> None:
    assert plan_slots(connect(4), None, stays=True) == SlotPlan(3, reserve=1)
    assert plan_slots(connect(4), None, stays=True, reserve=1) == SlotPlan(3, reserve=1)
    assert plan_slots(connect(4), 4, stays=True) == SlotPlan(4)
    assert plan_slots(connect(1), None, stays=True) == SlotPlan(1)


def test_a_query_with_fewer_slots_than_workers_starts_with_fewer_and_says_so(
    caplog: pytest.LogCaptureFixture,
) -> None:
    plan = plan_slots(connect(4), 8, least=2, stays=True)
    assert (plan.wish, plan.capped(4), plan.capped(6), plan.capped(20)) == (8, 4, 6, 8)
    assert plan.capped(0) == 8, "all executors are lost, and others will come"
    assert "8 workers were requested, but Spark has 4 slots: the flow starts with 4 workers." in caplog.text
    with pytest.raises(FlowError, match=r"5 workers were requested, but Spark has 4 slots"):
        plan_slots(connect(4), 8, least=5)
    with pytest.raises(FlowError, match=r"min_workers=3 is more than workers=2"):
        plan_slots(connect(4), 2, least=3)


def test_spare_workers_need_as_many_slots_again(caplog: pytest.LogCaptureFixture) -> None:
    assert plan_slots(connect(5), None, stays=True, crews=2).wish == 2
    assert plan_slots(connect(6), 2, stays=True, reserve=1, crews=2).capped(6) == 2
    assert caplog.text == ""
    assert plan_slots(connect(4), 2, stays=True, reserve=1, crews=2).capped(4) == 1
    with pytest.raises(FlowError, match=r"but Spark has 2 slots, .* need as many again.* \(local\[3\],"):
        plan_slots(connect(2), 1, reserve=1, crews=2)
    with pytest.raises(FlowError, match=r"1 workers were requested, but Spark has 1 slots"):
        plan_slots(connect(1), None, stays=True, crews=2)


def test_with_dynamic_allocation_all_workers_are_asked_for() -> None:
    elastic = connect(4, spark_dynamicAllocation_enabled="true")
    plan = plan_slots(elastic, 8, least=3, stays=True)
    assert plan.is_elastic
    assert (plan.capped(0), plan.capped(4), plan.least) == (8, 8, 3)
    assert plan_slots(elastic, None, stays=True).wish == 2


def test_a_connect_session_that_does_not_say_its_slots_needs_workers() -> None:
    session = connect(200, spark_default_parallelism="200")
    with pytest.raises(FlowError, match=r"the number of slots of this session is unknown .* Give workers="):
        plan_slots(session, None)
    assert plan_slots(session, 2).wish == 2


def test_a_connect_session_needs_a_path_that_its_workers_reach() -> None:
    with pytest.raises(FlowError, match=r"a Connect session .* Give output="):
        job._temporary_folder(connect(2))


def test_a_barrier_is_rejected_under_dynamic_allocation_and_says_what_to_do() -> None:
    with pytest.raises(FlowError, match=r"Leave out barrier=True, or set spark.dynamicAlloc"):
        plan_slots(connect(4, spark_dynamicAllocation_enabled="true"), 2, barrier=True)


@pytest.mark.parametrize(
    ("master", "setting", "failures"),
    [
        ("local", None, 1),
        ("local[4]", "7", 1),
        ("local[2, 3]", None, 3),
        ("local-cluster[2,1,1024]", None, 4),
        ("yarn", "7", 7),
    ],
)
def test_a_run_may_fail_as_often_as_a_task_of_the_session(
    master: str, setting: str | None, failures: int
) -> None:
    class Classic:
        conf = _Settings(
            {"spark.master": master} | ({} if setting is None else {"spark.task.maxFailures": setting})
        )

    assert task_failures_max(cast("SparkSession", Classic())) == failures


@pytest.mark.parametrize(
    "options",
    [{"workers": 2}, {"min_workers": 2}, {"barrier": True}, {"spare_crew": True}],
    ids=lambda options: next(iter(options)),
)
def test_in_the_driver_there_are_no_tasks_to_choose(options: dict[str, Any]) -> None:
    (name,) = options
    given = {"workers": None, "min_workers": None} | options
    with pytest.raises(FlowError, match=rf"in_driver=True runs .* so {name}= does not apply. Leave out"):
        check_in_driver(**given)


def test_no_workers_at_all_are_refused() -> None:
    with pytest.raises(FlowError, match=r"workers must be at least 1, got 0"):
        plan_slots(connect(4), 0)


def _slots(answers: list[int], expected: int | None) -> tuple[int, float]:
    """What is found where executors register as the answers say, and how long that took."""
    now = 0.0

    def rest(seconds: float) -> None:
        nonlocal now
        now += seconds

    looks: Iterator[int] = iter(answers)
    last = answers[-1]
    found = wait_for_slots(lambda: next(looks, last), expected, clock=lambda: now, rest=rest)
    return found, now


def test_executors_that_come_late_are_waited_for() -> None:
    assert _slots([0, 0, 1, 2], 2)[0] == 2
    assert _slots([0, 0, 1, 3, 4, 4], None)[0] == 4
    assert _slots([8], 2) == (8, 0.0)


def test_executors_that_never_come_are_waited_for_only_so_long() -> None:
    found, seconds = _slots([0, 1], 2)
    assert found == 1
    assert seconds <= REGISTRATION_SECONDS_MAX + 1


@pytest.mark.parametrize(
    ("message", "kind", "words"),
    [
        (
            "Job aborted: Traceback (most recent call last):\n  File x\n"
            "pointstamp.errors.TransportError: worker 0 cannot listen at tcp://1.2.3.4:0.\n\tat java.X\n",
            TransportError,
            "worker 0 cannot listen at tcp://1.2.3.4:0.",
        ),
        (
            'An exception was thrown:\nTraceback (most recent call last):\n  File "w.py"\n'
            "pyspark.serializers.SerializationError: Caused by Traceback (most recent call last):\n"
            "ModuleNotFoundError: No module named 'pointstamp.spark'\n",
            FlowError,
            "the Python of the executors has no package 'pointstamp'. Install the driver's environment on "
            "them",
        ),
        (
            "[PYTHON_VERSION_MISMATCH] Python in worker has different version: (3, 9) than that in driver: "
            "(3, 11), PySpark cannot run with different minor versions.",
            FlowError,
            "the executors run Python 3.9 and the driver 3.11.",
        ),
        (
            'java.io.IOException: Cannot run program "/opt/env/bin/python": error=2, No such file',
            FlowError,
            "there is no '/opt/env/bin/python' on them",
        ),
        (
            "Could not recover from a failed barrier ResultStage. Most recent failure reason: Stage failed "
            "because barrier task ResultTask(2, 0) finished unsuccessfully.\nExecutorLostFailure (executor 1 "
            "exited caused by one of the running tasks) Reason: Command exited with code 137\n\tat x",
            TransportError,
            "executor 1 died while the flow ran: Command exited with code 137. Nothing was published.",
        ),
        (
            'An exception was thrown\nTraceback (most recent call last):\n  File "x", line 1\n    f()\n'
            "ValueError: odd\n\n\tat org.apache",
            FlowError,
            "Spark could not run the workers: ValueError: odd",
        ),
        ("Job 3 cancelled\n\tat org.apache.spark", FlowError, "could not run the workers: Job 3 cancelled"),
        ("", FlowError, "no reason given"),
    ],
)
def test_a_message_of_sparks_becomes_one_sentence(
    message: str, kind: type[PointstampError], words: str
) -> None:
    error = in_words(message)
    assert type(error) is kind
    assert words in str(error)
    assert "\n" not in str(error)


@pytest.mark.spark
def test_a_real_session_has_the_slots_of_its_scheduler(spark: SparkSession) -> None:
    assert plan_slots(spark, None).wish == 2
    assert slots_busy(spark, wait_seconds=10.0) == 0


@pytest.mark.spark
def test_a_package_that_the_tasks_lack_is_named(spark: SparkSession) -> None:
    class Absent:
        """Pickled as a name that no task can import."""

        def __reduce__(self) -> tuple[Any, ...]:
            return __import__, ("no_such_package",)

    absent = Absent()
    flow = ps.Dataflow("lacks")
    flow.output("out", flow.stream_input("numbers", "x long").map_batches(lambda batch: (absent, batch)[1]))
    with pytest.raises(
        FlowError, match=r"the Python of the executors has no package 'no_such_package'"
    ) as caught:
        flow.run(on=spark, numbers=spark.range(1).selectExpr("id as x"))
    assert not isinstance(caught.value, OperatorError)
    assert caught.value.__cause__ is None  # no Java stack trace


def test_what_cannot_be_sent_to_the_workers_is_named_before_spark_tries() -> None:
    lock = threading.Lock()

    def guarded(batch: pa.RecordBatch) -> pa.RecordBatch:
        with lock:
            return batch

    flow = ps.Dataflow("locked")
    numbers = flow.stream_input("numbers", "x long").map_batches(lambda batch: batch).named("innocent")
    flow.output("out", numbers.map_batches(guarded).named("guard"))
    words = r"operator 'guard' of flow 'locked' cannot be sent .* '_thread.lock' .* Create locks"
    with pytest.raises(FlowError, match=words):
        check_sendable(flow.plan, flow.plan)
    sound = ps.Dataflow("sound").plan
    check_sendable(sound, (sound, guarded.__name__))
    with pytest.raises(FlowError, match=r"flow 'sound' cannot be sent .* '_thread.lock' .*sink"):
        check_sendable(sound, (sound, lock))


@pytest.mark.spark
def test_a_run_and_a_query_with_a_function_that_cannot_be_sent_say_so_and_print_nothing(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lock = threading.Lock()
    flow = ps.Dataflow("locked")
    flow.output(
        "out",
        flow.stream_input("numbers", "x long").map_batches(lambda batch: (lock, batch)[1]).named("guard"),
    )
    numbers = spark.range(3).selectExpr("id as x")
    with pytest.raises(FlowError, match=r"operator 'guard' of flow 'locked' cannot be sent"):
        flow.run(on=spark, numbers=numbers)
    with pytest.raises(FlowError, match=r"operator 'guard' of flow 'locked' cannot be sent"):
        flow.start(
            on=spark, numbers=numbers, workers=1, checkpoint=tmp_path / "c", output=tmp_path / "o"
        ).await_termination(SECONDS_MAX)
    assert "Traceback" not in capsys.readouterr().err


@pytest.mark.spark
@pytest.mark.parametrize("workers", [1, 2])
def test_a_driver_of_another_version_is_named_beside_the_host_of_the_worker(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, workers: int
) -> None:
    for module in (worker_formation, job):
        monkeypatch.setattr(module, "versions", lambda: {**versions(), "pointstamp": "9.9"})
    flow = ps.Dataflow("versions")
    flow.output("out", flow.stream_input("numbers", "x long"))
    with pytest.raises(
        RecoveryError, match=r"driver runs pointstamp 9.9, and a worker on host .* spark.archives"
    ):
        flow.run(on=spark, numbers=spark.range(1).selectExpr("id as x"), workers=workers)


@pytest.mark.spark
def test_a_worker_whose_process_dies_ends_the_run_in_words(spark: SparkSession, tmp_path: Path) -> None:
    def die(batch: pa.RecordBatch) -> pa.RecordBatch:
        os._exit(1)

    flow = ps.Dataflow("dies")
    flow.output("out", flow.stream_input("numbers", "x long").map_batches(die))
    with pytest.raises(TransportError, match=r"a worker's Python process died while the flow ran"):
        flow.run(on=spark, numbers=spark.range(1).selectExpr("id as x"), output=str(tmp_path))
    assert not list(tmp_path.rglob("*.*"))
