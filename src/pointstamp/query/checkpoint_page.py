"""A checkpoint as a dashboard page: journal, generations and state.

It reads once and never writes, so it can be looked at while a query works with it.
"""

import warnings
from collections.abc import Iterator
from dataclasses import replace

from pointstamp.dashboard.sight import Json, SightError
from pointstamp.errors import UsageError
from pointstamp.journal.entries import GenerationStarted, Record
from pointstamp.journal.flow_shape import in_words
from pointstamp.journal.history import (
    Committed,
    Dropped,
    Entry,
    FlowShape,
    JournalSummary,
    KeptSnapshot,
    OutputBegun,
    OutputPublished,
    Renewed,
    Said,
    StoredAsOne,
    Ticked,
    each_of,
    stored_shape,
)
from pointstamp.journal.journal import Journal
from pointstamp.query.start_checks import known_query_id
from pointstamp.storage.anywhere import storage_at


class CheckpointSight:
    """The journal of a checkpoint, as of construction."""

    def __init__(self, address: str) -> None:
        storage = storage_at(address)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that a storage is not exclusive matters to writers
            journal: Journal[Entry] = Journal.open(storage, Entry, query=known_query_id(storage))
        stored = journal.records()
        self._records = [replace(each, entry=entry) for each in stored for entry in each_of(each.entry)]
        if not self._records:
            raise UsageError(
                f"dashboard: {storage.address} is not a checkpoint: it holds no journal. Give the folder "
                "that was "
                "given as checkpoint=, or with --checkpoint."
            )
        self._address = storage.address

    @property
    def is_over(self) -> bool:
        """It is shown until it is closed."""
        return False

    def about(self) -> Json:
        """The complete facts: nothing changes here."""
        shape = self._shape()
        commits = [each for each in self._entries() if isinstance(each, Committed)]
        last = commits[-1] if commits else None
        starts = [each.entry for each in self._records if isinstance(each.entry, GenerationStarted)]
        return {
            "kind": "checkpoint",
            "title": self._address if shape is None else shape.name,
            "phase": f"the checkpoint {self._address}",
            "control": False,
            "figures": [
                ["epoch published", "none" if last is None else str(last.epoch)],
                ["workers that saved it", "none" if last is None else str(len(last.parts))],
                ["generations", str(max((each.generation for each in starts), default=0))],
                ["entries", str(self._records[-1].number + 1)],
            ],
            "journal": [_row(record) for record in self._records],
            "generations": [
                {"generation": each.generation, "owner": each.owner, "at": each.at} for each in starts
            ],
            "kept": [
                {"name": name, "rows": rows, "bytes": size}
                for name, (rows, size) in sorted(
                    ({} if last is None else last.kept).items(), key=lambda each: -each[1][1]
                )
            ],
            "places": [
                {"place": operator.name, "words": in_words(operator)}
                for operator in ({} if shape is None else shape.operators).values()
            ],
        }

    def moment(self) -> Json:
        """Nothing happens."""
        return {}

    def history(self, since: float) -> Json:
        """The journal has no times but those of generations."""
        del since
        return {}

    def why(self, output: str) -> Json:
        """A checkpoint waits for nothing."""
        raise SightError(f"a checkpoint does not run, so nothing holds output '{output}' back.")

    def metrics(self) -> str:
        """There are none."""
        return ""

    def act(self, what: str, given: str) -> str:
        """A checkpoint cannot be told anything."""
        raise SightError(f"a checkpoint does not accept the command '{what} {given}'.")

    def _entries(self) -> Iterator[Entry]:
        for record in self._records:
            if isinstance(record.entry, JournalSummary):
                yield from record.entry.commits
            elif not isinstance(record.entry, GenerationStarted):
                yield record.entry

    def _shape(self) -> FlowShape | None:
        return stored_shape(record.entry for record in self._records)


def _row(record: Record[Entry]) -> Json:
    kind, words, size = _told(record.entry)
    return {
        "number": record.number,
        "generation": record.generation,
        "kind": kind,
        "words": words,
        "bytes": size,
    }


def _told(entry: Entry | GenerationStarted) -> tuple[str, str, int | None]:
    """The kind of an entry, what it says, and how many bytes were saved with it."""
    match entry:
        case GenerationStarted():
            return "generation", f"started by {entry.owner}", None
        case FlowShape():
            return "flow", f"'{entry.name}' with {len(entry.operators)} places", None
        case Ticked():
            units = ", ".join(f"{len(each)} of '{name}'" for name, each in entry.units.items())
            span = f"epochs {entry.open_from} to {entry.complete_to - 1}"
            one = f"epoch {entry.open_from}"
            completes = one if entry.complete_to == entry.open_from + 1 else span
            nothing = entry.complete_to <= entry.open_from
            said = f"takes {units or 'nothing'}; completes {'nothing' if nothing else completes}"
            return "tick", f"{entry.number} {said}{', and is the last' if entry.final else ''}", None
        case Renewed():
            return "tick", f"{entry.number} takes files that have changed as they are now", None
        case Committed():
            how = "a whole snapshot" if entry.is_whole else "a snapshot with changes"
            name = "" if entry.savepoint is None else f", kept as savepoint '{entry.savepoint}'"
            return (
                "commit",
                f"{entry.number} publishes up to epoch {entry.epoch}, {how}{name}",
                entry.size_bytes,
            )
        case OutputBegun():
            return "published", "nothing yet: the output is marked as this query's", None
        case OutputPublished():
            return "published", f"the output up to epoch {entry.epoch}", None
        case KeptSnapshot():
            return "savepoint", f"the last snapshot is kept as '{entry.savepoint}'", None
        case Dropped():
            return "savepoint", f"'{entry.savepoint}' was dropped", None
        case Said():
            return "promise", f"input '{entry.input}' is complete before epoch {entry.epoch}", None
        case JournalSummary():
            return "summary", f"ticks up to {entry.last_tick}, {len(entry.commits)} commits", None
        case StoredAsOne():
            return "ticks", f"{len(entry.ticks)} ticks", None
