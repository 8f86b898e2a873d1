"""A moment of a run in text: as one line, or as tables for a terminal.

Pure functions of a ``Snapshot``; when and where it is shown is decided by ``pointstamp.show.live``.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from pointstamp.running.status import LoopStatus, OutputStatus, RunStatus


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
