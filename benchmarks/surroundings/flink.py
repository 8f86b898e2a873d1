"""Flink between two topics: a cluster in one JVM, told in SQL what to do.

Its jars come from Maven (``scripts/jars.py flink``), and py4j, which Spark brings along, starts the JVM: so
nothing depends on the version of Python. Transactions end with checkpoints, here every 10 ms, the least that
Flink allows; counts go out in small groups, as its guide advises for many records.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pyspark
from py4j.java_gateway import (
    GatewayParameters,
    JavaGateway,
    launch_gateway,
)
from scripts.jars import jars

CHECKPOINT_MS: Final = 10
_OPENED: Final = [
    f"--add-opens=java.base/{package}=ALL-UNNAMED"
    for package in ("java.lang", "java.net", "java.io", "java.nio", "java.util", "java.time")
]
_SETTINGS: Final = {
    "parallelism.default": "1",
    "execution.checkpointing.interval": f"{CHECKPOINT_MS} ms",
    "execution.checkpointing.mode": "EXACTLY_ONCE",
    "table.exec.mini-batch.enabled": "true",
    "table.exec.mini-batch.allow-latency": "10 ms",
    "table.exec.mini-batch.size": "10000",
}


@contextmanager
def working(doubles: bool, address: str, source: str, target: str, folder: str) -> Iterator[None]:
    """Flink is at work until the end of the context."""
    with (Path(folder) / "flink.log").open("w") as log:
        jar = next((Path(pyspark.__file__).parent / "jars").glob("py4j-*.jar"))
        port, process = launch_gateway(
            classpath=f"{jars('flink')}/*",
            jarpath=str(jar),
            die_on_exit=True,
            javaopts=["-Xmx1g", "-Dorg.slf4j.simpleLogger.defaultLogLevel=error", *_OPENED],
            redirect_stdout=log,
            redirect_stderr=log,
            return_proc=True,
        )
        gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port))
        try:
            job = _started(gateway.jvm, doubles, address, source, target, folder)
            yield
            job.cancel()
        finally:
            gateway.close()
            process.kill()
            process.wait()


def _started(jvm: Any, doubles: bool, address: str, source: str, target: str, folder: str) -> Any:  # noqa: ANN401
    settings = jvm.org.apache.flink.configuration.Configuration()
    for name, value in {**_SETTINGS, "execution.checkpointing.dir": f"file://{folder}/saved"}.items():
        settings.setString(name, value)
    made = jvm.org.apache.flink.table.api.EnvironmentSettings.newInstance()
    made = made.inStreamingMode().withConfiguration(settings).build()
    tables = jvm.org.apache.flink.table.api.TableEnvironment.create(made)
    for statement in _tables(doubles, address, source, target):
        tables.executeSql(statement)
    what = "SELECT n, n * 2 FROM source" if doubles else "SELECT k, COUNT(*) FROM source GROUP BY k"
    return tables.executeSql(f"INSERT INTO target {what}").getJobClient().get()


def _tables(doubles: bool, address: str, source: str, target: str) -> list[str]:
    kafka = f"'properties.bootstrap.servers' = '{address}'"
    read = (
        f"'connector' = 'kafka', {kafka}, 'topic' = '{source}', 'format' = 'json', "
        "'scan.startup.mode' = 'earliest-offset', 'properties.isolation.level' = 'read_committed'"
    )
    once = (
        f"{kafka}, 'topic' = '{target}', 'sink.delivery-guarantee' = 'exactly-once', "
        f"'sink.transactional-id-prefix' = '{target}', 'properties.transaction.timeout.ms' = '600000'"
    )
    if doubles:
        to = f"(n BIGINT, twice BIGINT) WITH ('connector' = 'kafka', 'format' = 'json', {once})"
    else:
        formats = "'key.format' = 'json', 'value.format' = 'json'"
        columns = "(k BIGINT PRIMARY KEY NOT ENFORCED, n BIGINT)"
        to = f"{columns} WITH ('connector' = 'upsert-kafka', {formats}, {once})"
    column = "n" if doubles else "k"
    return [f"CREATE TABLE source ({column} BIGINT) WITH ({read})", f"CREATE TABLE target {to}"]
