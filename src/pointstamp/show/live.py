"""A live display of a run: how far it is, how fast, in which rounds its loops are, and what holds it back.

    with LiveDisplay.for_stream() as display:
        while run.step():
            display.update(lambda: status_of(run, rows))

On a terminal a table is drawn over itself with rich; elsewhere a plain line comes every few seconds; if asked
to be silent it shows nothing. ``update`` may be called after every step: a status that is given as a function
is only made when the clock says that it is time to show one. When the display ends it shows the last status
once more, so that the totals stay.

It asks its clock and nothing else for the time. It writes to standard error unless given another console.
"""

import time
from collections import deque
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Final, Protocol

from rich.console import Console
from rich.live import Live

from pointstamp.running.status import RunStatus
from pointstamp.show.standing import Snapshot, line, tables
from pointstamp.worker.ports import Clock

DRAW_SECONDS: Final = 0.25
LINE_SECONDS: Final = 5.0
RATE_SECONDS: Final = 5.0
"""Rates are those of the last seconds: over one drawing alone they would flicker between batches."""


class MonotonicClock:
    """The clock of this machine."""

    def now_seconds(self) -> float:
        """Seconds since some fixed moment; never goes back."""
        return time.monotonic()


class Screen(Protocol):
    """Where snapshots are shown, and how often."""

    interval_seconds: float

    def open(self) -> None:
        """Begin to show."""
        ...

    def show(self, snapshot: Snapshot) -> None:
        """Show a snapshot in place of, or after, the one before."""
        ...

    def close(self) -> None:
        """Leave what was shown last."""
        ...


class LiveDisplay:
    """Shows a run while the block lasts; changed by ``update`` alone."""

    def __init__(self, screen: Screen | None, clock: Clock) -> None:
        self._screen = screen
        self._clock = clock
        self._started = clock.now_seconds()
        self._shown_at = self._started
        self._history: deque[tuple[float, RunStatus | None]] = deque([(self._started, None)])
        self._latest: Callable[[], RunStatus] | None = None

    @classmethod
    def for_stream(
        cls, console: Console | None = None, *, silent: bool = False, clock: Clock | None = None
    ) -> "LiveDisplay":
        """A table on a terminal, plain lines elsewhere, nothing where silent."""
        clock = clock or MonotonicClock()
        if silent:
            return cls(None, clock)
        console = console or Console(stderr=True)
        return cls(TableScreen(console) if draws(console) else LineScreen(console), clock)

    def update(self, status: RunStatus | Callable[[], RunStatus]) -> None:
        """Take the newest status, and show it if the last one was shown long enough ago."""
        if self._screen is None:
            return
        self._latest = status if callable(status) else lambda: status
        if self._clock.now_seconds() - self._shown_at >= self._screen.interval_seconds:
            self._show(self._latest())

    def _show(self, status: RunStatus) -> None:
        assert self._screen is not None
        now = self._clock.now_seconds()
        history = self._history
        while len(history) > 1 and now - history[1][0] >= RATE_SECONDS:
            history.popleft()
        then, before = history[0]
        history.append((now, status))
        self._shown_at = now
        self._screen.show(
            Snapshot(
                status,
                now - self._started,
                _rates(status.inputs, () if before is None else before.inputs, now - then),
                _rates(status.outputs, () if before is None else before.outputs, now - then),
            )
        )

    def __enter__(self) -> "LiveDisplay":
        if self._screen is not None:
            self._screen.open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._screen is None:
            return
        try:
            # After an error a worker may be in the middle of anything, so nothing is asked of it.
            if kind is None and self._latest is not None:
                self._show_totals(self._latest())
        finally:
            self._screen.close()

    def _show_totals(self, status: RunStatus) -> None:
        """Show the end, with the rates of the whole run."""
        self._history = deque([(self._started, None)])
        self._show(status)


def draws(console: Console) -> bool:
    """Whether the console is a terminal that can be drawn on."""
    # Asked of the file itself: rich takes FORCE_COLOR in the environment for a terminal.
    return console.file.isatty() and not console.is_dumb_terminal


class TableScreen:
    """Tables on a terminal, drawn over themselves."""

    interval_seconds = DRAW_SECONDS

    def __init__(self, console: Console) -> None:
        self._live = Live(console=console, auto_refresh=False)

    def open(self) -> None:
        """Begin to draw."""
        self._live.start()

    def show(self, snapshot: Snapshot) -> None:
        """Draw a snapshot over the one before."""
        self._live.update(tables(snapshot), refresh=True)

    def close(self) -> None:
        """Leave what was drawn last."""
        self._live.stop()


class LineScreen:
    """One plain line after the other."""

    interval_seconds = LINE_SECONDS

    def __init__(self, console: Console) -> None:
        self._console = console

    def open(self) -> None:
        """Nothing is shown before the first status."""

    def show(self, snapshot: Snapshot) -> None:
        """Write a line."""
        self._console.print(line(snapshot), soft_wrap=True, markup=False, highlight=False, emoji=False)

    def close(self) -> None:
        """Lines stay."""


class _Counted(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def rows(self) -> int: ...


def _rates(now: Iterable[_Counted], before: Iterable[_Counted], seconds: float) -> dict[str, float]:
    was = {each.name: each.rows for each in before}
    return {each.name: (each.rows - was.get(each.name, 0)) / seconds if seconds > 0 else 0.0 for each in now}
