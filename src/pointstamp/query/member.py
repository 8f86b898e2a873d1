"""A member: one worker that follows ticks, reads parts, saves and reports.

A member is driven from outside, by ``follow`` and ``step``, and sends reports through a function that it was
given: so the same member runs in a Spark task, in a process, beside others in this process, and in the
simulated world.

Output waits in memory until the snapshot of its epoch, or until there is much of it; then it is staged. A
member reports that an epoch is saved when the worker's part of the snapshot and all its output up to that
epoch are durable, or in the report, because they are small. The report does not include output of later
epochs, which one operator may have reached before another has saved. What was published before this
generation began may be computed again, but is never staged again.
"""

import os
import socket
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from functools import partial
from typing import Final, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from pointstamp.arrow.epoch_column import EventEpochs, by_epoch, late_rows
from pointstamp.connectors.sink import Staged, complete_writer
from pointstamp.connectors.source import Part, complete_source
from pointstamp.driver.event_reports import EventTeller, TellRows
from pointstamp.driver.liveness import Sign
from pointstamp.driver.messages import (
    DRIVER,
    Ahead,
    AskAhead,
    AskCounts,
    Counts,
    Finish,
    Finished,
    Leave,
    Order,
    Progressed,
    Ready,
    Report,
    RowsCounted,
    Save,
    Saved,
    Tick,
    TickRead,
    post,
    unfit,
)
from pointstamp.driver.worker_loop import memory_bytes, serve
from pointstamp.errors import SourceError
from pointstamp.flow.plan import NodeKind
from pointstamp.journal.snapshot_parts import encode_part, stored_part
from pointstamp.mesh.mesh import Mesh
from pointstamp.mesh.transport import ZmqTransport
from pointstamp.mesh.wire import Body, MessageCodec
from pointstamp.progress.pointstamp import WorkerIndex
from pointstamp.query.mission import Mission
from pointstamp.query.policy import Pacing
from pointstamp.query.snapshot_writer import Scribe, ThreadScribe
from pointstamp.query.watermark_report import late_names
from pointstamp.topology.domain import Time
from pointstamp.topology.ports import Location, Target
from pointstamp.worker.lineage import LINEAGE, end_copy
from pointstamp.worker.protocols import Chooser, EventLog, Transport
from pointstamp.worker.snapshots import WorkerSnapshot
from pointstamp.worker.worker import Worker

Tell: TypeAlias = Callable[[Report], None]
_Output: TypeAlias = dict[str, dict[int, list[pa.RecordBatch]]]

STAGE_BYTES_MAX: Final = 32 * 1024 * 1024
"""Output that waits for its snapshot is staged early when there is more of it than this."""

NOTHING_OPEN: Final = 2**62
"""Stands for the end: when nothing can arrive any more, everything before this epoch is done."""


class Member:
    """One worker of a mission; its driver calls ``follow`` and ``step``."""

    def __init__(
        self,
        mission: Mission,
        worker: int,
        transport: Transport,
        tell: Tell,
        scribe: Scribe,
        *,
        chooser: Chooser | None = None,
        log: EventLog | None = None,
    ) -> None:
        self.mission = mission
        self.number = worker
        self._tell = tell
        self._scribe = scribe
        self._writer = complete_writer(mission.sink.writer(worker, mission.generation))
        restored = mission.restored(worker)
        self._restored_epoch = -1 if restored is None else restored.epoch
        self.worker = Worker(
            mission.plan,
            transport,
            WorkerIndex(worker),
            mission.workers,
            deliver=self._deliver,
            chooser=chooser,
            log=log,
            on_snapshot=self._save,
            restored=restored,
        )
        self._output: _Output = {}
        self._output_bytes = 0
        self._staged: list[Staged] = []  # early; only jobs of the scribe look at it
        self._reading: deque[Iterator[None]] = deque()
        self._pacing = Pacing(mission.decoded_bytes_max)
        self._is_decoding = False
        self._done_before = 0
        self._last_epochs: deque[tuple[int, int]] = deque()  # of each tick that is not settled
        self._settled = -1
        self._latest: dict[str, int] = {}  # event times of the tick that is read
        self._latest_of_lanes: dict[str, dict[int, int]] = {}
        self.rows_in = dict.fromkeys(mission.sources, 0)
        self.rows_out = dict.fromkeys(mission.plan.named(NodeKind.OUTPUT), 0)
        self.rows_late: dict[str, int] = {}
        self.rows_skipped: dict[str, int] = {}
        self._counted: dict[int, RowsCounted] = {}  # by epoch, of those that are not saved yet
        self._late_names = late_names(mission.plan)
        self._late_told: dict[str, int] = {}
        self._is_finishing = False
        self._told: tuple[int, int] | None = None
        self._asked_ahead: int | None = None
        self._watched = self._locations()
        self.has_left = False

    # Driving it.

    def follow(self, order: Order, bodies: Sequence[Body] = ()) -> None:
        """Take an order; no order of a query has bodies."""
        match order:
            case Tick():
                self._reading.append(self._read(order))
            case Save(is_whole):
                self._reading.append(self._ask_for_snapshot(is_whole=is_whole))
            case Finish():
                self._reading.append(self._finish())
            case AskCounts():
                self._tell(Counts(self._counts()))
            case AskAhead(epoch):
                self._asked_ahead = epoch
            case Leave():
                self.has_left = True
            case _:
                raise unfit(DRIVER, order)

    def step(self) -> bool:
        """Do one thing; False where there is nothing to do until an order or a message arrives."""
        busy = self.worker.step()
        for report in self._scribe.done():
            busy = True
            self._tell(report)
        if not busy and self._reading:
            busy = self._read_on()
        self._report_progress(is_idle=not busy)
        if not busy and self._asked_ahead is not None:
            self._look_ahead(self._asked_ahead)
        if self._is_finishing and not busy and self.worker.is_complete and self._scribe.is_idle:
            self._is_finishing = False
            self.has_left = True
            self._tell(Finished())
        return busy

    def close(self) -> None:
        """End the run; what is still held is forgotten."""
        self.worker.close()

    # Reading.

    def _read_on(self) -> bool:
        """Do the next step of reading; False if it must wait until earlier rows are digested."""
        if self._is_decoding and not self._may_decode():
            return False
        try:
            next(self._reading[0])
        except StopIteration:
            self._reading.popleft()
        return True

    def _read(self, tick: Tick) -> Iterator[None]:
        """Read a tick, batch by batch; then its epochs are complete."""
        worker, mission = self.worker, self.mission
        worker.open_to(tick.complete_to - 1)
        self._pacing.begin(tick.number, tick.complete_to)
        self._is_decoding = any(tick.parts.values())
        yield
        last = self._restored_epoch
        self._latest, self._latest_of_lanes = {}, {}
        if tick.open_from > self._restored_epoch:
            for name in tick.silent:
                worker.inputs[name].mark_silent(at=tick.open_from)
        for name, parts in tick.parts.items():
            for part in parts:
                for batch in self._batches(name, part):
                    messages = worker.messages_in
                    last = max(last, self._send(name, part, batch, tick))
                    self._pacing.decoded(batch.nbytes, worker.messages_in - messages)
                    del batch  # while it pauses, only those who need the rows hold them
                    yield
                self._count_skipped(name, part, tick)
        self._is_decoding = False
        # A tick without rows is not settled either before the epochs that it completes are saved.
        self._last_epochs.append((tick.number, max(last, tick.complete_to - 1)))
        if mission.epoch_columns:
            self._tell(TickRead(tick.number, last, self._latest, self._latest_of_lanes))
        for handle in worker.inputs.values():
            if handle.time < tick.complete_to:
                handle.advance_to(tick.complete_to)

    def _may_decode(self) -> bool:
        ports, occurrences = self.worker.graph.ports, self.worker.view.tracker.occurrences
        return self._pacing.may_read(
            self._done_before,
            (
                (time[0], count)
                for number, port in enumerate(ports)
                if isinstance(port, Target)
                for time, count in occurrences(Location(number)).items()
            ),
        )

    def _batches(self, name: str, part: Part) -> Iterator[pa.RecordBatch]:
        depth = LINEAGE.depth
        try:
            for batch in self.mission.sources[name].read(part, self.mission.schema(name)):
                if LINEAGE.depth != depth:
                    end_copy()
                yield batch
        except SourceError as error:
            raise SourceError(f"input '{name}': {error}") from error

    def _count_skipped(self, name: str, part: Part, tick: Tick) -> None:
        """Ask a source that may leave rows out how many of a part these were."""
        count = complete_source(self.mission.sources[name]).skipped(part)
        if count and tick.open_from > self._restored_epoch:
            _add(self.rows_skipped, name, count)
            _add(self._counts_of(tick.open_from).skipped, name, count)

    def _counts_of(self, epoch: int) -> RowsCounted:
        """The row counts of an epoch, for its commit."""
        counts = self._counted.get(epoch)
        if counts is None:
            counts = self._counted[epoch] = RowsCounted.none()
        return counts

    def _take_counted(self, through: int) -> RowsCounted:
        """The rows of epochs up to this one, which are counted no longer."""
        for operator, count in self.worker.late_rows().items():
            more = count - self._late_told.get(operator, 0)
            if more:
                self._late_told[operator] = count
                name = self._late_names.get(operator, operator)
                _add(self.rows_late, name, more)
                _add(self._counts_of(through).late, name, more)
        taken = RowsCounted.none()
        for epoch in [epoch for epoch in self._counted if epoch <= through]:
            taken = taken.plus(self._counted.pop(epoch))
        return taken

    def _send(self, name: str, part: Part, batch: pa.RecordBatch, tick: Tick) -> int:
        """Send each row of a batch at its epoch, late ones at the first open one; return the last epoch."""
        column = self.mission.epoch_columns.get(name)
        if column is None:
            self._send_at(name, tick.open_from, batch)
            return tick.open_from
        promised = max(tick.open_from, tick.promised.get(name, 0))
        last = self._restored_epoch
        if isinstance(column, EventEpochs) and batch.num_rows:
            latest = pc.max(column.instants(batch)).as_py()
            lane = part.lane
            if latest is not None and lane is None:
                self._latest[name] = max(latest, self._latest.get(name, latest))
            elif latest is not None and lane is not None:
                lanes = self._latest_of_lanes.setdefault(name, {})
                lanes[lane] = max(latest, lanes.get(lane, latest))
        for epoch, rows in by_epoch(batch, column, self.mission.declared(name), f"input '{name}'"):
            if epoch >= promised:
                self._send_at(name, epoch, rows)
                last = max(last, epoch)
            else:
                # What was promised stands in the journal: whoever reads the tick again finds the same.
                self._take_late(name, epoch, rows, tick, part)
                last = max(last, tick.open_from)
        return last

    def _send_at(self, name: str, epoch: int, rows: pa.RecordBatch) -> None:
        if epoch > self._restored_epoch:
            self.rows_in[name] += rows.num_rows
            _add(self._counts_of(epoch).read, name, rows.num_rows)
            self.worker.inputs[name].send(rows, at=epoch)

    def _take_late(self, name: str, epoch: int, rows: pa.RecordBatch, tick: Tick, part: Part) -> None:
        """Handle late rows as their input declares."""
        policy = self.mission.plan.named(NodeKind.INPUT)[name].late
        if policy == "error":
            raise SourceError(
                f"input '{name}' has a row of epoch {epoch} in tick {tick.number}, after the input was "
                f"advanced to epoch {max(tick.open_from, tick.promised.get(name, 0))}; the row is in "
                f"'{part.locator}'. Advance the input later, give such rows a later epoch, or "
                "declare the input with late='output' or late='drop'."
            )
        if tick.open_from <= self._restored_epoch:
            return  # they are in what was saved
        _add(self.rows_late, name, rows.num_rows)
        _add(self._counts_of(tick.open_from).late, name, rows.num_rows)
        if policy == "output":
            self.worker.inputs[name].send(late_rows(rows, epoch), at=tick.open_from, late=True)

    def _ask_for_snapshot(self, *, is_whole: bool) -> Iterator[None]:
        self.worker.save(is_whole=is_whole)
        yield

    def _finish(self) -> Iterator[None]:
        for handle in self.worker.inputs.values():
            handle.close()
        self.worker.open_to(None)
        self._is_finishing = True
        yield

    # Saving.

    def _deliver(self, output: str, time: Time, batches: list[pa.RecordBatch]) -> None:
        if time[0] <= self.mission.published_through:
            return
        self._output.setdefault(output, {})[time[0]] = batches
        self._output_bytes += sum(batch.nbytes for batch in batches)
        if self._output_bytes > STAGE_BYTES_MAX:
            self._scribe.submit(partial(self._stage_early, self._take_output(NOTHING_OPEN)))

    def _take_output(self, through: int) -> _Output:
        """The output of epochs up to this one, which no longer waits."""
        taken: _Output = {}
        for name, epochs in self._output.items():
            for epoch in [epoch for epoch in epochs if epoch <= through]:
                batches = taken.setdefault(name, {})[epoch] = epochs.pop(epoch)
                rows = sum(batch.num_rows for batch in batches)
                self.rows_out[name] += rows
                _add(self._counts_of(epoch).finished, name, rows)
                self._output_bytes -= sum(batch.nbytes for batch in batches)
        return taken

    def _stage_early(self, output: _Output) -> None:
        """Stage each epoch by itself: it is not known yet which of them are saved together."""
        for name, epochs in output.items():
            for epoch, batches in epochs.items():
                self._staged.extend(self._writer.stage_early(name, {epoch: batches}))

    def _save(self, snapshot: WorkerSnapshot) -> None:
        while self._last_epochs and self._last_epochs[0][1] <= snapshot.epoch:
            self._settled = self._last_epochs.popleft()[0]
        output, settled = self._take_output(snapshot.epoch), self._settled
        mission = self.mission
        name = mission.part_name(self.number, snapshot.epoch)
        kept = self.worker.kept()
        latest = self.worker.event_times()
        rows_out, rounds = dict(self.rows_out), self.worker.take_rounds(snapshot.epoch)
        counted = self._take_counted(snapshot.epoch)

        def job() -> Report:
            staged = [piece for piece in self._staged if piece.last_epoch <= snapshot.epoch]
            self._staged = [piece for piece in self._staged if piece.last_epoch > snapshot.epoch]
            for output_name, epochs in output.items():
                staged.extend(self._writer.stage(output_name, epochs))
            part, content = encode_part(snapshot, self.number, mission.workers, name, mission.query)
            part = stored_part(part, content, mission.storage, mission.inline_bytes_max // mission.workers)
            told = (memory_bytes(), rows_out, rounds, counted)
            return Saved(snapshot.epoch, part, staged, settled, kept, latest, *told)

        self._scribe.submit(job)

    # Telling how far it is.

    def _locations(self) -> list[Location]:
        graph = self.worker.graph
        ends = self.mission.plan.named(NodeKind.OUTPUT) or self.mission.plan.named(NodeKind.OPERATOR)
        return [
            graph.location(Target(node.index, port))
            for node in ends.values()
            for port in range(len(node.inputs))
        ]

    def _report_progress(self, *, is_idle: bool) -> None:
        """Tell how far the outputs are whenever that changes, and what was read when there is time."""
        frontier = self.worker.view.tracker.frontier
        before = min((time[0] for at in self._watched for time in frontier(at)), default=NOTHING_OPEN)
        self._done_before = before
        counts = (self.rows_in, self.rows_late, self.rows_skipped)
        now = (before, sum(sum(each.values()) for each in counts))
        if self._told is None or now[0] != self._told[0] or (is_idle and now != self._told):
            self._told = now
            late, skipped = dict(self.rows_late), dict(self.rows_skipped)
            self._tell(Progressed(before, dict(self.rows_in), dict(self.rows_out), late, skipped))

    def _look_ahead(self, epoch: int) -> None:
        """Answer what is left beyond the inputs, once nothing of an earlier epoch is in flight.

        An input that will send nothing more is as good as closed. So the counts at all other places are those
        that a tracker with closed inputs would have: no less than what there is.
        """
        inputs = {node.index for node in self.mission.plan.named(NodeKind.INPUT).values()}
        counted = [(number, time[0]) for number, time, count in self._counts() if count > 0]
        if all(at >= epoch for _, at in counted):
            ports = self.worker.graph.ports
            self._asked_ahead = None
            least = min((at for number, at in counted if ports[number].operator not in inputs), default=None)
            self._tell(Ahead(epoch, least))

    def _counts(self) -> list[tuple[int, Time, int]]:
        occurrences = self.worker.view.tracker.occurrences
        return [
            (number, time, count)
            for number in range(len(self.worker.graph.ports))
            for time, count in occurrences(Location(number)).items()
        ]


def _add(counts: dict[str, int], name: str, count: int) -> None:
    counts[name] = counts.get(name, 0) + count


# Being a member of a crew in a mesh: the same in a process and in a Spark task.
#
# ``be_member`` builds a member with what it needs of this process, a scribe and a transport, and lets it be
# served (``running.serving``) until its work is done. It ends by an exception when the member fails, or when
# the driver or another member is gone.


def be_member(mission: Mission, mesh: Mesh, worker: int, sign: Sign | None = None) -> None:
    """Be one member of a crew until its work is done; ``sign`` shows that it is not stuck in native code."""
    say: TellRows = partial(post, mesh, mission.workers)
    teller = EventTeller(say) if mission.is_observed else None
    tell: Tell = say if teller is None else teller.before(say)
    transport = ZmqTransport(mesh, MessageCodec.of(mission.plan, mission.plan.graph()))
    with closing(ThreadScribe()) as scribe:

        def start() -> Member:
            member = Member(mission, worker, transport, tell, scribe, log=teller)
            tell(Ready(os.getpid(), socket.gethostname()))
            return member

        mesh.watch([scribe.fileno()])
        try:
            serve(start, transport, tell_call=say, teller=teller, sign=sign)
        finally:
            mesh.watch([])
