"""Queries on Spark with a spare crew: it takes the place of a lost one, and ends with the query.

Families, and what only each can find:
- *taken over*: a worker is killed while a crew stands by; rows, epochs and generations as without a spare;
- *gone*: the spare crew is dead when it is needed, or dies unneeded; only real processes die like this;
- *slots*: when a query has ended all of them are free.
How a crew that stands by joins a generation is tested without Spark in ``tests/query/test_standby.py``, who
keeps it in ``tests/spark/test_spare_keeper.py``.
"""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import pointstamp as ps
from pointstamp.query.query import Query
from pointstamp.spark.spare import SpareKeeper
from support.options import with_options
from support.streams import SECONDS_MAX, counts_by_epoch, published_by_epoch, put, until, words_flow

pytestmark = pytest.mark.spark

OFTEN = ps.RestartPolicy(restarts_max=50, pause_seconds=0.01, pause_seconds_max=0.1)


class Disturbed:
    """A query of one worker and one spare on the files of a folder, and what was sent to it."""

    def __init__(self, query: Query, folder: Path) -> None:
        self.query = query
        self.folder = folder
        self.sent: list[list[str]] = []

    @property
    def keeper(self) -> SpareKeeper:
        (keeper,) = self.query._companions
        assert isinstance(keeper, SpareKeeper)
        return keeper

    def send(self) -> None:
        """Send an epoch, and see it published."""
        self.sent.append(["a", f"w{len(self.sent)}"])
        put(self.folder / "in", f"{len(self.sent) - 1:04d}", {"word": self.sent[-1]})
        until(lambda: self.query.epoch >= len(self.sent) - 1)

    def kill(self) -> None:
        """Kill the worker, and see the query continue."""
        before = len(self.query.recovery_seconds)
        os.kill(self.query.workers()[0][1], signal.SIGKILL)
        until(lambda: len(self.query.recovery_seconds) > before)

    def spare_stands(self) -> None:
        """Wait for a spare crew."""
        until(lambda: self.keeper.is_standing)


@contextmanager
def started(spark: SparkSession, folder: Path, **options: Any) -> Iterator[Disturbed]:  # noqa: ANN401
    (folder / "in").mkdir(exist_ok=True)
    query = words_flow("words").start(
        on=spark,
        words=ps.io.files(folder / "in"),
        checkpoint=f"{folder}/c",
        output=f"{folder}/o",
        workers=1,
        **with_options(
            options, ps.QueryOptions(restarts=OFTEN, silence_seconds_max=SECONDS_MAX, spare_crew=True)
        ),
    )
    disturbed = Disturbed(query, folder)
    try:
        yield disturbed
    finally:
        query.stop(finish=False)
    if disturbed.sent:
        assert published_by_epoch(folder / "o", "counts") == counts_by_epoch(disturbed.sent)


def processes_of_tasks(spark: SparkSession) -> int:
    """How many tasks Spark runs at this moment."""
    tracker = spark.sparkContext.statusTracker()
    stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
    return sum(stage.numActiveTasks for stage in stages if stage is not None)


def test_spare_crews_take_the_place_of_killed_ones_die_themselves_and_end_with_the_query(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spares: list[int] = []
    usual = SpareKeeper.taken

    def noted(keeper: SpareKeeper, mission: Any) -> Any:  # noqa: ANN401 - as ``taken``
        tasks = usual(keeper, mission)
        spares.append(0 if tasks is None else 1)
        return tasks

    monkeypatch.setattr(SpareKeeper, "taken", noted)
    with started(spark, tmp_path) as disturbed:
        disturbed.send()
        # Two times in a row a spare crew is taken over, and the next one gets the slots of the lost one.
        for _ in range(2):
            disturbed.spare_stands()
            disturbed.kill()
            disturbed.send()
        assert spares == [0, 1, 1]
        assert disturbed.query.generation == 3
        # The spare crew and the one at work die together: the query continues as without.
        disturbed.spare_stands()
        for each in children_of_daemon(disturbed.query):
            os.kill(each, signal.SIGKILL)
        until(lambda: len(disturbed.query.recovery_seconds) > 2)
        disturbed.send()
    until(lambda: processes_of_tasks(spark) == 0)
    frame = spark.createDataFrame([("a",), ("b",)], "word string")
    assert words_flow("words").run(on=spark, words=frame, workers=2)["counts"].count() == 2


def children_of_daemon(query: Query) -> list[int]:
    """The processes of all Python workers, at work or standing by."""
    worker = query.workers()[0][1]
    daemon = Path(f"/proc/{worker}/stat").read_text().rpartition(")")[2].split()[1]
    return [int(each) for each in Path(f"/proc/{daemon}/task/{daemon}/children").read_text().split()]
