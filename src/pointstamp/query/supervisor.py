"""The supervisor: keeps a query going, generation after generation, until it is done or hopeless.

Each generation takes the journal over (which fences every older driver), resumes from the newest snapshot
that is complete, repeats the last publication if that is needed, and runs a session. When a member is lost,
the crew is ended and the next generation starts after a pause, as long as there is budget; one log line says
what was lost and from which epoch the query continued. If the flow itself fails again in the same words, on
whatever rows, with no commit in between, it would fail forever, and the query ends.
"""

import logging
import os
import queue
import re
import select
import socket
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import ExitStack, suppress
from dataclasses import replace
from time import monotonic, time
from typing import Any, Final, TypeVar

from pointstamp.connectors.sink import Compactor, complete_sink
from pointstamp.connectors.source import Unit, Watch
from pointstamp.driver.messages import InCall
from pointstamp.errors import (
    DamagedSnapshot,
    FencedError,
    FlowError,
    InternalError,
    PointstampError,
    RecoveryError,
    SchemaError,
    SourceError,
    StorageError,
    TransportError,
)
from pointstamp.flow.plan import NodeKind
from pointstamp.journal.history import Committed
from pointstamp.journal.ledger import Ledger
from pointstamp.query.coordinator import Coordinator, total_kept
from pointstamp.query.crew import CrewError, Launcher
from pointstamp.query.mission import QuerySpec
from pointstamp.query.observation import Verification
from pointstamp.query.policy import RestartBudget
from pointstamp.query.recovery import Beginning, begin_generation, found_again
from pointstamp.query.savepoints import remove_unneeded
from pointstamp.query.session import Session
from pointstamp.query.timeline import Timeline
from pointstamp.query.watermark_report import streams_of

_log = logging.getLogger("pointstamp.query")

RECENT_MAX: Final = 100
SUCCESSOR_SECONDS: Final = 5.0
"""Seconds between two checks of an idle query for a newer driver."""
ENDED: Final = "ended"
WAITING: Final = "waiting for data"
_STARTING: Final = "starting workers"
T = TypeVar("T")


class Supervisor:
    """Runs a query in the thread that calls ``run``; everything else may be called from any thread."""

    def __init__(self, spec: QuerySpec, launcher: Launcher) -> None:
        self.spec = spec
        self._launcher = launcher
        self._calls: queue.SimpleQueue[tuple[Callable[[Session], Any], Future[Any]]] = queue.SimpleQueue()
        self._ours, self._theirs = socket.socketpair()
        self._ours.setblocking(False)
        self._theirs.setblocking(False)
        self._stop: str | None = None
        self._drains: list[Future[None]] = []
        self._session: Session | None = None
        self._ledger: Ledger | None = None  # of the last generation that was begun here
        self._budget = RestartBudget(spec.restarts)
        self._last_failure: tuple[str, int] | None = None
        # Once a member has found a part of a snapshot damaged; until then members alone read them.
        self._checks_parts = False
        self._lost_seconds: float | None = None
        self._lost_words = ""
        self._was_ready = threading.Event()
        self.restarts = 0
        self.generation = 0
        self.phase = "starting"
        self.committed_epoch = -1
        self.committed_number = -1
        self.recent: deque[dict[str, Any]] = deque(maxlen=RECENT_MAX)
        self.recovery_seconds: list[float] = []
        self._committed_seconds = monotonic()
        self._verified_before = 0
        self.upkeep = Upkeep(self._compactor, spec.plan.name)
        self._looked_seconds = monotonic()
        self.timeline = Timeline()
        outputs = spec.plan.named(NodeKind.OUTPUT)
        self._streams = [found for name in outputs if (found := streams_of(spec.plan, name))]

    def _compactor(self) -> Compactor | None:
        """Return what maintains the output; asked by the thread that does it."""
        spec = self.spec
        sink = spec.sink.for_query(spec.query_id, spec.schemas or spec.plan.output_schemas())
        return complete_sink(sink).compactor()

    # From any thread.

    def call(self, function: Callable[[Session], T]) -> "Future[T]":
        """Run a function between two rounds of the loop."""
        answer: Future[T] = Future()
        self._calls.put((function, answer))
        self._wake()
        if self.phase == ENDED:
            self._refuse_calls()  # nobody else will look any more
        return answer

    def calls(self) -> list[str]:
        """The operators that have been inside one call for long, as text."""
        session = self._session
        return [] if session is None else session.calls.words()

    def calls_inside(self) -> list[tuple[int, InCall, str]]:
        """The workers that have been inside one call for long, with these, and as text."""
        session = self._session
        return [] if session is None else session.calls.inside()

    def wait_until_ready(self) -> None:
        """Wait until workers have run for the first time, or the query has ended."""
        self._was_ready.wait()

    def stop(self, *, finish: bool) -> None:
        """End the query: after the epochs that are in flight, or at once without them."""
        self._stop = "finish" if finish and self._stop != "drop" else "drop"
        self._wake()

    @property
    def is_dropped(self) -> bool:
        """Whether the query was told to end at once."""
        return self._stop == "drop"

    def drained(self) -> "Future[None]":
        """A future that is done when everything that the sources have by now is committed."""
        answer: Future[None] = Future()

        def refuse(asked: "Future[None]") -> None:
            if (error := asked.exception()) is not None:
                answer.set_exception(error)

        def begin(session: Session) -> None:
            session.refresh()
            self._drains.append(answer)

        self.call(begin).add_done_callback(refuse)
        return answer

    def wait_for(self, words: str) -> None:
        """Take note, as the query's phase, of what it waits for; the first time in a generation is logged."""
        if self.phase == _STARTING:
            _log.warning("query '%s' is %s", self.spec.plan.name, words)
        self.phase = words

    # The thread of the query.

    def run(self) -> None:
        """Run the query to its end, and raise the error that ended it, if there was one."""
        try:
            while self._stop != "drop":
                try:
                    if self._run_generation():
                        return
                except (CrewError, StorageError, TransportError, OSError) as error:
                    self._recover(error)
        finally:
            if self.spec.judge is not None:
                self.spec.judge.close()
            self.phase = ENDED
            self._was_ready.set()
            self._refuse_calls()
            self._ours.close()
            self._theirs.close()

    def _run_generation(self) -> bool:
        """Run one generation; whether the query is done, and not only this generation."""
        spec = self.spec
        if self._ledger is not None:
            # A driver that was held up until its workers gave it up may have been replaced meanwhile. It must
            # find that out here: the next generation would be newer than its successor's, and fence that.
            self._ledger.check_not_fenced()
        owner = f"process {os.getpid()} on {socket.gethostname()}"
        begun = begin_generation(
            spec, owner, time(), checks_parts=self._checks_parts, on_taken_over=self._take_over
        )
        self.generation, ledger = begun.generation, begun.ledger
        self.timeline.generation = self.generation
        self._note_commit(ledger.committed)
        self._committed_seconds = monotonic()
        self.phase = _STARTING
        with ExitStack() as opened:
            watches: dict[str, Watch] = {}
            promised: dict[str, list[Unit]] = {}
            for name, source in spec.sources.items():
                try:
                    position, promised[name] = found_again(source, ledger, name)
                    watch = source.watch(position, available_now=spec.available_now)
                except SourceError as error:
                    raise SourceError(f"input '{name}': {error}") from error
                opened.callback(watch.close)
                watches[name] = watch
            crew = self._launcher.launch(replace(begun.mission, is_observed=spec.judge is not None))
            try:
                verification = self._verify(begun, crew.workers)
                session = Session(
                    crew,
                    begun.coordinator(spec, monotonic(), workers=crew.workers),
                    watches,
                    crew.workers,
                    on_commit=self._on_commit,
                    on_ready=self._on_ready,
                    verification=verification,
                    timeline=self.timeline,
                    is_dropped=lambda: self.is_dropped,
                    streams=self._streams,
                )
            except BaseException:
                crew.end()
                raise
            opened.callback(session.close)
            for name, units in promised.items():
                session.coordinator.offer(name, units)
            self._session = session
            opened.callback(self.upkeep.stop)
            self.upkeep.start()
            try:
                return self._serve(session, ledger)
            except CrewError:
                session.hear_out()
                raise
            finally:
                self._verified_before += 0 if verification is None else verification.events
                self._session = None

    def _take_over(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def _verify(self, begun: Beginning, workers: int) -> Verification | None:
        judge = self.spec.judge
        if judge is None:
            return None
        judge.begin(
            begun.generation,
            workers,
            restored=-1 if begun.chain is None else begun.chain.epoch,
            committed=self.committed_epoch,
        )
        return Verification(judge, self.spec.storage, begun.generation, workers)

    def _serve(self, session: Session, ledger: Ledger) -> bool:
        """Serve a generation to its end; whether the query is done."""
        committed = self.committed_number
        while True:
            self._run_calls(session)
            if self._stop == "drop":
                session.leave()
                return True
            coordinator = session.coordinator
            coordinator.is_held = self._stop == "finish"
            happened = session.turn()
            if not session.is_refreshing:
                self._look_at_drains(coordinator)
            # Until all members have found their parts whole, an older snapshot may be needed.
            gone = ledger.summarize_if_long() if session.is_ready else None
            if gone is not None:
                remove_unneeded(self.spec, ledger, self.generation, gone)
            if coordinator.is_finished:
                session.finish()
                return True
            if self._stop == "finish" and coordinator.is_settled:
                session.leave()
                return True
            # Right after a commit little has to be computed again.
            is_cheap = coordinator.is_settled or self.committed_number != committed
            if self.spec.grows and is_cheap and session.is_ready and session.could_grow:
                _log.info("query '%s' restarts with more workers", self.spec.plan.name)
                session.leave()
                return False
            committed = self.committed_number
            if not happened:
                self.phase = _waiting(session) if coordinator.is_settled else "working"
                self._look_for_successor(ledger)
                session.wait(self._ours.fileno())

    def _look_for_successor(self, ledger: Ledger) -> None:
        """End a query that was replaced and has nothing to write, which would tell it: it holds workers."""
        now = monotonic()
        if now - self._looked_seconds >= SUCCESSOR_SECONDS:
            self._looked_seconds = now
            with suppress(StorageError):  # it looks again soon, and whoever writes is told of it
                ledger.check_not_fenced()

    # When something goes wrong.

    def _recover(self, error: Exception) -> None:
        cause = error.__cause__ if isinstance(error, CrewError) else error
        words = str(cause if isinstance(cause, PointstampError) else error)
        if isinstance(cause, (SchemaError, SourceError, FencedError, RecoveryError)):
            raise cause from None
        if isinstance(cause, DamagedSnapshot) and not self._checks_parts:
            self._checks_parts = True  # that is no failure yet: an older snapshot may be whole
            return
        failure = (_without_chance(words), self.committed_number)
        is_mistake = isinstance(cause, (FlowError, InternalError))
        is_same = is_mistake and failure == self._last_failure
        self._last_failure = failure
        pause = None if is_same else self._budget.pause_after_failure(monotonic())
        if pause is None:
            if is_mistake and cause is not None:
                raise cause from None
            raise RecoveryError(
                f"query '{self.spec.plan.name}' has ended after {self.restarts} restarts: {words} Everything "
                f"up to epoch {self.committed_epoch} is published. Start the query again with the same "
                "checkpoint to resume."
            ) from error
        self.restarts += 1
        if self._lost_seconds is not None:  # that it continues is said when it does
            _log.warning(
                "query '%s' failed: %s; it restarts in %.1f s (restart %s of at most %s)",
                self.spec.plan.name,
                words.rstrip("."),
                pause,
                self.restarts,
                self.spec.restarts.restarts_max,
            )
        self._lost_seconds, self._lost_words = monotonic(), words
        self.timeline.lost(words)
        self.phase = f"restarting: {words}"
        # Whoever stops the query must not wait for the pause.
        deadline = monotonic() + pause
        while self._stop is None and (left := deadline - monotonic()) > 0:
            select.select([self._ours], [], [], left)
            self._drain_wakes()

    def _on_ready(self) -> None:
        self.phase = "working"
        self._was_ready.set()
        if self._lost_seconds is not None:
            took = monotonic() - self._lost_seconds
            self._lost_seconds = None
            self.timeline.went_on()
            self.recovery_seconds.append(took)
            _log.warning(
                "query '%s': %s; the query resumed from epoch %s after %.1f s, as generation %s (restart %s "
                "of at most %s)",
                self.spec.plan.name,
                self._lost_words.rstrip("."),
                self.committed_epoch + 1,
                took,
                self.generation,
                self.restarts,
                self.spec.restarts.restarts_max,
            )

    def _on_commit(self, commit: Committed) -> None:
        self._note_commit(commit)
        self.upkeep.wake()
        self._last_failure = None
        session = self._session
        if session is None:
            return
        now = monotonic()
        counted = session.take_counted(commit.epoch)
        rows = sum(counted.read.values())
        seconds = max(now - self._committed_seconds, 1e-6)
        self._committed_seconds = now
        self.timeline.published(commit, rows)
        self.recent.append(
            {
                "id": self.spec.query_id,
                "name": self.spec.plan.name,
                "timestamp": time(),
                "epoch": commit.epoch,
                "commit": commit.number,
                "generation": self.generation,
                "numInputRows": rows,
                "inputRowsPerSecond": rows / seconds,
                "rowsIn": counted.read,
                "rowsOut": counted.finished,
                "rowsLate": counted.late,
                "rowsSkipped": counted.skipped,
                "kept": {
                    name: {"rows": rows, "bytes": size, "spilledBytes": spilled}
                    for name, (rows, size, spilled) in total_kept(session.kept).items()
                },
                "epochsInFlight": session.coordinator.epochs_in_flight,
                "snapshotBytes": commit.size_bytes,
                "snapshotIsWhole": commit.is_whole,
                "restarts": self.restarts,
                "compactionFailures": self.upkeep.failures,
                **self._verified(session),
            }
        )

    def _verified(self, session: Session) -> dict[str, int]:
        if session.verification is None:
            return {}
        return {"verifiedEvents": self._verified_before + session.verification.events}

    def _note_commit(self, commit: Committed | None) -> None:
        if commit is not None:
            self.committed_epoch, self.committed_number = commit.epoch, commit.number

    # Calls of other threads.

    def _run_calls(self, session: Session) -> None:
        self._drain_wakes()
        while True:
            try:
                function, answer = self._calls.get_nowait()
            except queue.Empty:
                return
            if not answer.set_running_or_notify_cancel():
                continue
            try:
                answer.set_result(function(session))
            except FlowError as error:  # the caller's, who waits for it
                answer.set_exception(error)
            except BaseException as error:
                # Nobody knows whether what was asked for is recorded: the next generation will.
                answer.set_exception(error)
                raise

    def _look_at_drains(self, coordinator: Coordinator) -> None:
        if self._drains and coordinator.is_idle:
            for answer in self._drains:
                if not answer.cancelled():
                    answer.set_result(None)
            self._drains.clear()

    def _refuse_calls(self) -> None:
        ended = RecoveryError(f"query '{self.spec.plan.name}' has ended.")
        while True:
            try:
                _, answer = self._calls.get_nowait()
            except queue.Empty:
                break
            if answer.set_running_or_notify_cancel():
                answer.set_exception(ended)
        for drain in self._drains:
            if not drain.cancelled():
                drain.set_exception(ended)
        self._drains.clear()

    def _drain_wakes(self) -> None:
        with suppress(BlockingIOError):
            self._ours.recv(4096)

    def _wake(self) -> None:
        with suppress(OSError):
            self._theirs.send(b"!")


def _waiting(session: Session) -> str:
    """The cause for which an idle query waits."""
    behind = session.behind()
    if not behind:
        return WAITING
    return f"waiting for {' and '.join(behind)}, behind which rows of other inputs wait for event time"


def _without_chance(words: str) -> str:
    """The message of a failure, without what differs each time: addresses of objects, and rows.

    >>> _without_chance("failed: ValueError: <X at 0x7f01>; the batch has 3 rows and begins [{'x': 1}]")
    'failed: ValueError: <X at 0x>'
    """
    return re.sub(r"0x[0-9a-fA-F]+", "0x", words).split("; the batch has ")[0]


# Upkeep: what a sink has to do beside a query, such as merging small files, in a thread of its own.
#
# It runs while a generation's workers do, in turns that are bounded, and is woken by commits, which never
# wait for it. A turn that fails is counted, logged, and tried again later: upkeep never ends a query. The
# supervisor stops it, so that no thread of ours runs while worker processes are started.

STOP_SECONDS_MAX: Final = 10.0
IDLE_SECONDS: Final = 60.0
PAUSE_AFTER_FAILURE_SECONDS: Final = 1.0
"""The pause after the first failure; each further failure doubles it."""

_PAUSE_SECONDS_MAX: Final = 600.0


class Upkeep:
    """Lets a compactor take its turns between ``start`` and ``stop``; the counts continue over both."""

    def __init__(self, make: Callable[[], Compactor | None] | None, query: str) -> None:
        self._make = make
        self._query = query
        self._woken = threading.Event()
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None
        self.turns = 0
        self.failures = 0

    def start(self) -> None:
        """Begin to take turns, if the sink has anything to do."""
        if self._make is None:
            return
        # New ones each time: a thread that could not be waited for must not be woken to life again.
        self._woken, self._stopped = threading.Event(), threading.Event()
        self._woken.set()
        self._thread = threading.Thread(
            target=self._work,
            args=(self._make, self._woken, self._stopped),
            name=f"pointstamp-upkeep-{self._query}",
            daemon=True,
        )
        self._thread.start()

    def wake(self) -> None:
        """There is something new; returns at once."""
        self._woken.set()

    def stop(self) -> None:
        """End the thread, even in the middle of a turn."""
        self._stopped.set()
        self._woken.set()
        if self._thread is not None:
            self._thread.join(STOP_SECONDS_MAX)
            self._thread = None

    def _work(
        self,
        make: Callable[[], Compactor | None],
        woken: threading.Event,
        stopped: threading.Event,
    ) -> None:
        compactor: Compactor | None = None
        failed_seconds = 0.0
        while not stopped.is_set():
            woken.wait(IDLE_SECONDS)
            woken.clear()
            try:
                compactor = compactor or make()
                if compactor is None:
                    return
                if stopped.is_set():
                    return
                if compactor.turn(stopped.is_set):
                    woken.set()
                self.turns += 1
                failed_seconds = 0.0
            except Exception as error:  # whatever it is, the query does not depend on it
                self.failures += 1
                failed_seconds = min(max(PAUSE_AFTER_FAILURE_SECONDS, 2 * failed_seconds), _PAUSE_SECONDS_MAX)
                _log.warning(
                    "query '%s': the output could not be compacted (failure %s; the next attempt is in %g "
                    "s): %s",
                    self._query,
                    self.failures,
                    failed_seconds,
                    error,
                )
                woken.set()
            stopped.wait(max(failed_seconds, 0.0 if compactor is None else compactor.pause_seconds))
