"""What a trip costs: one small message between two members, and an epoch or a round in two processes.

    .venv/bin/python -m benchmarks.trips

One JSON line per case. A *message* case sends 30 bytes to and fro between two members of a mesh in this
process: by unix sockets, which small messages pass as datagrams, and by tcp, through ZeroMQ. Beside them
stand two bare sockets. An *epoch* or *round* case counts the processor time of the driving process and
both workers together (Linux), with their threads, and how often one of these went to sleep. A time by the
clock says little where others use the machine.

To beat: 100 us a round, 700 us an epoch of 1,000 rows, by the clock, on two cores that nobody else uses.
"""

import json
import os
import socket
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from time import perf_counter, process_time

import numpy as np
import pyarrow as pa
from benchmarks.rounds import empty_epochs, empty_rounds

import pointstamp as ps
from pointstamp.driver.processes import ProcessRun
from pointstamp.mesh.mesh import Mesh
from pointstamp.mesh.wire import MessageKind

PARTS = 5
MESSAGES = 200
ROUNDS = 200
HEADER = bytes(30)


def main() -> None:
    """Print each case."""
    bare = per_message(bare_trips)
    for where in ("ipc", "tcp"):
        with tempfile.TemporaryDirectory() as folder:
            listen = f"ipc://{folder}/{{}}" if where == "ipc" else "tcp://127.0.0.1:0"
            meshes = met(listen)
            us = per_message(partial(mesh_trips, meshes))
            for mesh in meshes:
                mesh.close(linger_ms=0)
        figures = {"case": f"a message of 30 bytes, {where}", "processor_us": round(us, 1)}
        print(
            json.dumps({**figures, "bare_sockets_us": round(bare, 1), "ratio": round(us / bare, 1)}),
            flush=True,
        )
    counted = ps.Dataflow("counted")
    counted.output("out", counted.stream_input("in", "key long").group_by("key", running=True).count())
    rows = pa.record_batch({"key": np.random.default_rng(17).integers(0, 100_000, 1_000)})
    in_processes("empty epoch, 2 processes", empty_epochs(), 100, None)
    in_processes("empty round, 2 processes", empty_rounds(ROUNDS), 1, None, scale=ROUNDS)
    in_processes("epoch of 1,000 rows, counted, 2 processes", counted, 100, rows)


def met(listen: str) -> list[Mesh]:
    """Two members that have met."""
    meshes = [Mesh(number, 2, listen=listen.format(number), encrypted=False) for number in range(2)]
    for mesh in meshes:
        mesh.connect([each.address for each in meshes])
    while sum(mesh.greet() for mesh in meshes) < len(meshes):
        pass
    return meshes


def mesh_trips(meshes: list[Mesh], times: int) -> None:
    """So many messages, to and fro."""
    for number in range(times):
        sender, receiver = number % 2, 1 - number % 2
        meshes[sender].post(receiver, MessageKind.PROGRESS, HEADER)
        while not meshes[receiver].wait(1):
            pass
        assert len(meshes[receiver].collect()) == 1


def bare_trips(times: int) -> None:
    """The same with two sockets and nothing else."""
    first, second = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    with first, second:
        for _ in range(times):
            first.send(HEADER)
            assert len(second.recv(100)) == len(HEADER)


def per_message(act: Callable[[int], None]) -> float:
    """Microseconds of processor time for one message, the least of some parts; the first one warms up."""
    found = []
    for _ in range(PARTS + 1):
        started = process_time()
        act(MESSAGES)
        found.append((process_time() - started) / MESSAGES * 1e6)
    return min(found[1:])


def in_processes(
    case: str, flow: ps.Dataflow, epochs: int, rows: pa.RecordBatch | None, *, scale: int = 1
) -> None:
    """Measure epochs in two processes, each result seen before the next is sent; ``scale`` rounds in each."""
    results: list[pa.Table] = []
    with ProcessRun(flow.plan, 2, on_result=lambda name, epoch, table: results.append(table)) as run:
        source, done = run.input("in"), 0
        pids = [os.getpid(), *run.pids]
        best: dict[str, float] = {}
        for part in range(PARTS + 1):
            before, started = [spent(pid) for pid in pids], perf_counter()
            for _ in range(epochs):
                done += 1
                if rows is not None:
                    source.send(rows)
                source.advance_to(done)
                run.step_until(partial(run.is_done, "out", done - 1))
            each = 1e6 / (epochs * scale)
            wall = (perf_counter() - started) * each
            used = [
                after - b
                for pid, then in zip(pids, before, strict=True)
                for after, b in zip(spent(pid), then, strict=True)
            ]
            processor, sleeps = sum(used[::2]) * each, sum(used[1::2]) / (epochs * scale)
            if part and processor < best.get("processor_us", float("inf")):  # the first one warms up
                best = {
                    "processor_us": round(processor, 1),
                    "wall_us": round(wall, 1),
                    "sleeps": round(sleeps, 1),
                }
    assert rows is None or results
    print(json.dumps({"case": case, **best, "load": round(os.getloadavg()[0], 1)}), flush=True)


def spent(pid: int) -> tuple[float, float]:
    """The processor seconds of all threads of a process, and how often one of them went to sleep."""
    seconds, sleeps = 0.0, 0
    for thread in Path(f"/proc/{pid}/task").iterdir():
        seconds += int((thread / "schedstat").read_text().split()[0]) / 1e9
        said = (thread / "status").read_text()
        sleeps += int(said.partition("\nvoluntary_ctxt_switches:")[2].split()[0])
    return seconds, sleeps


if __name__ == "__main__":
    main()
