"""The main job, on a small graph: it runs on Spark, survives the death of a worker, and agrees with scipy.

Families, and what only each can find:
- the judge alone, on what a run without Spark has published: that an epoch which is lost, torn, repeated or
  early does not pass, because a judge that lets everything pass would never be noticed;
- the command as a user starts it, on Spark: that the crash happens, that the query continues, and that
  everything it says lies where it says.
"""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from pointstamp.cli.demo import _flow, _Story
from pointstamp.cli.demo_graph import Arrivals, Labels, differences
from pointstamp.cli.main import main

VERTICES = 300
Change = Callable[[pa.Table], pa.Table]


@pytest.fixture(scope="module")
def arrivals(tmp_path_factory: pytest.TempPathFactory) -> Arrivals:
    folder = tmp_path_factory.mktemp("in")
    made = Arrivals(folder, edges=400, vertices=VERTICES, files=5, every_seconds=0.0)
    made.allow(5)
    made.start()
    made._thread.join(300)
    assert made.is_done
    return made


def published_of(arrivals: Arrivals) -> pa.Table:
    results = _flow().run(edges=[arrivals.table(number) for number in range(arrivals.files)])
    return results["components"].table()


def test_the_judge_passes_what_a_run_without_a_crash_publishes(arrivals: Arrivals) -> None:
    assert list(differences(published_of(arrivals), arrivals, VERTICES)) == []


def test_the_judge_passes_epochs_that_took_several_files(arrivals: Arrivals) -> None:
    tables = [arrivals.table(number) for number in range(5)]
    together = [pa.concat_tables(tables[:2]), tables[2], pa.concat_tables(tables[3:])]
    published = _flow().run(edges=together)["components"].table()
    assert list(differences(published, arrivals, VERTICES)) == []


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda table: table.filter(pc.not_equal(table["epoch"], 2)), "have another component"),
        (lambda table: table.filter(pc.not_equal(table["epoch"], 4)), "nothing more was published"),
        (lambda table: table.slice(0, table.num_rows - 1), "have another component"),
        (lambda table: pa.concat_tables([table, table.slice(0, 1)]), "holds a vertex twice"),
        (lambda table: pa.concat_tables([table, _in_epoch(table.slice(0, 1), 1)]), "has not changed"),
    ],
    ids=["an epoch lost", "the last epoch lost", "an epoch torn", "a row twice", "a row again later"],
)
def test_the_judge_refuses_what_a_crash_could_have_done(
    change: Change, said: str, arrivals: Arrivals
) -> None:
    found = list(differences(change(published_of(arrivals)), arrivals, VERTICES))
    assert said in "; ".join(found)


def _in_epoch(rows: pa.Table, epoch: int) -> pa.Table:
    return rows.set_column(0, "epoch", pa.array([epoch] * rows.num_rows, pa.int64()))


def test_the_graph_so_far_is_counted_from_published_changes() -> None:
    labels = Labels(10)
    rows = {"epoch": [0, 0, 1], "vertex": [2, 5, 5], "component": [2, 5, 2]}
    labels.apply(pa.table(rows))
    assert (labels.vertices, labels.components, labels.largest, labels.epoch) == (2, 1, 2, 1)
    assert np.array_equal(labels.labels[[2, 5]], [2, 2])
    labels.apply(pa.table(rows).slice(0, 0))  # nothing new since
    assert labels.epoch == 1


@pytest.mark.parametrize("files", [2, 3, 4, 8, 30])
def test_before_the_crash_some_files_are_allowed_and_never_all(files: int, arrivals: Arrivals) -> None:
    few = Arrivals(arrivals.folder, edges=1, vertices=VERTICES, files=files, every_seconds=0.0)
    story = _Story(arrivals.folder, few, Labels(VERTICES), kill_at=(files - 1) // 2)
    assert story.kill_at is not None
    assert story.files_allowed(-1) > 0
    assert story.kill_at < max(story.files_allowed(epoch) for epoch in range(-1, files)) < files
    story.kill_at = None
    assert story.files_allowed(files - 1) >= files


@pytest.mark.spark
def test_the_demo_kills_a_worker_goes_on_and_agrees_with_scipy(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = [sys.executable, "-m", "pointstamp.cli.main", "demo"]
    options = ["--edges", "20000", "--epochs", "8", "--every", "0.02", "--output", str(tmp_path / "demo")]
    ran = subprocess.run([*command, *options], capture_output=True, text=True, timeout=600, check=False)
    assert ran.returncode == 0, ran.stderr
    assert "20,000 edges, in 8 files; 2 workers on Spark" in ran.stderr
    assert "killed worker 1 (process " in ran.stderr
    assert "; the query resumed from epoch " in ran.stderr
    assert "none is lost, none comes twice, as if no worker had been killed" in ran.stderr
    assert "8 epochs published in " in ran.stderr
    assert "\tat " not in ran.stderr  # no Java stack trace
    assert main(["snapshots", str(tmp_path / "demo" / "checkpoint")]) == 0
    assert "generations: 2" in capsys.readouterr().out


def test_a_folder_that_is_not_empty_is_refused_before_spark_starts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mine").touch()
    assert main(["demo", "--output", str(tmp_path)]) == 2
    assert "is not empty" in capsys.readouterr().err
