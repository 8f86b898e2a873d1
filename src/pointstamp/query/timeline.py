"""The timeline of a query: ticks, snapshots, restarts, rows, memory of the last hour.

The driver's loop takes note; displays may read it from any thread. Nothing here grows without end: the
last ticks and snapshots are kept one by one, and the hour as spans of some seconds, each with its counts and
with how many epochs took how long, by classes of lengths. Nothing is decided by it.
"""

import threading
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from time import time
from typing import Any, Final

from pointstamp.journal.history import Committed

SPAN_SECONDS: Final = 5.0
SPANS_MAX: Final = 720
TICKS_MAX: Final = 400
EVENTS_MAX: Final = 200

LENGTHS_SECONDS: Final = tuple(round(0.001 * 1.25**n, 6) for n in range(72))
"""The upper ends of the classes by which lengths are counted: from a millisecond to some hours."""


@dataclass(slots=True)
class TickSpan:
    """A tick in flight: when it was recorded, complete at all outputs, saved by all workers, published."""

    number: int
    first: int
    last: int
    generation: int
    ticked: float
    complete: float | None = None
    saved: float | None = None
    published: float | None = None
    rounds: int | None = None
    """The most rounds that an epoch of it took in a loop; None where nothing went round."""
    changed: float = 0.0


@dataclass(slots=True)
class HourSpan:
    """Some seconds of the last hour, with what was counted in them."""

    at: float
    rows: int = 0
    epochs: int = 0
    rounds: int | None = None
    lengths: dict[int, int] = field(default_factory=dict)
    memory_bytes: dict[int, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SavedSpan:
    """A snapshot: what it holds, and from when to when it was taken."""

    epoch: int
    begun: float
    done: float
    size_bytes: int
    is_whole: bool
    savepoint: str | None


@dataclass(slots=True)
class Loss:
    """The end of a generation by a failure, as text, and when the query continued, if it has."""

    at: float
    generation: int
    words: str
    went_on: float | None = None


class Timeline:
    """The last hour of a query; noted by the driver's loop, read by any thread."""

    def __init__(self, clock: Callable[[], float] = time) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._ticks: dict[int, TickSpan] = {}
        self._hour: deque[HourSpan] = deque(maxlen=SPANS_MAX)
        self._saved: deque[SavedSpan] = deque(maxlen=EVENTS_MAX)
        self._losses: deque[Loss] = deque(maxlen=EVENTS_MAX)
        self._asked: dict[int, float] = {}
        self._saved_at = -1, 0.0
        self.generation = 0
        self.opened = -1
        """The last epoch that ticks have completed."""

    def ticked(self, number: int, first: int, last: int) -> None:
        """A tick was given to the workers: it completes these epochs, or none if the last is before."""
        with self._lock:
            now = self._clock()
            self.opened = max(self.opened, last)
            self._ticks[number] = TickSpan(number, first, last, self.generation, now, changed=now)
            if len(self._ticks) > TICKS_MAX:
                del self._ticks[next(iter(self._ticks))]

    def completed(self, before: int) -> None:
        """Nothing before this epoch can come to an output any more."""
        with self._lock:
            now = self._clock()
            for tick in self._ticks.values():
                if tick.complete is None and tick.last < before:
                    tick.complete = tick.changed = now

    def save_asked(self, epoch: int) -> None:
        """A snapshot of this epoch was asked for."""
        with self._lock:
            self._asked[epoch] = self._clock()

    def saved(self, epoch: int) -> None:
        """A worker has saved its part of an epoch; with the last of them it is published."""
        self._saved_at = epoch, self._clock()

    def published(self, commit: Committed, rows: int) -> None:
        """An epoch, and all before it, are published now, with so many rows read since the last."""
        with self._lock:
            now = self._clock()
            epoch, at = self._saved_at
            saved = at if epoch == commit.epoch else now
            begun = self._asked.get(commit.epoch, saved)
            self._asked = {epoch: at for epoch, at in self._asked.items() if epoch > commit.epoch}
            self._saved.append(
                SavedSpan(commit.epoch, begun, now, commit.size_bytes, commit.is_whole, commit.savepoint)
            )
            span = self._span(now)
            span.rows += rows
            for tick in self._ticks.values():
                if tick.published is None and tick.last <= commit.epoch:
                    tick.complete = tick.complete or saved
                    tick.saved, tick.published, tick.changed = saved, now, now
                    length = bisect_left(LENGTHS_SECONDS, now - tick.ticked)
                    span.lengths[length] = span.lengths.get(length, 0) + 1
                    span.epochs += max(1, tick.last - tick.first + 1)

    def turned(self, rounds: Mapping[int, int]) -> None:
        """A worker has sent to these rounds of loops, by epoch; an epoch has as many as any worker says."""
        if not rounds:
            return
        with self._lock:
            now = self._clock()
            for tick in self._ticks.values():
                took = [last + 1 for epoch, last in rounds.items() if tick.first <= epoch <= tick.last]
                if took:
                    tick.rounds, tick.changed = max([tick.rounds or 0, *took]), now
            span = self._span(now)
            span.rounds = max(span.rounds or 0, 1 + max(rounds.values()))

    def measured(self, worker: int, memory_bytes: int) -> None:
        """The process of a worker holds so much memory."""
        with self._lock:
            held = self._span(self._clock()).memory_bytes
            held[worker] = max(memory_bytes, held.get(worker, 0))

    def lost(self, words: str) -> None:
        """The workers were lost, for a reason; ticks that were not published are given out again."""
        with self._lock:
            self._losses.append(Loss(self._clock(), self.generation, words))
            self._ticks = {n: tick for n, tick in self._ticks.items() if tick.published is not None}
            self._asked.clear()

    def went_on(self) -> None:
        """All workers are ready again."""
        with self._lock:
            if self._losses and self._losses[-1].went_on is None:
                self._losses[-1].went_on = self._clock()

    def since(self, at: float) -> dict[str, Any]:
        """The changes after a time, as plain data; with 0, everything."""
        with self._lock:
            return {
                "ticks": [_fields(tick) for tick in self._ticks.values() if tick.changed >= at],
                "hour": [_hour(span) for span in self._hour if span.at + SPAN_SECONDS >= at],
                "snapshots": [_fields(each) for each in self._saved if each.done >= at],
                "restarts": [_fields(each) for each in self._losses if (each.went_on or each.at) >= at],
            }

    def _span(self, now: float) -> HourSpan:
        begin = now - now % SPAN_SECONDS
        if not self._hour or self._hour[-1].at < begin:
            self._hour.append(HourSpan(begin))
        return self._hour[-1]


def _fields(each: TickSpan | SavedSpan | Loss) -> dict[str, Any]:
    return {name: getattr(each, name) for name in each.__slots__}


def _hour(span: HourSpan) -> dict[str, Any]:
    return {
        "at": span.at,
        "seconds": SPAN_SECONDS,
        "rows": span.rows,
        "epochs": span.epochs,
        "rounds": span.rounds,
        "latency": [_percentile(span.lengths, share) for share in (0.5, 0.95, 0.99)],
        "memory": dict(span.memory_bytes),
    }


def _percentile(lengths: dict[int, int], share: float) -> float | None:
    """The length that this share of all is not longer than, to a quarter; None where there are none.

    >>> _percentile({bisect_left(LENGTHS_SECONDS, 0.5): 99, bisect_left(LENGTHS_SECONDS, 8.0): 1}, 0.5)
    0.516988
    """
    wanted, counted = share * sum(lengths.values()), 0
    for length in sorted(lengths):
        counted += lengths[length]
        if counted >= wanted:
            return LENGTHS_SECONDS[min(length, len(LENGTHS_SECONDS) - 1)]
    return None
