"""The scribe: writes what a member has to save while the member continues working.

A job makes something durable and returns the report that says so, or None if no caller waits for it. Jobs are
done one after the other, in the order in which they were given. An error in a job is raised when the member
asks for reports.
"""

import queue
import socket
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol, TypeAlias

from pointstamp.driver.messages import Report
from pointstamp.worker.lineage import LINEAGE, end_copy

Job: TypeAlias = Callable[[], Report | None]


class Scribe(Protocol):
    """Does jobs in order, now or beside the caller."""

    def submit(self, job: Job) -> None:
        """Let a job be done."""
        ...

    def done(self) -> list[Report]:
        """The reports of jobs that are done, in order, each once; raises what a job raised."""
        ...

    @property
    def is_idle(self) -> bool:
        """Whether every job is done and its report was taken."""
        ...


class InlineScribe:
    """Does each job at once."""

    def __init__(self) -> None:
        self._reports: list[Report] = []

    def submit(self, job: Job) -> None:
        """Do a job."""
        report = job()
        if report is not None:
            self._reports.append(report)

    def done(self) -> list[Report]:
        """The reports since the last look."""
        reports, self._reports = self._reports, []
        return reports

    @property
    def is_idle(self) -> bool:
        """Whether every report was taken."""
        return not self._reports


class ThreadScribe:
    """Does jobs in a separate thread, and makes ``fileno`` readable when one is done."""

    def __init__(self) -> None:
        self._jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._results: deque[Report | BaseException | None] = deque()
        self._submitted = 0
        self._taken = 0
        self._drained = 0
        self._ours, self._theirs = socket.socketpair()
        self._ours.setblocking(False)
        self._theirs.setblocking(False)
        self._thread = threading.Thread(target=self._work, name="pointstamp-scribe", daemon=True)
        self._thread.start()

    def fileno(self) -> int:
        """Readable when a job is done."""
        return self._ours.fileno()

    def submit(self, job: Job) -> None:
        """Let a job be done by the thread."""
        self._submitted += 1
        self._jobs.put(job)

    def done(self) -> list[Report]:
        """The reports since the last look; raises what a job raised."""
        # A job's byte may come after its result was taken, and would keep the pipe readable forever.
        if self._drained < self._submitted:
            with suppress(BlockingIOError):
                self._drained += len(self._ours.recv(4096))
        reports = []
        while self._results:
            result = self._results.popleft()
            self._taken += 1
            if isinstance(result, BaseException):
                raise result
            if result is not None:
                reports.append(result)
        return reports

    @property
    def is_idle(self) -> bool:
        """Whether every job is done and its report was taken."""
        return self._taken == self._submitted

    def close(self) -> None:
        """End the thread after the jobs that were given."""
        self._jobs.put(None)
        self._thread.join(timeout=5)
        self._ours.close()
        self._theirs.close()

    def _work(self) -> None:
        depth = LINEAGE.depth
        while (job := self._jobs.get()) is not None:
            try:
                self._results.append(job())
            except BaseException as error:  # raised again where the member looks
                self._results.append(error)
            if LINEAGE.depth != depth:  # a writer has forked, and this is the copy
                end_copy()
            try:
                self._theirs.send(b"!")
            except OSError:
                continue  # the pipe is full, so it is readable anyway; or nobody looks any more
