"""Queries over several hosts: a master and a driver on one, a worker of Spark on each of two others.

One cluster goes through the table of faults, one after the other. During each, files arrive; after it, all
of them must be published, each epoch once and as an oracle says. Where peers lose each other, the restart
names the address of the host.
"""

import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from spark.test_start_clusters import ROOT, SPARK_HOME, environment
from support.hosts import Hosts
from support.streams import counts_by_epoch, published_by_epoch, put, until

pytestmark = [pytest.mark.spark, pytest.mark.long]

SECONDS_MAX = 600
PORT = 7077
MASTER, ONE, TWO = 0, 1, 2


@dataclass
class Cluster:
    """A query at work on three hosts, and what has been put in."""

    hosts: Hosts
    folder: Path
    published: list[int] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)  # the words of each restart
    batches: list[list[str]] = field(default_factory=list)
    driver: "subprocess.Popen[str] | None" = None

    def feed(self) -> None:
        """Let one more epoch arrive."""
        number = len(self.batches)
        self.batches.append([f"w{number % 3}", f"w{number % 7}", "always"])
        put(self.folder / "in", f"{number:05}", {"word": self.batches[-1]})

    def catch_up(self) -> None:
        """Wait until everything that has arrived is published, and compare it."""
        until(lambda: self.is_over() or self.has_all(), SECONDS_MAX)
        assert not self.is_over(), self.log()[-4_000:]
        assert published_by_epoch(self.folder / "output", "counts") == counts_by_epoch(self.batches)

    def listen(self, lines: Iterable[str]) -> None:
        for line in lines:
            word, _, rest = line.strip().partition(" ")
            if word == "epoch":
                self.published.append(int(rest))
            else:
                self.lost.append(rest)

    def has_all(self) -> bool:
        return bool(self.published) and self.published[-1] >= len(self.batches) - 1

    def is_over(self) -> bool:
        return self.driver is not None and self.driver.poll() is not None

    def log(self) -> str:
        return (self.folder / "driver.log").read_text()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("hosts")
    with Hosts(3) as hosts:
        for host in (MASTER, ONE, TWO):
            address = hosts.address(host)
            own = ["--host", address, "--webui-port", 0]
            if host == MASTER:
                own += ["--port", PORT]
            else:
                own += ["--cores", 1, "--memory", "700m", "--work-dir", folder / f"work{host}"]
                own += [f"spark://{hosts.address(MASTER)}:{PORT}"]
            name = "master.Master" if host == MASTER else "worker.Worker"
            log = folder / f"{name}{host}.log"
            with log.open("w") as out:
                hosts.start(
                    host,
                    *(SPARK_HOME / "bin" / "spark-class", f"org.apache.spark.deploy.{name}", *own),
                    env={
                        **environment(folder),
                        "SPARK_LOCAL_IP": address,
                        "SPARK_DAEMON_MEMORY": "256m",
                    },
                    stdout=out,
                    stderr=subprocess.STDOUT,
                )
            ready = "New state: ALIVE" if host == MASTER else "Successfully registered with master"
            until(lambda log=log, ready=ready: ready in log.read_text(), SECONDS_MAX)  # type: ignore[misc]
        running = Cluster(hosts, folder)
        running.feed()
        with (folder / "driver.log").open("w") as errors:
            driver = hosts.start(
                MASTER,
                *(sys.executable, "-m", "support.host_driver", f"spark://{hosts.address(MASTER)}:{PORT}"),
                *(hosts.address(MASTER), folder),
                env={**environment(folder), "SPARK_LOCAL_IP": hosts.address(MASTER)},
                cwd=ROOT,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )
        running.driver = driver
        assert driver.stdout is not None
        listening = threading.Thread(target=running.listen, args=(driver.stdout,), daemon=True)
        listening.start()
        running.catch_up()
        yield running
        (folder / "end").touch()
        assert driver.wait(SECONDS_MAX) == 0, running.log()[-4_000:]
        listening.join(SECONDS_MAX)
        driver.stdout.close()


def both_lose(hosts: Hosts) -> None:
    hosts.lose(ONE, TWO)
    hosts.lose(TWO, ONE)


def both_find(hosts: Hosts) -> None:
    hosts.find(ONE, TWO)
    hosts.find(TWO, ONE)


FAULTS: dict[str, tuple[Callable[[Hosts], None], Callable[[Hosts], None], str]] = {
    "two executors lose each other": (both_lose, both_find, r"worker \d at 10\.77\.0\.[23]"),
    "one executor does not hear the other": (
        lambda hosts: hosts.lose(ONE, TWO),
        lambda hosts: hosts.find(ONE, TWO),
        r"worker \d at 10\.77\.0\.[23]",
    ),
    "a host vanishes and comes back": (
        lambda hosts: hosts.cut(TWO),
        lambda hosts: hosts.mend(TWO),
        r"at 10\.77\.0\.3",
    ),
    "the driver is cut off": (
        lambda hosts: hosts.cut(MASTER),
        lambda hosts: hosts.mend(MASTER),
        r"at 10\.77\.0\.[23]",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_no_epoch_is_lost_or_doubled_and_the_restart_names_the_host(fault: str, cluster: Cluster) -> None:
    break_it, mend_it, named = FAULTS[fault]
    cluster.feed()
    cluster.catch_up()
    before = len(cluster.lost)
    break_it(cluster.hosts)
    try:
        cluster.feed()
        # The network is mended only after the query has noticed.
        until(lambda: len(cluster.lost) > before or cluster.is_over(), SECONDS_MAX)
    finally:
        mend_it(cluster.hosts)
    cluster.feed()
    cluster.catch_up()
    assert any(re.search(named, words) for words in cluster.lost[before:]), cluster.lost[before:]


def test_a_pause_shorter_than_the_silence_costs_no_restart(cluster: Cluster) -> None:
    before = len(cluster.lost)
    cluster.hosts.cut(TWO)
    cluster.feed()
    cluster.hosts.mend(TWO)
    cluster.catch_up()
    assert len(cluster.lost) == before
