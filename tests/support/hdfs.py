"""An HDFS of the tests' own, in one process of Java on loopback.

``python -m support.hdfs FOLDER JARS`` says where it is, and serves until its input ends. Its jars are got
once (scripts/jars.py); the other jars are those of pyspark, and py4j, which comes with it, starts Java.
"""

import os
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
JVM: Final = ["-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData"]
OPENED: Final = [f"--add-opens=java.base/{each}=ALL-UNNAMED" for each in ("java.lang", "java.net", "java.io")]


class Hdfs:
    """The cluster as a process, from ``with`` to its end; ``place`` is what it has said."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __enter__(self) -> "Hdfs":
        got = subprocess.run(
            [sys.executable, str(ROOT / "scripts/jars.py"), "hadoop"], capture_output=True, text=True
        )
        if got.returncode:
            raise AssertionError(f"Tests of HDFS start a small cluster. {got.stderr.strip()}")
        self._folder.mkdir(parents=True, exist_ok=True)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "support.hdfs", str(self._folder), got.stdout.strip()],
            env={**os.environ, "PYTHONPATH": TESTS},
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


def _hdfs(java: Any, folder: Path) -> str:  # noqa: ANN401 - a view of Java
    settings = java.org.apache.hadoop.conf.Configuration()
    settings.set("hdfs.minidfs.basedir", str(folder))
    settings.set("dfs.replication", "1")
    settings.set("dfs.permissions.enabled", "false")
    builder = java.org.apache.hadoop.hdfs.MiniDFSCluster.Builder(settings)
    cluster = builder.numDataNodes(1).nameNodePort(0).format(True).build()
    cluster.waitClusterUp()
    return f"hdfs://127.0.0.1:{cluster.getNameNodePort()}"


def main(folder: Path, jars: str) -> None:
    """Serve until the input ends."""
    from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway

    places = [f"-Duser.dir={folder}", f"-Dtest.build.data={folder}"]
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
            place = _hdfs(gateway.jvm, folder)
            sys.stdout.write(f"{place}\n")
            sys.stdout.flush()
            sys.stdin.read()
        finally:
            process.kill()  # what it holds is the test's
            process.wait(SECONDS_MAX)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
