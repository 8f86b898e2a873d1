"""What ``pointstamp explain`` shows of a trace: two columns, what happened and what explains it.

Moves are shown in the order in which they happened, each with its generation and worker; on the right stands
its number in the failure-free run, or why it has none. Crashes, recoveries, ticks and commits stand between.
"""

from io import StringIO
from typing import Final

from rich.console import Console
from rich.table import Table

from pointstamp.judge.shape import Walker
from pointstamp.simulate.crash.events import Crashed, WorldEvent, describe_world_event
from pointstamp.simulate.crash.explaining import EVERYTHING, Explained
from pointstamp.simulate.crash.moves import Move
from pointstamp.simulate.crash.trace import CrashTrace
from pointstamp.worker.events import CapabilityChanged, MessagePulled, MessageSent, Notified

_WIDTH_MIN: Final = 120
_ROWS_MAX: Final = 200


def trace_text(trace: CrashTrace, explained: Explained, *, show_all: bool = False) -> str:
    """A run with crashes and its explanation, side by side."""
    rows = _rows(trace, explained)
    left_out = 0 if show_all else max(0, len(rows) - _ROWS_MAX)
    if left_out:
        rows[_ROWS_MAX // 2 : -_ROWS_MAX // 2] = [("", "", f"... {left_out} more, with --all ...", "", "")]
    table = Table(title=f"{trace.header.flow}: {trace.header.replay}", title_justify="left")
    table.add_column("step", justify="right")
    table.add_column("generation", justify="right")
    table.add_column("what happened", overflow="fold")
    table.add_column("kept")
    table.add_column("without failures", justify="right")
    for row in rows:
        table.add_row(*row, style="bold" if row[3] == "failure" else "dim" if row[3] == "dropped" else None)
    console = Console(width=_WIDTH_MIN, record=True, file=StringIO(), markup=False, highlight=False)
    console.print(table)
    return "\n".join([console.export_text(styles=False).rstrip(), *_summary(trace, explained)])


def _rows(trace: CrashTrace, explained: Explained) -> list[tuple[str, str, str, str, str]]:
    walker = Walker(trace.header.shape)
    ends = {generation: end for generation, _, end in explained.kept_to}
    moves = {each.move.position: each for each in explained.moves}
    rows = []
    for position, (generation, event) in enumerate(trace.happened):
        who = str(generation) if generation > 0 else ""
        if isinstance(event, WorldEvent):
            kind = "failure" if isinstance(event, Crashed) else ""
            rows.append((str(position), who, describe_world_event(event), kind, ""))
        judged = moves.get(position)
        if judged is not None:
            text = f"worker {judged.move.worker}, {describe_move(walker, judged.move)}"
            if judged.number is None:
                why = f"epoch {judged.move.first} > {ends[generation]}"
                rows.append((str(position), who, text, "dropped", why))
            else:
                rows.append((str(position), who, text, "kept", str(judged.number)))
    return rows


def describe_move(walker: Walker, move: Move) -> str:
    """What an operator did at once, as text."""
    parts = []
    pulled = [act.time for act in move.acts if isinstance(act, MessagePulled)]
    told = [act.time for act in move.acts if isinstance(act, Notified)]
    sent = [(act.time, act.rows) for act in move.acts if isinstance(act, MessageSent)]
    held = [act for act in move.acts if isinstance(act, CapabilityChanged)]
    if pulled:
        parts.append(f"pulled {len(pulled)} of {_times(pulled)}")
    if told:
        parts.append(f"was told that {_times(told)} is complete")
    if sent:
        parts.append(f"sent {sum(rows for _, rows in sent)} rows for {_times([time for time, _ in sent])}")
    if not parts and held:
        parts += [f"{'took' if act.diff > 0 else 'gave up'} {act.time}" for act in held]
    return f"{walker.shape.operator(move.operator)} {', '.join(parts) or 'looked'}"


def _times(times: list[tuple[int, ...]]) -> str:
    return ", ".join(map(str, sorted(set(times))))


def _summary(trace: CrashTrace, explained: Explained) -> list[str]:
    lines = []
    for generation, restored, end in explained.kept_to:
        start = "from nothing" if restored < 0 else f"after epoch {restored}"
        kept = "everything" if end >= EVERYTHING else "nothing" if end <= restored else f"epochs up to {end}"
        lines.append(f"generation {generation} began {start}; kept of it: {kept}")
    dropped = len(explained.moves) - explained.kept
    lines.append(f"published up to epoch {trace.header.published_through}; the run {trace.header.ended}")
    if explained.flaw is not None:
        return [*lines, f"NOT EXPLAINED: {explained.flaw}"]
    return [
        *lines,
        f"explained: {explained.kept} moves are a run without failures, {dropped} are dropped; each was "
        "allowed, and every generation continued where the ones before it ended",
    ]
