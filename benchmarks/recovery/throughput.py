"""What snapshots cost: the throughput of a flow that saves every second, or every epoch, or once at the end.

    .venv/bin/python -m benchmarks.recovery.throughput [--epochs 150] [--rows 100000] [--turns 3]

A running count by key in two processes over epochs of many rows; each way goes over the same epochs, in turn,
and its best turn counts. ``ratio`` is its rows per second by those of the way that saves only at the end;
``snapshots`` is how many it took. The final counts are compared with numpy's.

Naiad paid 33 % for its checkpoints. The aim is under 5 % with one every second.
"""

import argparse
import tempfile
from pathlib import Path
from time import perf_counter

import numpy as np
import pyarrow as pa
from benchmarks.figures import report
from benchmarks.recovery.commits import counting_spec

from pointstamp.connectors.published.reader import read_changes
from pointstamp.query.local_query import ProcessLauncher
from pointstamp.query.policy import SnapshotPolicy
from pointstamp.query.supervisor import Supervisor

KEYS = 1_000_000
WORKERS = 2
WAYS = {
    "at the end": SnapshotPolicy(epochs=1_000_000_000),
    "every second": SnapshotPolicy(seconds=1.0),
    "every epoch": SnapshotPolicy(epochs=1),
}


class FromReady(Supervisor):
    """A supervisor that looks at the clock when its workers are ready, and after the last commit."""

    began = 0.0
    ended = 0.0

    def _on_ready(self) -> None:
        super()._on_ready()
        self.began = perf_counter()

    def _on_commit(self, commit) -> None:  # type: ignore[no-untyped-def] # noqa: ANN001
        super()._on_commit(commit)
        self.ended = perf_counter()


def run(policy: SnapshotPolicy, batches: tuple[pa.RecordBatch, ...]) -> tuple[float, int]:
    """Rows per second from the workers being ready to the last commit, and how many snapshots there were."""
    with tempfile.TemporaryDirectory(prefix="pointstamp-bench-", dir=Path.cwd()) as folder:
        supervisor = FromReady(counting_spec(folder, batches, WORKERS, policy), ProcessLauncher())
        supervisor.run()
        check_last(read_changes(f"{folder}/out", "counts"), batches)
    rows = sum(batch.num_rows for batch in batches)
    return rows / (supervisor.ended - supervisor.began), supervisor.committed_number + 1


def check_last(published: pa.Table, batches: tuple[pa.RecordBatch, ...]) -> None:
    """Raise unless the last count of each key is the number of its rows."""
    ordered = published.take(np.argsort(published["epoch"].to_numpy(), kind="stable"))
    counts = np.zeros(KEYS, np.int64)
    counts[ordered["key"].to_numpy()] = ordered["count"].to_numpy()  # of several the last one stays
    every = np.concatenate([batch["key"].to_numpy() for batch in batches])
    assert np.array_equal(counts, np.bincount(every, minlength=KEYS)), "counted wrongly"


def main() -> None:
    """All ways, in turn."""
    parser = argparse.ArgumentParser(description="What snapshots cost.")
    parser.add_argument("--epochs", type=int, default=150)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--turns", type=int, default=3)
    given = parser.parse_args()
    chance = np.random.default_rng(0)
    batches = tuple(
        pa.record_batch({"key": chance.integers(0, KEYS, given.rows)}) for _ in range(given.epochs)
    )
    best = dict.fromkeys(WAYS, (0.0, 0))
    for _ in range(given.turns):
        for name, policy in WAYS.items():
            best[name] = max(best[name], run(policy, batches))
    for name, (speed, snapshots) in best.items():
        ratio = speed / best["at the end"][0]
        report(name, rows_per_second=speed, snapshots=snapshots, ratio=ratio)


if __name__ == "__main__":
    main()
