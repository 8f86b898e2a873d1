"""The live display of a query: epochs, rates, rounds, holders and restarts.

    with QueryDisplay(query, facts=lambda: [("files", "12")]) as display:
        while query.is_active and display.wait():
            ...

A thread of its own asks the query how far it is, because a query that is restarting answers late, and that is
when people look. Log lines of the query (it logs one when it has recovered) are shown as notes, and so are
the texts given to ``note``. On a terminal a panel is drawn over itself with rich, and notes scroll above it;
elsewhere a plain line comes every few seconds, and notes at once. It writes to standard error.

Nothing here changes a query; a display that fails to ask simply shows what it knew last.
"""

import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import monotonic
from types import TracebackType
from typing import Final, TypeAlias

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from pointstamp.driver.status import KeptStatus, RunStatus
from pointstamp.errors import PointstampError
from pointstamp.query.query import Query
from pointstamp.show.live import DRAW_SECONDS, RATE_SECONDS, draws

Facts: TypeAlias = Callable[[], Sequence[tuple[str, str]]]
"""Further lines to show: names and values."""

LINE_SECONDS: Final = 2.0
_ASK_SECONDS: Final = 0.2
# How many of the largest things that operators keep are named.
_KEPT_MAX: Final = 8


@dataclass(frozen=True, slots=True)
class ShownMoment:
    """A query at one moment, as it is shown."""

    name: str
    elapsed_seconds: float
    phase: str
    epochs: int
    rows: int
    rows_per_second: float
    generation: int
    restarts: int
    status: RunStatus | None
    facts: Sequence[tuple[str, str]]


def line(moment: ShownMoment) -> str:
    """A moment as one line of text."""
    said = [
        f"{moment.elapsed_seconds:5.1f} s: {_counted(moment.epochs, 'epoch')} published",
        f"{moment.rows:,} rows read ({moment.rows_per_second:,.0f}/s)",
        *(f"{name} {value}" for name, value in moment.facts),
    ]
    if moment.restarts:
        said.append(f"generation {moment.generation} after {_counted(moment.restarts, 'restart')}")
    # Who waits for data waits for its inputs, and that needs no words.
    waits = [f"{name} {value}" for name, value in _progress(moment.status) if moment.phase == "working"]
    return "; ".join([", ".join(said), moment.phase, *waits])


def panel(moment: ShownMoment) -> RenderableType:
    """A moment as a heading and a table for a terminal."""
    heading = Text(f"{moment.name}  {moment.elapsed_seconds:.1f} s  {moment.phase}", style="bold")
    table = Table.grid(padding=(0, 2, 0, 2))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    rows = [
        ("epochs published", f"{moment.epochs:,}"),
        ("rows read", f"{moment.rows:,}  ({moment.rows_per_second:,.0f} per second)"),
        *moment.facts,
        *_progress(moment.status),
        *_kept(moment.status),
        ("generation", f"{moment.generation}, after {_counted(moment.restarts, 'restart')}"),
    ]
    for name, value in rows:
        table.add_row(Text(name), Text(value))  # as Text, so that brackets are not taken for markup
    return Group(heading, table)


def _progress(status: RunStatus | None) -> list[tuple[str, str]]:
    """The loops, the frontier and what holds it back, where something is in flight."""
    if status is None:
        return []
    said = [
        (f"loop '{' / '.join(loop.scope)}'", f"in round {loop.last_round} of epoch {loop.epoch}")
        for loop in status.loops[:1]
    ]
    for output in status.outputs:
        frontier = ", ".join(str(time[0]) for time in output.frontier)
        if frontier:
            said.append((f"frontier of '{output.name}'", f"epoch {frontier}"))
        if output.held_by:
            said.append(("held back:", output.held_by[0]))
    return said


def _kept(status: RunStatus | None) -> list[tuple[str, str]]:
    """The state of operators, the largest first, as of the last saved epoch."""
    if status is None or not status.kept:
        return []
    largest = sorted(status.kept, key=lambda each: -each.size_bytes)
    said = [(each.name, f"{each.rows:,} rows, {_bytes(each)}") for each in largest[:_KEPT_MAX]]
    rest = largest[_KEPT_MAX:]
    if rest:
        size = sum(each.size_bytes for each in rest)
        said.append((f"and {len(rest)} more", f"{sum(each.rows for each in rest):,} rows, {size:,} bytes"))
    return [("kept:", _bytes(status)), *((f"  {name}", words) for name, words in said)]


def _bytes(kept: RunStatus | KeptStatus) -> str:
    """The size of the state, and its part in files, if any."""
    spilled = f", {kept.spilled_bytes:,} of them in files" if kept.spilled_bytes else ""
    return f"{kept.size_bytes:,} bytes{spilled}"


def _counted(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


class QueryDisplay:
    """Shows a query while the block lasts; ``note`` and ``wait`` are for the thread that opened it."""

    def __init__(self, query: Query, *, facts: Facts = tuple, console: Console | None = None) -> None:
        self._query = query
        self._facts = facts
        self._console = console or Console(stderr=True)
        self._is_drawn = draws(self._console)
        self._live = Live(console=self._console, auto_refresh=False) if self._is_drawn else None
        self._started = monotonic()
        self._shown_at = self._started
        self._watch = _Watch(query)
        self._notes: deque[str] = deque()
        self._handler = _Notes(self._notes)
        self._news: tuple[object, ...] = ()

    def note(self, words: str) -> None:
        """Show a line at once, above what is drawn."""
        # As Text: a style of print would be given to the panel below, too.
        self._console.print(Text(words, style="bold"), soft_wrap=True)

    def wait(self, seconds: float = DRAW_SECONDS) -> bool:
        """Show how far the query is, and wait a moment; whether the query still runs."""
        while self._notes:
            self.note(self._notes.popleft())
        interval = DRAW_SECONDS if self._is_drawn else LINE_SECONDS
        if monotonic() - self._shown_at >= interval:
            self.show()
        self._query.awaitTermination(seconds)
        return self._query.isActive

    def show(self) -> None:
        """Show how far the query is, now."""
        self._shown_at = monotonic()
        moment = self._moment()
        if self._live is not None:
            self._live.update(panel(moment), refresh=True)
            return
        news = (moment.epochs, moment.rows, moment.phase, moment.restarts, moment.facts)
        if news != self._news:  # the same line again would only make others scroll away
            self._news = news
            self._console.print(line(moment), soft_wrap=True, markup=False, highlight=False, emoji=False)

    def _moment(self) -> ShownMoment:
        query, watch = self._query, self._watch
        phase = str(query.status["message"])
        watch.count()
        return ShownMoment(
            query.name,
            monotonic() - self._started,
            phase,
            query.epoch + 1,
            watch.rows,
            watch.rows_per_second(),
            query.generation,
            query.restarts,
            watch.status if phase.startswith(("working", "waiting")) else None,
            self._facts(),
        )

    def __enter__(self) -> "QueryDisplay":
        self._handler.open()
        self._watch.start()
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._watch.stop()
        self._handler.shut()
        if self._live is not None:
            self._live.stop()
        while self._notes:
            self.note(self._notes.popleft())


class _Watch:
    """Asks a query how far it is, in a separate thread; everything else is for the display's thread."""

    def __init__(self, query: Query) -> None:
        self._query = query
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._run, name="pointstamp-display", daemon=True)
        self._seen = -1  # the number of the last commit
        self._history: deque[tuple[float, int]] = deque([(monotonic(), 0)])
        self.rows = 0
        self.status: RunStatus | None = None

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        # The thread may be waiting for an answer; it ends with the query, and holds nothing of ours.
        self._done.set()

    def rows_per_second(self) -> float:
        """The rate of the last seconds."""
        now, history = monotonic(), self._history
        while len(history) > 1 and now - history[1][0] >= RATE_SECONDS:
            history.popleft()
        then, rows = history[0]
        return (self.rows - rows) / max(now - then, 1e-3)

    def count(self) -> None:
        """Add up the rows of the commits since the last call."""
        for commit in self._query.recentProgress:
            if commit["commit"] <= self._seen:
                continue
            self._seen = commit["commit"]
            self.rows += commit["numInputRows"]
            self._history.append((monotonic(), self.rows))

    def _run(self) -> None:
        while not self._done.wait(_ASK_SECONDS) and self._query.isActive:
            try:
                self.status = self._query.progress()
            except PointstampError:
                self.status = None  # it restarts, or has ended


class _Notes(logging.Handler):
    """Takes the log lines of queries, so that they are shown as notes and not across the display."""

    def __init__(self, notes: deque[str]) -> None:
        super().__init__(logging.WARNING)
        self._said = notes
        self._logger = logging.getLogger("pointstamp.query")
        self._propagated = True

    def emit(self, record: logging.LogRecord) -> None:
        """Keep the words."""
        self._said.append(record.getMessage())

    def open(self) -> None:
        self._propagated, self._logger.propagate = self._logger.propagate, False
        self._logger.addHandler(self)

    def shut(self) -> None:
        self._logger.removeHandler(self)
        self._logger.propagate = self._propagated
