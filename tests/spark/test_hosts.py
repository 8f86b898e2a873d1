"""Queries over several hosts: a master and a driver on one, a worker of Spark on each of two others.

One cluster goes through the table of faults, one after the other. During each, files arrive; after it, all
of them must be published, each epoch once and as an oracle says. Where peers lose each other, the restart
names the address of the host. The last fault is a host that vanishes while a further one joins: the query
continues there. All the time, the name of each host stands for an address that leads nowhere.

With ``-s`` the table of faults is printed: rows that were lost, rows that were there twice, seconds until the
query noticed, and seconds until all was published: after the end of the fault, or, of a fault under which
the query continues, after an epoch's arrival.
"""

import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic

import pytest

from support.hosts import Hosts
from support.standalone import ROOT, SPARK_HOME, environment
from support.streams import counts_by_epoch, published_by_epoch, put, until

pytestmark = [pytest.mark.spark, pytest.mark.long]

SECONDS_MAX = 600
PORT = 7077
MASTER, ONE, TWO, SPARE = range(4)
DELAY_MS, LOSS_PERCENT = 200, 2
HOUR_SECONDS = 3_600
FAKE_CLOCKS = [*Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1")]
HEAD = "| fault | rows lost | rows twice | noticed after, s | all published after, s |"


@dataclass
class Cluster:
    """A query at work on three hosts, and what has been put in."""

    hosts: Hosts
    folder: Path
    published: list[int] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)  # the words of each restart
    batches: list[list[str]] = field(default_factory=list)
    table: list[str] = field(default_factory=lambda: [HEAD])
    driver: "subprocess.Popen[str] | None" = None

    def feed(self) -> None:
        """Let one more epoch arrive."""
        number = len(self.batches)
        self.batches.append([f"w{number % 3}", f"w{number % 7}", f"w{number % 11}", "always"])
        put(self.folder / "in", f"{number:05}", {"word": self.batches[-1]})

    def catch_up(self) -> None:
        """Wait until everything that has arrived is published, and compare it."""
        until(lambda: self.is_over() or self.has_all(), SECONDS_MAX)
        assert not self.is_over(), self.log()[-4_000:]
        assert published_by_epoch(self.folder / "output", "counts") == counts_by_epoch(self.batches)

    def tell(self, fault: str, noticed: float | None, seconds: float) -> None:
        """Add a line to the table. Rows are counted one by one, apart from the comparison."""
        found = [(epoch, row) for epoch, rows in self.rows("counts").items() for row in rows]
        wanted = [(epoch, row) for epoch, rows in counts_by_epoch(self.batches).items() for row in rows]
        lost, twice = len({*wanted} - {*found}), len(found) - len({*found})
        told = "not" if noticed is None else f"{noticed:.1f}"
        self.table.append(f"| {fault} | {lost} | {twice} | {told} | {seconds:.1f} |")

    def rows(self, output: str) -> dict[int, list[tuple[object, ...]]]:
        return published_by_epoch(self.folder / "output", output)

    def set_clock(self, ahead_seconds: int) -> None:
        """Set the clock of host TWO, for the processes of Python on it."""
        new = self.folder / "clock.new"
        new.write_text(f"+{ahead_seconds}s\n")
        new.rename(self.folder / "clock")

    def clocks_apart(self) -> int:
        """How many seconds host TWO was ahead of ONE in the newest epoch in which both had rows."""
        for rows in reversed(self.rows("clocks").values()):
            clocks = {str(host): int(str(clock)) for host, clock in rows}
            if {"host1", "host2"} <= {*clocks}:
                return clocks["host2"] - clocks["host1"]
        raise AssertionError("no epoch had rows on both hosts")

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


def start_spark(hosts: Hosts, folder: Path, host: int) -> None:
    """Start Spark's master, or a worker of one core, on a host, and wait until it is ready."""
    own: list[object] = ["--host", hosts.address(host), "--webui-port", 0]
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
                "SPARK_LOCAL_IP": hosts.address(host),
                "SPARK_DAEMON_MEMORY": "256m",
            },
            stdout=out,
            stderr=subprocess.STDOUT,
        )
    ready = "New state: ALIVE" if host == MASTER else "Successfully registered with master"
    until(lambda: ready in log.read_text(), SECONDS_MAX)


def python_with_a_clock(folder: Path) -> Path:
    """A Python for executors; on host TWO it goes by the clock that a file sets.

    Only Python: Java's waits do not end in time under libfaketime.
    """
    faked = {
        "LD_PRELOAD": FAKE_CLOCKS[0],
        "FAKETIME_TIMESTAMP_FILE": folder / "clock",
        "FAKETIME_CACHE_DURATION": 1,
        "FAKETIME_DONT_FAKE_MONOTONIC": 1,
    }
    told = " ".join(f"{name}={value}" for name, value in faked.items())
    path = folder / "python"
    path.write_text(
        f'#!/bin/sh\n[ "$(hostname)" = host{TWO} ] && export {told}\nexec {sys.executable} "$@"\n'
    )
    path.chmod(0o755)
    return path


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("hosts")
    with Hosts(4) as hosts:
        running = Cluster(hosts, folder)
        running.set_clock(0)
        for host in (MASTER, ONE, TWO):
            start_spark(hosts, folder, host)
        running.feed()
        python = python_with_a_clock(folder) if FAKE_CLOCKS else sys.executable
        with (folder / "driver.log").open("w") as errors:
            driver = hosts.start(
                MASTER,
                *(sys.executable, "-m", "support.host_driver", f"spark://{hosts.address(MASTER)}:{PORT}"),
                *(hosts.address(MASTER), folder),
                env={
                    **environment(folder),
                    "SPARK_LOCAL_IP": hosts.address(MASTER),
                    "PYSPARK_PYTHON": str(python),
                },
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
        sys.stdout.write("\n".join(["", *running.table, ""]))
        (folder / "end").touch()
        assert driver.wait(SECONDS_MAX) == 0, running.log()[-4_000:]
        listening.join(SECONDS_MAX)
        driver.stdout.close()


def both_lose(hosts: Hosts, one: int, other: int) -> None:
    hosts.lose(one, other)
    hosts.lose(other, one)


def both_find(hosts: Hosts, one: int, other: int) -> None:
    hosts.find(one, other)
    hosts.find(other, one)


FAULTS: dict[str, tuple[Callable[[Hosts], None], Callable[[Hosts], None], str]] = {
    "two executors lose each other": (
        lambda hosts: both_lose(hosts, ONE, TWO),
        lambda hosts: both_find(hosts, ONE, TWO),
        r"worker \d at 10\.77\.0\.[23]",
    ),
    "one executor does not hear the other": (
        lambda hosts: hosts.lose(ONE, TWO),
        lambda hosts: hosts.find(ONE, TWO),
        r"worker \d at 10\.77\.0\.[23]",
    ),
    "driver and one executor lose each other": (
        lambda hosts: both_lose(hosts, MASTER, TWO),
        lambda hosts: both_find(hosts, MASTER, TWO),
        r"at 10\.77\.0\.3",
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
    begun = monotonic()
    break_it(cluster.hosts)
    try:
        cluster.feed()
        # The network is mended only after the query has noticed.
        until(lambda: len(cluster.lost) > before or cluster.is_over(), SECONDS_MAX)
        noticed = monotonic()
    finally:
        mend_it(cluster.hosts)
    mended = monotonic()
    cluster.feed()
    cluster.catch_up()
    cluster.tell(fault, noticed - begun, monotonic() - mended)
    assert any(re.search(named, words) for words in cluster.lost[before:]), cluster.lost[before:]


def test_a_pause_shorter_than_the_silence_costs_no_restart(cluster: Cluster) -> None:
    before = len(cluster.lost)
    cluster.hosts.cut(TWO)
    cluster.feed()
    cluster.hosts.mend(TWO)
    cluster.catch_up()
    assert len(cluster.lost) == before


def slowest_seconds(cluster: Cluster, epochs: int) -> float:
    """The longest time until an epoch was published, of several that arrive one by one."""
    seconds = []
    for _ in range(epochs):
        begun = monotonic()
        cluster.feed()
        cluster.catch_up()
        seconds.append(monotonic() - begun)
    return max(seconds)


def test_a_clock_that_jumps_by_an_hour_and_back_costs_no_restart(cluster: Cluster) -> None:
    if not FAKE_CLOCKS:
        pytest.skip("clocks are set by libfaketime, which is not here (Debian: apt-get install libfaketime)")
    before = len(cluster.lost)
    for fault, ahead_seconds in (("a clock jumps ahead by an hour", HOUR_SECONDS), ("it jumps back", 0)):
        cluster.set_clock(ahead_seconds)

        def jumped(wanted: int = ahead_seconds) -> bool:
            cluster.feed()
            cluster.catch_up()
            return abs(cluster.clocks_apart() - wanted) < HOUR_SECONDS / 2

        until(jumped, SECONDS_MAX)
        cluster.tell(fault, None, slowest_seconds(cluster, 5))
    assert cluster.lost[before:] == []


def test_a_host_that_is_far_away_and_loses_packets_costs_no_epoch(cluster: Cluster) -> None:
    before = len(cluster.lost)
    cluster.hosts.put_far_away(TWO, DELAY_MS, LOSS_PERCENT)
    try:
        seconds = slowest_seconds(cluster, 5)
        restarts = len(cluster.lost) - before
        cluster.tell(f"200 ms each way, 2 % lost ({restarts} restarts)", None, seconds)
    finally:
        cluster.hosts.bring_near(TWO)
    cluster.feed()
    cluster.catch_up()


def test_the_query_goes_on_at_a_further_host_and_the_old_one_may_come_back(cluster: Cluster) -> None:
    start_spark(cluster.hosts, cluster.folder, SPARE)
    cluster.feed()
    cluster.catch_up()
    before = len(cluster.lost)
    begun = monotonic()
    cluster.hosts.cut(TWO)
    try:
        cluster.feed()
        until(lambda: len(cluster.lost) > before or cluster.is_over(), SECONDS_MAX)
        noticed = monotonic()
        cluster.catch_up()
        cluster.tell("a host vanishes, another takes its place", noticed - begun, monotonic() - begun)
    finally:
        cluster.hosts.mend(TWO)
    assert any("at 10.77.0.3" in words for words in cluster.lost[before:]), cluster.lost[before:]
    after = len(cluster.lost)
    cluster.tell("it comes back later", None, slowest_seconds(cluster, 5))
    assert cluster.lost[after:] == []
