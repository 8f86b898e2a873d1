"""Clusters: the same loop where the workers are tasks of real executor processes.

Families:
- local-cluster: Spark starts a master, workers and executors by itself;
- standalone: a master and two workers are started here, as an administrator would, on loopback;
- YARN: a resource manager and two nodes in one process, as an application of which the workers are tasks.
Only these can find what works in one process by accident: addresses, environments, pickled flows, files.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pyspark
import pytest

from support.hadoop import Hadoop, java_home

pytestmark = pytest.mark.spark

SPARK_HOME = Path(pyspark.__file__).parent
JOB = Path(__file__).with_name("cluster_job.py")
JOB_SECONDS_MAX = 600
STOP_SECONDS_MAX = 180
START_LINES_MAX = 2_000
EXPECTED = {"same": True, "query": True, "processes": 2, "near": [2]}
"""Two executors and the driver, which reach each other through unix sockets on one host."""


def environment(folder: Path) -> dict[str, str]:
    """Where Spark and this Python are; everything listens on loopback and writes below one folder."""
    return {
        **os.environ,
        "SPARK_HOME": str(SPARK_HOME),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_WORKER_DIR": str(folder / "work"),
        "SPARK_LOCAL_DIRS": str(folder / "scratch"),
        "SPARK_NO_DAEMONIZE": "1",
    }


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


@contextmanager
def daemon(folder: Path, name: str, *arguments: str, until: str) -> Iterator[str]:
    """A Java process of Spark's that has said it is ready; it is stopped by the pid that started it."""
    command = [str(SPARK_HOME / "bin" / "spark-class"), f"org.apache.spark.deploy.{name}", *arguments]
    log = log4j(folder)
    running = subprocess.Popen(
        command,
        env={**environment(folder), "SPARK_DAEMON_JAVA_OPTS": f"-Dlog4j2.configurationFile=file:{log}"},
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert running.stdout is not None
    try:
        yield _found(running.stdout, until)
    finally:
        running.terminate()
        # What it still says must not fill the pipe while it ends.
        running.communicate(timeout=STOP_SECONDS_MAX)


def log4j(folder: Path) -> Path:
    """Settings with which a daemon says where it listens."""
    path = folder / "log4j2.properties"
    path.write_text(
        "rootLogger.level = info\nrootLogger.appenderRef.stdout.ref = console\n"
        "appender.console.type = Console\nappender.console.name = console\n"
        "appender.console.layout.type = PatternLayout\nappender.console.layout.pattern = %m%n\n"
    )
    return path


def _found(lines: Iterator[str], wanted: str) -> str:
    said = []
    for _, line in zip(range(START_LINES_MAX), lines, strict=False):
        said.append(line)
        if (match := re.search(wanted, line)) is not None:
            return match[0]
    raise AssertionError("".join(said[-30:]))


@pytest.mark.long
def test_a_loop_on_two_executor_processes_of_local_cluster_gives_what_it_gives_here(tmp_path: Path) -> None:
    report = report_of_job("local-cluster[2,1,1024]", tmp_path)
    assert report == EXPECTED | {"rows": report["rows"]}


@pytest.mark.long
def test_a_loop_on_a_standalone_master_with_two_workers_gives_what_it_gives_here(tmp_path: Path) -> None:
    own = ("--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
    worker = ("--cores", "1", "--memory", "1g", "--work-dir", str(tmp_path / "work"), *own)
    with (
        daemon(tmp_path, "master.Master", *own, until=r"spark://127\.0\.0\.1:\d+") as master,
        daemon(tmp_path, "worker.Worker", *worker, master, until=r"Successfully registered with master"),
        daemon(tmp_path, "worker.Worker", *worker, master, until=r"Successfully registered with master"),
    ):
        report = report_of_job(master, tmp_path)
    assert report == EXPECTED | {"rows": report["rows"]}


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
