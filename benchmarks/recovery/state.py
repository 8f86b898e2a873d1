"""Snapshots against the size of the state: seconds and bytes, whole, and with one key in a hundred changed.

    .venv/bin/python -m benchmarks.recovery.state [--keys 10000 --keys 1000000 --keys 10000000]

The state is a running count by key. One JSON line per size: what it takes the operator to hand its state over
(``take_ms``: the flow stands still for that long), and to make it durable beside the flow (``write_ms``), for
a whole snapshot and for one of what changed; ``restore_ms`` from bytes to an operator that continues, whole
and changes together. ``ratio`` is the bytes of the changes by those of the whole; ``limit_ms`` what writing
as many bytes with one ``fsync`` takes. The restored counts are compared with those before.
"""

import argparse
import os
import tempfile
from collections import deque
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from benchmarks.figures import report, timed

from pointstamp import Dataflow
from pointstamp.driver.local_run import LocalTransport
from pointstamp.journal.history import PartSaved
from pointstamp.journal.snapshot_parts import decode_part, encode_part, restored_from
from pointstamp.progress.pointstamp import WorkerIndex
from pointstamp.storage.local import LocalStorage
from pointstamp.worker.snapshots import Restored, WorkerSnapshot
from pointstamp.worker.worker import Worker

CHANGED = 100
SIZES = (10_000, 1_000_000, 10_000_000)


class Counting:
    """A worker that counts by key, and is told when to save."""

    def __init__(self, restored: Restored | None = None) -> None:
        flow = Dataflow("counting")
        flow.output("counts", flow.stream_input("keys", "key long").group_by("key", running=True).count())
        self.taken: list[WorkerSnapshot] = []
        self.batches: list[pa.RecordBatch] = []
        self.worker = Worker(
            flow.plan,
            LocalTransport(WorkerIndex(0), [deque()]),
            deliver=lambda _name, _time, batches: self.batches.extend(batches),
            on_snapshot=self.taken.append,
            restored=restored,
        )
        self.epoch = -1 if restored is None else restored.epoch

    def add(self, keys: Any) -> None:  # noqa: ANN401 - an array
        """One epoch of keys, to its end."""
        self.epoch += 1
        self.worker.open_to(self.epoch)
        self.worker.inputs["keys"].send(pa.record_batch({"key": keys}), at=self.epoch)
        self.worker.inputs["keys"].advance_to(self.epoch + 1)
        self.settle()

    def save(self, *, is_whole: bool) -> WorkerSnapshot:
        """Save the last epoch."""
        self.worker.save(is_whole=is_whole)
        self.settle()
        return self.taken.pop()

    def settle(self) -> None:
        """Do all that there is to do."""
        while self.worker.step():
            pass


def measure(keys: int) -> None:
    """One size."""
    counting = Counting()
    counting.add(np.arange(keys))
    with tempfile.TemporaryDirectory(prefix="pointstamp-bench-", dir=Path.cwd()) as folder:
        storage = LocalStorage(folder)
        figures: dict[str, float] = {}
        parts: dict[str, PartSaved] = {}
        for name, is_whole in (("whole", True), ("changes", False)):
            take, snapshot = timed(lambda is_whole=is_whole: counting.save(is_whole=is_whole))  # type: ignore[misc]
            write, parts[name] = timed(
                lambda name=name, snapshot=snapshot: written(storage, name, snapshot)  # type: ignore[misc]
            )
            size = storage.size(name) or 0
            limit, _ = timed(lambda size=size: plain_write(f"{folder}/plain", bytes(size)))  # type: ignore[misc]
            figures |= {
                f"{name}_take_ms": take * 1000,
                f"{name}_write_ms": write * 1000,
                f"{name}_limit_ms": limit * 1000,
                f"{name}_megabytes": size / 1e6,
            }
            counting.add(np.arange(0, keys, CHANGED))
            counting.batches.clear()
        # The last epoch is in no part: it is what the restored one must agree on.
        restore, again = timed(lambda: Counting(restored(storage, parts)))
        again.add(np.arange(0, keys, CHANGED))
        counts = pa.Table.from_batches(again.batches).sort_by("key")
        assert counts["count"].to_pylist() == [3] * len(range(0, keys, CHANGED)), "restored wrongly"
        ratio = figures["changes_megabytes"] / figures["whole_megabytes"]
        report(f"{keys} keys", **figures, restore_ms=restore * 1000, ratio=ratio)


def written(storage: LocalStorage, name: str, snapshot: WorkerSnapshot) -> PartSaved:
    """Encode and store a part."""
    part, content = encode_part(snapshot, 0, 1, name, "benchmark")
    storage.create(name, content)
    return part


def restored(storage: LocalStorage, parts: Mapping[str, PartSaved]) -> Restored:
    """What was saved, whole and changes."""
    chain = [[decode_part(storage.read(name), part, "benchmark")] for name, part in parts.items()]
    return restored_from(chain, 0, 1)


def plain_write(path: str, content: bytes) -> None:
    """Write and sync, nothing else."""
    with open(path, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def main() -> None:
    """All sizes."""
    parser = argparse.ArgumentParser(description="Snapshots against the size of the state.")
    parser.add_argument("--keys", type=int, action="append")
    for keys in parser.parse_args().keys or SIZES:
        measure(keys)


if __name__ == "__main__":
    main()
