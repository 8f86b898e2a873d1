"""Report a worker's events to the verifier, in batches.

A message costs more than an event, so events wait a little: until there are many, until a moment has passed,
or until something else is said that rests on them. Nothing is ever left out, and the order stays.
"""

from collections.abc import Callable, Sequence
from math import inf
from time import monotonic
from typing import Final, Protocol

import msgspec

from pointstamp.driver.messages import (
    Counts,
    EventsTold,
    Failed,
    Finished,
    FrontierAt,
    Report,
    ResultRows,
    Saved,
    Synced,
)
from pointstamp.mesh.wire import Body
from pointstamp.worker.events import Event

TOLD_TOGETHER_MAX: Final = 500
"""So many events wait at most before they are told."""

TELL_SECONDS: Final = 0.05
"""The maximum delay of unreported events of an idle worker."""

# What is believed of a worker rests on what has happened there; that it has read so much rests on nothing.
_RESTS_ON_EVENTS: Final = (ResultRows, FrontierAt, Synced, Counts, Saved, Finished, Failed)

decode_events = msgspec.msgpack.Decoder(list[Event]).decode


class TellRows(Protocol):
    """Tells the driver something, with the rows that belong to it, if any do."""

    def __call__(self, report: Report, bodies: Sequence[Body] = (), /) -> None:
        """Send a report."""
        ...


class EventTeller:
    """The log of a worker whose events are judged elsewhere; used by the worker's thread alone."""

    def __init__(self, tell: Callable[[EventsTold], None]) -> None:
        self._tell = tell
        self._encode = msgspec.msgpack.Encoder().encode
        self._events: list[Event] = []
        self._told_seconds = -inf

    def record(self, event: Event) -> None:
        """Take down one event."""
        self._events.append(event)
        if len(self._events) >= TOLD_TOGETHER_MAX:
            self.flush()

    def flush(self) -> None:
        """Tell what has happened, if anything has."""
        if self._events:
            self._tell(self._taken())

    def rest(self) -> float:
        """The worker has a moment: tell what has happened, if the last time was a while ago.

        Returns how long the worker may sleep before this is to be called again.
        """
        if not self._events:
            return inf
        left = self._told_seconds + TELL_SECONDS - monotonic()
        if left > 0:
            return left
        self.flush()
        return inf

    def answer(self, asked: int) -> None:
        """Tell what has happened, also if nothing has."""
        self._tell(self._taken(asked))

    def before(self, tell: TellRows) -> TellRows:
        """The function by which a worker sends other reports, after these events."""

        def after_events(report: Report, bodies: Sequence[Body] = (), /) -> None:
            if isinstance(report, _RESTS_ON_EVENTS):
                self.flush()
            tell(report, bodies)

        return after_events

    def _taken(self, asked: int | None = None) -> EventsTold:
        """The events after the last report."""
        events, self._events = self._events, []
        self._told_seconds = monotonic()
        return EventsTold(self._encode(events), len(events), asked)
