"""A query: a flow that keeps running, as its user sees it; Spark's names of a StreamingQuery are aliases.

The query works in a thread of its own; every method here may be called from any thread. Beyond what a
StreamingQuery offers, it says exactly what each output waits for (``why``) and how far each is
(``frontiers``), and it takes snapshots on demand (``snapshot``, ``savepoint``).
"""

import sys
import threading
import uuid
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import replace
from time import monotonic
from typing import Any, Final, Protocol, TypeAlias, TypeVar

from pointstamp.dashboard.server import Dashboard
from pointstamp.driver.messages import Counts
from pointstamp.driver.status import RowCounts, RunStatus, status_from
from pointstamp.errors import BusyError, FlowError, PointstampError, RecoveryError
from pointstamp.flow.plan import NodeKind, Plan
from pointstamp.progress.pointstamp import Change
from pointstamp.progress.tracker import Tracker
from pointstamp.query.coordinator import total, total_kept
from pointstamp.query.query_page import QuerySight
from pointstamp.query.savepoints import check_kept, check_name, check_new, remove_unneeded
from pointstamp.query.session import Session
from pointstamp.query.supervisor import ENDED, Supervisor
from pointstamp.query.telemetry import Telemetry
from pointstamp.topology.ports import Location

_ANSWER_SECONDS_MAX: Final = 30.0
_LOOK_SECONDS: Final = 0.2
# How long ``why`` waits for a worker to say how far it is, before it says what is known without that.
_WHY_SECONDS_MAX: Final = 2.0
T = TypeVar("T")


class _NoAnswerError(RecoveryError):
    """The query's thread or its workers have not answered in time."""


class Companion(Protocol):
    """Something that runs beside a query and feeds it, such as a streaming query of Spark."""

    def start(self) -> None:
        """Begin to feed."""
        ...

    def failure(self) -> PointstampError | None:
        """Why it has ended, as text, if it has; this stops the query, too."""
        ...

    def drain(self) -> None:
        """Wait until everything that is there now has been handed on."""
        ...

    def stop(self) -> None:
        """End it; ending again does nothing."""
        ...


OnDashboard: TypeAlias = Callable[[str], str | None]
"""Told the address of a dashboard that is opened; it says where else that is found, if anywhere."""


def nowhere(address: str) -> None:
    """A dashboard is found at its own address only."""
    del address


class SparkNames:
    """The names of Spark's StreamingQuery for what ``Query`` has."""

    @property
    def runId(self) -> str:  # noqa: N802 - Spark's name
        """The same as ``run_id``."""
        return self._query.run_id

    @property
    def isActive(self) -> bool:  # noqa: N802 - Spark's name
        """The same as ``is_active``."""
        return self._query.is_active

    @property
    def lastProgress(self) -> dict[str, Any] | None:  # noqa: N802 - Spark's name
        """The same as ``last_progress``."""
        return self._query.last_progress

    @property
    def recentProgress(self) -> list[dict[str, Any]]:  # noqa: N802 - Spark's name
        """The same as ``recent_progress``."""
        return self._query.recent_progress

    def awaitTermination(self, timeout: float | None = None) -> bool | None:  # noqa: N802 - Spark's name
        """The same as ``await_termination``."""
        return self._query.await_termination(timeout)

    def processAllAvailable(self, timeout: float | None = None) -> None:  # noqa: N802 - Spark's name
        """The same as ``process_all_available``."""
        self._query.process_all_available(timeout)

    @property
    def _query(self) -> "Query":
        assert isinstance(self, Query), "only a query has these names"
        return self


class Query(SparkNames):
    """A running flow; ``stop`` it, or wait for its end with ``await_termination``."""

    def __init__(
        self,
        supervisor: Supervisor,
        companions: Sequence[Companion] = (),
        on_dashboard: OnDashboard = nowhere,
    ) -> None:
        self._supervisor = supervisor
        self._companions = companions
        self._error: BaseException | None = None
        self._run_id = str(uuid.uuid4())
        self._on_dashboard = on_dashboard
        self._notes: list[str] = []
        self._being_taken: set[str] = set()  # the names of savepoints that are not durable yet
        self._thread = threading.Thread(
            target=self._run, name=f"pointstamp-{supervisor.spec.plan.name}", daemon=True
        )

    def note(self, words: str) -> None:
        """Add something about this start to the message of ``status``."""
        self._notes.append(words)

    @property
    def id(self) -> str:
        """The same over all restarts from one checkpoint."""
        return self._supervisor.spec.query_id

    @property
    def run_id(self) -> str:
        """A new id for each start."""
        return self._run_id

    @property
    def name(self) -> str:
        """The name of the flow."""
        return self._supervisor.spec.plan.name

    @property
    def is_active(self) -> bool:
        """Whether it still runs."""
        return self._thread.is_alive()

    @property
    def status(self) -> dict[str, Any]:
        """What the query does at the moment."""
        phase = self._supervisor.phase
        return {
            "message": "; ".join([phase, *self._supervisor.calls(), *self._notes]),
            "isDataAvailable": phase == "working",
            "isTriggerActive": phase == "working",
        }

    @property
    def last_progress(self) -> dict[str, Any] | None:
        """The last commit: its epoch, and the rows and rates of the epochs that it publishes.

        ``rowsIn``, ``rowsOut``, ``rowsLate`` and ``rowsSkipped`` are those of this commit, by the name of the
        input or output; ``progress()`` has the totals since the workers started. None before the first.
        """
        recent = self._supervisor.recent
        return recent[-1] if recent else None

    @property
    def recent_progress(self) -> list[dict[str, Any]]:
        """The last commits, oldest first."""
        return list(self._supervisor.recent)

    def exception(self) -> BaseException | None:
        """The error that has ended the query, if there was one."""
        return None if self._thread.is_alive() else self._error

    def await_termination(self, timeout: float | None = None) -> bool | None:
        """Wait for the end, and raise the query's error; with a timeout in seconds, say if it has ended."""
        deadline = None if timeout is None else monotonic() + timeout
        # In short waits, so that an interrupt of the keyboard is heard at once.
        while self._thread.is_alive() and (deadline is None or monotonic() < deadline):
            left = _LOOK_SECONDS if deadline is None else min(_LOOK_SECONDS, max(0.0, deadline - monotonic()))
            self._thread.join(left)
        if self._thread.is_alive():
            return False
        if self._error is not None:
            raise self._error
        return None if timeout is None else True

    def process_all_available(self, timeout: float | None = None) -> None:
        """Wait until everything that the sources have now is published."""
        for companion in self._companions:
            companion.drain()
        self._answer(self._supervisor.drained(), timeout)

    def stop(self, *, finish: bool = True, timeout: float | None = 60.0) -> None:
        """End the query: after the epochs on their way (``finish``), or at once without them.

        Either way only whole epochs are published, and the query can be started again from its checkpoint. An
        error that ended it earlier is raised by ``await_termination`` and not here.
        """
        for companion in self._companions:
            companion.stop()
        self._supervisor.stop(finish=finish)
        self._thread.join(timeout)
        if self._thread.is_alive() and finish:
            self._supervisor.stop(finish=False)
            self._thread.join(timeout)
        if self._thread.is_alive():
            raise RecoveryError(f"query '{self.name}' has not ended after it was told to stop.")

    # What only this has.

    def why(self, output: str) -> list[str]:
        """What holds an output's frontier back, over all workers, as text; nothing if it is complete.

        Operators that have been inside one call for long come first. While all workers are inside such calls,
        nothing more is known. Where results wait for event time, it says which input or stream holds that
        back, at which event time, and for how long nothing has come from it; and where an input is what
        another query publishes, which epoch of that one it waits for.
        """
        self._check_output(output)
        try:
            status = self._progress(_WHY_SECONDS_MAX)
        except BusyError:
            return self._supervisor.calls()
        except _NoAnswerError as error:
            return [*self._supervisor.calls(), str(error)]
        calls = self._supervisor.calls()
        held = next(each.held_by for each in status.outputs if each.name == output)
        plan = self._supervisor.spec.plan
        timed = self._supervisor.call(lambda session: session.event_time_words(plan, output))
        said = self._supervisor.call(lambda session: session.source_words(plan, output))
        return [*calls, *held, *self._answer(timed), *self._answer(said)]

    def frontiers(self) -> dict[str, list[tuple[Any, ...]]]:
        """For each output the times that may still come; empty if it is complete."""
        return {each.name: list(each.frontier) for each in self.progress().outputs}

    def progress(self) -> RunStatus:
        """How far the flow is: inputs, outputs, loops, what they wait for, and what operators keep.

        What they keep is as of the last epoch that is saved.
        """
        return self._progress(_ANSWER_SECONDS_MAX)

    def _progress(self, timeout: float) -> RunStatus:
        answer: Future[Counts] = Future()

        def ask(session: Session) -> tuple[RowCounts, dict[int, int]]:
            session.ask_counts(answer)
            rows = RowCounts(
                total(session.rows_in),
                total(session.rows_out),
                total(session.rows_late),
                total_kept(session.kept),
            )
            return rows, dict(session.memory_bytes)

        rows, memory_bytes = self._answer(self._supervisor.call(ask), timeout)
        tracker = tracker_of(self._supervisor.spec.plan, self._answer(answer, timeout))
        return replace(status_from(self._supervisor.spec.plan, tracker, rows), memory_bytes=memory_bytes)

    def dashboard(
        self,
        *,
        port: int = 0,
        host: str = "127.0.0.1",
        control: bool = False,
        token: str | None = None,
    ) -> Dashboard:
        """Serve a page that shows the query in a browser, and say its address; a notebook shows a link.

        Only this machine can reach it, unless ``host`` names another interface; and only who knows the
        address with its token is answered. With ``control`` the page can stop the query and take savepoints.
        It is served until its ``close`` is called or this process ends, also after the end of the query. Then
        another query of the process may take its port over.

        The token is random, unless ``token`` or the environment variable
        ``POINTSTAMP_DASHBOARD_TOKEN`` sets it; a token that was set is not printed.
        """
        sight = QuerySight(self, self._supervisor, control=control)
        served = Dashboard(sight, host=host, port=port, token=token)
        elsewhere = self._on_dashboard(served.shown_address)
        also = "" if elsewhere is None else f", and in Spark's UI at {elsewhere}"
        sys.stderr.write(f"pointstamp: the dashboard of '{self.name}' is at {served.shown_address}{also}\n")
        return served

    def telemetry(self, provider: Any = None) -> Telemetry:  # noqa: ANN401 - of a package that may be missing
        """Tell OpenTelemetry the numbers of the dashboard's metrics, by the same names, until it is closed.

        ``provider`` is a MeterProvider of opentelemetry's; without one, the program's own is used. It needs
        ``pointstamp[otel]``.
        """
        return Telemetry(QuerySight(self, self._supervisor, control=False).samples, self.name, provider)

    @property
    def epoch(self) -> int:
        """The last epoch that is published; -1 before the first."""
        return self._supervisor.committed_epoch

    @property
    def generation(self) -> int:
        """How often this checkpoint has been started or restarted."""
        return self._supervisor.generation

    @property
    def restarts(self) -> int:
        """How often the workers were started again after a failure."""
        return self._supervisor.restarts

    @property
    def recovery_seconds(self) -> list[float]:
        """How long each restart took, from the loss of a worker until all were ready again."""
        return list(self._supervisor.recovery_seconds)

    def workers(self) -> list[tuple[str, int]]:
        """Where each worker runs: host and process."""
        ready = self._answer(self._supervisor.call(lambda session: dict(session.members)))
        return [(each.host, each.pid) for _, each in sorted(ready.items())]

    def advance(self, name: str, epoch: int) -> None:
        """Say that an input with an epoch column is complete before an epoch."""
        self._answer(self._supervisor.call(lambda session: session.advance(name, epoch)))

    def snapshot(self, timeout: float | None = None) -> int:
        """Take a snapshot now of everything that was taken in, and return the epoch that is saved."""
        return self._save(None, timeout)

    def savepoint(self, name: str, timeout: float | None = None) -> int:
        """Take a whole snapshot now, keep it under a name that no other has, and return its epoch."""
        check_name(name, self.name)
        return self._save(name, timeout)

    def drop_savepoint(self, name: str) -> None:
        """Drop a savepoint, and remove the files that only it needed; its name is free again."""
        self._answer(self._supervisor.call(lambda session: self._drop(session, name)))

    # Inside.

    def _begin(self) -> None:
        """Start the thread and what feeds the query."""
        self._thread.start()
        try:
            for companion in self._companions:
                companion.start()
        except BaseException:
            self.stop(finish=False)
            raise

    def _drop(self, session: Session, name: str) -> None:
        ledger, spec = session.coordinator.ledger, self._supervisor.spec
        check_kept(name, ledger.savepoints, f"query '{self.name}'")
        ledger.drop(name)
        # What only older snapshots needed goes with it, and not at the next summary.
        remove_unneeded(spec, ledger, ledger.generation, ledger.summarize())

    def _save(self, name: str | None, timeout: float | None) -> int:
        saved: Future[int] = Future()
        self._answer(self._supervisor.call(lambda session: self._save_soon(session, name, saved)))
        return self._answer(saved, timeout)

    def _save_soon(self, session: Session, name: str | None, saved: "Future[int]") -> None:
        """Runs in the query's thread, as the end of ``saved`` does: nothing else changes what is taken."""
        if name is None:
            session.save_soon(None, saved)
            return
        check_new(name, session.coordinator.ledger.savepoints, self._being_taken, self.name)
        session.save_soon(name, saved)
        self._being_taken.add(name)
        saved.add_done_callback(lambda _: self._being_taken.discard(name))

    def _run(self) -> None:
        try:
            self._supervisor.run()
        except BaseException as error:  # kept for whoever asks
            self._error = error
        finally:
            for companion in self._companions:
                self._error = self._error or companion.failure()
                with suppress(Exception):
                    companion.stop()

    def _answer(self, future: "Future[T]", timeout: float | None = _ANSWER_SECONDS_MAX) -> T:
        """The answer of the query's thread; raises the query's error, if it has ended instead."""
        deadline = None if timeout is None else monotonic() + timeout
        while True:
            left = _LOOK_SECONDS if deadline is None else min(_LOOK_SECONDS, deadline - monotonic())
            try:
                return future.result(max(0.0, left))
            except TimeoutError:
                pass
            except RecoveryError as error:
                if self._supervisor.phase == ENDED:  # and the thread is about to say why
                    self._thread.join(_ANSWER_SECONDS_MAX)
                raise (self._error or error) from None
            if not self._thread.is_alive() and not future.done():
                raise self._error or RecoveryError(f"query '{self.name}' has ended.")
            if deadline is not None and monotonic() >= deadline:
                raise _NoAnswerError(
                    f"query '{self.name}' has not answered for {timeout:g} seconds; it is "
                    f"{self.status['message']}."
                )

    def _check_output(self, output: str) -> None:
        known = self._supervisor.spec.plan.named(NodeKind.OUTPUT)
        if output not in known:
            raise FlowError(
                f"flow '{self.name}' has no output '{output}'; it has "
                f"{', '.join(map(repr, known)) or 'none'}."
            )

    def __repr__(self) -> str:
        state = "active" if self.is_active else "ended"
        return f"Query('{self.name}', {state}, epoch {self.epoch}, generation {self.generation})"


def begin_query(
    supervisor: Supervisor, companions: Sequence[Companion] = (), on_dashboard: OnDashboard = nowhere
) -> Query:
    """Begin a query that a supervisor keeps going and companions feed."""
    query = Query(supervisor, companions, on_dashboard)
    query._begin()  # noqa: SLF001 - this function is the one that makes and begins queries
    return query


def tracker_of(plan: Plan, counts: Counts) -> Tracker:
    """The progress of a flow as a member knows it, in a tracker of our own."""
    tracker = Tracker(plan.graph())
    tracker.update_all([Change(Location(at), tuple(time), count) for at, time, count in counts.counts])
    tracker.propagate()
    return tracker
