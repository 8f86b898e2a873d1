"""A watch of units that are all known at its start."""

from collections.abc import Iterable

from pointstamp.sources.port import Unit, WatchBase


class AllAtOnce(WatchBase):
    """Gives every unit at the first poll, and is finished then; for one thread."""

    def __init__(self, units: Iterable[Unit]) -> None:
        self._units = list(units)
        self._is_polled = False

    def poll(self) -> list[Unit]:
        """All units, once."""
        self._is_polled = True
        units, self._units = self._units, []
        return units

    def fileno(self) -> None:
        """There is nothing to wait for."""
        return

    @property
    def is_finished(self) -> bool:
        """Whether there was a poll."""
        return self._is_polled

    def close(self) -> None:
        """Nothing is held."""
