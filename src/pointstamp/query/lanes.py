"""How far event time has passed in an input that has lanes, such as the partitions of a topic.

Each lane is in order by itself, more or less, and one may be hours behind another. So the input is complete
as far as the lane that is farthest behind: a fast partition makes no row of a slow one late. A lane from
which nothing has come holds the input back; with ``idle=`` it does so until nothing has come for that long,
and counts again when something comes.

Where event time has come to is in the journal, with the ticks. How far each lane is, is not: a new driver
knows the lanes, and waits for each of them, or until it was silent for long enough.

Invariant: a lane that counts is never passed.
"""

from collections.abc import Collection, Mapping


class Lanes:
    """The lanes of each input; changed by the coordinator, which tells it the time."""

    def __init__(
        self, known: Mapping[str, Collection[int]], idle_seconds: Mapping[str, float], now_seconds: float
    ) -> None:
        self._heard_seconds = {name: dict.fromkeys(lanes, now_seconds) for name, lanes in known.items()}
        self._latest: dict[str, dict[int, int]] = {}
        self._idle_seconds = idle_seconds
        self._now_seconds = now_seconds

    def given(self, name: str, lanes: Mapping[int, bool], now_seconds: float) -> None:
        """Take note that a tick has taken something of these lanes, or only says that they are there."""
        known = self._heard_seconds.setdefault(name, {})
        for lane, has_rows in lanes.items():
            known[lane] = now_seconds if has_rows else known.get(lane, now_seconds)

    def read(self, name: str, latest: Mapping[int, int]) -> None:
        """Take note of the greatest event times that were read."""
        mine = self._latest.setdefault(name, {})
        for lane, instant in latest.items():
            mine[lane] = max(instant, mine.get(lane, instant))

    def look(self, now_seconds: float) -> None:
        """Take note of the time."""
        self._now_seconds = now_seconds

    def latest(self, name: str) -> int | None:
        """The event time of the lane that is farthest behind; None while one that counts has had no row."""
        mine = self._latest.get(name, {})
        counted = [
            mine.get(lane) for lane in self._heard_seconds.get(name, {}) if not self._is_silent(name, lane)
        ]
        known = [instant for instant in counted if instant is not None]
        return min(known) if known and len(known) == len(counted) else None

    def seconds_until_due(self, now_seconds: float) -> float | None:
        """The seconds until the next lane is silent for too long; None where that is not expected."""
        due = [
            heard + self._idle_seconds[name] - now_seconds
            for name, lanes in self._heard_seconds.items()
            if name in self._idle_seconds and len(lanes) > 1
            for heard in lanes.values()
            if heard + self._idle_seconds[name] > self._now_seconds
        ]
        return max(0.0, min(due)) if due else None

    def words(self) -> list[str]:
        """Which inputs wait for a lane, as text."""
        found = []
        for name, lanes in self._heard_seconds.items():
            without = [lane for lane in lanes if lane not in self._latest.get(name, {})]
            waited_for = [lane for lane in without if not self._is_silent(name, lane)]
            if waited_for and len(lanes) > 1:
                found.append(
                    f"input '{name}' waits for {len(waited_for)} of its {len(lanes)} partitions, from which "
                    "no row has come since the query has started"
                )
        return found

    def _is_silent(self, name: str, lane: int) -> bool:
        idle = self._idle_seconds.get(name)
        return idle is not None and self._now_seconds - self._heard_seconds[name][lane] >= idle
