"""The output of ``pointstamp explain`` for a checkpoint: its journal and failure-free run.

The journal has every tick once, in order, and every commit with the generation that made it. So the run
without failures is the ticks in their order; a commit says which generation's work on which epochs is kept,
and everything else that generations did was never seen. Entries that a summary has replaced are told as one.
It reads and never writes.
"""

import warnings
from collections.abc import Iterator
from dataclasses import replace
from io import StringIO
from typing import Final

from rich.console import Console
from rich.table import Table

from pointstamp.errors import UsageError
from pointstamp.journal.entries import GenerationStarted, Record
from pointstamp.journal.history import Committed, Entry, FlowShape, JournalSummary, Renewed, Ticked, each_of
from pointstamp.journal.journal import Journal
from pointstamp.query.start_checks import known_query_id
from pointstamp.simulate.crash.events import Crashed, WorldEvent, describe_world_event
from pointstamp.simulate.crash.explaining import EVERYTHING, Explained, Move
from pointstamp.simulate.crash.trace import CrashTrace
from pointstamp.storage.anywhere import storage_at
from pointstamp.verify.shape import Walker
from pointstamp.worker.events import CapabilityChanged, MessagePulled, MessageSent, Notified


def checkpoint_text(address: str) -> str:
    """The journal of a checkpoint, compared with the failure-free run that explains the published epochs."""
    storage = storage_at(address)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that a storage is not exclusive matters to writers
        journal: Journal[Entry] = Journal.open(storage, Entry, query=known_query_id(storage))
    records = [replace(each, entry=entry) for each in journal.records() for entry in each_of(each.entry)]
    if not records:
        raise UsageError(
            f"explain: {address} is not a checkpoint: it holds no journal. Give the folder that was given as "
            "checkpoint=, or with --checkpoint."
        )
    rows = list(_rows(records))
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    lines = [
        f"{entry:>{widths[0]}}  {left:<{widths[1]}}  {right}".rstrip()
        for entry, left, right in [
            ("entry", "with failures", "the run without failures that explains it"),
            *rows,
        ]
    ]
    return "\n".join([*lines, _verdict(records)])


def _rows(records: list[Record[Entry]]) -> Iterator[tuple[str, str, str]]:
    committed = -1
    for record in records:
        entry, number = record.entry, str(record.number)
        match entry:
            case GenerationStarted():
                dropped = (
                    "nothing before it is dropped" if committed < 0 else f"continues after epoch {committed}"
                )
                yield number, str(entry), f"- {dropped}; what was not committed never happened"
            case FlowShape():
                yield number, f"flow '{entry.name}', query {entry.query}", "- the flow"
            case Ticked():
                yield number, f"tick {entry.number} takes {_units(entry)}", f"tick {entry.number}"
            case Renewed():
                left = f"tick {entry.number} takes files that have changed as they are now"
                yield number, left, f"tick {entry.number}, of which nothing was committed"
            case Committed():
                epochs = _span(committed + 1, entry.epoch)
                committed = max(committed, entry.epoch)
                left = f"commit {entry.number} by generation {record.generation}: {len(entry.staged)} pieces"
                yield number, left, f"{epochs}, as generation {record.generation} computed them"
            case JournalSummary():
                committed = max((commit.epoch for commit in entry.commits), default=-1)
                left = f"summary: ticks up to {entry.last_tick}, commits up to epoch {committed}"
                yield number, left, f"ticks 0 to {entry.last_tick}, {_span(0, committed)}"


def _units(tick: Ticked) -> str:
    units = ", ".join(f"{len(each)} of '{name}'" for name, each in tick.units.items())
    return f"{units or 'nothing'}{', and is the last' if tick.final else ''}"


def _span(first: int, last: int) -> str:
    if last < first:
        return "no new epoch"
    return f"epoch {first}" if first == last else f"epochs {first} to {last}"


def _verdict(records: list[Record[Entry]]) -> str:
    ticks, committed, generations = -1, -1, 0
    for record in records:
        match record.entry:
            case Ticked():
                ticks = record.entry.number
            case Committed():
                committed = max(committed, record.entry.epoch)
            case JournalSummary():
                ticks = record.entry.last_tick
                committed = max((commit.epoch for commit in record.entry.commits), default=-1)
            case GenerationStarted() | FlowShape() | Renewed():
                pass
        generations = max(generations, record.generation)
    what = "nothing is published" if committed < 0 else f"what is published is {_span(0, committed)}"
    return (
        f"{what}, of a run without failures that takes ticks 0 to {ticks} in this order; "
        f"{generations} generations took part"
    )


# What ``pointstamp explain`` shows of a trace: two columns, what happened and what explains it.
#
# Moves are shown in the order in which they happened, each with its generation and worker; on the right
# stands its number in the failure-free run, or why it has none. Crashes, recoveries, ticks and commits stand
# between.

_WIDTH_MIN: Final = 120
_ROWS_MAX: Final = 200


def trace_text(trace: CrashTrace, explained: Explained, *, show_all: bool = False) -> str:
    """A run with crashes and its explanation, side by side."""
    rows = _columns_of_trace(trace, explained)
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


def _columns_of_trace(trace: CrashTrace, explained: Explained) -> list[tuple[str, str, str, str, str]]:
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
    """The text of an operator's move."""
    parts = []
    pulled = [act.time for act in move.acts if isinstance(act, MessagePulled)]
    told = [act.time for act in move.acts if isinstance(act, Notified)]
    sent = [(act.time, act.rows) for act in move.acts if isinstance(act, MessageSent)]
    held = [act for act in move.acts if isinstance(act, CapabilityChanged)]
    if pulled:
        parts.append(f"pulled {len(pulled)} of {_times(pulled)}")
    if told:
        parts.append(f"was notified that {_times(told)} is complete")
    if sent:
        parts.append(f"sent {sum(rows for _, rows in sent)} rows for {_times([time for time, _ in sent])}")
    if not parts and held:
        parts += [f"{'acquired' if act.diff > 0 else 'dropped'} {act.time}" for act in held]
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
