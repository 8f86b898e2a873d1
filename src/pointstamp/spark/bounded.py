"""Workers of a bounded run on Spark: read a share of the inputs, write files.

The tasks register at the driver's rendezvous and meet as those of a query do (``worker_formation``,
``crew_task``). Task i reads partition i, so all partitions have a worker. Results leave through files; each
worker reports the files that it has written, and that it has finished, to the driver.

``run_alone`` is the same with one worker and without any connection: in one Spark task, or in the driver's
process.
"""

import socket
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import pyarrow as pa
from pyspark import TaskContext

from pointstamp.arrow.arrays import binaries, integers
from pointstamp.arrow.schema import fit
from pointstamp.connectors.published.sink import ParquetSink
from pointstamp.connectors.sink import Staged
from pointstamp.driver.liveness import Sign
from pointstamp.driver.local_run import LocalTransport
from pointstamp.driver.messages import (
    DRIVER,
    Failed,
    FileWritten,
    Finished,
    Leave,
    Order,
    Report,
    decode_report,
    encode,
    error_of,
    failure_in,
    post,
    unfit,
)
from pointstamp.driver.worker_loop import serve
from pointstamp.errors import RecoveryError, SchemaError, TransportError
from pointstamp.flow.plan import Plan
from pointstamp.mesh.mesh import Mesh
from pointstamp.mesh.transport import ZmqTransport
from pointstamp.mesh.wire import Body, MessageCodec
from pointstamp.progress.pointstamp import WorkerIndex
from pointstamp.query.crew import CrewError
from pointstamp.query.rendezvous import Placement, Roster, version_mismatch
from pointstamp.spark.crew import SparkCrew
from pointstamp.spark.rendezvous import versions
from pointstamp.spark.row_packing import NO_INPUT, REFUSED, InputSpec, from_bytes
from pointstamp.topology.domain import Time
from pointstamp.worker.lineage import children_end_with_us
from pointstamp.worker.protocols import Message, Transport
from pointstamp.worker.worker import Worker

_BATCHES_TOGETHER: Final = 6
"""Spark's batches are small; so many are handled together."""
_WAIT_SECONDS: Final = 1.0
_CAUSE_SECONDS: Final = 1.0
"""How long to wait for the failure of which another worker's lost connection is a consequence."""
_IDLE_SECONDS: Final = 0.001

REPORT: Final = pa.schema([("worker", pa.int32()), ("report", pa.binary())])


@dataclass(frozen=True, slots=True)
class BoundedWork:
    """What a worker of a bounded run needs to know; it travels to the executors with the task."""

    plan: Plan
    inputs: Sequence[InputSpec]
    workers: int
    path: str
    run: str
    outputs: Mapping[str, pa.Schema]
    generation: int = 0
    is_packed: bool = True
    """Whether the rows of all inputs are packed; otherwise the rows of the only input come as they are."""

    def perform(
        self, mesh: Mesh, seat: Placement, roster: Roster, batches: Iterator[pa.RecordBatch], sign: Sign
    ) -> None:
        """Be one of the workers, which have met, until all have finished."""
        hosts = [roster.hosts.index(host) for host in roster.hosts]
        transport = ZmqTransport(mesh, MessageCodec.of(self.plan, self.plan.graph()))
        member = serve(
            lambda: BoundedMember(self, seat.number, transport, batches, hosts), transport, sign=sign
        )
        if member.is_complete:
            for file in member.files.finish():
                post(mesh, self.workers, FileWritten(file))
            post(mesh, self.workers, Finished())


# The files that the workers of a bounded run write: Parquet, one per output, worker and group of epochs.
#
# They are staged (``sinks.files``): whole and durable when a worker reports them, with size and checksum, and
# published by the driver's commit (``job``). Rows are brought to the types that Spark
# has (``frames``).
#
# All epochs of a bounded run are published together, so epochs may share a file: a file costs a worker, the
# commit and every reader some milliseconds, whatever is in it. A worker holds finished epochs back until they
# make a file worth writing, at most ``FILE_BYTES`` of them and the epoch that goes beyond.

FILE_BYTES: Final = 32 * 1024 * 1024
"""Epochs wait for each other until their rows have so many bytes in memory."""


class EpochFiles:
    """Writes the finished epochs of one worker below a folder; ``schemas`` are those that Spark will read."""

    def __init__(
        self, path: str, run: str, worker: int, schemas: Mapping[str, pa.Schema], generation: int = 0
    ) -> None:
        self._writer = ParquetSink(path).for_query(run, schemas).writer(worker, generation=generation)
        self._waiting: dict[str, dict[int, list[pa.RecordBatch]]] = {}
        self._waiting_bytes = 0
        self._written: list[Staged] = []

    def write(self, output: str, epoch: int, batches: list[pa.RecordBatch]) -> None:
        """Take all rows that this worker has of an epoch; they go into a file together with others."""
        self._waiting.setdefault(output, {})[epoch] = batches
        self._waiting_bytes += sum(batch.nbytes for batch in batches)
        if self._waiting_bytes > FILE_BYTES:
            self._stage()

    def finish(self) -> list[Staged]:
        """Write what still waits; return all files that were written."""
        self._stage()
        return self._written

    def _stage(self) -> None:
        for output, epochs in self._waiting.items():
            self._written.extend(self._writer.stage(output, epochs))
        self._waiting.clear()
        self._waiting_bytes = 0


class BoundedMember:
    """One worker while it runs: it reads its share, does what it can in between, and writes."""

    def __init__(
        self,
        work: BoundedWork,
        number: int,
        transport: Transport,
        batches: Iterator[pa.RecordBatch],
        hosts: Sequence[int],
    ) -> None:
        self.work = work
        self.files = EpochFiles(work.path, work.run, number, work.outputs, work.generation)
        self.worker = Worker(
            work.plan, transport, WorkerIndex(number), work.workers, deliver=self._deliver, hosts=hosts
        )
        self._reading: Iterator[None] | None = self._read(batches)
        self._was_dismissed = False

    @property
    def is_complete(self) -> bool:
        """Whether everything was read, and is done on every worker."""
        return self._reading is None and self.worker.is_complete

    @property
    def has_left(self) -> bool:
        """Whether it has done its work, or was told to leave."""
        return self._was_dismissed or self.is_complete

    def step(self) -> bool:
        """Do what can be done, or else continue to read; False if only the others can continue."""
        if self.worker.step():
            return True
        if self._reading is None:
            return False
        try:
            next(self._reading)
        except StopIteration:
            self._reading = None
        return True

    def follow(self, order: Order, bodies: Sequence[Body] = ()) -> None:
        """Take an order of the driver, whose only one is to leave."""
        if not isinstance(order, Leave):
            raise unfit(DRIVER, order)
        self._was_dismissed = True

    def close(self) -> None:
        """End the run and drop what is still held."""
        self.worker.close()

    def _read(self, batches: Iterator[pa.RecordBatch]) -> Iterator[None]:
        """Read everything, with a pause wherever something can be done."""
        yield from self._read_packed(batches) if self.work.is_packed else self._read_plain(batches)
        for handle in self.worker.inputs.values():
            handle.close()
        yield

    def _read_plain(self, batches: Iterator[pa.RecordBatch]) -> Iterator[None]:
        """The rows of the only input, as they are, all in one epoch."""
        spec = self.work.inputs[0]
        who = f"input '{spec.name}'"
        for number, batch in enumerate(batches, start=1):
            self.worker.inputs[spec.name].send(fit(batch, spec.schema, who))
            if number % _BATCHES_TOGETHER == 0:
                yield
        yield

    def _read_packed(self, batches: Iterator[pa.RecordBatch]) -> Iterator[None]:
        """The rows of all inputs, packed, in the order of epochs."""
        worker = self.worker
        specs = {spec.number: spec for spec in self.work.inputs}
        current = 0
        for packed in batches:
            for number, epoch, rows in zip(
                packed["input"].to_pylist(), packed["epoch"].to_pylist(), packed["rows"], strict=True
            ):
                if number == NO_INPUT:
                    continue
                if number == REFUSED:
                    raise SchemaError(rows.as_py().decode())
                assert epoch >= current  # it was checked where rows are packed, and they are sorted
                if epoch > current:
                    # Rows come in the order of epochs, of all inputs together: this one is the next.
                    for handle in worker.inputs.values():
                        handle.advance_to(epoch)
                    current = epoch
                    yield
                worker.input(specs[number].name).send(from_bytes(rows.as_py(), specs[number].schema))
            yield

    def _deliver(self, output: str, time: Time, batches: list[pa.RecordBatch]) -> None:
        self.files.write(output, time[0], batches)


# The driver's side.


def collect_files(crew: SparkCrew) -> list[Staged]:
    """Wait until all workers have finished; return their files.

    A worker's failure is raised as what it is, CrewError where a worker is lost.
    """
    files: list[Staged] = []
    finished: set[int] = set()
    failures: list[Failed] = []
    deadline = 0.0
    try:
        while len(finished) < crew.workers:
            for worker, report in crew.collect():
                match report:
                    case FileWritten(file):
                        files.append(file)
                    case Finished():
                        finished.add(worker)
                    case Failed():
                        deadline = deadline or time.monotonic() + _CAUSE_SECONDS
                        failures.append(report)
                    case _:
                        raise unfit(f"worker {worker}", report)
            if failures and (time.monotonic() > deadline or not all(map(is_consequence, failures))):
                break
            crew.wait(_WAIT_SECONDS if not failures else _CAUSE_SECONDS / 10)
    except CrewError:
        if all(map(is_consequence, failures)):
            raise
    if failures:
        worst = min(failures, key=is_consequence)
        if is_consequence(worst):
            raise CrewError(worst.message)
        raise error_of(worst)
    return files


def is_consequence(report: Report) -> bool:
    """Whether a failure only says that another worker failed."""
    return isinstance(report, Failed) and report.kind == TransportError.__name__


# One worker, without connections.


def run_alone(work: BoundedWork, batches: Iterator[pa.RecordBatch]) -> list[Staged]:
    """Run the complete flow here, with one worker; return its files."""
    inboxes: list[deque[Message]] = [deque()]
    transport = LocalTransport(WorkerIndex(0), inboxes)
    member = BoundedMember(work, 0, transport, batches, [0])
    try:
        with children_end_with_us():
            while not member.has_left:
                if not member.step():
                    if member.worker.is_holding:
                        member.worker.hold_no_longer()
                    else:
                        time.sleep(_IDLE_SECONDS)
        return member.files.finish()
    finally:
        member.close()


@dataclass(frozen=True, slots=True)
class TaskAlone:
    """The function of the only task of a run with one worker; the rows that it returns are its reports."""

    work: BoundedWork
    versions: Mapping[str, str]
    """Those of the driver."""

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Run the flow; the function of ``mapInArrow``."""
        context = TaskContext.get()
        assert context is not None
        # Spark may start the task again, or a copy of it: each attempt has files of its own.
        work = replace(self.work, generation=context.attemptNumber())
        files: list[Staged] = []

        def run() -> None:
            wrong = version_mismatch(self.versions, versions(), socket.gethostname())
            if wrong is not None:
                raise RecoveryError(wrong)
            files.extend(run_alone(work, batches))

        failure = failure_in(run)
        reports: list[Report] = [*map(FileWritten, files), Finished()] if failure is None else [failure]
        yield pa.RecordBatch.from_arrays(
            [integers([0] * len(reports), pa.int32()), binaries([encode(each) for each in reports])],
            schema=REPORT,
        )


def files_in(reports: Sequence[bytes]) -> list[Staged]:
    """The files that the only task reports; its failure is raised."""
    files: list[Staged] = []
    for report in map(decode_report, reports):
        match report:
            case FileWritten(file):
                files.append(file)
            case Failed():
                raise error_of(report)
            case _:
                pass
    return files
