"""Table versions as units.

Where asking costs little the driver asks at every poll. Elsewhere a thread asks at an interval, so that a
poll never waits.
"""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from time import monotonic

from pointstamp.sources.port import Part, Unit, WatchBase


class VersionWatch(WatchBase):
    """The versions of a table as units; for one thread, which never waits."""

    is_refreshing: bool

    def __init__(
        self,
        units: list[Unit],
        last: int,
        newest: Callable[[int], int] | None,
        every_seconds: float | None,
    ) -> None:
        self._units = units
        self._last = last
        self._newest = newest
        self._every_seconds = every_seconds
        self._next_at = monotonic()
        self._thread: ThreadPoolExecutor | None = None
        self._under_way: Future[int] | None = None
        self._has_old_look = False
        self.is_refreshing = False
        """Whether what was there at the last ``refresh`` may not have been returned yet."""

    def refresh(self) -> None:
        """Look again now; a look in progress may have missed versions."""
        self.is_refreshing = self._newest is not None and self._every_seconds is not None
        self._has_old_look = self._under_way is not None
        self._next_at = monotonic()

    def poll(self) -> list[Unit]:
        """The versions since the last call."""
        units, self._units = self._units, []
        newest = self._last if self._newest is None else self._look(self._newest)
        units.extend(versions(self._last, newest))
        self._last = max(self._last, newest)
        return units

    def _look(self, find: Callable[[int], int]) -> int:
        if self._every_seconds is None:
            return find(self._last)
        newest = self._last
        if self._under_way is not None and self._under_way.done():
            ended, self._under_way = self._under_way, None
            self._next_at = monotonic() + (0.0 if self._has_old_look else self._every_seconds)
            self.is_refreshing &= self._has_old_look
            self._has_old_look = False
            newest = ended.result()
        if self._under_way is None and monotonic() >= self._next_at:
            self._thread = self._thread or ThreadPoolExecutor(1, "pointstamp-delta")
            self._under_way = self._thread.submit(find, newest)
        return newest

    def fileno(self) -> None:
        """Nothing becomes readable; poll from time to time."""
        return

    @property
    def is_finished(self) -> bool:
        """Whether all versions that were asked for have been returned."""
        return self._newest is None and not self._units

    def close(self) -> None:
        """Stop looking; a look in progress ends by itself."""
        self._next_at = float("inf")
        if self._thread is not None:
            self._thread.shutdown(wait=False)


def versions(after: int, last: int) -> list[Unit]:
    """The versions after one, up to another."""
    numbers = range(after + 1, last + 1)
    return [Unit(str(each), (Part(str(each), 1),), least_epoch=each) for each in numbers]
