"""Report long calls of an operator, from a separate thread.

A worker has one thread, and while that is inside a user's function it answers no request. So another one
looks at the operators now and then and tells the driver which of them is in the same call as before, and once
more when the call is over. The operators keep no clock: they count their calls, and who sees the same number
again knows how long that was. ``CallsHeard`` is the driver's side of it.
"""

import threading
from collections.abc import Callable, Collection
from contextlib import suppress
from time import monotonic
from typing import Final

from pointstamp.running.board import LOOK_SECONDS
from pointstamp.running.messages import InCall
from pointstamp.worker.instance import Instance

LONG_SECONDS: Final = 2.0
"""A call that takes longer is told."""

STUCK: Final = "in native code that holds Python's global lock"
"""In place of when an operator was called, where a worker is seen from outside to be stuck."""

_LOOK_SECONDS: Final = LOOK_SECONDS


class LongCalls:
    """Long calls of one worker's operators; the caller of ``look`` gives the time."""

    def __init__(self, instances: Collection[Instance]) -> None:
        self._instances = instances
        self._seen: tuple[Instance, int] | None = None
        self._since = 0.0
        self._is_told = False

    def look(self, now_seconds: float) -> InCall | None:
        """Return the report due now: a long call, its end, or None."""
        inside = next(((each, each.calls) for each in self._instances if each.calling is not None), None)
        if inside is None or inside != self._seen:
            was_told, self._is_told = self._is_told, False
            self._seen, self._since = inside, now_seconds
            return InCall("", "", "", 0.0) if was_told else None
        if self._is_told or now_seconds - self._since < LONG_SECONDS:
            return None
        self._is_told = True
        instance = inside[0]
        time = instance.authority.time
        return InCall(
            instance.name,
            instance.calling or "",
            "" if time is None else str(time),
            now_seconds - self._since,
        )


class Lookout:
    """A thread that looks at the operators of one worker until it is ended.

    ``tell`` is given what is to be told, and ``beat`` is called at each look: not while native code holds
    Python's global lock.
    """

    def __init__(
        self,
        instances: Collection[Instance],
        tell: Callable[[InCall], None] | None,
        beat: Callable[[], None] | None = None,
    ) -> None:
        self._calls = LongCalls(instances)
        self._tell = tell
        self._beat = beat
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="pointstamp-lookout", daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Stop; no report follows."""
        self._is_over.set()
        self._thread.join()

    def _run(self) -> None:
        with suppress(Exception):  # the driver is gone, in whatever way; the worker hears of that, too
            while True:
                if self._beat is not None:
                    self._beat()
                if self._is_over.wait(_LOOK_SECONDS):
                    return
                told = self._calls.look(monotonic())
                if told is not None and self._tell is not None:
                    self._tell(told)


class CallsHeard:
    """The reported long calls; changed by the thread that receives reports."""

    def __init__(self) -> None:
        self._told: dict[int, tuple[InCall, float]] = {}

    def hear(self, worker: int, report: object) -> None:
        """Take note of a report: whatever else a worker says, it is inside that call no more."""
        if isinstance(report, InCall) and report.when:
            self._told[worker] = report, monotonic()
        else:
            self._told.pop(worker, None)

    def free(self, workers: int) -> int | None:
        """A worker that can answer; None where all are inside long calls."""
        return next((worker for worker in range(workers) if worker not in self._told), None)

    def words(self) -> list[str]:
        """Return the operators in long calls, and for how long, as text."""
        return [words for _, _, words in self.inside()]

    def inside(self) -> list[tuple[int, InCall, str]]:
        """The workers that are inside long calls, with these, and as text."""
        now = monotonic()
        return [
            (
                worker,
                call,
                _words(worker, call, call.seconds + now - heard),
            )
            for worker, (call, heard) in sorted(self._told.copy().items())
        ]


def _words(worker: int, call: InCall, seconds: float) -> str:
    where = f"inside operator '{call.operator}'" if call.operator else "outside of its operators"
    when = call.when if call.when == STUCK else f"which was called {call.when}"
    return f"worker {worker} has been {where} for {seconds:.0f} s, {when}" + (
        f" at {call.time}" if call.time else ""
    )
