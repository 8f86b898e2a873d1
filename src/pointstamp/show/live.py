"""The live display of a run: progress, rates, rounds, and frontier holders.

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
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Protocol

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from pointstamp.driver.status import LoopStatus, OutputStatus, RunStatus
from pointstamp.worker.protocols import Clock

DRAW_SECONDS: Final = 0.25
LINE_SECONDS: Final = 5.0
RATE_SECONDS: Final = 5.0
"""Rates are those of the last seconds: over one drawing alone they would flicker between batches."""


class MonotonicClock:
    """The clock of this machine."""

    def now_seconds(self) -> float:
        """Seconds since some fixed moment; never goes back."""
        return time.monotonic()


# A moment of a run in text: as one line, or as tables for a terminal.
#
# Pure functions of a ``Snapshot``; when and where it is shown is decided by ``pointstamp.show.live``.


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A status with what only a clock can tell: the time that has passed and rows per second, by name."""

    status: RunStatus
    elapsed_seconds: float
    rates_in: Mapping[str, float]
    rates_out: Mapping[str, float]


def line(snapshot: Snapshot) -> str:
    """A snapshot as one line of text."""
    status = snapshot.status
    parts = [
        f"{status.flow} {_seconds(snapshot.elapsed_seconds)}: {_epochs(status)}",
        f"{status.rows_in:,} rows in ({_per_second(sum(snapshot.rates_in.values()))})",
        f"{status.rows_out:,} rows out ({_per_second(sum(snapshot.rates_out.values()))})",
    ]
    said = [", ".join(parts)]
    said += [f"loop {_path(loop)}: epoch {loop.epoch} in round {_rounds(loop)}" for loop in status.loops]
    said += [
        f"{output.name} waits for {_frontier(output)}, held back by {_held_by(output, 1, ', ')}"
        for output in status.outputs
        if output.held_by
    ]
    return "; ".join(said)


def tables(snapshot: Snapshot) -> RenderableType:
    """A snapshot as a heading and tables: inputs, loops that have something to do, outputs."""
    status = snapshot.status
    heading = Text(f"{status.flow}  {_seconds(snapshot.elapsed_seconds)}  {_epochs(status)}", style="bold")
    shown: list[RenderableType] = [heading]
    if status.inputs:
        inputs = _table("input", "rows in", "rows/s", "may still send at")
        for each in status.inputs:
            frontier = ", ".join(_time(time) for time in each.frontier) or "closed"
            _add(inputs, each.name, f"{each.rows:,}", _count(snapshot.rates_in[each.name]), frontier)
        shown.append(inputs)
    if status.loops:
        loops = _table("loop", "epoch", "round", "messages waiting")
        for loop in status.loops:
            _add(loops, _path(loop), str(loop.epoch), _rounds(loop), f"{loop.messages:,}")
        shown.append(loops)
    if status.outputs:
        outputs = _table("output", "rows out", "rows/s", "epochs complete", "waits for", "held back by")
        for output in status.outputs:
            done = "all" if not output.frontier else str(output.epochs_complete or 0)
            rate = _count(snapshot.rates_out[output.name])
            held = _held_by(output, len(output.held_by), "\n")
            _add(outputs, output.name, f"{output.rows:,}", rate, done, _frontier(output), held)
        shown.append(outputs)
    if status.kept:
        kept = _table("keeps", "rows", "bytes", "in files")
        for largest in sorted(status.kept, key=lambda one: -one.size_bytes)[:_KEPT_MAX]:
            numbers = (largest.rows, largest.size_bytes, largest.spilled_bytes)
            _add(kept, largest.name, *(f"{each:,}" for each in numbers))
        shown.append(kept)
    return Group(*(part for each in shown for part in (each, Text())))


# How many of the largest things that operators keep are shown.
_KEPT_MAX: Final = 8

_NUMBERS: Final = {
    "rows",
    "bytes",
    "in files",
    "rows in",
    "rows out",
    "rows/s",
    "epoch",
    "round",
    "epochs complete",
    "messages waiting",
}


def _table(*columns: str) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for column in columns:
        is_number = column in _NUMBERS
        table.add_column(column, justify="right" if is_number else "left", no_wrap=is_number, overflow="fold")
    return table


def _add(table: Table, *cells: str) -> None:
    # As Text, so that a name in brackets is not taken for markup.
    table.add_row(*(Text(cell) for cell in cells))


def _epochs(status: RunStatus) -> str:
    if status.is_complete:
        return "complete"
    done = status.epochs_complete
    if done is None:
        return "running"
    return "1 epoch complete" if done == 1 else f"{done:,} epochs complete"


def _frontier(output: OutputStatus) -> str:
    return ", ".join(_time(time) for time in output.frontier) or "nothing"


def _held_by(output: OutputStatus, named: int, between: str) -> str:
    """The first holders by their words, the others by their number."""
    more = len(output.held_by) - named + output.held_by_more
    return between.join([*output.held_by[:named], *([f"and {more} more"] if more else [])])


def _time(time: tuple[object, ...]) -> str:
    return str(time[0]) if len(time) == 1 else f"({', '.join(map(str, time))})"


def _path(loop: LoopStatus) -> str:
    return " / ".join(loop.scope)


def _rounds(loop: LoopStatus) -> str:
    if loop.first_round == loop.last_round:
        return str(loop.first_round)
    return f"{loop.first_round} to {loop.last_round}"


def _per_second(rate: float) -> str:
    return f"{_count(rate)}/s"


def _count(rate: float) -> str:
    return f"{rate:,.0f}" if rate >= 10 or rate == 0 else f"{rate:.1f}"


def _seconds(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes:02} min"
    return f"{minutes} min {rest:02} s" if minutes else f"{seconds:.1f} s"


class Screen(Protocol):
    """The target of snapshots, and their interval."""

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
        """Show the end, with the rates of the complete run."""
        self._history = deque([(self._started, None)])
        self._show(status)


def draws(console: Console) -> bool:
    """Return whether the console is a terminal that can be drawn on."""
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
