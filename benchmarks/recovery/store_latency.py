"""What an epoch costs on a store that takes 20 ms for every request: requests per commit, and the delay.

    .venv/bin/python -m benchmarks.recovery.store_latency [--epochs 30] [--ms 20] [--workers 2]

A running count by key over small epochs, each let in when the one before is published, with checkpoint and
output on a store in a local folder that sleeps before each request, as an object store far away does. One
JSON line: ``ms_median`` from epoch to epoch, ``requests`` per commit, and ``ratio``, the median in requests
one after the other. The limit is what the requests that must wait for each other take.
"""

import argparse
import tempfile
import threading
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import sleep

import numpy as np
from benchmarks.figures import report
from benchmarks.recovery.commits import Timed, batches_of, counting_spec

from pointstamp.connectors.published.sink import ParquetSink
from pointstamp.query.crew import InProcessLauncher
from pointstamp.query.policy import SnapshotPolicy
from pointstamp.storage.local import LocalStorage
from pointstamp.storage.port import Content

WARM_UP = 5


@dataclass
class SlowStorage:
    """A local folder that takes its time, and counts."""

    inner: LocalStorage
    seconds: float
    asked: "Counter[str]"
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def address(self) -> str:
        """Where the folder is."""
        return self.inner.address

    def _ask(self, what: str) -> None:
        with self.lock:
            self.asked[what] += 1
        sleep(self.seconds)

    def create(self, name: str, content: Content) -> None:
        """As all that follow: a request, and then what the folder does."""
        self._ask("create")
        self.inner.create(name, content)

    def write(self, name: str, content: Content) -> None:
        """See ``create``."""
        self._ask("write")
        self.inner.write(name, content)

    def sync(self, name: str) -> None:
        """An object store has nothing to do."""

    def read(self, name: str) -> bytes:
        """See ``create``."""
        self._ask("read")
        return self.inner.read(name)

    def size(self, name: str) -> int | None:
        """See ``create``."""
        self._ask("size")
        return self.inner.size(name)

    def sizes(self, names: Sequence[str]) -> "list[int | None]":
        """Side by side."""
        with ThreadPoolExecutor(max(1, len(names))) as asking:
            return [*asking.map(self.size, names)]

    def list(self, prefix: str = "") -> "list[str]":
        """See ``create``."""
        self._ask("list")
        return self.inner.list(prefix)

    def delete(self, name: str) -> None:
        """See ``create``."""
        self._ask("delete")
        self.inner.delete(name)


def main() -> None:
    """One line."""
    parser = argparse.ArgumentParser(description="Commits on a slow store.")
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--ms", type=float, default=20.0)
    parser.add_argument("--workers", type=int, default=2)
    given = parser.parse_args()
    asked: Counter[str] = Counter()
    with tempfile.TemporaryDirectory(prefix="pointstamp-bench-", dir=Path.cwd()) as folder:

        def slow(path: str) -> SlowStorage:
            return SlowStorage(LocalStorage(path), given.ms / 1000, asked)

        batches = batches_of(given.epochs + WARM_UP, 100)
        spec = counting_spec(folder, batches, given.workers, SnapshotPolicy(), epochs_max=1)
        sink = ParquetSink(f"{folder}/out", slow, compaction=None)
        spec = replace(spec, sink=sink, storage=slow(f"{folder}/checkpoint"))
        supervisor = Timed(spec, InProcessLauncher())
        supervisor.run()
    taken = np.diff(supervisor.published_at)[WARM_UP:] * 1000
    report(
        "slow store",
        ms_median=round(float(np.median(taken)), 1),
        ratio=round(float(np.median(taken)) / given.ms, 1),
        requests=round(sum(asked.values()) / len(batches), 1),
        kinds=str(dict(asked)),
    )


if __name__ == "__main__":
    main()
