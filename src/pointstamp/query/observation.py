"""Verification of a running query before its output is published.

A member takes down the events of its worker and tells them to the driver (``running.telling``): when there
are many, when a moment has passed, when it is asked to, and before it says that an epoch is saved. So what is
believed of a member rests on events that the driver has; and few messages carry many events, because a
message costs more than an event. The driver's ``Verification`` hands them to a ``Judge``,
and keeps every report that an epoch is saved back until all that had happened to that worker before it was
judged right: an epoch is committed and published after it was verified.

While the judge is far behind no further tick is let in: verification makes a query slower, and is never left
out. Where the judge waits for the cause of an event, members are asked to tell everything, at once if a
report is held back by that; after two such rounds (``pointstamp.verify.online`` says why two) a cause that
has not come does not exist.

This file does not say what is right, nor where the judge runs.
"""

import select
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic
from typing import Final, NamedTuple, Protocol

from pointstamp.driver.messages import EventsTold, Saved, TellEvents
from pointstamp.errors import InternalError, StorageError
from pointstamp.storage.port import Storage

BEHIND_EVENTS_MAX: Final = 20_000
"""While the judge has more than this before it, no tick is let in."""

ANSWER_SECONDS_MAX: Final = 60.0
"""Timeout of the verifier for a few events."""

ASK_SECONDS: Final = 0.5
"""The minimum seconds between two requests for all events, while nothing is held back."""


class Finding(NamedTuple):
    """The finding of the verifier, and the trace that shows it, as the content of a file."""

    words: str
    trace: bytes


class Standing(NamedTuple):
    """The progress of the verifier with a generation."""

    judged: tuple[int, ...]
    """The number of valid events of each worker."""
    waiting: int
    """The number of further events that wait for their cause."""
    is_over: bool = False
    """Whether the end was judged, too."""
    finding: Finding | None = None


class Judge(Protocol):
    """Judges the events of a query's workers, one generation after the other; used by one thread."""

    def begin(self, generation: int, workers: int, *, restored: int, committed: int) -> None:
        """A generation begins, after an epoch; what was told about the previous one no longer matters."""
        ...

    def take(self, worker: int, events: bytes) -> None:
        """Take the next events of a worker; returns at once."""
        ...

    def cut(self) -> None:
        """Everybody has told everything that happened before the last cut."""
        ...

    def committed(self, epoch: int) -> None:
        """An epoch was committed."""
        ...

    def end(self) -> None:
        """End the verification: all events have arrived, and every time must be complete."""
        ...

    def standing(self) -> Standing:
        """The progress of the verifier; InternalError if the verifier itself has failed."""
        ...

    def fileno(self) -> int:
        """Readable when the standing may have changed."""
        ...

    def close(self) -> None:
        """End it; ending again does nothing."""
        ...


@dataclass(slots=True)
class _Held:
    """A report that rests on so many events of its worker."""

    report: Saved
    events: int


class Verification:
    """One generation under a judge; used by the driver's loop alone."""

    def __init__(self, judge: Judge, storage: Storage, generation: int, workers: int) -> None:
        self._judge = judge
        self._storage = storage
        self._generation = generation
        self._told = [0] * workers
        self._held: list[deque[_Held]] = [deque() for _ in range(workers)]
        self._standing = Standing((0,) * workers, 0)
        self._asked = 0
        self._answers = workers
        self._asked_seconds = monotonic()

    # What members tell.

    def observed(self, worker: int, report: EventsTold) -> None:
        """A member has told what happened."""
        if report.count:
            self._told[worker] += report.count
            self._judge.take(worker, report.events)
        if report.asked == self._asked:
            self._answers += 1
            if self._is_answered:
                self._judge.cut()

    def hold(self, worker: int, report: Saved) -> None:
        """Keep a report back until what it rests on was judged."""
        self._held[worker].append(_Held(report, self._told[worker]))

    def committed(self, epoch: int) -> None:
        """An epoch was committed."""
        self._judge.committed(epoch)

    # What may continue.

    def verified(self) -> list[tuple[int, Saved]]:
        """The reports that may be believed by now; InternalError where the judge has found something."""
        self._look()
        released: list[tuple[int, Saved]] = []
        for worker, (held, judged) in enumerate(zip(self._held, self._standing.judged, strict=True)):
            while held and held[0].events <= judged:
                released.append((worker, held.popleft().report))
        return released

    def question(self) -> TellEvents | None:
        """The request to send to all members now, if any."""
        if not self._standing.waiting or not self._is_answered:
            return None
        if not self._is_held_up and monotonic() < self._asked_seconds + ASK_SECONDS:
            return None
        self._asked += 1
        self._answers = 0
        self._asked_seconds = monotonic()
        return TellEvents(self._asked)

    @property
    def has_room(self) -> bool:
        """Whether the judge is near enough to let further ticks in."""
        return self._behind <= BEHIND_EVENTS_MAX

    @property
    def events(self) -> int:
        """The number of valid events of this generation."""
        return sum(self._standing.judged)

    def fileno(self) -> int:
        """Readable when the judge has news."""
        return self._judge.fileno()

    @property
    def seconds_until_due(self) -> float | None:
        """The seconds until the latest moment to look again; None if there is no reason to look."""
        return ASK_SECONDS if self._standing.waiting else None

    def finish(self) -> None:
        """All members have left after their last epoch: wait until everything was judged."""
        self._judge.end()
        self._wait(lambda: self._standing.is_over)

    def hear_out(self) -> None:
        """The generation is lost: wait until everything told about it was judged, which may say why."""
        self._wait(lambda: self._behind == 0)

    # Inside.

    def _wait(self, is_done: Callable[[], bool]) -> None:
        deadline, before = monotonic() + ANSWER_SECONDS_MAX, self.events
        while True:
            self._look()
            if is_done():
                return
            select.select([self.fileno()], [], [], 1.0)
            if self.events != before:
                deadline, before = monotonic() + ANSWER_SECONDS_MAX, self.events
            if monotonic() > deadline:
                raise InternalError(
                    f"the verifier of this run has not answered for {ANSWER_SECONDS_MAX:g} seconds, and "
                    f"{self._behind} events are waiting. Everything published so far was verified."
                )

    @property
    def _behind(self) -> int:
        return sum(self._told) - self.events - self._standing.waiting

    @property
    def _is_held_up(self) -> bool:
        """Whether a report is held back although the judge has looked at everything that was told."""
        return any(self._held) and self._behind == 0

    @property
    def _is_answered(self) -> bool:
        return self._answers == len(self._told)

    def _look(self) -> None:
        self._standing = self._judge.standing()
        finding = self._standing.finding
        if finding is None:
            return
        name = f"verify/g{self._generation:06d}-trace.jsonl"
        where = (
            f"The events are in {self._storage.address}, under '{name}'; pointstamp dashboard shows it. "
            "Please report them."
        )
        try:
            self._storage.write(name, finding.trace)
        except StorageError as error:
            where = f"The events could not be saved: {error}"
        raise InternalError(
            f"verification failed, and the run was stopped: {finding.words}. Everything "
            f"published so far was verified. {where}"
        )
