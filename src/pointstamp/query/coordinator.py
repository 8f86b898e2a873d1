"""The coordinator: the state machine of the driver, from ticks to commits.

It knows what the sources offer, records ticks in the ledger, which stores each before or with the next
commit, deals their parts out, asks for snapshots, and commits an epoch when every member has saved it. It has
no clock, starts nothing and waits for nothing: its caller tells it the time and carries its orders.

An epoch is a tick: it takes what every source has offered since the last one, which may be nothing. Ticks
may be those of a clock: then there is one every so often, also where nothing was offered. With epoch columns
each row carries its own epoch and ticks only bring rows; an epoch is complete when every such
input was said to be complete beyond it.

At the end of all inputs something may be left for later epochs: an open window, a row behind a delay. If that
end is the end of time, a member is asked for the least such epoch, and a tick without rows closes it, until
nothing is left.

Flow control is here: while too many epochs or bytes are in flight, no tick is recorded, and what the
sources offer is collected for the next one.
"""

from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final

from pointstamp.arrow.epoch_column import EpochColumn, EventEpochs
from pointstamp.connectors.sink import Publisher, prepared
from pointstamp.connectors.source import Part, Unit, deal, shared
from pointstamp.driver.messages import Ahead, AskAhead, Order, Progressed, Save, Saved, Tick, TickRead
from pointstamp.errors import InternalError
from pointstamp.journal.history import Committed, SnapshotChain, Ticked
from pointstamp.journal.ledger import Ledger
from pointstamp.query.intake import Intake, Lanes, Silence
from pointstamp.query.policy import BYTES_IN_FLIGHT_MAX, EPOCHS_IN_FLIGHT_MAX, SnapshotPolicy
from pointstamp.query.watermark_report import epochs_words
from pointstamp.state.memory_budget import KeptRows

# In at most about so many steps the epochs that are left at the end of all inputs are closed.
_LAST_STEPS_MAX: Final = 64
# Below this a chain is not begun again for its size.
_COMPACT_BYTES_MIN: Final = 1024 * 1024


class Coordinator:
    """One generation's ticks and commits; changed by the driver's loop alone."""

    def __init__(
        self,
        ledger: Ledger,
        publisher: Publisher,
        workers: int,
        units_per_tick: Mapping[str, int | None],
        *,
        chain: SnapshotChain | None,
        now_seconds: float,
        policy: SnapshotPolicy | None = None,
        epoch_columns: Mapping[str, EpochColumn] | None = None,
        epochs_max: int = EPOCHS_IN_FLIGHT_MAX,
        bytes_max: int = BYTES_IN_FLIGHT_MAX,
        closes: bool = False,
        tick_every_seconds: float | None = None,
        idle_seconds: Mapping[str, float] | None = None,
        shares: Mapping[str, Callable[[Unit], float]] | None = None,
        lanes: Mapping[str, Collection[int]] | None = None,
    ) -> None:
        self.ledger = ledger
        self.workers = workers
        self.policy = policy or SnapshotPolicy()
        self._publisher = publisher
        self._columns = epoch_columns or {}
        self._intake = Intake(units_per_tick, self._columns, ledger.open_from, ledger.promises, shares)
        self._epochs_max = epochs_max
        self._bytes_max = bytes_max
        self._closes = closes
        self._tick_every_seconds = tick_every_seconds
        self.silence = Silence(units_per_tick, idle_seconds or {}, now_seconds)
        self._lanes = Lanes(lanes or {}, idle_seconds or {}, now_seconds)
        self._said_silent: frozenset[str] = frozenset()
        self._last_given: dict[str, int] = {}  # the last tick with units of an input
        self._ahead: Ahead | None = None
        self._ahead_asked = -1
        self._questions: list[tuple[int, Order]] = []
        self._waiting: deque[Ticked] = deque(ledger.ticks_after(chain))
        self._in_flight: deque[tuple[Ticked, int]] = deque()
        self._done_before = [0] * workers
        self._read_by = [-1 if chain is None else chain.commits[-1].settled] * workers
        self._last_row_epoch = -1
        self._has_rows: set[str] = set()  # the inputs whose event times were heard of
        self._tick_reads: dict[int, list[TickRead]] = {}
        # What was let in, what is to be saved, and what has been.
        self.opened = -1 if chain is None else chain.epoch
        self._targets: deque[tuple[int, bool, list[str]]] = deque()
        self._saves: dict[int, dict[int, Saved]] = {}
        # Where the last snapshot is damaged and an older one is used, what was committed is computed again,
        # and is not saved, committed or published again: the next commit comes after the last one.
        last = ledger.committed
        self._last_target = self.opened if last is None else max(self.opened, last.epoch)
        self._last_save_seconds = now_seconds
        self._last_tick_seconds = now_seconds
        self._chain_length = self._bytes_whole = self._bytes_changed = 0
        if chain is not None and chain.workers == workers and chain.commits[-1] == last:
            self._chain_length = len(chain.commits)
            self._bytes_whole, *changed = [commit.size_bytes for commit in chain.commits]
            self._bytes_changed = sum(changed)
        self._is_asked_to_save = False
        self._savepoints: list[str] = []
        self._is_last_whole = chain is not None and chain.commits[-1] == last
        self.is_held = False
        """Whether to record no further tick, because the query is about to stop."""

    # What the sources offer.

    def offer(self, name: str, units: Sequence[Unit]) -> None:
        """Take note of units that were found."""
        self._intake.offer(name, units)

    def end(self, name: str) -> None:
        """Take note that an input will have no further units."""
        self._intake.end(name)

    def advance(self, name: str, epoch: int) -> None:
        """Take note that what was offered completes an input with an epoch column before an epoch."""
        self._intake.check_advance(name, epoch)
        self.ledger.say(name, epoch, self._intake.waiting(name))
        self._intake.advance(name, epoch)

    def save_soon(self, savepoint: str | None = None) -> int:
        """Have a snapshot taken as soon as there is an epoch to save, under a name if one is given.

        If everything is saved or being saved already, that snapshot gets the name, unless it is known to be
        damaged. The snapshot is complete with the commit of the returned epoch.
        """
        if savepoint is not None and self._last_target >= self.opened:
            if self._targets:
                self._targets[-1][2].append(savepoint)
                return self._last_target
            if self._is_last_whole:
                self.ledger.keep(savepoint)
                return self._last_target
        self._is_asked_to_save = True
        if savepoint is None:
            return self.opened
        self._savepoints.append(savepoint)
        return max(self.opened, self._last_target + 1)

    # What to tell the members.

    def orders(self, now_seconds: float) -> list[tuple[int, Order]]:
        """The orders for members now: at most one tick, and a snapshot if one is due."""
        orders: list[tuple[int, Order]] = []
        self.silence.look([name for name in self.silence.names if self._is_heard(name)], now_seconds)
        self._lanes.look(now_seconds)
        self._pass_lanes()
        if self._has_room():
            tick = self._read_again() if self._waiting else self._record(now_seconds)
            if tick is not None:
                orders.extend(self._dispatch(tick))
                self._give_lanes(tick, now_seconds)
                self._last_tick_seconds = now_seconds
            orders.extend(self._questions)
            self._questions.clear()
        if self._is_save_due(now_seconds):
            orders.extend(self._save(now_seconds))
        return orders

    def seconds_until_due(self, now_seconds: float) -> float | None:
        """The seconds until something is due by time alone; None if nothing ever will be."""
        times = []
        if self._tick_every_seconds is not None and not (self.is_held or self._intake.has_ended):
            times.append(self._last_tick_seconds + self._tick_every_seconds)
        if not (self.is_held or self._waiting):
            silent = [each.seconds_until_due(now_seconds) for each in (self.silence, self._lanes)]
            times.extend(now_seconds + each for each in silent if each is not None)
        if self._last_target >= self.opened:
            return max(0.0, min(times) - now_seconds) if times else None
        if self.policy.seconds is not None:
            times.append(self._last_save_seconds + self.policy.seconds)
        if self._is_quiet:
            times.append(self._last_tick_seconds + self.policy.patience_seconds)
        return max(0.0, min(times) - now_seconds) if times else None

    @property
    def is_idle(self) -> bool:
        """Whether everything offered is committed; at the end of all inputs, also everything that follows."""
        is_over = self.ledger.is_final or not self._intake.has_ended
        return is_over and not self._intake.has_units and self.is_settled and self._is_event_time_passed

    @property
    def _is_event_time_passed(self) -> bool:
        """Whether no tick is about to follow because of event times that were read, or are being read."""
        if not any(isinstance(each, EventEpochs) for each in self._columns.values()):
            return True
        open_from = self.ledger.open_from
        return self._is_all_read() and (self.is_held or self._complete_to() == open_from)

    @property
    def is_settled(self) -> bool:
        """Whether every tick that was recorded is committed."""
        last = self.ledger.committed
        return not self._waiting and not self._targets and (-1 if last is None else last.epoch) >= self.opened

    @property
    def is_finished(self) -> bool:
        """Whether no tick can follow, and the last is committed."""
        return self.ledger.is_final and self._intake.has_ended and self.is_idle

    @property
    def done_before(self) -> int:
        """Nothing before this epoch can come to the outputs of any member."""
        return min(self._done_before)

    @property
    def epochs_in_flight(self) -> int:
        """The ticks that members are at."""
        return len(self._in_flight)

    def event_time_words(self, now_seconds: float) -> list[str]:
        """The causes that hold event time back if epochs are event time, as text."""
        complete = {
            name: at if (at := self._intake.complete(name)) or name in self._has_rows else None
            for name in self._intake.still_open
        }
        words = epochs_words(self._columns, complete, self.silence, now_seconds)
        return [*words, *(self._lanes.words() if words else ())]

    def inputs_behind(self) -> list[str]:
        """The inputs for which rows wait that have been read, because they are behind other inputs."""
        if self._last_row_epoch < self.ledger.open_from:
            return []
        names = [name for name in self._intake.still_open if name not in self.silence.inputs]
        complete = {name: self._intake.complete(name) for name in names}
        least = min(complete.values(), default=0)
        if not any(name in self._has_rows and at > least for name, at in complete.items()):
            return []
        return [name for name, at in complete.items() if at == least]

    # What the members tell.

    def progressed(self, worker: int, report: Progressed) -> None:
        """A member's outputs are past an epoch."""
        self._done_before[worker] = report.done_before
        self._forget_done()

    def read(self, worker: int, report: TickRead) -> None:
        """A member has read its parts of a tick, with rows up to an epoch."""
        self._read_by[worker] = report.number
        self._last_row_epoch = max(self._last_row_epoch, report.last_epoch)
        reads = self._tick_reads.setdefault(report.number, [])
        reads.append(report)
        if len(reads) == self.workers:
            self._pass_event_time(self._tick_reads.pop(report.number))

    def _pass_event_time(self, reads: Sequence[TickRead]) -> None:
        """All members have read a tick: inputs whose epochs are event time are complete up to what it says.

        The ticks that follow say so, in the journal: what they complete, and from where on rows are late. So
        a second read finds the same; and what was not recorded is read again.
        """
        for name, epochs in self._columns.items():
            latest = [report.latest[name] for report in reads if name in report.latest]
            if latest or any(report.lanes.get(name) for report in reads):
                self._has_rows.add(name)
            if isinstance(epochs, EventEpochs) and latest:
                self._intake.reach(name, epochs.complete_by(max(latest)))
            for report in reads:
                self._lanes.read(name, report.lanes.get(name, {}))
        self._pass_lanes()

    def _pass_lanes(self) -> None:
        """Inputs with lanes are complete up to what the lane says that is farthest behind."""
        for name, epochs in self._columns.items():
            latest = self._lanes.latest(name)
            if isinstance(epochs, EventEpochs) and latest is not None:
                self._intake.reach(name, epochs.complete_by(latest))

    def _give_lanes(self, tick: Ticked, now_seconds: float) -> None:
        for name, units in tick.units.items():
            parts = [part for unit in units for part in unit.parts]
            lanes = {part.lane: bool(part.size_bytes) for part in parts if part.lane is not None}
            self._lanes.given(name, lanes, now_seconds)

    def left_ahead(self, report: Ahead) -> None:
        """A member reports what is left for epochs that the inputs have not reached."""
        self._ahead = report

    def saved(self, worker: int, report: Saved) -> Committed | None:
        """A member has saved an epoch; with the last of them it is committed and published."""
        saves = self._saves.setdefault(report.epoch, {})
        saves[worker] = report
        if len(saves) < self.workers:
            return None
        epoch, is_whole, savepoints = self._targets.popleft()
        if epoch != report.epoch:
            raise InternalError(
                f"all members have saved epoch {report.epoch}, but epoch {epoch} must be saved first."
            )
        del self._saves[epoch]
        parts = [saves[number].part for number in range(self.workers)]
        settled = self._settled(saves.values())
        staged = [piece for number in range(self.workers) for piece in saves[number].staged]
        with prepared(self._publisher, self.ledger.next_commit, epoch, staged):
            commit = self.ledger.commit(
                epoch,
                parts,
                staged,
                is_whole=is_whole,
                settled=settled,
                savepoint=savepoints[0] if savepoints else None,
                kept={
                    name: (kept.rows, kept.size_bytes)
                    for name, kept in total_kept([each.kept for each in saves.values()]).items()
                },
            )
        self._is_last_whole = True
        for further in savepoints[1:]:
            self.ledger.keep(further)
        if is_whole:
            self._bytes_whole, self._bytes_changed = commit.size_bytes, 0
        else:
            self._bytes_changed += commit.size_bytes
        self._publisher.publish(commit.number, commit.epoch, commit.staged)
        if commit.number == 0:  # of any other, the next commit or the next generation says it
            self.ledger.note_published(commit.epoch)
        return commit

    # Inside.

    def _settled(self, saves: Collection[Saved]) -> int:
        """The last tick that need not be read again, once these are committed."""
        last = self.ledger.committed
        # A member of a new generation does not know of ticks that it need not read.
        return max(-1 if last is None else last.settled, min(each.settled for each in saves))

    def _has_room(self) -> bool:
        # Behind a delay, outputs may be past an epoch before its tick is recorded, and never tell again.
        self._forget_done()
        held = sum(size for _, size in self._in_flight)
        return len(self._in_flight) < self._epochs_max and (held < self._bytes_max or not self._in_flight)

    def _forget_done(self) -> None:
        done = self.done_before
        while self._in_flight and self._in_flight[0][0].complete_to <= done:
            self._in_flight.popleft()

    def _read_again(self) -> Ticked | None:
        """The next tick of an earlier generation, unless a unit of it is still being written."""
        tick = self.ledger.renew(self._waiting[0])
        if tick is not None:
            self._waiting.popleft()
        return tick

    def _record(self, now_seconds: float) -> Ticked | None:
        intake = self._intake
        if self.is_held or (self.ledger.is_final and not intake.has_units):
            return None  # a query that was finished continues when there is more
        every, is_clock_over = self._tick_every_seconds, intake.has_ended
        if every is not None and not is_clock_over and now_seconds < self._last_tick_seconds + every:
            return None
        taken, promised = intake.take()
        has_rows = any(taken.values())
        is_over = intake.has_ended and not intake.has_units
        if self._columns:
            is_over = is_over and not has_rows and self._is_all_read()
            return self._record_by_column(taken, promised, is_over=is_over)
        if self._closes and is_over and not has_rows:
            return self._close()
        if not has_rows and not is_over and (every is None or is_clock_over) and not self._has_fallen_silent:
            return None
        self._said_silent = self.silence.inputs
        final = is_over and not self._closes
        return self.ledger.tick(taken, self.ledger.open_from + 1, final=final, silent=self._said_silent)

    @property
    def _has_fallen_silent(self) -> bool:
        """Whether an input is silent and no tick has said so: those who wait for it should not wait."""
        return not self.silence.inputs <= self._said_silent

    def _is_heard(self, name: str) -> bool:
        """Return whether something of an input waits, or is being read."""
        is_read = not self._columns or min(self._read_by) >= self._last_given.get(name, -1)
        return bool(self._waiting or self._intake.waiting(name)) or not is_read

    def _complete_to(self) -> int:
        return self._intake.complete_to(self.ledger.open_from, self.silence.inputs)

    def _record_by_column(
        self, taken: Mapping[str, Sequence[Unit]], promised: Mapping[str, int], *, is_over: bool
    ) -> Ticked | None:
        """A tick that takes these units and completes what was promised; at the end, all that was read."""
        open_from = self.ledger.open_from
        if not is_over:
            complete_to = self._complete_to()
            if not any(taken.values()) and complete_to == open_from:
                return None
            return self.ledger.tick(
                taken, complete_to, final=False, promised=promised, silent=self.silence.inputs
            )
        last = max(self._last_row_epoch + 1, open_from)
        if self._closes and last == open_from:
            return self._close()
        # In steps, so that there are snapshots on the way; the same steps wherever it resumes from.
        step = max(1, -(-last // _LAST_STEPS_MAX))
        complete_to = min(last, (open_from // step + 1) * step)
        is_final = complete_to > self._last_row_epoch and not self._closes
        return self.ledger.tick({}, complete_to, final=is_final)

    def _close(self) -> Ticked | None:
        """At the end of all inputs: a tick for the next epoch with something left, or the final one."""
        open_from = self.ledger.open_from
        if self._ahead is None or self._ahead.epoch != open_from:
            if self._ahead_asked < open_from:
                self._ahead_asked = open_from
                self._questions.append((0, AskAhead(open_from)))
            return None
        least = self._ahead.least
        if least is not None:
            return self.ledger.tick({}, least + 1, final=False)
        # Inputs without a single row have an epoch, too.
        return self.ledger.tick({}, open_from if self._columns else max(1, open_from), final=True)

    def _is_all_read(self) -> bool:
        return not self._waiting and min(self._read_by) >= self.ledger.last_tick

    def _dispatch(self, tick: Ticked) -> list[tuple[int, Order]]:
        hands: list[dict[str, list[Part]]] = [{} for _ in range(self.workers)]
        size = 0
        for name, units in tick.units.items():
            self._last_given[name] = tick.number
            parts = [part for unit in units for part in unit.parts]
            size += sum(part.size_bytes for part in parts)
            dealt = deal(shared(parts, self.workers), self.workers, tick.number)
            for hand, mine in zip(hands, dealt, strict=True):
                if mine:
                    hand[name] = mine
        self._in_flight.append((tick, size))
        self.opened = max(self.opened, tick.complete_to - 1)
        return [
            (worker, Tick(tick.number, hand, tick.open_from, tick.complete_to, tick.promised, tick.silent))
            for worker, hand in enumerate(hands)
        ]

    def _is_save_due(self, now_seconds: float) -> bool:
        epochs = self.opened - self._last_target
        if epochs < 1:
            return False
        if self._is_asked_to_save or self.policy.is_due(epochs, now_seconds - self._last_save_seconds):
            return True
        waited = now_seconds - self._last_tick_seconds >= self.policy.patience_seconds
        return self._is_quiet and (waited or self.is_held or self.ledger.is_final)

    @property
    def _is_quiet(self) -> bool:
        """Whether no tick is about to be let in."""
        return not self._waiting and (self.is_held or not self._intake.has_units)

    def _save(self, now_seconds: float) -> list[tuple[int, Order]]:
        grown = self._bytes_changed > max(self._bytes_whole, _COMPACT_BYTES_MIN)
        savepoints, self._savepoints = self._savepoints, []
        is_whole = self._chain_length == 0 or self._chain_length >= self.policy.chain_max or grown
        is_whole = is_whole or bool(savepoints)
        self._chain_length = 1 if is_whole else self._chain_length + 1
        if is_whole:
            self._bytes_changed = 0
        self._targets.append((self.opened, is_whole, savepoints))
        self._last_target = self.opened
        self._last_save_seconds = now_seconds
        self._is_asked_to_save = False
        return [(worker, Save(is_whole)) for worker in range(self.workers)]


# What all workers of a query count together.


def total_kept(kept: Sequence[Mapping[str, KeptRows]]) -> dict[str, KeptRows]:
    """The state of all workers together, by name."""
    sums: dict[str, KeptRows] = {}
    for each in kept:
        for name, more in each.items():
            sums[name] = sums.get(name, KeptRows(0, 0)).plus(more)
    return sums


def total(counted: list[dict[str, int]]) -> dict[str, int]:
    """The sums by name."""
    sums: dict[str, int] = {}
    for each in counted:
        for name, count in each.items():
            sums[name] = sums.get(name, 0) + count
    return sums
