"""The intake: what sources have offered and no tick has taken yet, and how far each input is complete.

An input with an epoch column is complete before an epoch when somebody says so. What was said holds after the
units that were there when it was said, so it is believed once these are taken, and not before.

Invariant: no unit is taken twice, units of one input are taken in order, and ``complete_to`` never goes back.
"""

from collections import deque
from collections.abc import Collection, Mapping, Sequence

from pointstamp.errors import FlowError
from pointstamp.sources.port import Unit


class Intake:
    """The inputs of one generation; changed by the coordinator that owns it."""

    def __init__(
        self, units_per_tick: Mapping[str, int | None], columns: Collection[str], open_from: int
    ) -> None:
        self._limits = units_per_tick
        self._columns = columns
        self._offered: dict[str, deque[Unit]] = {name: deque() for name in units_per_tick}
        self._taken = dict.fromkeys(units_per_tick, 0)
        self._ended: set[str] = set()
        self._complete = dict.fromkeys(columns, open_from)
        # What was said, and how many units must be taken before it holds.
        self._said: dict[str, deque[tuple[int, int]]] = {name: deque() for name in columns}

    # What the sources and the user say.

    def offer(self, name: str, units: Sequence[Unit]) -> None:
        """Take note of units that were found."""
        self._offered[name].extend(units)

    def end(self, name: str) -> None:
        """Take note that an input will have no further units."""
        self._ended.add(name)

    def check_advance(self, name: str, epoch: int) -> None:
        """FlowError where an input cannot be said to be complete before this epoch."""
        if name not in self._columns:
            raise FlowError(
                f"input '{name}' has no epoch column, so its epochs are complete when their tick is; only "
                f"inputs with one are advanced: {', '.join(self._columns) or 'none'}."
            )
        said = self._said[name]
        before = said[-1][1] if said else self._complete[name]
        if epoch < before:
            raise FlowError(
                f"input '{name}' was said to be complete before epoch {before} and now before {epoch}; that "
                "cannot be taken back."
            )

    def advance(self, name: str, epoch: int) -> None:
        """Take note that an input has, with what was offered, everything before an epoch."""
        self._said[name].append((self._taken[name] + len(self._offered[name]), epoch))
        self._believe(name)

    def is_news(self, name: str, epoch: int) -> bool:
        """Whether that an input is complete before an epoch says more than is known."""
        return name in self._columns and epoch > self._complete[name]

    # What to let in.

    @property
    def has_units(self) -> bool:
        """Whether something waits to be taken."""
        return any(self._offered.values())

    @property
    def has_ended(self) -> bool:
        """Whether every input has come to its end."""
        return len(self._ended) == len(self._offered)

    def take(self) -> dict[str, list[Unit]]:
        """The units of the next tick, which wait no more."""
        taken: dict[str, list[Unit]] = {}
        for name, offered in self._offered.items():
            limit = self._limits[name]
            count = len(offered) if limit is None else min(limit, len(offered))
            taken[name] = [offered.popleft() for _ in range(count)]
            self._taken[name] += count
            self._believe(name)
        return taken

    def complete_to(self, open_from: int) -> int:
        """Before which epoch all inputs with a column are complete, at least as far as they were."""
        # One that has ended says nothing more, once everything that it had is taken.
        still_open = (name for name in self._columns if name not in self._ended or self._offered[name])
        return max(open_from, min((self._complete[name] for name in still_open), default=open_from))

    def _believe(self, name: str) -> None:
        """What was said of an input holds once the units are taken that were there before it."""
        said = self._said.get(name)
        while said and said[0][0] <= self._taken[name]:
            self._complete[name] = said.popleft()[1]
