"""A session: one generation of a query at the driver.

The loop is the driver's: collect the members' reports, see what the sources have, let the coordinator decide,
post its orders, wait. It ends when the query is finished, when it is told to stop, and by an exception when a
member is lost. Calls from other threads are run between two rounds of the loop, so that nothing here needs a
lock.
"""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from time import monotonic
from typing import Final, TypeAlias

from pointstamp.connectors.source import Watch, complete_watch
from pointstamp.driver.liveness import CallsHeard
from pointstamp.driver.messages import (
    Ahead,
    AskCounts,
    AskLoad,
    Counts,
    EventsTold,
    Failed,
    Finish,
    Finished,
    InCall,
    Leave,
    Load,
    Order,
    Progressed,
    Ready,
    Report,
    RowsCounted,
    Save,
    Saved,
    Tick,
    TickRead,
    error_of,
    unfit,
)
from pointstamp.errors import BusyError, RecoveryError, SourceError, TransportError
from pointstamp.flow.plan import NodeKind, Plan
from pointstamp.journal.history import Committed
from pointstamp.query.coordinator import Coordinator
from pointstamp.query.crew import Crew, CrewError
from pointstamp.query.observation import Verification
from pointstamp.query.timeline import Timeline
from pointstamp.query.watermark_report import WatermarkStream, nodes_above, streams_behind, streams_words
from pointstamp.state.memory_budget import KeptRows
from pointstamp.worker.lineage import LINEAGE, end_copy

LEAVE_SECONDS_MAX: Final = 30.0
# How often a source is looked at that cannot say when it has news, and how long to wait for anything.
_POLL_SECONDS: Final = 0.01
_WAIT_SECONDS: Final = 1.0

OnCommit: TypeAlias = Callable[[Committed], None]


class Session:
    """A crew at work; used by the supervisor's thread alone."""

    def __init__(
        self,
        crew: Crew,
        coordinator: Coordinator,
        watches: Mapping[str, Watch],
        workers: int,
        *,
        on_commit: OnCommit,
        on_ready: Callable[[], None],
        verification: Verification | None = None,
        timeline: Timeline | None = None,
        now_seconds: Callable[[], float] = monotonic,
        is_dropped: Callable[[], bool] = lambda: False,
        streams: Sequence[Sequence[WatermarkStream]] = (),
    ) -> None:
        self._streams = streams
        self._is_dropped = is_dropped
        self.coordinator = coordinator
        self.rows_in: list[dict[str, int]] = [{} for _ in range(workers)]
        self.memory_bytes: dict[int, int] = {}
        """The memory of each member's process, as of its last report."""
        self.rows_out: list[dict[str, int]] = [{} for _ in range(workers)]
        self.rows_late: list[dict[str, int]] = [{} for _ in range(workers)]
        self.rows_skipped: list[dict[str, int]] = [{} for _ in range(workers)]
        self.kept: list[dict[str, KeptRows]] = [{} for _ in range(workers)]
        self._counted: dict[int, RowsCounted] = {}  # by epoch that was saved, of all members together
        self.latest: dict[str, int] = {}
        self.members: dict[int, Ready] = {}
        self.calls = CallsHeard()
        self.loads: dict[int, Load] = {}
        self._loads_asked: set[int] = set()
        self._timeline = Timeline(now_seconds) if timeline is None else timeline
        self._done_before = 0
        self._crew = crew
        self._watches = {name: complete_watch(watch) for name, watch in watches.items()}
        self._workers = workers
        self._on_commit = on_commit
        self._on_ready = on_ready
        self.verification = verification
        self._now_seconds = now_seconds
        self._finished: set[int] = set()
        self._counts: list[tuple[int, Future[Counts]]] = []  # whom was asked, and for what
        self._saves: list[tuple[int, Future[int]]] = []
        self._ended: set[str] = set()
        self._depth = LINEAGE.depth

    def turn(self) -> bool:
        """One round of the loop without waiting; whether anything happened.

        A round ends early if the query is told to end at once: each report may be the last of a commit, and
        a slow sink may take long to publish it.
        """
        reports = self._crew.collect()
        for worker, report in reports:
            self._receive(worker, report)
            if self._is_dropped():
                return True
        has_news = self._look_at_verification() or bool(reports)
        for name in self._watches:
            has_news = self._look_at(name) or has_news
        if self.is_ready:
            while self._may_go_on() and (orders := self.coordinator.orders(self._now_seconds())):
                has_news = True
                for worker, order in orders:
                    self._crew.post(worker, order)
                self._note_orders(orders)
        return has_news

    def _note_orders(self, orders: list[tuple[int, Order]]) -> None:
        for worker, order in orders:
            if worker == 0 and isinstance(order, Tick):
                self._timeline.ticked(order.number, order.open_from, order.complete_to - 1)
            elif worker == 0 and isinstance(order, Save):
                self._timeline.save_asked(self.coordinator.opened)

    def refresh(self) -> None:
        """Let every source look now for what is there, where it looks at intervals."""
        for watch in self._watches.values():
            watch.refresh()

    @property
    def is_refreshing(self) -> bool:
        """Whether a source has not yet returned what was there at the last refresh."""
        watches = [watch for name, watch in self._watches.items() if name not in self._ended]
        return any(watch.is_refreshing for watch in watches)

    def wait(self, wake: int) -> None:
        """Wait for news, from a member, a source, or another thread."""
        timeout = _WAIT_SECONDS
        files = [wake]
        for name, watch in self._watches.items():
            if name not in self._ended:
                number = watch.fileno()
                if number is None:
                    timeout = min(timeout, _POLL_SECONDS)
                else:
                    files.append(number)
        if self.verification is not None:
            files.append(self.verification.fileno())
            timeout = min(timeout, self.verification.seconds_until_due or timeout)
        may_act = self.is_ready and self._may_go_on()
        due = self.coordinator.seconds_until_due(self._now_seconds()) if may_act else None
        self._crew.wait(timeout if due is None else min(timeout, due), files)

    @property
    def could_grow(self) -> bool:
        """Whether a new generation would have more members."""
        return self._crew.could_grow

    @property
    def is_ready(self) -> bool:
        """Whether all members have restored their state."""
        return len(self.members) == self._workers

    def ask_counts(self, answer: "Future[Counts]") -> None:
        """Ask a member for its counts; if possible one that is not inside a long call."""
        asked = self.calls.free(self._workers)
        if asked is None:
            answer.set_exception(self._all_busy())
            return
        self._counts.append((asked, answer))
        self._crew.post(asked, AskCounts())

    def ask_loads(self, *, with_keys: bool) -> None:
        """Ask all members how loaded they are; none is asked again before it has answered."""
        for worker in self.members:
            if worker not in self._loads_asked:
                self._loads_asked.add(worker)
                self._crew.post(worker, AskLoad(with_keys))

    def _all_busy(self) -> BusyError:
        return BusyError(f"no worker can answer: {'; '.join(self.calls.words())}.")

    def _ask_others(self, busy: int) -> None:
        """Ask another member if one is inside a long call, or report that no worker can answer."""
        moved = [answer for asked, answer in self._counts if asked == busy]
        self._counts = [each for each in self._counts if each[0] != busy]
        for answer in moved:
            self.ask_counts(answer)

    def save_soon(self, savepoint: str | None, answer: "Future[int]") -> None:
        """Take a snapshot of what was taken in, under a name if given; answer with its epoch."""
        self._saves.append((self.coordinator.save_soon(savepoint), answer))
        self._look_at_saves()

    def advance(self, name: str, epoch: int) -> None:
        """Take note that an input with an epoch column has by now all its rows before an epoch."""
        self._look_at(name)
        self.coordinator.advance(name, epoch)

    def event_time_words(self, plan: Plan, output: str) -> list[str]:
        """The causes that hold event time back for an output, as text."""
        coordinator, now = self.coordinator, self._now_seconds()
        by_epochs = coordinator.event_time_words(now)
        return by_epochs or streams_words(plan, output, self.latest, coordinator.silence, now)

    def behind(self) -> list[str]:
        """The inputs and streams that hold back rows that were read, because their event time is behind."""
        inputs = [f"input '{name}'" for name in self.coordinator.inputs_behind()]
        found = [streams_behind(each, self.latest, self.coordinator.silence) for each in self._streams]
        return list(dict.fromkeys([*inputs, *(who for each in found for who in each)]))

    def source_words(self, plan: Plan, output: str) -> list[str]:
        """The causes for which the sources of an output wait, as text, if known."""
        above = nodes_above(plan, plan.named(NodeKind.OUTPUT)[output])
        words = []
        for name in [
            node.name for node in above if node.kind is NodeKind.INPUT and node.name in self._watches
        ]:
            waits_for = self._watches[name].waits_for()
            if name not in self._ended and waits_for is not None:
                words.append(f"input '{name}' waits for {waits_for}")
        return words

    def finish(self) -> None:
        """Let all members leave after their last epoch."""
        self._end_with(Finish())
        if self.verification is not None:
            self.verification.finish()

    def leave(self) -> None:
        """Let all members leave now."""
        for worker in range(self._workers):
            self._crew.post(worker, Leave())

    def hear_out(self) -> None:
        """A member is lost: raise what the judge finds in the events told before, if it finds anything."""
        if self.verification is None:
            return
        with suppress(CrewError):
            for worker, report in self._crew.collect():
                if isinstance(report, EventsTold):
                    self.verification.observed(worker, report)
        self.verification.hear_out()

    def close(self, error: BaseException | None = None) -> None:
        """End the crew; the watches are closed by their owner."""
        self._crew.end()
        for _, answer in self._counts:
            answer.set_exception(error or RecoveryError("the query has ended before it could answer."))
        for _, saved in self._saves:
            lost = RecoveryError("the workers were lost before the snapshot was complete.")
            saved.set_exception(error or lost)
        self._counts.clear()
        self._saves.clear()

    def _look_at(self, name: str) -> bool:
        """Offer what a source has found, and say whether it had any news."""
        if name in self._ended or name not in self._watches:
            return False
        watch = self._watches[name]
        try:
            units = watch.poll()
        except SourceError as error:
            raise SourceError(f"input '{name}': {error}") from error
        self._check_not_copied()
        if units:
            self.coordinator.offer(name, units)
        if watch.is_finished:
            self._ended.add(name)
            self.coordinator.end(name)
        return bool(units) or watch.is_finished

    def _check_not_copied(self) -> None:
        """End this process if a source or a sink has forked it: its parent does what is to be done."""
        if LINEAGE.depth != self._depth:
            end_copy()

    def _may_go_on(self) -> bool:
        return self.verification is None or self.verification.has_room

    def _look_at_verification(self) -> bool:
        """Act on reports that were verified meanwhile, and say whether there were any."""
        if self.verification is None:
            return False
        verified = self.verification.verified()
        for worker, report in verified:
            self._saved(worker, report)
            if self._is_dropped():
                return True
        question = self.verification.question()
        if question is not None:
            for worker in range(self._workers):
                self._crew.post(worker, question)
        return bool(verified)

    def _saved(self, worker: int, report: Saved) -> None:
        self._timeline.saved(report.epoch)
        commit = self.coordinator.saved(worker, report)
        self._check_not_copied()
        if commit is not None:
            if self.verification is not None:
                self.verification.committed(commit.epoch)
            self._on_commit(commit)
            self._look_at_saves()

    def take_counted(self, through: int) -> RowsCounted:
        """The rows of the epochs that were saved up to this one, which are counted no longer."""
        taken = RowsCounted.none()
        for epoch in [epoch for epoch in self._counted if epoch <= through]:
            taken = taken.plus(self._counted.pop(epoch))
        return taken

    def _finished_rows(self, worker: int, rows: dict[str, int]) -> None:
        """A member has finished so many rows in all; a report that comes late may say less than is known."""
        known = self.rows_out[worker]
        self.rows_out[worker] = (
            {name: max(rows[name], known.get(name, 0)) for name in rows} if rows else known
        )

    def _measured(self, worker: int, memory_bytes: int) -> None:
        self.memory_bytes[worker] = memory_bytes
        self._timeline.measured(worker, memory_bytes)

    def _note_done(self) -> None:
        done = self.coordinator.done_before
        if done != self._done_before:
            self._done_before = done
            self._timeline.completed(done)

    def _look_at_saves(self) -> None:
        committed = self.coordinator.ledger.committed
        reached = -1 if committed is None else committed.epoch
        for epoch, answer in self._saves:
            if epoch <= reached:
                answer.set_result(reached)
        self._saves = [each for each in self._saves if not each[1].done()]

    def _end_with(self, order: Finish) -> None:
        for worker in range(self._workers):
            self._crew.post(worker, order)
        deadline = monotonic() + LEAVE_SECONDS_MAX
        while len(self._finished) < self._workers:
            for worker, report in self._crew.collect():
                self._receive(worker, report)
            if monotonic() > deadline:
                raise TransportError(
                    f"workers {sorted(set(range(self._workers)) - self._finished)} have not left "
                    f"{LEAVE_SECONDS_MAX:g} seconds after the last epoch."
                )
            self._crew.wait(_POLL_SECONDS)

    def _receive(self, worker: int, report: Report) -> None:
        self.calls.hear(worker, report)
        match report:
            case Ready():
                self.members[worker] = report
                if self.is_ready:
                    self._on_ready()
            case Saved():
                self.kept[worker] = report.kept
                known = self._counted.get(report.epoch, RowsCounted.none())
                self._counted[report.epoch] = known.plus(report.counted)
                self._finished_rows(worker, report.rows_out)
                self._measured(worker, report.memory_bytes)
                self._timeline.turned(report.rounds)
                self.latest = report.latest  # all members know the same
                if self.verification is None:
                    self._saved(worker, report)
                else:
                    self.verification.hold(worker, report)
            case Progressed():
                self.rows_in[worker] = report.rows_in
                self._finished_rows(worker, report.rows_out)
                self.rows_late[worker], self.rows_skipped[worker] = report.rows_late, report.rows_skipped
                self.coordinator.progressed(worker, report)
                self._note_done()
            case TickRead():
                self.coordinator.read(worker, report)
            case Counts():
                mine = next((each for each in self._counts if each[0] == worker), None)
                if mine is not None:
                    self._counts.remove(mine)
                    mine[1].set_result(report)
            case Load():
                self._loads_asked.discard(worker)
                self.loads[worker] = report
                self._measured(worker, report.memory_bytes)
            case Ahead():
                self.coordinator.left_ahead(report)
            case EventsTold():
                if self.verification is not None:
                    self.verification.observed(worker, report)
            case InCall():
                if report.when:  # it was heard
                    self._ask_others(worker)
            case Finished():
                self._finished.add(worker)
            case Failed():
                raise CrewError(f"worker {worker} has failed") from error_of(report, f"worker {worker}")
            case _:
                raise unfit(f"worker {worker}", report)
