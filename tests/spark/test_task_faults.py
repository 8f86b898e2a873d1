"""Speculation, retries, decommissioning, exclusion, pools and lost executors, on a real standalone master.

One session goes through all stories (``faults_job.py``), on two hosts that are loopback addresses, with
``spark.task.maxFailures=2``, ``spark.excludeOnFailure.enabled``, FAIR pools, decommissioning and speculation
after one second. Each test looks at one story; only real executors show what Spark does by itself.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from support.standalone import LOOPBACK, ROOT, environment, standalone

pytestmark = [pytest.mark.spark, pytest.mark.long]

SECONDS_MAX = 900
JOB = Path(__file__).with_name("faults_job.py")


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the job has printed."""
    folder = tmp_path_factory.mktemp("faults")
    with standalone(folder, workers=[LOOPBACK, "127.0.0.2"], cores=2) as master:
        done = subprocess.run(
            [sys.executable, str(JOB), master, str(folder / "stories")],
            env={**environment(folder), "PYTHONPATH": f"{ROOT / 'tests'}:{':'.join(sys.path)}"},
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=SECONDS_MAX,
            check=False,
        )
    assert done.returncode == 0, done.stderr[-6_000:]
    found: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    sys.stderr.write(json.dumps(found, indent=1) + "\n")
    return found


def test_a_node_on_which_a_task_has_failed_is_excluded_and_the_workers_start_on_the_other(
    told: dict[str, Any],
) -> None:
    assert told["excluded_nodes"] == {
        "failed on": ["127.0.0.2"],
        "workers on": ["127.0.0.1"],
        "workers": 2,
        "restarts": 0,
        "is right": True,
    }


def test_copies_of_a_worker_by_speculation_do_no_work_and_end_no_worker(told: dict[str, Any]) -> None:
    story = told["speculation_and_pools"]
    assert story["restarts under speculation"] == 0
    assert story["is right"]


def test_a_query_survives_more_lost_workers_than_a_task_may_fail_also_with_exclusion(
    told: dict[str, Any],
) -> None:
    assert told["speculation_and_pools"]["restarts"] >= 5


def test_workers_run_in_the_pool_of_the_thread_that_started_the_query_also_after_restarts(
    told: dict[str, Any],
) -> None:
    assert told["speculation_and_pools"]["pools"] == ["mine"]


def test_a_decommissioned_executor_keeps_its_worker_until_it_ends_and_loses_no_row(
    told: dict[str, Any],
) -> None:
    story = told["decommissioning"]
    assert story["accepted"]
    assert story["restarts before it ends"] == 0
    assert story["is right"]


def test_a_bounded_run_that_loses_an_executor_and_its_shuffled_rows_starts_again_and_is_right(
    told: dict[str, Any],
) -> None:
    assert told["bounded_run_beside"] == {"is right": True, "beside": 100}
