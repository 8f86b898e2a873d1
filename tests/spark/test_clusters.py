"""Clusters: the same loop where the workers are tasks of real executor processes.

Families:
- local-cluster: Spark starts a master, workers and executors by itself;
- standalone: a master and two workers are started here, as an administrator would, on loopback; also with
  dynamic allocation, where Spark has no executor before there are tasks;
- YARN: a resource manager and two nodes in one process, as an application of which the workers are tasks.
Only these can find what works in one process by accident: addresses, environments, pickled flows, files.
"""

import json
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from support.hadoop import Hadoop, java_home
from support.standalone import LOOPBACK, SPARK_HOME, environment, standalone

pytestmark = pytest.mark.spark

JOB = Path(__file__).with_name("cluster_job.py")
JOB_SECONDS_MAX = 600
EXPECTED = {"same": True, "query": True, "processes": 2, "near": [2], "elastic": "false"}
"""Two executors and the driver, which reach each other through unix sockets on one host."""


def report_of_job(master: str, folder: Path, further: Mapping[str, str] | None = None) -> dict[str, object]:
    done = subprocess.run(
        [sys.executable, str(JOB), master, str(folder / "out")],
        env={**environment(folder), **(further or {})},
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=JOB_SECONDS_MAX,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4_000:]
    report: dict[str, object] = json.loads(done.stdout.strip().splitlines()[-1])
    # local-cluster keeps its executors' folders beside Spark itself and cannot be told otherwise.
    shutil.rmtree(SPARK_HOME / "work" / str(report.pop("application")), ignore_errors=True)
    return report


@pytest.mark.long
def test_a_loop_on_two_executor_processes_of_local_cluster_gives_what_it_gives_here(tmp_path: Path) -> None:
    report = report_of_job("local-cluster[2,1,1024]", tmp_path)
    assert report == EXPECTED | {"rows": report["rows"]}


@pytest.mark.long
def test_a_loop_on_a_standalone_master_with_two_workers_gives_what_it_gives_here(tmp_path: Path) -> None:
    with standalone(tmp_path, workers=[LOOPBACK] * 2, cores=1) as master:
        report = report_of_job(master, tmp_path)
    assert report == EXPECTED | {"rows": report["rows"]}


ELASTIC = {
    "spark.dynamicAllocation.enabled": "true",
    "spark.dynamicAllocation.shuffleTracking.enabled": "true",
    "spark.dynamicAllocation.minExecutors": "0",
}


@pytest.mark.long
def test_a_loop_on_executors_that_spark_starts_for_its_tasks_gives_what_it_gives_here(tmp_path: Path) -> None:
    settings = " ".join(f"--conf {name}={value}" for name, value in ELASTIC.items())
    with standalone(tmp_path, workers=[LOOPBACK] * 2, cores=1) as master:
        report = report_of_job(master, tmp_path, {"PYSPARK_SUBMIT_ARGS": f"{settings} pyspark-shell"})
    # One executor may be enough for the tasks of the udf.
    assert report == EXPECTED | {
        "rows": report["rows"],
        "processes": report["processes"],
        "elastic": "true",
    }


def for_yarn(place: str) -> dict[str, str]:
    """Where the cluster is, and what its containers need: Spark's jars are on the disk of every node."""
    settings = {
        "spark.yarn.jars": f"local:{SPARK_HOME}/jars/*",
        "spark.yarn.am.memory": "512m",
        "spark.yarn.appMasterEnv.JAVA_HOME": java_home(),
        "spark.executorEnv.JAVA_HOME": java_home(),
        "spark.executorEnv.PYSPARK_PYTHON": sys.executable,
    }
    told = " ".join(f"--conf {name}={value}" for name, value in settings.items())
    return {
        "HADOOP_CONF_DIR": place,
        "YARN_CONF_DIR": place,
        "JAVA_HOME": java_home(),
        "PYSPARK_SUBMIT_ARGS": f"{told} pyspark-shell",
    }


@pytest.mark.long
def test_a_loop_on_two_executors_of_yarn_gives_what_it_gives_here(tmp_path: Path) -> None:
    with Hadoop("yarn", tmp_path / "yarn") as cluster:
        report = report_of_job("yarn", tmp_path, for_yarn(cluster.place))
    assert report == EXPECTED | {"rows": report["rows"]}
