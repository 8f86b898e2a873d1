"""A Hadoop cluster of the tests' own, in one process of Java on loopback: HDFS, or YARN with two nodes.

``python -m support.hadoop hdfs|yarn FOLDER`` says where it is, and serves until its input ends. Its jars are
got once (scripts/jars.py); the other jars are those of pyspark, and py4j, which comes with it, starts Java.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Any, Final

import pyspark

ROOT: Final = Path(__file__).parents[2]
TESTS: Final = str(ROOT / "tests")
SPARK_HOME: Final = Path(pyspark.__file__).parent
SECONDS_MAX: Final = 300
JVM: Final = ["-Xmx768m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData"]
OPENED: Final = [
    f"--add-opens=java.base/{each}=ALL-UNNAMED" for each in ("java.lang", "java.net", "java.io", "java.util")
]
YARN: Final = {
    "fs.defaultFS": "file:///",
    "yarn.nodemanager.vmem-check-enabled": "false",
    "yarn.nodemanager.pmem-check-enabled": "false",
    "yarn.nodemanager.resource.memory-mb": "4096",
    "yarn.nodemanager.resource.cpu-vcores": "4",
    "yarn.scheduler.minimum-allocation-mb": "128",
    "yarn.nodemanager.env-whitelist": "JAVA_HOME,PYSPARK_PYTHON,PYTHONPATH",
    "yarn.nodemanager.disk-health-checker.max-disk-utilization-per-disk-percentage": "100",
    "yarn.resourcemanager.scheduler.class": (
        "org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity.CapacityScheduler"
    ),
    "yarn.scheduler.capacity.root.queues": "default",
    "yarn.scheduler.capacity.root.default.capacity": "100",
    "yarn.scheduler.capacity.maximum-am-resource-percent": "0.8",
    "yarn.resourcemanager.hostname": "127.0.0.1",
    "yarn.nodemanager.hostname": "127.0.0.1",
}


class Hadoop:
    """The cluster as a process, from ``with`` to its end; ``place`` is what it has said."""

    def __init__(self, kind: str, folder: Path) -> None:
        self._kind, self._folder = kind, folder

    def __enter__(self) -> "Hadoop":
        got = subprocess.run(
            [sys.executable, str(ROOT / "scripts/jars.py"), "hadoop"], capture_output=True, text=True
        )
        if got.returncode:
            raise AssertionError(f"Tests of Hadoop start a small cluster. {got.stderr.strip()}")
        self._folder.mkdir(parents=True, exist_ok=True)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "support.hadoop", self._kind, str(self._folder), got.stdout.strip()],
            env={**os.environ, "PYTHONPATH": TESTS, "JAVA_HOME": java_home()},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        self.place = self._process.stdout.readline().strip()
        assert self.place, (self._folder / "log").read_text()[-4_000:]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.communicate(timeout=SECONDS_MAX)


def java_home() -> str:
    """Where Java is, which nodes of YARN hand to their containers."""
    java = shutil.which("java")
    assert java is not None, "Tests of Hadoop need Java, which was not found: run make setup."
    return os.environ.get("JAVA_HOME") or str(Path(java).resolve().parents[1])


def _hdfs(java: Any, folder: Path) -> str:  # noqa: ANN401 - a view of Java
    settings = java.org.apache.hadoop.conf.Configuration()
    settings.set("hdfs.minidfs.basedir", str(folder))
    settings.set("dfs.replication", "1")
    settings.set("dfs.permissions.enabled", "false")
    builder = java.org.apache.hadoop.hdfs.MiniDFSCluster.Builder(settings)
    cluster = builder.numDataNodes(1).nameNodePort(0).format(True).build()
    cluster.waitClusterUp()
    return f"hdfs://127.0.0.1:{cluster.getNameNodePort()}"


def _yarn(java: Any, folder: Path) -> str:  # noqa: ANN401 - a view of Java
    settings = java.org.apache.hadoop.yarn.conf.YarnConfiguration()
    for name, value in YARN.items():
        settings.set(name, value)
    cluster = java.org.apache.hadoop.yarn.server.MiniYARNCluster("pointstamp", 2, 1, 1)
    cluster.init(settings)
    cluster.start()
    cluster.waitForNodeManagersToConnect(SECONDS_MAX * 1000)
    site = java.java.io.FileOutputStream(str(folder / "yarn-site.xml"))
    cluster.getConfig().writeXml(site)
    site.close()
    (folder / "core-site.xml").write_text(
        "<configuration><property><name>fs.defaultFS</name><value>file:///</value></property></configuration>"
    )
    return str(folder)


def main(kind: str, folder: Path, jars: str) -> None:
    """Serve until the input ends."""
    from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway

    (folder / "target").mkdir(exist_ok=True)
    places = [f"-Duser.dir={folder}", f"-Dtest.build.data={folder}", f"-Dyarn.log.dir={folder}"]
    with (folder / "log").open("w") as log:
        port, process = launch_gateway(
            classpath=f"{jars}/*:{SPARK_HOME}/jars/*",
            jarpath=str(next((SPARK_HOME / "jars").glob("py4j-*.jar"))),
            javaopts=[*JVM, *OPENED, *places],
            die_on_exit=True,
            redirect_stdout=log,
            redirect_stderr=log,
            return_proc=True,
        )
        gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port, auto_convert=True))
        try:
            place = {"hdfs": _hdfs, "yarn": _yarn}[kind](gateway.jvm, folder)
            sys.stdout.write(f"{place}\n")
            sys.stdout.flush()
            sys.stdin.read()
        finally:
            process.kill()  # what it holds is the test's
            process.wait(SECONDS_MAX)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3])
