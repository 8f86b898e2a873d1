"""What one message of progress costs between two workers: processor time at both ends, and a trip.

    .venv/bin/python -m benchmarks.scale.messages

One JSON line per kind of connection: ``us_each`` is the processor time of sending, carrying and receiving one
batch of two changes when 1,000 are sent in a row, in this process with the threads of zmq; ``trip_us`` is
half the time of a message there and another one back, and ``trip_cpu_us`` its processor time.
"""

import tempfile
from time import monotonic, perf_counter, process_time
from typing import Final

from benchmarks.figures import report

from pointstamp.mesh.mesh import Mesh
from pointstamp.mesh.transport import ZmqTransport
from pointstamp.mesh.wire import MessageCodec
from pointstamp.progress.broadcast import ProgressBatch
from pointstamp.progress.pointstamp import Change, WorkerIndex
from pointstamp.topology.ports import Location

MESSAGES: Final = 1_000
TRIPS: Final = 500
SECONDS_MAX: Final = 60.0


def batch(sender: int, number: int) -> ProgressBatch:
    """An input of a worker advances."""
    changes = (Change(Location(0), (number,), -1), Change(Location(0), (number + 1,), 1))
    return ProgressBatch(WorkerIndex(sender), number, changes)


def received(transport: ZmqTransport, wanted: int) -> None:
    """Take in so many messages."""
    while wanted > 0:
        arrived = len(transport.receive())
        wanted -= arrived
        if not arrived:
            transport.wait(1.0)


def measure(name: str, listen: str, *, encrypted: bool) -> None:
    """One line."""
    meshes = [Mesh(number, 2, listen=listen.format(number), encrypted=encrypted) for number in range(2)]
    try:
        for mesh in meshes:
            mesh.connect([each.address for each in meshes])
        deadline = monotonic() + SECONDS_MAX
        while sum(mesh.greet() for mesh in meshes) < 2:
            assert monotonic() < deadline, "the two have not met"
        here, there = (ZmqTransport(mesh, MessageCodec({})) for mesh in meshes)
        spent: list[float] = []
        for run in range(3):
            begin = process_time()
            for number in range(MESSAGES):
                here.send(WorkerIndex(1), batch(0, run * MESSAGES + number))
            received(there, MESSAGES)
            spent.append(process_time() - begin)
        began, begin = perf_counter(), process_time()
        for number in range(TRIPS):
            here.send(WorkerIndex(1), batch(0, number))
            received(there, 1)
            there.send(WorkerIndex(0), batch(1, number))
            received(here, 1)
        trip, trip_cpu = perf_counter() - began, process_time() - begin
        report(
            f"a message of progress, {name}",
            us_each=1e6 * min(spent) / MESSAGES,
            trip_us=1e6 * trip / TRIPS / 2,
            trip_cpu_us=1e6 * trip_cpu / TRIPS / 2,
        )
    finally:
        for mesh in meshes:
            mesh.close(linger_ms=0)


def main() -> None:
    """Print the lines."""
    with tempfile.TemporaryDirectory() as folder:
        measure("ipc", f"ipc://{folder}/{{}}", encrypted=False)
    measure("tcp", "tcp://127.0.0.1:0", encrypted=False)
    measure("tcp encrypted", "tcp://127.0.0.1:0", encrypted=True)


if __name__ == "__main__":
    main()
