"""A spare crew on Spark, which replaces a lost crew at once.

It is a separate job, with as many tasks as the query has workers. Its tasks have loaded everything,
know each other and the driver, and sleep (``query.standby``). It is started when a crew has become ready, so
that it takes nothing from a crew that starts or restores its state; when it is taken over, the next one gets
the slots that the lost crew has left.

A spare crew that dies is replaced, after a pause that grows; if none is ready when one is needed, the query
continues as without. It holds its slots as long as the query runs, also while other jobs of the session wait
for some: therefore a query has a spare crew only if it asks for one.

The thread of the query takes over and prepares; a thread for each spare crew starts it and sees it die. The
lock passes a crew, with its mesh, from the one to the other.
"""

import logging
import threading
from dataclasses import replace
from typing import Final

from pointstamp.errors import PointstampError
from pointstamp.query.crew import CrewError
from pointstamp.query.mission import Mission
from pointstamp.query.standby import dismiss, join, set_out, unbound
from pointstamp.spark.crew import SparkLauncher
from pointstamp.spark.worker_formation import StartedTasks

_PAUSE_SECONDS: Final = 1.0
_PAUSE_SECONDS_MAX: Final = 60.0
_LOOK_SECONDS: Final = 0.1
_LEAVE_MS: Final = 50
_log = logging.getLogger("pointstamp.spark")


class SpareKeeper:
    """Keeps one spare crew; a companion of its query, with which it ends."""

    def __init__(self, launcher: SparkLauncher) -> None:
        self._launcher = launcher
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._is_keeping = False
        self._is_starting = False
        self._is_stopped = False
        self._standing: StartedTasks | None = None
        launcher.spares = self

    # As a companion.

    def start(self) -> None:
        """Do nothing yet: the first crew comes first."""

    def failure(self) -> PointstampError | None:
        """A query does not fail for the lack of a spare crew."""
        return None

    def drain(self) -> None:
        """Wait for nothing: no row passes here."""

    def stop(self) -> None:
        """End the spare crew, or its start; when this returns, Spark has its slots back."""
        with self._changed:
            self._is_stopped = True
            self._changed.notify_all()
            thread = self._thread
        if thread is not None:
            thread.join()

    # For the launcher.

    @property
    def is_standing(self) -> bool:
        """Whether a spare crew is ready."""
        with self._changed:
            return self._standing is not None

    def prepare(self, mission: Mission) -> None:
        """Start a spare crew, unless there is one; it returns at once."""
        with self._changed:
            if self._is_stopped or self._is_keeping:
                return
            self._is_keeping = self._is_starting = True
            self._thread = threading.Thread(
                target=self._keep, args=(unbound(mission),), name="pointstamp-spare", daemon=True
            )
            self._thread.start()

    def taken(self, mission: Mission) -> StartedTasks | None:
        """Let the spare crew join a mission and set out; None where there is none, or it cannot."""
        tasks = self._take()
        if tasks is None:
            return None
        try:
            mission = replace(mission, workers=tasks.workers)
            join(tasks.mesh, mission, tasks.job.check)
        except PointstampError as error:
            _log.warning("a spare crew of query '%s' is lost: %s", mission.plan.name, error)
            _drop(tasks)
            return None
        try:
            set_out(tasks.mesh, mission.workers)
        except PointstampError as error:
            # Some may have begun in this generation: the next crew needs another one.
            _drop(tasks)
            raise CrewError(str(error)) from None
        return tasks

    # Inside.

    def _take(self) -> StartedTasks | None:
        """The crew that stands by, or that is about to: it has begun to start before any other could."""
        with self._changed:
            while self._standing is None and self._is_starting and self._launcher.is_wanted():
                self._changed.wait(_LOOK_SECONDS)
            tasks, self._standing = self._standing, None
            self._changed.notify_all()
        return tasks

    def _keep(self, mission: Mission) -> None:
        """Have a crew stand by until it is taken over, or the query ends; start another if it dies."""
        pause_seconds = _PAUSE_SECONDS
        while True:
            words = self._stand(mission)
            with self._changed:
                if words is None or self._is_stopped:
                    self._is_keeping = False
                    return
                _log.warning(
                    "a spare crew of query '%s' is lost: %s Another one starts in %g s.",
                    mission.plan.name,
                    words,
                    pause_seconds,
                )
                self._changed.wait_for(lambda: self._is_stopped, pause_seconds)
                self._is_starting = not self._is_stopped
            pause_seconds = min(2 * pause_seconds, _PAUSE_SECONDS_MAX)

    def _stand(self, mission: Mission) -> str | None:
        """Start a crew and watch it; why it was lost, or None when it was taken over or the query ends."""
        tasks, words = None, ""
        try:
            tasks = self._launcher.start(mission, lambda: not self._is_stopped, is_spare=True)
        except Exception as error:  # Spark's and py4j's have no common kind; whoever waits must hear of it
            words = str(error) or type(error).__name__
        with self._changed:
            self._is_starting, self._standing = False, tasks
            self._changed.notify_all()
        if tasks is None:
            return words
        tasks.job.when_ended(self._notify)
        with self._changed:
            self._changed.wait_for(
                lambda: self._standing is not tasks or self._is_stopped or tasks.job.has_ended
            )
            if self._standing is not tasks:
                return None
            self._standing = None
        words = tasks.job.words() or ""
        dismiss(tasks.mesh, tasks.workers)
        tasks.mesh.close()
        tasks.opened.close()
        tasks.job.finish()
        return words or None

    def _notify(self) -> None:
        with self._changed:
            self._changed.notify_all()


def _drop(tasks: StartedTasks) -> None:
    """End tasks without waiting for them: a caller waits for others."""
    dismiss(tasks.mesh, tasks.workers)
    tasks.mesh.close(linger_ms=_LEAVE_MS)
    tasks.opened.close()
    tasks.job.cancel(waits=False)
