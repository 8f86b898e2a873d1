"""The handle of a running query, with the names of StreamingQuery as aliases.

The query works in a separate thread; every method here may be called from any thread. Beyond what a
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
        """Return the error with which it has ended, if it has; this stops the query, too."""
        ...

    def drain(self) -> None:
        """Wait until everything that is there now has been passed on."""
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
    """Aliases with the names of Spark's StreamingQuery."""

    @property
    def runId(self) -> str:  # noqa: N802 - Spark's name
        """Alias of ``run_id``."""
        return self._query.run_id

    @property
    def isActive(self) -> bool:  # noqa: N802 - Spark's name
        """Alias of ``is_active``."""
        return self._query.is_active

    @property
    def lastProgress(self) -> dict[str, Any] | None:  # noqa: N802 - Spark's name
        """Alias of ``last_progress``."""
        return self._query.last_progress

    @property
    def recentProgress(self) -> list[dict[str, Any]]:  # noqa: N802 - Spark's name
        """Alias of ``recent_progress``."""
        return self._query.recent_progress

    def awaitTermination(self, timeout: float | None = None) -> bool | None:  # noqa: N802 - Spark's name
        """Alias of ``await_termination``.

        Examples:
            >>> query.awaitTermination(timeout=0.01)
            False

        """
        return self._query.await_termination(timeout)

    def processAllAvailable(self, timeout: float | None = None) -> None:  # noqa: N802 - Spark's name
        """Alias of ``process_all_available``.

        Examples:
            >>> query.processAllAvailable()

        """
        self._query.process_all_available(timeout)

    @property
    def _query(self) -> "Query":
        assert isinstance(self, Query), "only a query has these names"
        return self


class Query(SparkNames):
    """A running query; ``flow.start`` returns it. Stop it with ``stop``, or wait with ``await_termination``.

    The examples of the methods use the query of this one, before it is stopped.

    Examples:
        >>> import pathlib, tempfile
        >>> import pyarrow.parquet as pq
        >>> folder = pathlib.Path(tempfile.mkdtemp())
        >>> (folder / "in").mkdir()
        >>> pq.write_table(pa.table({"word": ["so", "so"]}), folder / "in" / "1.parquet")
        >>> flow = ps.Dataflow("words")
        >>> flow.output("counts", flow.table("words", "word string").count("word"))
        >>> source = ps.io.files(folder / "in")
        >>> query = flow.start(words=source, checkpoint=folder / "state", output=folder / "out")
        >>> query.process_all_available()
        >>> ps.read_table(folder / "out", "counts").to_pylist()
        [{'word': 'so', 'count': 2}]
        >>> query.stop()

    """

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
        """Add a sentence about this start to the message of ``status``.

        Args:
            words: The sentence.

        Examples:
            >>> query.note("words of the first folder")
            >>> query.status["message"].endswith("words of the first folder")
            True

        """
        self._notes.append(words)

    @property
    def id(self) -> str:
        """The identifier of the checkpoint; the same over all restarts."""
        return self._supervisor.spec.query_id

    @property
    def run_id(self) -> str:
        """The identifier of this start."""
        return self._run_id

    @property
    def name(self) -> str:
        """The name of the flow."""
        return self._supervisor.spec.plan.name

    @property
    def is_active(self) -> bool:
        """Whether the query is running."""
        return self._thread.is_alive()

    @property
    def status(self) -> dict[str, Any]:
        """The current status of the query: ``message``, ``isDataAvailable`` and ``isTriggerActive``."""
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
        input or output; ``progress()`` has the totals since the workers started. None before the first
        commit.
        """
        recent = self._supervisor.recent
        return recent[-1] if recent else None

    @property
    def recent_progress(self) -> list[dict[str, Any]]:
        """The latest commits, oldest first."""
        return list(self._supervisor.recent)

    def exception(self) -> BaseException | None:
        """Return the error that ended the query; None while it runs, or if it was stopped.

        Examples:
            >>> print(query.exception())
            None

        """
        return None if self._thread.is_alive() else self._error

    def await_termination(self, timeout: float | None = None) -> bool | None:
        """Wait for the end of the query.

        Args:
            timeout (float, default None): The maximum number of seconds to wait.

        Returns:
            With a timeout, whether the query has ended; otherwise None.

        Raises:
            PointstampError: The error that ended the query.

        Examples:
            >>> query.await_termination(timeout=0.01)
            False

        """
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
        """Wait until everything that the sources have now is published.

        Args:
            timeout (float, default None): The maximum number of seconds to wait.

        Examples:
            >>> query.process_all_available(timeout=60)
            >>> query.epoch
            0

        """
        for companion in self._companions:
            companion.drain()
        self._answer(self._supervisor.drained(), timeout)

    def stop(self, *, finish: bool = True, timeout: float | None = 60.0) -> None:
        """Stop the query. It can be started again from its checkpoint.

        Only complete epochs are published. If an error ended the query earlier, ``await_termination`` raises
        it, and this method does not.

        Args:
            finish (bool, default True): Finish the epochs in flight. With False, stop at once without them.
            timeout (float, default 60): The maximum number of seconds to wait.

        Examples:
            >>> import tempfile
            >>> folder = tempfile.mkdtemp()
            >>> flow = ps.Dataflow("words")
            >>> flow.output("words", flow.stream_input("words", "word string"))
            >>> query = flow.start([[{"word": "so"}]], checkpoint=f"{folder}/state", output=f"{folder}/out")
            >>> query.stop()
            >>> query.is_active
            False

        """
        for companion in self._companions:
            companion.stop()
        self._supervisor.stop(finish=finish)
        self._thread.join(timeout)
        if self._thread.is_alive() and finish:
            self._supervisor.stop(finish=False)
            self._thread.join(timeout)
        if self._thread.is_alive():
            raise RecoveryError(f"query '{self.name}' has not ended after stop().")

    # What only this has.

    def why(self, output: str) -> list[str]:
        """Return what holds the frontier of an output back, as text; empty if the output is complete.

        Operators that have been inside one call for a long time are first. While all workers are inside such
        calls, nothing else is known. If results wait for event time, the text names the input or stream that
        holds the watermark back, its event time, and how long it has been idle. If an input is the published
        output of another query, the text names the epoch of that query that it waits for.

        Args:
            output: The name of an output.

        Examples:
            >>> query.why("counts")
            ["input 'words' may still send at epoch 1"]

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
        """Return the frontier of each output: the least times that may still arrive; empty if complete.

        Examples:
            >>> query.frontiers()
            {'counts': [(1,)]}

        """
        return {each.name: list(each.frontier) for each in self.progress().outputs}

    def progress(self) -> RunStatus:
        """Return the status of inputs, outputs and loops, the holders of frontiers, and state sizes.

        State sizes are those of the last saved epoch.

        Examples:
            >>> progress = query.progress()
            >>> progress.rows_in, progress.is_complete, [kept.name for kept in progress.kept]
            (2, False, ['count: sums'])

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
        """Serve a page that shows the query in a browser, and print its address; a notebook shows a link.

        The page is served until ``close`` is called or this process ends, also after the end of the query.
        Then another query of the process can use its port.

        Args:
            port (int, default 0): The port; 0 takes a free one.
            host (str, default "127.0.0.1"): The interface to listen on. By default only this machine can
                connect.
            control (bool, default False): Let the page stop the query and take savepoints.
            token (str, default None): The token in the address, which every request needs. Default: the
                environment variable ``POINTSTAMP_DASHBOARD_TOKEN``, or a random token. A token that was set
                is not printed.

        Examples:
            >>> with query.dashboard(token="0123456789-example") as dashboard:
            ...     dashboard.address.startswith("http://127.0.0.1:")
            True

        """
        sight = QuerySight(self, self._supervisor, control=control)
        served = Dashboard(sight, host=host, port=port, token=token)
        elsewhere = self._on_dashboard(served.shown_address)
        also = "" if elsewhere is None else f", and in Spark's UI at {elsewhere}"
        sys.stderr.write(f"pointstamp: the dashboard of '{self.name}' is at {served.shown_address}{also}\n")
        return served

    def telemetry(self, provider: Any = None) -> Telemetry:  # noqa: ANN401 - of a package that may be missing
        """Emit the metrics of the dashboard through OpenTelemetry until ``close`` of the result is called.

        Args:
            provider (MeterProvider, default None): Default: the global provider of the program.

        Raises:
            UsageError: The package is missing; install ``pointstamp[otel]``.

        Examples:
            >>> query.telemetry().close()

        """
        return Telemetry(QuerySight(self, self._supervisor, control=False).samples, self.name, provider)

    @property
    def epoch(self) -> int:
        """The last published epoch; -1 before the first."""
        return self._supervisor.committed_epoch

    @property
    def generation(self) -> int:
        """The number of starts of this checkpoint's workers."""
        return self._supervisor.generation

    @property
    def restarts(self) -> int:
        """The number of restarts of the workers after a failure."""
        return self._supervisor.restarts

    @property
    def recovery_seconds(self) -> list[float]:
        """The seconds that each restart took, from the loss of a worker until all workers were ready."""
        return list(self._supervisor.recovery_seconds)

    def workers(self) -> list[tuple[str, int]]:
        """Return the host and the process of each worker.

        Examples:
            >>> len(query.workers())
            1

        """
        ready = self._answer(self._supervisor.call(lambda session: dict(session.members)))
        return [(each.host, each.pid) for _, each in sorted(ready.items())]

    def advance(self, name: str, epoch: int) -> None:
        """Advance an input with an epoch column: declare that all rows before an epoch have arrived.

        Args:
            name: The name of the input.
            epoch: The first epoch that may still have rows.

        Examples:
            >>> import pathlib, tempfile
            >>> import pyarrow.parquet as pq
            >>> folder = pathlib.Path(tempfile.mkdtemp())
            >>> (folder / "in").mkdir()
            >>> pq.write_table(pa.table({"day": [0, 1]}), folder / "in" / "1.parquet")
            >>> flow = ps.Dataflow("days")
            >>> flow.output("days", flow.stream_input("days", "day long"))
            >>> query = flow.start(
            ...     days=ps.io.files(folder / "in"), checkpoint=folder / "state", output=folder / "out",
            ...     options=ps.QueryOptions(epoch="day"))
            >>> query.advance("days", 1)
            >>> query.process_all_available()
            >>> query.stop()
            >>> query.epoch
            0

        """
        self._answer(self._supervisor.call(lambda session: session.advance(name, epoch)))

    def snapshot(self, timeout: float | None = None) -> int:
        """Take a snapshot of everything that was read so far; return the epoch that is saved.

        Args:
            timeout (float, default None): The maximum number of seconds to wait.

        Examples:
            >>> query.snapshot()
            0

        """
        return self._save(None, timeout)

    def savepoint(self, name: str, timeout: float | None = None) -> int:
        """Take a full snapshot, keep it under a name, and return its epoch.

        Args:
            name: A name that no other savepoint of the checkpoint has.
            timeout (float, default None): The maximum number of seconds to wait.

        Examples:
            >>> query.savepoint("before the upgrade")
            0

        """
        check_name(name, self.name)
        return self._save(name, timeout)

    def drop_savepoint(self, name: str) -> None:
        """Drop a savepoint, and delete the files that only it needs.

        Args:
            name: The name of a savepoint.

        Examples:
            >>> epoch = query.savepoint("for a test")
            >>> query.drop_savepoint("for a test")

        """
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
                    f"query '{self.name}' has not answered for {timeout:g} seconds; its status is: "
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
