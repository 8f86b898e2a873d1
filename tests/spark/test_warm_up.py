"""Which executors load Python while a query runs, and with how many tasks, without Spark.

Spark's answers are a table here. That real executors load Python is in ``test_start_clusters.py``.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from pointstamp.spark import warm_up
from pointstamp.spark.warm_up import WarmUp
from support.streams import until


class Cluster:
    """Executors with the tasks that they run, and how many tasks were started to load something."""

    def __init__(self) -> None:
        self.tasks: dict[str, int] = {}
        self.slots = 0
        self.is_at_work = True
        self.loaded: list[int] = []
        self.looks = 0

    def look(self, _: object) -> dict[str, int]:
        self.looks += 1
        return dict(self.tasks)

    def load(self, tasks: int) -> bool:
        self.loaded.append(tasks)
        return True

    def after_a_look(self) -> list[int]:
        """What was started once the present state was looked at."""
        seen = self.looks
        until(lambda: self.looks > seen + 1)
        return self.loaded


@contextmanager
def watched(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, is_at_work: Callable[[], bool] = lambda: True
) -> Iterator[Cluster]:
    monkeypatch.setattr(warm_up, "_LOOK_SECONDS", 0.005)
    monkeypatch.setattr(warm_up, "tasks_of_executors", cluster.look)
    monkeypatch.setattr(warm_up, "slots_now", lambda _: cluster.slots)
    monkeypatch.setattr(WarmUp, "_load", cluster.load)
    spark: Any = SimpleNamespace(sparkContext=None)
    companion = WarmUp(spark, "words", is_at_work)
    companion.start()
    try:
        yield cluster
    finally:
        companion.stop()
        assert not companion._thread.is_alive()


def test_each_executor_that_is_idle_and_new_runs_one_task_once(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster()
    cluster.tasks, cluster.slots = {"0": 1, "1": 0}, 4
    with watched(cluster, monkeypatch):
        assert cluster.after_a_look() == [2]
        assert cluster.after_a_look() == [2]
        cluster.tasks = {"0": 1, "1": 0, "2": 0}
        cluster.slots = 6
        assert cluster.after_a_look() == [2, 3]
        cluster.tasks = {"0": 2, "3": 0}
        cluster.slots = 4
        assert cluster.after_a_look() == [2, 3, 2]


def test_an_executor_loads_for_all_workers_that_it_may_get(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster()
    cluster.tasks, cluster.slots = {"0": 2, "1": 0}, 8
    with watched(cluster, monkeypatch):
        assert cluster.after_a_look() == [4]
        cluster.tasks = {"0": 2, "1": 1, "2": 0, "3": 0}
        cluster.slots = 16
        assert cluster.after_a_look() == [4, 4]
        cluster.tasks = {"0": 3, "1": 2, "2": 0, "4": 0}
        assert cluster.after_a_look() == [4, 4, 8]


def test_no_task_has_to_wait_for_a_slot(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster()
    cluster.tasks, cluster.slots = {"0": 2, "1": 2, "2": 2, "3": 0}, 7
    with watched(cluster, monkeypatch):
        assert cluster.after_a_look() == [1]
        cluster.tasks = {"0": 2, "1": 2, "2": 2, "4": 0}
        cluster.slots = 6
        assert cluster.after_a_look() == [1]


def test_nothing_is_loaded_while_workers_start_or_all_executors_have_workers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = Cluster()
    cluster.tasks, cluster.slots, cluster.is_at_work = {"0": 1, "1": 0}, 4, False
    asked = 0

    def is_at_work() -> bool:
        nonlocal asked
        asked += 1
        return cluster.is_at_work

    with watched(cluster, monkeypatch, is_at_work):
        until(lambda: asked > 3)
        assert (cluster.looks, cluster.loaded) == (0, [])
        cluster.tasks, cluster.is_at_work = {"0": 1, "1": 1}, True
        assert cluster.after_a_look() == []
