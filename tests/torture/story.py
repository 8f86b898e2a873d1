"""The story of one torture: a query, edges that arrive, a nemesis, and the judge at the end.

Each process is named by the query itself (its workers) or by the id of this application (Spark's executors),
so that nobody else's is ever hit.
"""

import os
import random
import shutil
import signal
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from typing import Any, Final, Literal

import pointstamp as ps
from pointstamp.errors import PointstampError
from pointstamp.query import local_query
from support.streams import components_flow, put, until
from torture.judge import judge

FILE_SECONDS: Final = 0.05
SLOW_FILE_SECONDS: Final = 0.25
"""Between files of a story that may last for an hour."""
SILENCE_SECONDS_MAX: Final = 3.0
END_SECONDS_MAX: Final = 600.0
RESTARTS: Final = ps.RestartPolicy(restarts_max=100_000, pause_seconds=0.01, pause_seconds_max=0.5)
END: Final = "_end"
NOTHING_MORE: Final[Mapping[str, str]] = {}

Edges = list[tuple[int, int]]


def edges_of(seed: int, number: int) -> Edges:
    """The edges of a file: among vertices that move on, so that there is always something to join."""
    chosen = random.Random(f"{seed}-{number}")
    low, high = 6 * number, 6 * number + 120
    near = [(chosen.randrange(low, high), chosen.randrange(low, high)) for _ in range(12)]
    return near if chosen.random() > 0.1 else [*near, (chosen.randrange(high), chosen.randrange(high))]


class Arrivals:
    """Writes files at a rhythm, in a thread of its own; ``files`` is how many there are."""

    def __init__(self, folder: Path, seed: int, seconds: float = FILE_SECONDS) -> None:
        self.files = 0
        self._seconds = seconds
        self._folder = folder
        self._seed = seed
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="arrivals")

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """Write no more, and say so to the query."""
        self._stop.set()
        self._thread.join()
        (self._folder / END).touch()

    def _run(self) -> None:
        while not self._stop.wait(self._seconds):
            src, dst = zip(*edges_of(self._seed, self.files), strict=True)
            put(self._folder, f"{self.files:08d}", {"src": src, "dst": dst})
            self.files += 1


@dataclass
class Nemesis:
    """Does harm to a query, and measures how long it takes to continue; one thread uses it."""

    query: ps.Query
    chosen: random.Random
    application: str | None
    """The id of Spark's application whose executors are hit; None to hit workers only."""
    losses: int | None = None
    """Kill so many executors, one after the other, and nothing else."""
    seen: set[int] = field(default_factory=set)
    """All executors that were there when one was killed."""
    done: dict[str, int] = field(default_factory=dict)
    seconds: list[float] = field(default_factory=list)
    stopped: list[int] = field(default_factory=list)

    def strike(self) -> None:
        """Hit once, or again while the query is about to continue; return when it has continued."""
        begun, before, epoch = monotonic(), self.query.restarts, self.query.epoch
        self._hit()
        until(lambda: self._was_felt(before, epoch) or not self.query.is_active, END_SECONDS_MAX)
        if self.losses is None and self.chosen.random() < 0.25:
            before = self.query.restarts
            self._hit()
            until(lambda: self.query.restarts > before or not self.query.is_active, END_SECONDS_MAX)
        reached = self.query.epoch
        until(lambda: self.query.epoch > reached or not self.query.is_active, END_SECONDS_MAX)
        self.seconds.append(monotonic() - begun)

    def _was_felt(self, restarts: int, epoch: int) -> bool:
        """Whether the query has restarted, or has lost no worker: one that forms takes others instead."""
        if self.query.restarts > restarts:
            return True
        found: list[int] = []
        with suppress(PointstampError):
            found = [pid for _, pid in self.query.workers()]
        is_whole = bool(found) and all(is_alive(pid) for pid in found)
        return self.losses is not None and is_whole and self.query.epoch > epoch

    def rest(self, seconds: float) -> None:
        """Let the query work for a while."""
        threading.Event().wait(seconds)

    def _hit(self) -> None:
        pids = self._workers()
        act = self.chosen.choice(["kill one", "kill one", "kill all", "stop one", "kill executor"])
        if self.losses is not None:
            act = "kill executor"
        if act == "kill executor" and self.application is not None:
            pids = self._executors(self.application)
        victims = pids if act == "kill all" else [self.chosen.choice(pids)]
        sign = signal.SIGSTOP if act == "stop one" else signal.SIGKILL
        for pid in victims:
            with suppress(ProcessLookupError):  # it was about to end anyway
                os.kill(pid, sign)
                self.done[act] = self.done.get(act, 0) + 1
        if sign == signal.SIGSTOP:
            self.stopped.extend(victims)

    def _executors(self, application: str) -> list[int]:
        """The executors that run a worker, as any other is no loss to the query; else all that are there.

        Between the loss of the last one and the start of its replacement there are none for a while.
        """
        pids: list[int] = []

        def look() -> bool:
            workers, found = self._workers(), executors(application)
            self.seen.update(found)
            pids[:] = [pid for pid in found if any(is_below(worker, pid) for worker in workers)] or found
            return bool(pids)

        until(look, END_SECONDS_MAX)
        return pids

    def _workers(self) -> list[int]:
        """The workers of the moment; a query that is restarting has none for a while."""
        found: list[int] = []

        def look() -> bool:
            with suppress(PointstampError):
                found[:] = [pid for _, pid in self.query.workers()]
            return bool(found) or not self.query.is_active

        until(look, END_SECONDS_MAX)
        assert found, f"the query has ended: {self.query.exception()}"
        return found


def is_alive(pid: int) -> bool:
    """Whether a process runs; one that has ended may still be listed."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def is_below(pid: int, ancestor: int) -> bool:
    """Whether a process was started by another, or by one that it has started."""
    while pid > 1 and pid != ancestor:
        try:
            pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            return False
    return pid == ancestor


def executors(application: str) -> list[int]:
    """The executors of an application on this machine, whoever has started them."""
    parents: dict[int, int] = {}
    found: list[int] = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        with suppress(OSError):
            words = (entry / "cmdline").read_bytes().split(b"\0")
            if b"CoarseGrainedExecutorBackend" in b" ".join(words) and application.encode() in words:
                found.append(int(entry.name))
                parents[found[-1]] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
    # A script starts Java in its own process or as its child; either way the last one is Java.
    return [pid for pid in found if pid not in parents.values()]


def torture(
    folder: Path,
    *,
    seconds: float,
    seed: int,
    workers: int,
    master: str | None,
    spare_executors: bool = False,
    dynamic_allocation: bool = False,
    shuffle_service: int | None = None,
    losses: int | None = None,
) -> dict[str, Any]:
    """Run the story, in processes or, with a master, on Spark; return what happened."""
    (folder / "in").mkdir()
    settings = elastic(shuffle_service) if dynamic_allocation else {}
    spark = None if master is None else session(master, settings)
    query = start(folder, spark, workers, rescale="eager" if dynamic_allocation else "restart")
    arrivals = Arrivals(folder / "in", seed, FILE_SECONDS if losses is None else SLOW_FILE_SECONDS)
    arrivals.start()
    try:
        application = None if spark is None or spare_executors else spark.sparkContext.applicationId
        nemesis = Nemesis(query, random.Random(seed), application, losses)
        harm(nemesis, seconds)
    finally:
        arrivals.stop()
    if not query.await_termination(END_SECONDS_MAX):
        raise AssertionError(f"{query} has not ended: {query.status}")
    verdict = judge(folder / "o", "components", [edges_of(seed, number) for number in range(arrivals.files)])
    if spark is not None:
        end(spark)
    return {
        **verdict,
        "done": nemesis.done,
        "restarts": query.restarts,
        "executors seen": len(nemesis.seen),
        "objects": sum(each.is_file() for each in (folder / "c").rglob("*")),
        "stopped left": sum(Path(f"/proc/{pid}").exists() for pid in nemesis.stopped),
        "median seconds": round(sorted(nemesis.seconds)[len(nemesis.seconds) // 2], 2),
        "worst seconds": round(max(nemesis.seconds), 2),
    }


def harm(nemesis: Nemesis, seconds: float) -> None:
    """Strike at random moments until the time is over or all losses are done, at least once."""
    query, chosen = nemesis.query, nemesis.chosen
    until(lambda: query.epoch >= 0 or not query.is_active, END_SECONDS_MAX)
    deadline = monotonic() + seconds
    while True:
        nemesis.rest(chosen.uniform(0.05, 2.0))
        nemesis.strike()
        done = nemesis.done.get("kill executor", 0)
        if monotonic() >= deadline or (nemesis.losses is not None and done >= nemesis.losses):
            return
        if nemesis.losses is not None and done % 20 == 0:
            sys.stderr.write(f"{done} executors lost, {len(nemesis.seen)} seen, epoch {query.epoch}\n")


def start(
    folder: Path,
    spark: Any,  # noqa: ANN401 - a session, or none
    workers: int,
    *,
    rescale: Literal["restart", "eager"],
) -> ps.Query:
    """Start the query on Spark or in processes."""
    edges = ps.io.files(folder / "in", in_order=True, until=END)
    flow = components_flow()
    if spark is None:
        return local_query.start(
            flow.plan,
            {"edges": edges},
            checkpoint=str(folder / "c"),
            output=str(folder / "o"),
            processes=workers,
            restarts=RESTARTS,
            silence_seconds_max=SILENCE_SECONDS_MAX,
        )
    return flow.start(
        on=spark,
        edges=edges,
        checkpoint=str(folder / "c"),
        output=str(folder / "o"),
        workers=workers,
        options=ps.QueryOptions(restarts=RESTARTS, silence_seconds_max=SILENCE_SECONDS_MAX, rescale=rescale),
    )


def end(spark: Any) -> None:  # noqa: ANN401 - as below
    """Stop a session, and remove the folder that local-cluster keeps beside Spark itself."""
    import pyspark

    application = spark.sparkContext.applicationId
    spark.stop()
    shutil.rmtree(Path(pyspark.__file__).parent / "work" / application, ignore_errors=True)


def elastic(shuffle_service: int | None) -> dict[str, str]:
    """Executors come and go as tasks need them, with the shuffle service at a port or shuffle tracking."""
    settings = {
        "spark.dynamicAllocation.enabled": "true",
        "spark.dynamicAllocation.shuffleTracking.enabled": str(shuffle_service is None).lower(),
        "spark.dynamicAllocation.minExecutors": "0",
        "spark.dynamicAllocation.executorIdleTimeout": "5s",
        "spark.executor.cores": "2",
    }
    if shuffle_service is None:
        return settings
    return {
        **settings,
        "spark.shuffle.service.enabled": "true",
        "spark.shuffle.service.port": str(shuffle_service),
    }


def session(master: str, settings: Mapping[str, str] = NOTHING_MORE) -> Any:  # noqa: ANN401 - pyspark is loaded here
    """A session on a master, on loopback."""
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    spark = (
        SparkSession.builder.master(master)
        .config(map=dict(settings))
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.executor.memory", "600m")
        .config("spark.executor.extraJavaOptions", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
        .config("spark.deploy.maxExecutorRetries", "-1")  # executors die here more often than elsewhere
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("OFF")
    return spark
