"""One task of the gang: it meets the others, runs one worker over its share of the inputs, and reports.

The tasks of a barrier stage run at the same time. Each binds a port, and in one meeting (``meeting``; on a
cluster it takes a second, and the worker begins to read meanwhile) everybody learns the addresses, the public
keys and the versions; from then on they speak directly, authenticated and encrypted. What the workers find
leaves through files; the rows that the job returns are reports: which files there are, or what went wrong. An
error is reported and not raised, because a task that fails makes Spark kill the gang and answer with a Java
stack trace.
"""

import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeAlias

import msgspec
import pyarrow as pa
from pyspark import BarrierTaskContext

from pointstamp.errors import PointstampError, SchemaError, TransportError
from pointstamp.flow.plan import Plan
from pointstamp.mesh.mesh import SILENCE_SECONDS_MAX, Mesh
from pointstamp.mesh.transport import ZmqTransport
from pointstamp.mesh.wire import MessageCodec, MessageKind
from pointstamp.progress.pointstamp import WorkerIndex
from pointstamp.rows.schema import fit
from pointstamp.running.control import failure_of
from pointstamp.sinks.port import Staged
from pointstamp.spark.early import EarlyTransport
from pointstamp.spark.meeting import meet, own_address, report_batch
from pointstamp.spark.output import EpochFiles
from pointstamp.spark.packing import NO_INPUT, REFUSED, InputSpec, from_bytes
from pointstamp.topology.domain import Time
from pointstamp.worker.worker import Worker

_SLEEP_SECONDS: Final = 0.5
# Spark's batches are small; so many are handled together.
_BATCHES_TOGETHER: Final = 6


class FileWritten(msgspec.Struct, frozen=True, tag=True):
    """A file holds rows of an output."""

    file: Staged


class Done(msgspec.Struct, frozen=True, tag=True):
    """A worker has come to the end."""

    rows_in: int


class Failed(msgspec.Struct, frozen=True, tag=True):
    """A worker has failed; ``kind`` is the name of the error's class."""

    kind: str
    message: str
    details: str


Report: TypeAlias = FileWritten | Done | Failed


@dataclass(frozen=True, slots=True)
class SparkGang:
    """Everything that a task needs to know; it travels to the executors with the function."""

    plan: Plan
    inputs: Sequence[InputSpec]
    workers: int
    path: str
    run: str
    outputs: Mapping[str, pa.Schema]
    versions: Mapping[str, str]
    meeting: str | None
    """The folder where the tasks meet (``meeting_folder``)."""
    generation: int = 0
    silence_seconds_max: float = SILENCE_SECONDS_MAX
    is_packed: bool = True
    """Whether the rows of all inputs are packed; otherwise the rows of the only input come as they are."""

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Run one worker; the function of ``mapInArrow``."""
        context = BarrierTaskContext.get()
        assert context is not None
        number = context.partitionId()
        reports = _Member(self, number).run(context, batches)
        encoded = [msgspec.msgpack.encode(report) for report in reports]
        yield report_batch(number, encoded)


class _Member:
    """One worker of the gang while it runs."""

    def __init__(self, gang: SparkGang, number: int) -> None:
        self.gang = gang
        self.number = WorkerIndex(number)
        self.files = EpochFiles(gang.path, gang.run, number, gang.outputs)
        self.rows_in = 0

    def run(self, context: BarrierTaskContext, batches: Iterator[pa.RecordBatch]) -> list[Report]:
        mesh = Mesh(
            self.number,
            self.gang.workers,
            listen=f"tcp://{own_address(context)}:0",
            encrypted=True,
            generation=self.gang.generation,
            silence_seconds_max=self.gang.silence_seconds_max,
        )
        transport = ZmqTransport(mesh, MessageCodec.of(self.gang.plan, self.gang.plan.graph()))
        ask = partial(meet, context, mesh.address, self.gang.versions, self.gang.meeting)
        early = EarlyTransport(transport, ask)
        try:
            return self._work(transport, early, batches)
        except BaseException as error:  # whatever it is, the driver must hear of it
            # Who fails before the meeting is over goes to it all the same: the others wait there.
            with suppress(PointstampError):
                early.finish()
            self._tell_peers(mesh)
            failure = failure_of(error, traceback.format_exc())
            return [Failed(failure.kind, failure.message, failure.traceback)]
        finally:
            mesh.close()

    def _work(
        self, transport: ZmqTransport, early: EarlyTransport, batches: Iterator[pa.RecordBatch]
    ) -> list[Report]:
        plan = self.gang.plan
        worker = Worker(plan, early, self.number, self.gang.workers, deliver=self._deliver)
        if self.gang.is_packed:
            self._read_packed(worker, transport, batches)
        else:
            self._read_plain(worker, transport, batches)
        for handle in worker.inputs.values():
            handle.close()
        self._step(worker, transport)
        early.finish()
        while not worker.is_complete:
            if not worker.step():
                _check_peers(transport)
                transport.wait(_SLEEP_SECONDS)
        worker.close()
        return [*map(FileWritten, self.files.finish()), Done(self.rows_in)]

    def _read_plain(self, worker: Worker, transport: ZmqTransport, batches: Iterator[pa.RecordBatch]) -> None:
        """The rows of the only input, as they are, all in one epoch."""
        spec = self.gang.inputs[0]
        who = f"input '{spec.name}'"
        for number, batch in enumerate(batches, start=1):
            self.rows_in += batch.num_rows
            worker.inputs[spec.name].send(fit(batch, spec.schema, who))
            if number % _BATCHES_TOGETHER == 0:
                self._step(worker, transport)
        self._step(worker, transport)

    def _read_packed(
        self, worker: Worker, transport: ZmqTransport, batches: Iterator[pa.RecordBatch]
    ) -> None:
        """The rows of all inputs, packed, in the order of epochs."""
        specs = {spec.number: spec for spec in self.gang.inputs}
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
                    self._step(worker, transport)
                batch = from_bytes(rows.as_py(), specs[number].schema)
                self.rows_in += batch.num_rows
                worker.input(specs[number].name).send(batch)
            self._step(worker, transport)

    def _step(self, worker: Worker, transport: ZmqTransport) -> None:
        """Do what can be done before more is read."""
        while worker.step():
            pass
        _check_peers(transport)

    def _deliver(self, output: str, time: Time, batches: list[pa.RecordBatch]) -> None:
        self.files.write(output, time[0], batches)

    def _tell_peers(self, mesh: Mesh) -> None:
        for peer in range(self.gang.workers):
            if peer != self.number:
                try:
                    mesh.post(peer, MessageKind.CONTROL, b"failed")
                except (TransportError, KeyError):
                    continue  # it has gone already, or was never met


class _PeerError(TransportError):
    """Another worker has failed, and it reports why."""


def _check_peers(transport: ZmqTransport) -> None:
    if transport.control:
        raise _PeerError(f"worker {transport.control[0].sender} has failed.")


def decode_report(encoded: bytes) -> Report:
    """A report of a task."""
    report: Report = msgspec.msgpack.decode(encoded, type=FileWritten | Done | Failed)
    return report


def is_consequence(report: Report) -> bool:
    """Whether a failure only says that another worker failed."""
    return isinstance(report, Failed) and report.kind in (_PeerError.__name__, TransportError.__name__)
