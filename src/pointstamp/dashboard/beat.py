"""The beat: moments of a sight, taken a few times a second while a browser is connected.

All browsers share one beat.

The thread starts with the first looker and ends with the last: who has closed the browser costs nothing. If
making a moment takes long, there are fewer of them, so that they never take more than a small share of time.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import thread_time
from typing import Final

import msgspec

from pointstamp.dashboard.sight import Sight

BEAT_SECONDS: Final = 0.25
"""There are at most four moments a second."""

SHARE_MAX: Final = 0.005
"""The share of a processor that making moments may take."""

_SLOWEST_SECONDS: Final = 5.0


class Beat:
    """Makes moments and keeps the last one; ``lookers`` wait for the next with ``after``."""

    def __init__(self, sight: Sight) -> None:
        self._sight = sight
        self._changed = threading.Condition()
        self._lookers = 0
        self._number = 0
        self._last = b"{}"
        self._thread: threading.Thread | None = None
        self._is_over = False

    @contextmanager
    def looking(self) -> Iterator[Callable[[int, float], tuple[int, bytes]]]:
        """While the block lasts, moments are made."""
        with self._changed:
            self._lookers += 1
            if self._thread is None and not self._is_over:
                self._thread = threading.Thread(target=self._run, name="pointstamp-beat", daemon=True)
                self._thread.start()
        try:
            yield self._after
        finally:
            with self._changed:
                self._lookers -= 1
                self._changed.notify_all()

    @property
    def lookers(self) -> int:
        """How many look at the moment."""
        return self._lookers

    def _after(self, number: int, timeout_seconds: float) -> tuple[int, bytes]:
        """The next moment after the one with this number, or the same if there is none in time."""
        with self._changed:
            self._changed.wait_for(lambda: self._number > number or self._is_over, timeout_seconds)
            return self._number, self._last

    @property
    def is_over(self) -> bool:
        """Whether there will be no moment any more."""
        return self._is_over

    def end(self) -> None:
        """Make no more moments."""
        with self._changed:
            self._is_over = True
            thread = self._thread
            self._changed.notify_all()
        if thread is not None:
            thread.join(_SLOWEST_SECONDS)

    def _run(self) -> None:
        while True:
            begun = thread_time()
            made = msgspec.json.encode(self._sight.moment())
            took = thread_time() - begun
            with self._changed:
                self._number += 1
                self._last = made
                self._changed.notify_all()
                pause = min(max(BEAT_SECONDS - took, took / SHARE_MAX), _SLOWEST_SECONDS)
                self._changed.wait_for(lambda: self._is_over or not self._lookers, pause)
                if self._is_over or not self._lookers:
                    self._thread = None
                    return
