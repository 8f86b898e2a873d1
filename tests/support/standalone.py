"""A standalone cluster of Spark: a master and workers as an administrator would start them, on loopback."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

import pyspark

from support.streams import until

ROOT: Final = Path(__file__).parents[2]
SPARK_HOME: Final = Path(pyspark.__file__).parent
LOOPBACK: Final = "127.0.0.1"
START_SECONDS_MAX: Final = 180
STOP_SECONDS_MAX: Final = 180
LOGGING: Final = """
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
        "SPARK_LOCAL_IP": LOOPBACK,
        "SPARK_WORKER_DIR": str(folder / "work"),
        "SPARK_LOCAL_DIRS": str(folder / "scratch"),
        "SPARK_NO_DAEMONIZE": "1",
    }


@contextmanager
def standalone(
    folder: Path, *, workers: Sequence[str] = (LOOPBACK,), cores: int, memory: str = "1g", options: str = ""
) -> Iterator[str]:
    """A master and a worker at each of these addresses; the address of the master.

    ``options`` are Java's, for the workers.
    """
    size = ("--cores", str(cores), "--memory", memory, "--work-dir", str(folder / "work"))
    with ExitStack() as opened:
        named = ("--host", LOOPBACK, "--port", "0", "--webui-port", "0")
        master = opened.enter_context(
            _daemon(folder, "master.Master", *named, ready=r"spark://127\.0\.0\.1:\d+")
        )
        for address in workers:
            named = ("--host", address, "--port", "0", "--webui-port", "0")
            ready = "Successfully registered with master"
            opened.enter_context(
                _daemon(folder, "worker.Worker", *size, *named, master, ready=ready, options=options)
            )
        yield master


@contextmanager
def _daemon(folder: Path, name: str, *arguments: str, ready: str, options: str = "") -> Iterator[str]:
    """A Java process of Spark's that has said it is ready; it is stopped by the pid that started it.

    Its log is a file: a pipe that is not read would stop it as soon as it is full.
    """
    settings, number = folder / "log4j2.properties", len([*folder.glob("*.log")])
    settings.write_text(LOGGING)
    log = folder / f"{number}-{name}.log"
    with log.open("w") as out:
        running = subprocess.Popen(
            [str(SPARK_HOME / "bin" / "spark-class"), f"org.apache.spark.deploy.{name}", *arguments],
            env={
                **environment(folder),
                "SPARK_DAEMON_JAVA_OPTS": f"-Dlog4j2.configurationFile=file:{settings} {options}",
            },
            cwd=folder,
            stdout=out,
            stderr=subprocess.STDOUT,
        )
    try:
        found: list[str] = []

        def is_ready() -> bool:
            assert running.poll() is None, log.read_text()[-4_000:]
            complete = log.read_text().rpartition("\n")[0]
            found[:] = [each[0] for each in re.finditer(ready, complete)]
            return bool(found)

        until(is_ready, START_SECONDS_MAX)
        yield found[0]
    finally:
        running.terminate()
        running.wait(STOP_SECONDS_MAX)
