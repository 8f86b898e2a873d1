"""How many trips an epoch or a round takes in two processes: counted, and the same on every machine.

    .venv/bin/python -m benchmarks.trip_counts

One JSON line per case. The driving process and both workers are threads of this process here, each with its
own mesh and the loop that it has in a process, and exactly one of them continues at a time: until it would
sleep, which is counted, as are the packets, the messages in them, and the batches of progress with their
changes. No clock is asked. What each of these takes is measured by ``benchmarks.trips``.
"""

import json
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from math import inf
from typing import Any

import numpy as np
import pyarrow as pa
from benchmarks.rounds import empty_epochs, empty_rounds

import pointstamp as ps
from pointstamp.driver import processes
from pointstamp.driver.bounded_worker import run_worker
from pointstamp.driver.messages import failure_in, post_failure
from pointstamp.driver.processes import ProcessRun
from pointstamp.driver.worker_process import RunMember, Seat, member_names
from pointstamp.flow.plan import Plan
from pointstamp.mesh.mesh import Mesh
from pointstamp.mesh.wire import Body, MessageKind

WARM_UP = 2
EPOCHS = 40
ROUNDS = 50
WORKERS = 2
_END_SECONDS_MAX = 10


class Turns:
    """Lets one member at a time continue, in turn, from one sleep to the next."""

    def __init__(self, members: int) -> None:
        self._members = members
        self._changed = threading.Condition()
        self._turn = members - 1
        self._seconds = [inf] * members
        self._in_vain = 0
        self._gone: set[int] = set()
        self.is_over = False

    def begin(self, member: int) -> None:
        """Wait for the first turn."""
        with self._changed:
            self._changed.wait_for(lambda: self._turn == member or self.is_over)

    def sleep(self, member: int, has_news: Callable[[], bool], seconds: float) -> bool:
        """Let the others continue until there is news; False where none has any, and this one waits least."""
        with self._changed:
            self._seconds[member] = seconds
            while not (is_heard := has_news()) and not self.is_over:
                self._in_vain += 1
                if self._in_vain > 2 * self._members and seconds == min(self._seconds):
                    break
                self._pass_on(member)
                self._changed.wait_for(lambda: self._turn == member or self.is_over)
            self._in_vain = 0
            self._seconds[member] = inf
            return is_heard

    def leave(self, member: int) -> None:
        """Take no further part."""
        with self._changed:
            self._gone.add(member)
            self._seconds[member] = inf
            if self._turn == member:
                self._pass_on(member)

    def end(self) -> None:
        """Let all continue at once."""
        with self._changed:
            self.is_over = True
            self._changed.notify_all()

    def _pass_on(self, member: int) -> None:
        for step in range(1, self._members + 1):
            self._turn = (member + step) % self._members
            if self._turn not in self._gone:
                break
        self._changed.notify_all()


class ThreadGang:
    """Stands in for the processes of a run: its workers are threads that take turns with the driver."""

    def __init__(self, plan: Plan, processes: int, *, run: RunMember | None = None, **_: object) -> None:
        self.counted: Counter[str] = Counter()
        self._turns = Turns(processes + 1)
        self._folder = tempfile.TemporaryDirectory()
        names = member_names(processes)
        meshes = [
            Mesh(member, processes + 1, listen=f"ipc://{self._folder.name}/{member}", names=names)
            for member in range(processes + 1)
        ]
        for mesh in meshes:
            mesh.connect([each.address for each in meshes])
        while sum(mesh.greet() for mesh in meshes) < len(meshes):
            pass
        for member, mesh in enumerate(meshes):
            self._count_in(mesh, member, "driver" if member == processes else "workers")
        self._meshes = meshes
        self.mesh = meshes[-1]
        self.pids = list(range(processes))
        self._threads = []
        for number, mesh in enumerate(meshes[:-1]):
            seat = Seat(number, processes, "", None, 10)
            run_it = partial(run or partial(run_worker, plan), mesh, seat)
            thread = threading.Thread(target=self._work, args=(run_it, mesh, seat), daemon=True)
            thread.start()
            self._threads.append(thread)

    def look(self) -> list[None]:
        """Threads cannot be seen from outside."""
        return [None] * len(self.pids)

    def _work(self, run_it: Callable[[], None], mesh: Mesh, seat: Seat) -> None:
        self._turns.begin(seat.worker)
        try:
            failure = failure_in(run_it)
            if failure is not None:
                post_failure(mesh, seat.workers, failure)
        finally:
            self._turns.leave(seat.worker)

    def _count_in(self, mesh: Any, member: int, who: str) -> None:  # noqa: ANN401 - its parts are replaced
        """Count what a mesh does, and let its sleeps be turns."""
        counted, incoming, datagrams = self.counted, mesh._incoming, mesh._datagrams  # noqa: SLF001
        offer, post = datagrams.offer, mesh.post

        def counted_offer(peer: int, packet: bytes) -> bool:
            counted[f"packets of {who}"] += 1
            return bool(offer(peer, packet))

        def counted_post(peer: int, kind: int, header: bytes, bodies: Sequence[Body] = ()) -> None:
            counted["messages"] += 1
            if kind == MessageKind.PROGRESS:
                counted["batches of progress"] += 1
            post(peer, kind, header, bodies)

        def sleep(seconds: float) -> bool:
            mesh.flush()
            if incoming.sleep(0):
                return True
            counted[f"sleeps of {who}"] += 1
            return self._turns.sleep(member, partial(incoming.sleep, 0), seconds)

        datagrams.offer, mesh.post, mesh.wait = counted_offer, counted_post, sleep

    def name(self, worker: int) -> str:
        """A worker in errors."""
        return f"worker {worker}"

    def deaths(self) -> list[Any]:
        """Threads do not die."""
        return []

    def forget_folder(self) -> None:
        """The sockets' files are gone already."""

    def end(self, **_: object) -> None:
        """Let the workers leave."""
        self._turns.end()
        for thread in self._threads:
            thread.join(_END_SECONDS_MAX)
        for mesh in self._meshes:
            mesh.close(linger_ms=0)
        self._folder.cleanup()


def counts_of(
    flow: ps.Dataflow, rows: pa.RecordBatch | None, *, scale: int = 1, epochs: int = EPOCHS
) -> dict[str, float]:
    """What an epoch takes, each result seen before the next is sent; a ``scale``th of it for rounds."""
    original = vars(processes)["ProcessGang"]
    vars(processes)["ProcessGang"] = ThreadGang
    try:
        with ProcessRun(flow.plan, WORKERS) as run:
            counted: Counter[str] = run._gang.counted  # type: ignore[attr-defined] # noqa: SLF001
            source = run.input("in")
            for number in range(WARM_UP + epochs):
                if number == WARM_UP:
                    counted.clear()
                if rows is not None:
                    source.send(rows)
                source.advance_to(number + 1)
                run.step_until(partial(run.is_done, "out", number))
            found = dict(counted)
    finally:
        vars(processes)["ProcessGang"] = original
    return {what: round(count / epochs / scale, 2) for what, count in sorted(found.items())}


def counted_flow() -> ps.Dataflow:
    """A running count by key."""
    flow = ps.Dataflow("counted")
    flow.output("out", flow.stream_input("in", "key long").group_by("key", running=True).count())
    return flow


def thousand_rows() -> pa.RecordBatch:
    """Keys of one epoch."""
    return pa.record_batch({"key": np.random.default_rng(17).integers(0, 100_000, 1_000)})


def main() -> None:
    """Print each case."""
    found = {
        "empty epoch": counts_of(empty_epochs(), None),
        "empty round": counts_of(empty_rounds(ROUNDS), None, scale=ROUNDS, epochs=EPOCHS // 10),
        "epoch of 1,000 rows, counted": counts_of(counted_flow(), thousand_rows()),
    }
    for case, counts in found.items():
        print(json.dumps({"case": case, **counts}), flush=True)


if __name__ == "__main__":
    main()
