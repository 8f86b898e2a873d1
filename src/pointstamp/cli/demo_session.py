"""The Spark session of ``pointstamp demo``: local, quiet and private."""

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import TYPE_CHECKING, Any, Final

from pointstamp.errors import UsageError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_NO_LOG: Final = """\
appender.none.type = Null
appender.none.name = none
rootLogger.level = off
rootLogger.appenderRef.none.ref = none
"""
"""Settings of log4j for what Spark logs before it reads ``spark.log.level``."""


@contextmanager
def demo_session(slots: int) -> "Iterator[SparkSession]":
    """Yield a session with so many slots; UsageError if pyspark is not installed."""
    try:
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise UsageError(
            "demo: this command needs pyspark, which is not installed; install pointstamp[spark]."
        ) from error

    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    builder: Any = SparkSession.builder.master(f"local[{slots}]").appName("pointstamp demo")
    with NamedTemporaryFile("w", prefix="pointstamp-demo-", suffix=".properties", delete=False) as logging:
        logging.write(_NO_LOG)
    for name, value in {
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.showConsoleProgress": "false",
        # The workers hold all slots but one, so more partitions only wait for each other.
        "spark.sql.shuffle.partitions": "1",
        "spark.sql.adaptive.enabled": "false",
        "spark.log.level": "OFF",  # the death of a worker is told here, and not with a Java stack trace
        "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 "
        f"-Dlog4j2.configurationFile={Path(logging.name).as_uri()}",
    }.items():
        builder = builder.config(name, value)
    try:
        session = builder.getOrCreate()
    finally:
        Path(logging.name).unlink()
    # Spark's own handler would cancel all jobs before the query could be stopped.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield session
    finally:
        session.stop()


def say(text: str) -> None:
    """Print a line for a person, to standard error."""
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()
