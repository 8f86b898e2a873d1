"""Queries on clusters: executors that are processes of their own, and sessions that end under a query.

Families, and what only each can find:
- *executors*: Spark replaces one that was killed; until then slots are missing, and on a cluster it would
  start a barrier stage again by itself, beside the one that the query starts;
- *standalone*: a master and two workers, started as an administrator would, under the same torture;
- *session*: a session that is stopped under its query ends it with a sentence, at once.
"""

import json
import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyspark
import pytest

from support.streams import counts_by_epoch, published_by_epoch

pytestmark = [pytest.mark.spark, pytest.mark.long]

SPARK_HOME = Path(pyspark.__file__).parent
ROOT = Path(__file__).parents[2]
SECONDS_MAX = 900
START_LINES_MAX = 2_000
LOGGING = """
rootLogger.level = info
rootLogger.appenderRef.stdout.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %m%n
"""


def environment(folder: Path) -> dict[str, str]:
    """Where Spark and this Python are; everything listens on loopback and writes below one folder."""
    return {
        **os.environ,
        "SPARK_HOME": str(SPARK_HOME),
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": str(ROOT / "tests"),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_WORKER_DIR": str(folder / "work"),
        "SPARK_LOCAL_DIRS": str(folder / "scratch"),
        "SPARK_NO_DAEMONIZE": "1",
    }


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


@contextmanager
def daemon(folder: Path, name: str, *arguments: str, until: str, options: str = "") -> Iterator[str]:
    """A Java process of Spark's that has said it is ready; it is stopped by the pid that started it."""
    log = folder / "log4j2.properties"
    log.write_text(LOGGING)
    running = subprocess.Popen(
        [str(SPARK_HOME / "bin" / "spark-class"), f"org.apache.spark.deploy.{name}", *arguments],
        env={
            **environment(folder),
            "SPARK_DAEMON_JAVA_OPTS": f"-Dlog4j2.configurationFile=file:{log} {options}",
        },
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert running.stdout is not None
    try:
        lines = zip(range(START_LINES_MAX), running.stdout, strict=False)
        yield next(found[0] for _, line in lines if (found := re.search(until, line)))
    finally:
        running.terminate()
        # What it still says must not fill the pipe while it ends.
        running.communicate(timeout=180)


def test_on_local_cluster_killed_executors_and_workers_cost_no_epoch(tmp_path: Path) -> None:
    # The first strike of this seed is at an executor.
    report = tortured(tmp_path, "--seed=3")
    assert (report["lost"], report["duplicated"]) == (0, 0)
    assert report["done"].get("kill executor", 0) >= 1
    assert report["restarts"] >= 1


def test_on_a_standalone_master_killed_workers_cost_no_epoch(tmp_path: Path) -> None:
    own = ("--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
    worker = ("--cores", "1", "--memory", "1g", "--work-dir", str(tmp_path / "work"), *own)
    with (
        daemon(tmp_path, "master.Master", *own, until=r"spark://127\.0\.0\.1:\d+") as master,
        daemon(tmp_path, "worker.Worker", *worker, master, until=r"Successfully registered with master"),
        daemon(tmp_path, "worker.Worker", *worker, master, until=r"Successfully registered with master"),
    ):
        report = tortured(tmp_path, f"--master={master}", "--workers=2", "--seed=1", "--spare-executors")
    assert (report["lost"], report["duplicated"]) == (0, 0)
    assert report["restarts"] >= 1


@pytest.mark.parametrize("keeper", ["the external shuffle service", "shuffle tracking"])
def test_executors_that_are_lost_on_a_standalone_master_under_dynamic_allocation_cost_no_epoch(
    keeper: str, tmp_path: Path
) -> None:
    own = ("--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
    worker = ("--cores", "4", "--memory", "2g", "--work-dir", str(tmp_path / "work"), *own)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    service, arguments = "", ["--dynamic-allocation"]
    if keeper == "the external shuffle service":
        service = f"-Dspark.shuffle.service.enabled=true -Dspark.shuffle.service.port={port}"
        arguments.append(f"--shuffle-service={port}")
    ready = r"Successfully registered with master"
    with (
        daemon(tmp_path, "master.Master", *own, until=r"spark://127\.0\.0\.1:\d+") as master,
        daemon(tmp_path, "worker.Worker", *worker, master, until=ready, options=service),
    ):
        report = tortured(tmp_path, f"--master={master}", "--losses=4", *arguments, seconds=SECONDS_MAX)
    assert (report["lost"], report["duplicated"]) == (0, 0)
    assert report["done"] == {"kill executor": 4}
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
