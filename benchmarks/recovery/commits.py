"""Small epochs with a durable commit of each: from rows that are there to rows that are published.

    .venv/bin/python -m benchmarks.recovery.commits [--epochs 300] [--rows 1000]

A running count by key over epochs of some rows, each let in when the one before is published: its input is
recorded, its state is saved, its output is staged, committed and published, all of it on disk before it
counts. One JSON line per contender with ``ms_median`` and ``ms_p99``:

- *in process*: one worker in the driver's process;
- *processes*: two workers in processes of their own;
- *sqlite*: the same counts kept in a table, one transaction an epoch, ``synchronous=FULL``: what it costs to
  make the same rows durable in a single file with nothing around it. ``ratio`` is by this one.

Known from such a machine: bytewax with recovery 122 ms an epoch, a transaction of duckdb 3.75 ms. The aim is
a median under 10 ms.
"""

import argparse
import sqlite3
import tempfile
from pathlib import Path
from time import perf_counter

import numpy as np
import pyarrow as pa
from benchmarks.figures import report

from pointstamp import Dataflow
from pointstamp.connectors.memory import Rows
from pointstamp.connectors.published.reader import read_changes
from pointstamp.connectors.published.sink import ParquetSink
from pointstamp.query.crew import InProcessLauncher, Launcher
from pointstamp.query.local_query import ProcessLauncher
from pointstamp.query.mission import QuerySpec
from pointstamp.query.policy import SnapshotPolicy
from pointstamp.query.start_checks import query_id_at
from pointstamp.query.supervisor import Supervisor
from pointstamp.storage.local import LocalStorage

KEYS = 100_000
WARM_UP = 20


def batches_of(epochs: int, rows: int) -> tuple[pa.RecordBatch, ...]:
    """The keys of each epoch."""
    chance = np.random.default_rng(0)
    return tuple(pa.record_batch({"key": chance.integers(0, KEYS, rows)}) for _ in range(epochs))


def counting_spec(
    folder: str,
    batches: tuple[pa.RecordBatch, ...],
    workers: int,
    policy: SnapshotPolicy,
    epochs_max: int = 64,
) -> QuerySpec:
    """A running count by key, with everything it keeps below a folder."""
    flow = Dataflow("counting")
    flow.output("counts", flow.stream_input("keys", "key long").group_by("key", running=True).count())
    storage = LocalStorage(f"{folder}/checkpoint")
    return QuerySpec(
        flow.plan,
        {"keys": Rows(batches)},
        ParquetSink(f"{folder}/out"),
        storage,
        workers,
        query_id_at(storage),
        policy,
        epochs_max=epochs_max,
    )


def with_query(launcher: Launcher, workers: int, batches: tuple[pa.RecordBatch, ...]) -> list[float]:
    """The ms between one published epoch and the next, when one is on its way at a time."""
    with tempfile.TemporaryDirectory(prefix="pointstamp-bench-", dir=Path.cwd()) as folder:
        spec = counting_spec(folder, batches, workers, SnapshotPolicy(), epochs_max=1)
        supervisor = Timed(spec, launcher)
        supervisor.run()
        published = read_changes(f"{folder}/out", "counts").sort_by("epoch")
    counts = dict(zip(published["key"].to_pylist(), published["count"].to_pylist(), strict=True))
    check(counts, batches)
    return [float(each) for each in np.diff(supervisor.published_at)[WARM_UP:] * 1000]


class Timed(Supervisor):
    """A supervisor that looks at the clock with each commit."""

    def __init__(self, spec: QuerySpec, launcher: Launcher) -> None:
        super().__init__(spec, launcher)
        self.published_at: list[float] = []

    def _on_commit(self, commit) -> None:  # type: ignore[no-untyped-def] # noqa: ANN001
        super()._on_commit(commit)
        self.published_at.append(perf_counter())


def with_sqlite(batches: tuple[pa.RecordBatch, ...]) -> list[float]:
    """The ms of each transaction."""
    taken = []
    with tempfile.TemporaryDirectory(prefix="pointstamp-bench-", dir=Path.cwd()) as folder:
        database = sqlite3.connect(f"{folder}/counts.db", isolation_level=None)
        database.execute("PRAGMA synchronous=FULL")
        database.execute("CREATE TABLE counts (key INTEGER PRIMARY KEY, count INTEGER NOT NULL)")
        add = "INSERT INTO counts VALUES (?, ?) ON CONFLICT(key) DO UPDATE SET count = count + excluded.count"
        for batch in batches:
            begin = perf_counter()
            keys, counts = np.unique(batch["key"].to_numpy(), return_counts=True)
            database.execute("BEGIN")
            database.executemany(add, zip(keys.tolist(), counts.tolist(), strict=True))
            database.execute("COMMIT")
            taken.append((perf_counter() - begin) * 1000)
        check(dict(database.execute("SELECT key, count FROM counts")), batches)
        database.close()
    return taken[WARM_UP:]


def check(counts: dict[int, int], batches: tuple[pa.RecordBatch, ...]) -> None:
    """Raise unless these are the counts of all rows."""
    every = np.concatenate([batch["key"].to_numpy() for batch in batches])
    keys, expected = np.unique(every, return_counts=True)
    assert counts == dict(zip(keys.tolist(), expected.tolist(), strict=True)), "counted wrongly"


def main() -> None:
    """All contenders, one after the other."""
    parser = argparse.ArgumentParser(description="Durable commits of small epochs.")
    parser.add_argument("--epochs", type=int, default=300)
    parser.add_argument("--rows", type=int, default=1_000)
    given = parser.parse_args()
    batches = batches_of(given.epochs + WARM_UP, given.rows)
    peer = with_sqlite(batches)
    contenders = {
        "sqlite": peer,
        "in process": with_query(InProcessLauncher(), 1, batches),
        "processes": with_query(ProcessLauncher(), 2, batches),
    }
    for name, taken in contenders.items():
        middle = float(np.median(taken))
        report(
            name,
            rows=given.rows,
            ms_median=middle,
            ms_p99=float(np.percentile(taken, 99)),
            ratio=middle / float(np.median(peer)),
        )


if __name__ == "__main__":
    main()
