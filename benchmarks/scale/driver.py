"""What a thousand members cost the driver of a query: ticks, reports, commits, and a restart.

    .venv/bin/python -m benchmarks.scale.driver [--members 16 100 1000] [--epochs 5]
    .venv/bin/python -m benchmarks.scale.driver --snapshot [--members 16] [--keys 1000000 | --gigabytes 10]

The driver is the real one: ``Session``, ``Coordinator``, journal, ledger and sink, over a folder. The members
are not: each answers a tick and the order to save as a member does, through the real messages, encoded and
decoded, and its part of the snapshot is really written. One JSON line per number of members, per epoch:
``orders_bytes`` and ``reports_bytes`` between the driver and all members, ``journal_bytes`` and
``parts_bytes`` written, ``driver_cpu_ms`` the processor time of the driver from the tick to the commit,
without that of the members, ``commit_ms`` the part of it that is the turn with the commit. ``restart_s`` is
from nothing to a mission for the next generation.

With ``--snapshot`` each member has the state of a count by key: objects, bytes and seconds to save it, what
the driver takes to begin a generation, what it takes where it checks all parts because one was found damaged,
and what one member takes to read and check its own. ``--gigabytes`` says how large all parts together are.
Where the disk has no room for them, each is written and made durable as any other, and those of the last
members are removed when that is done: ``parts_left`` says how many are there at the end, and what the driver
takes to check all of them is not measured then.
"""

import argparse
import shutil
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from time import process_time
from typing import Final

import numpy as np
from benchmarks.figures import report, timed
from benchmarks.recovery.state import Counting

from pointstamp import Dataflow
from pointstamp.connectors.published.sink import ParquetSink
from pointstamp.driver.messages import (
    Order,
    Progressed,
    Ready,
    Report,
    Save,
    Saved,
    Tick,
    decode_order,
    decode_report,
    encode,
)
from pointstamp.journal.history import Committed
from pointstamp.journal.snapshot_parts import encode_part
from pointstamp.query.mission import Mission, QuerySpec
from pointstamp.query.recovery import Beginning, begin_generation
from pointstamp.query.session import Session
from pointstamp.state.memory_budget import KeptRows
from pointstamp.storage.local import LocalStorage
from pointstamp.testing.script import PAUSE, ScriptedSource
from pointstamp.worker.snapshots import WorkerSnapshot

QUERY: Final = "scale"
SAMPLE_KEYS: Final = 100_000
"""The state of so many keys tells how many bytes one takes."""
ROOM_USED_MAX: Final = 0.7
"""Parts may take this share of the free space of a disk."""

SnapshotOf = Callable[[int, int], WorkerSnapshot]


class AnsweringCrew:
    """Members that answer at once: they have read a tick when they hear of it, and save what they have."""

    def __init__(self, mission: Mission, snapshot_of: SnapshotOf, parts_left: int | None = None) -> None:
        self.workers = mission.workers
        self.could_grow = False
        self._mission = mission
        self._snapshot_of = snapshot_of
        self._parts_left = mission.workers if parts_left is None else parts_left
        self._reports: list[tuple[int, Report]] = []
        self._epochs = [-1] * mission.workers
        self._numbers = [-1] * mission.workers
        self.orders_bytes = self.reports_bytes = self.parts_bytes = self.objects = 0
        self.cpu_seconds = 0.0
        for number in range(mission.workers):
            self._tell(number, Ready(number, "host"))

    def post(self, worker: int, order: Order) -> None:
        """Answer an order."""
        sent = encode(order)
        self.orders_bytes += len(sent)
        begin = process_time()
        heard = decode_order(sent)
        if isinstance(heard, Tick):
            self._epochs[worker], self._numbers[worker] = heard.complete_to - 1, heard.number
            self._tell(worker, Progressed(heard.complete_to, {"keys": 1}, {"counts": 1}))
        elif isinstance(heard, Save):
            self._save(worker)
        self.cpu_seconds += process_time() - begin

    def _save(self, worker: int) -> None:
        mission, epoch = self._mission, self._epochs[worker]
        name = mission.part_name(worker, epoch)
        snapshot = self._snapshot_of(worker, epoch)
        part, content = encode_part(snapshot, worker, mission.workers, name, mission.query)
        mission.storage.create(name, content)
        self.parts_bytes += part.size_bytes
        self.objects += 1
        if worker >= self._parts_left:
            mission.storage.delete(name)
        kept = {"count: state": KeptRows(1, 16)}
        self._tell(worker, Saved(epoch, part, [], self._numbers[worker], kept))

    def _tell(self, worker: int, told: Report) -> None:
        sent = encode(told)
        self.reports_bytes += len(sent)
        self._reports.append((worker, decode_report(sent)))

    def collect(self) -> list[tuple[int, Report]]:
        """What they have answered."""
        reports, self._reports = self._reports, []
        return reports

    def wait(self, timeout_seconds: float, files: Sequence[int] = ()) -> None:
        """They never let one wait."""

    def end(self) -> None:
        """They are no processes."""


def spec_of(folder: Path, members: int, epochs: int) -> QuerySpec:
    """A count by key, of one group of rows each epoch."""
    flow = Dataflow("counting")
    flow.output("counts", flow.stream_input("keys", "key long").group_by("key", running=True).count())
    source = ScriptedSource(*([{"key": 1}] for _ in range(epochs)), PAUSE)
    sink = ParquetSink(str(folder / "out"), compaction=None)
    return QuerySpec(
        flow.plan, {"keys": source}, sink, LocalStorage(folder / "checkpoint"), members, QUERY, epochs_max=1
    )


def committed(spec: QuerySpec, begun: Beginning, crew: AnsweringCrew, epochs: int) -> tuple[float, float]:
    """Run until so many epochs are committed: the driver's processor time, and that of its last turns."""
    commits: list[Committed] = []
    watches = {name: source.watch(None) for name, source in spec.sources.items()}
    session = Session(
        crew,
        begun.coordinator(spec, 0.0),
        watches,
        spec.workers,
        on_commit=commits.append,
        on_ready=lambda: None,
        now_seconds=process_time,
    )
    begin, in_commits = process_time(), 0.0
    while len(commits) < epochs:
        before, started = len(commits), process_time() - crew.cpu_seconds
        session.turn()
        if len(commits) > before:
            in_commits += process_time() - crew.cpu_seconds - started
    return process_time() - begin - crew.cpu_seconds, in_commits


def nothing_saved(worker: int, epoch: int) -> WorkerSnapshot:
    """A member without state."""
    del worker
    return WorkerSnapshot(epoch, is_whole=True, instances={})


def bytes_in(folder: Path) -> int:
    """How large the files of a folder are."""
    return sum(each.stat().st_size for each in folder.rglob("*") if each.is_file())


def driver_case(members: int, epochs: int) -> None:
    """One line for one number of members."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        spec = spec_of(folder, members, epochs)
        begun = begin_generation(spec, "driver", 0.0)
        crew = AnsweringCrew(begun.mission, nothing_saved)
        spent, in_commits = committed(spec, begun, crew, epochs)
        journal = bytes_in(folder / "checkpoint") - bytes_in(folder / "checkpoint" / "snapshots")
        restart, _ = timed(lambda: begin_generation(spec, "driver", 1.0, checks_parts=False))
        began = process_time()
        begin_generation(spec, "driver", 2.0, checks_parts=False)
        report(
            f"driver of {members} members",
            orders_bytes=crew.orders_bytes // epochs,
            reports_bytes=crew.reports_bytes // epochs,
            journal_bytes=journal // epochs,
            parts_bytes=crew.parts_bytes // epochs,
            driver_cpu_ms=1e3 * spent / epochs,
            commit_ms=1e3 * in_commits / epochs,
            restart_s=restart,
            restart_cpu_s=process_time() - began,
        )


def state_with(keys: int) -> tuple[WorkerSnapshot, int]:
    """The state of a count of so many keys, and about how many bytes its part has."""
    counting = Counting()
    counting.add(np.arange(keys))
    counting.batches.clear()
    taken = counting.save(is_whole=True)
    sample = taken if keys <= SAMPLE_KEYS else state_with(SAMPLE_KEYS)[0]
    part, _ = encode_part(sample, 0, 1, "sample", QUERY)
    return taken, part.size_bytes * keys // min(keys, SAMPLE_KEYS)


def keys_in(gigabytes: float, members: int) -> int:
    """How many keys each member has where all parts together are so large."""
    return round(gigabytes * 1e9 / members / state_with(SAMPLE_KEYS)[1] * SAMPLE_KEYS)


def parts_that_fit(members: int, part_bytes: int, folder: str) -> int:
    """How many parts the disk has room for, at least one and at most all."""
    room = shutil.disk_usage(folder).free * ROOM_USED_MAX
    return max(1, min(members, int(room // part_bytes) - 1))  # one is written before it is removed


def snapshot_case(members: int, keys: int) -> None:
    """Save and restore the counts of many keys over some members; the parts are really written and read."""
    taken, part_bytes = state_with(keys)

    def state_of(worker: int, epoch: int) -> WorkerSnapshot:
        del worker
        return WorkerSnapshot(epoch, is_whole=True, instances=taken.instances)

    with tempfile.TemporaryDirectory() as name:
        spec = spec_of(Path(name), members, 1)
        begun = begin_generation(spec, "driver", 0.0)
        left = parts_that_fit(members, part_bytes, name)
        crew = AnsweringCrew(begun.mission, state_of, left)
        seconds, _ = timed(lambda: committed(spec, begun, crew, 1))
        saved_cpu = crew.cpu_seconds
        checked, checked_cpu = None, None
        if left == members:
            began = process_time()
            checked, _ = timed(lambda: begin_generation(spec, "driver", 1.0))
            checked_cpu = process_time() - began
        begins, again = timed(lambda: begin_generation(spec, "driver", 2.0, checks_parts=False))
        began = process_time()
        restored, _ = timed(lambda: again.mission.restored(0))
        report(
            f"snapshot of {members} members with {keys} keys each",
            objects=crew.objects,
            parts_left=left,
            megabytes=crew.parts_bytes / 1e6,
            save_s=seconds,
            save_cpu_s=saved_cpu,
            driver_begins_s=begins,
            driver_checks_s=checked,
            driver_checks_cpu_s=checked_cpu,
            one_member_restores_s=restored,
            one_member_restores_cpu_s=process_time() - began,
        )


def main() -> None:
    """Print the lines."""
    parser = argparse.ArgumentParser(description="What many members cost the driver of a query.")
    parser.add_argument("--members", type=int, nargs="+")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--snapshot", action="store_true")
    parser.add_argument("--keys", type=int, default=1_000_000)
    parser.add_argument("--gigabytes", type=float, help="the size of all parts together, in place of keys")
    asked = parser.parse_args()
    for members in asked.members or ([16] if asked.snapshot else [16, 100, 1_000]):
        if asked.snapshot:
            snapshot_case(members, keys_in(asked.gigabytes, members) if asked.gigabytes else asked.keys)
        else:
            driver_case(members, asked.epochs)


if __name__ == "__main__":
    main()
