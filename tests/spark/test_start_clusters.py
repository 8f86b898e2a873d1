"""Queries on clusters: executors that are processes of their own, and sessions that end under a query.

Families, and what only each can find:
- *executors*: Spark replaces one that was killed; until then slots are missing, and on a cluster it would
  start a barrier stage again by itself, beside the one that the query starts;
- *standalone*: a master and two workers, started as an administrator would, under the same torture;
- *session*: a session that is stopped under its query ends it with a sentence, at once.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from support.standalone import LOOPBACK, ROOT, environment, standalone
from support.streams import counts_by_epoch, published_by_epoch

pytestmark = [pytest.mark.spark, pytest.mark.long]

SECONDS_MAX = 900
LOSSES = 3


def tortured(folder: Path, *arguments: str, seconds: int = 20) -> dict[str, Any]:
    """The report of a torture of a few seconds."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.torture.run", f"--seconds={seconds}", *arguments],
        env=environment(folder),
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr[-4_000:]
    report: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return report


def test_on_local_cluster_killed_executors_and_workers_cost_no_epoch(tmp_path: Path) -> None:
    # The first strike of this seed is at an executor.
    report = tortured(tmp_path, "--seed=3")
    assert (report["lost"], report["duplicated"]) == (0, 0)
    assert report["done"].get("kill executor", 0) >= 1
    assert report["restarts"] >= 1


def test_on_a_standalone_master_killed_workers_cost_no_epoch(tmp_path: Path) -> None:
    with standalone(tmp_path, workers=[LOOPBACK] * 2, cores=1) as master:
        report = tortured(tmp_path, f"--master={master}", "--workers=2", "--seed=1", "--spare-executors")
    assert (report["lost"], report["duplicated"]) == (0, 0)
    assert report["restarts"] >= 1


@pytest.mark.parametrize("keeper", ["the external shuffle service", "shuffle tracking"])
def test_executors_that_are_lost_on_a_standalone_master_under_dynamic_allocation_cost_no_epoch(
    keeper: str, tmp_path: Path
) -> None:
    service = ["--shuffle-service"] if keeper == "the external shuffle service" else []
    report = tortured(
        tmp_path,
        "--mode=standalone",
        "--dynamic-allocation",
        f"--losses={LOSSES}",
        *service,
        seconds=SECONDS_MAX,
    )
    assert (report["lost"], report["duplicated"]) == (0, 0)
    assert report["done"] == {"kill executor": LOSSES}
    assert report["executors seen"] > 2


LEFT = """
import json, os, signal, sys
from contextlib import suppress
from pathlib import Path
import pointstamp as ps
from support.streams import put, until, words_flow
from torture.story import end, executors, is_below, session

folder = Path(sys.argv[1])
spark = session("local-cluster[2,2,1024]")
application = spark.sparkContext.applicationId

def start(workers):
    return words_flow("words").start(
        on=spark,
        words=ps.io.files(folder / "in"),
        checkpoint=f"{folder}/c",
        output=f"{folder}/o",
        workers=workers,
    )

def is_python(process):
    with suppress(OSError):
        return b"pyspark.daemon" in (process / "cmdline").read_bytes()

def is_loaded(executor):
    found = [int(each.name) for each in Path("/proc").glob("[0-9]*") if is_python(each)]
    return any(is_below(each, executor) for each in found)

put(folder / "in", "0", {"word": ["a", "b"]})
query = start(1)
until(lambda: query.epoch >= 0)
until(lambda: len(executors(application)) == 2 and all(map(is_loaded, executors(application))))
query.stop()
query = start(3)
put(folder / "in", "1", {"word": ["a"]})
until(lambda: query.epoch >= 1)
before = len(query.workers())
worker = query.workers()[0][1]
os.kill(next(each for each in executors(application) if is_below(worker, each)), signal.SIGKILL)
until(lambda: query.restarts == 1)
put(folder / "in", "2", {"word": ["b", "b"]})
until(lambda: query.epoch >= 2)
print(json.dumps({"before": before, "after": len(query.workers()), "restarts": query.restarts}))
query.stop()
end(spark)
"""


def test_idle_executors_load_python_and_a_query_continues_in_the_slots_that_a_lost_one_leaves(
    tmp_path: Path,
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", LEFT, str(tmp_path)],
        env={**environment(tmp_path), "PYTHONPATH": f"{ROOT / 'tests'}:{':'.join(sys.path)}"},
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4_000:]
    assert json.loads(done.stdout.strip().splitlines()[-1]) == {"before": 3, "after": 2, "restarts": 1}
    assert published_by_epoch(tmp_path / "o", "counts") == counts_by_epoch([["a", "b"], ["a"], ["b", "b"]])


STOPPED = """
import sys
from pathlib import Path
import pointstamp as ps
from support.streams import put, until, words_flow
from torture.story import session

folder = Path(sys.argv[1])
spark = session("local[1]")
put(folder / "in", "0", {"word": ["a"]})
query = words_flow("words").start(
    on=spark, words=ps.io.files(folder / "in"), checkpoint=f"{folder}/c", output=f"{folder}/o"
)
until(lambda: query.epoch >= 0)
spark.stop()
until(lambda: not query.is_active)
print(query.exception())
"""


def test_a_session_that_is_stopped_under_its_query_ends_it_with_a_sentence(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", STOPPED, str(tmp_path)],
        env=environment(tmp_path),
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4_000:]
    assert "the Spark session in which flow 'words' ran was stopped" in done.stdout
