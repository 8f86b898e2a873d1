"""What ``pointstamp explain`` says of a checkpoint: its journal, and the failure-free run that it comes to.

The journal has every tick once, in order, and every commit with the generation that made it. So the run
without failures is the ticks in their order; a commit says which generation's work on which epochs is kept,
and everything else that generations did was never seen. Entries that a summary has replaced are told as one.
It reads and never writes.
"""

import warnings
from collections.abc import Iterator
from dataclasses import replace

from pointstamp.errors import UsageError
from pointstamp.journal.entries import GenerationStarted, Record
from pointstamp.journal.history import (
    Committed,
    Entry,
    FlowShape,
    JournalSummary,
    Renewed,
    Ticked,
    each_of,
)
from pointstamp.journal.journal import Journal
from pointstamp.query.starting import known_query_id
from pointstamp.storage.anywhere import storage_at


def checkpoint_text(address: str) -> str:
    """The journal of a checkpoint beside the failure-free run that explains what was published."""
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
