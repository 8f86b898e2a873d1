"""One task of the gang: it meets the others, runs one worker over its share of the inputs, and reports.

The tasks of a barrier stage run at the same time. Each binds a port, and in one meeting (``meeting``; on a
cluster it takes a second, and the worker begins to read meanwhile) everybody learns the addresses, the public
keys and the versions; from then on they speak directly: on one host through unix sockets in a private folder,
else authenticated and encrypted. What the workers find
leaves through files; the rows that the job returns are reports: which files there are, or what went wrong. An
error is reported and not raised, because a task that fails makes Spark kill the gang and answer with a Java
stack trace.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Final

import pyarrow as pa
from pyspark import BarrierTaskContext

from pointstamp.errors import PointstampError, SchemaError, TransportError
from pointstamp.flow.plan import Plan
from pointstamp.mesh.mesh import SILENCE_SECONDS_MAX, Mesh
from pointstamp.mesh.transport import ZmqTransport
from pointstamp.mesh.wire import Body, MessageCodec
from pointstamp.progress.pointstamp import WorkerIndex
from pointstamp.rows.schema import fit
from pointstamp.running.failing import error_of, failure_in
from pointstamp.running.messages import Failed, FileWritten, Finished, Order, Report, encode
from pointstamp.running.posting import post_failure, unfit
from pointstamp.running.serving import serve
from pointstamp.running.watchdog import Watchdog
from pointstamp.spark.early import EarlyTransport
from pointstamp.spark.meeting import hosts_of, listens_at, meet, own_address, report_batch
from pointstamp.spark.output import EpochFiles
from pointstamp.spark.packing import NO_INPUT, REFUSED, InputSpec, from_bytes
from pointstamp.topology.domain import Time
from pointstamp.worker.worker import Worker

# Spark's batches are small; so many are handled together.
_BATCHES_TOGETHER: Final = 6


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
        yield report_batch(number, [encode(report) for report in self._run(context, number, batches)])

    def _run(
        self, context: BarrierTaskContext, number: int, batches: Iterator[pa.RecordBatch]
    ) -> list[Report]:
        mesh = Mesh(
            number,
            self.workers,
            listen=listens_at(self.meeting, number, lambda: own_address(context)),
            generation=self.generation,
            silence_seconds_max=self.silence_seconds_max,
            finds_nearby=True,
        )
        transport = ZmqTransport(mesh, MessageCodec.of(self.plan, self.plan.graph()))
        early = EarlyTransport(transport, partial(meet, context, mesh.address, self.versions, self.meeting))
        reports: list[Report] = []

        def work() -> None:
            hosts = hosts_of(context)
            member = serve(
                lambda: GangMember(self, number, early, batches, hosts),
                transport,
                sign=Watchdog(self.silence_seconds_max),
            )
            reports.extend(map(FileWritten, member.files.finish()))
            reports.append(Finished())

        try:
            failure = failure_in(work)
            if failure is None:
                return reports
            # Who fails before the meeting is over goes to it all the same: the others wait there.
            with suppress(PointstampError):
                early.finish()
            self._tell_peers(mesh, number)
            return [failure]
        finally:
            mesh.close()

    def _tell_peers(self, mesh: Mesh, number: int) -> None:
        """Tell the others that this worker has failed; of what, the driver hears in this task's rows."""
        lost = Failed(TransportError.__name__, f"worker {number} has failed.", "")
        for peer in range(self.workers):
            if peer != number:
                post_failure(mesh, peer, lost)


class GangMember:
    """One worker of the gang while it runs: it reads its share, does what it can in between, and writes."""

    def __init__(
        self,
        gang: SparkGang,
        number: int,
        early: EarlyTransport,
        batches: Iterator[pa.RecordBatch],
        hosts: Sequence[int],
    ) -> None:
        self.gang = gang
        self.files = EpochFiles(gang.path, gang.run, number, gang.outputs)
        self.worker = Worker(
            gang.plan, early, WorkerIndex(number), gang.workers, deliver=self._deliver, hosts=hosts
        )
        self._early = early
        self._reading: Iterator[None] | None = self._read(batches)

    @property
    def has_left(self) -> bool:
        """Whether everything was read, and is done on every worker."""
        return self._reading is None and self.worker.is_complete

    def step(self) -> bool:
        """Do what can be done, or else read on; False where only the others can continue."""
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
        """Hear that another worker has failed, which is this one's end, too; nobody gives it orders."""
        if isinstance(order, Failed):
            raise error_of(order)
        raise unfit("another worker", order)

    def close(self) -> None:
        """End the run; what is still held is forgotten."""
        self.worker.close()

    def _read(self, batches: Iterator[pa.RecordBatch]) -> Iterator[None]:
        """Read everything, with a pause wherever something can be done; then meet those not met yet."""
        yield from self._read_packed(batches) if self.gang.is_packed else self._read_plain(batches)
        for handle in self.worker.inputs.values():
            handle.close()
        yield
        self._early.finish()

    def _read_plain(self, batches: Iterator[pa.RecordBatch]) -> Iterator[None]:
        """The rows of the only input, as they are, all in one epoch."""
        spec = self.gang.inputs[0]
        who = f"input '{spec.name}'"
        for number, batch in enumerate(batches, start=1):
            self.worker.inputs[spec.name].send(fit(batch, spec.schema, who))
            if number % _BATCHES_TOGETHER == 0:
                yield
        yield

    def _read_packed(self, batches: Iterator[pa.RecordBatch]) -> Iterator[None]:
        """The rows of all inputs, packed, in the order of epochs."""
        worker = self.worker
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
                    yield
                worker.input(specs[number].name).send(from_bytes(rows.as_py(), specs[number].schema))
            yield

    def _deliver(self, output: str, time: Time, batches: list[pa.RecordBatch]) -> None:
        self.files.write(output, time[0], batches)


def is_consequence(report: Report) -> bool:
    """Whether a failure only says that another worker failed."""
    return isinstance(report, Failed) and report.kind == TransportError.__name__
