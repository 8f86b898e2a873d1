"""``pointstamp snapshots``: what a checkpoint holds, and whether every file of it is complete.

It reads and never writes, so it may look at the checkpoint of a query that runs; only ``--drop-savepoint``
writes, for which the query must be stopped. A query that runs also removes files that it no longer needs; a
file that disappears meanwhile is not counted as damage if the journal has moved on.

Exit codes: 0 all files are intact, 1 a file is damaged or missing, 2 the folder is not a checkpoint.
"""

import argparse
import os
import re
import socket
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from time import time
from typing import TYPE_CHECKING, Any, Final

from pointstamp.errors import FlowError, PointstampError, RecoveryError, StorageError, UsageError

if TYPE_CHECKING:
    from pointstamp.connectors.source import Position, Source, Unit
    from pointstamp.journal.entries import GenerationStarted
    from pointstamp.journal.history import Committed, Entry, SnapshotChain
    from pointstamp.journal.journal import Journal
    from pointstamp.journal.ledger import Ledger
    from pointstamp.storage.port import Storage

SHOWN_MAX: Final = 20


def add_to(add_parser: Callable[..., argparse.ArgumentParser]) -> None:
    """Add the subcommand."""
    parser = add_parser(
        "snapshots",
        help="list the snapshots of a checkpoint, and verify every file",
        description="Lists the generations, snapshots, savepoints and retained ticks of a checkpoint, and "
        "verifies the checksum of every file. It changes nothing, and may be used while the query runs.",
        allow_abbrev=False,
    )
    parser.add_argument("path", metavar="PATH", help="the checkpoint: a folder, or any address of fsspec's")
    parser.add_argument("--all", action="store_true", help=f"list more than {SHOWN_MAX} snapshots")
    parser.add_argument(
        "--drop-savepoint",
        metavar="NAME",
        help="drop a savepoint of a stopped query, with the files that only it needs",
    )
    parser.set_defaults(command=parser, run=_run)


def _run(arguments: argparse.Namespace) -> int:
    from pointstamp.storage.anywhere import storage_at

    storage = storage_at(arguments.path)
    if not storage.list("journal/"):
        raise UsageError(
            f"snapshots: {arguments.path} is not a checkpoint: it holds no journal. Give the folder that "
            "was given as checkpoint=, or with --checkpoint."
        )
    if arguments.drop_savepoint is not None:
        found = _Found(storage)
        _drop(storage, arguments.drop_savepoint, found.query, found.generations, found.inputs())
        _print([f"savepoint '{arguments.drop_savepoint}' is dropped"])
        return 0
    for _ in range(3):
        before = storage.list("journal/")
        found = _Found(storage)
        if not found.damages or storage.list("journal/") == before:
            break  # else a query has moved on while this was reading
    _print(found.lines(None if arguments.all else SHOWN_MAX))
    _print([found.verdict()])
    return 1 if found.damages else 0


class _Found:
    """The contents of a checkpoint, read once at construction."""

    def __init__(self, storage: "Storage") -> None:
        from pointstamp.query.start_checks import known_query_id

        self._storage = storage
        self.damages: list[str] = []
        self.files = 0
        self.query = known_query_id(storage)
        self.generations = list(self._read_journal())
        self._ledger = self._read_ledger()
        self._whole = self._verify_parts()

    def lines(self, snapshots_max: int | None) -> Iterator[str]:
        """The contents as text."""
        ledger = self._ledger
        if ledger is not None and ledger.shape is not None:
            yield f"checkpoint of flow '{ledger.shape.name}', query {ledger.shape.query}"
        yield f"\ngenerations: {len(self.generations)}"
        yield from (f"  {each}" for each in self.generations[-SHOWN_MAX:])
        if ledger is None:
            return
        yield f"\nsnapshots: {len(ledger.commits)}"
        yield from self._table(ledger.commits, snapshots_max)
        if ledger.savepoints:
            yield f"\nsavepoints: {len(ledger.savepoints)}"
            yield from self._table([savepoint.commits[-1] for savepoint in ledger.savepoints], None)
        yield from self._kept()
        ticks = ledger.ticks
        kept = f", {ticks[0].number} to {ticks[-1].number}" if ticks else ""
        again = len(ledger.ticks_after(self._newest_whole()))
        yield f"\nticks retained: {len(ticks)}{kept}; {again} to be read again after a restart"

    def _kept(self) -> Iterator[str]:
        """The state of operators as of the last snapshot, the largest first."""
        last = None if self._ledger is None else self._ledger.committed
        if last is None or not last.kept:
            return
        yield f"\nkept after epoch {last.epoch}, by operator and what it is:"
        largest = sorted(last.kept.items(), key=lambda item: -item[1][1])
        width = max(len(name) for name, _ in largest)
        for name, (rows, size) in largest:
            yield f"  {name:<{width}}  {rows:>14,} rows  {size:>16,} bytes"

    def verdict(self) -> str:
        """The last line: whether everything is complete, and from where a query would continue."""
        chain = self._newest_whole()
        on = f"it continues after epoch {chain.epoch}" if chain is not None else "it begins at the beginning"
        if not self.damages:
            return f"\nall {self.files} files are whole; {on}"
        if self._ledger is None or (chain is None and self._ledger.commits):
            on = "nothing is left to resume from"
        said = "\n".join(f"damaged: {each}" for each in self.damages)
        return f"\n{said}\n{len(self.damages)} of {self.files} files are damaged; {on}"

    # Reading.

    def _read_journal(self) -> "Iterator[GenerationStarted]":
        """Every entry on its own: those before a summary tell of older generations."""
        import msgspec

        from pointstamp.journal.entries import EntryNumber, GenerationStarted, decoded, entry_of
        from pointstamp.journal.history import Entry

        decoder: Any = msgspec.msgpack.Decoder(Entry)
        for name in self._storage.list("journal/"):
            self.files += 1
            number = name.removeprefix("journal/")
            try:
                stored = decoded(self._storage.read(name), EntryNumber(int(number)), name, self.query)
                entry = entry_of(stored, decoder, name)
            except (PointstampError, ValueError) as error:
                self.damages.append(str(error))
                continue
            if isinstance(entry, GenerationStarted):
                yield entry

    def _read_ledger(self) -> "Ledger | None":
        from pointstamp.journal.ledger import Ledger

        journal = self._journal()
        try:
            return Ledger(journal, self.inputs())
        except RecoveryError as error:
            if not self.damages:  # else it is the same damage in other words
                self.damages.append(str(error))
            return None

    def inputs(self) -> "dict[str, Source]":
        """The inputs that the journal knows of, with nothing behind them."""
        from pointstamp.journal.history import JournalSummary, Ticked, each_of

        inputs: set[str] = set()
        for entry in (each for stored in self._journal().entries() for each in each_of(stored)):
            if isinstance(entry, Ticked):
                inputs.update(entry.units)
            elif isinstance(entry, JournalSummary):
                inputs.update(entry.positions)
        return dict.fromkeys(inputs, _NoSource())

    def _journal(self) -> "Journal[Entry]":
        from pointstamp.journal.history import Entry
        from pointstamp.journal.journal import Journal

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that a storage is not exclusive matters to drivers
            journal: Journal[Entry] = Journal.open(self._storage, Entry, query=self.query)
        return journal

    def _verify_parts(self) -> set[str]:
        """The names of the parts that are complete."""
        from pointstamp.journal.snapshot_parts import decode_part, read_part

        whole: set[str] = set()
        for part in self._ledger.parts_needed() if self._ledger is not None else ():
            self.files += not part.content
            try:
                decode_part(read_part(part, self._storage), part, self.query)
                whole.add(part.name)
            except StorageError as error:
                self.damages.append(str(error))
        return whole

    def _newest_whole(self) -> "SnapshotChain | None":
        chains = self._ledger.chains() if self._ledger is not None else []
        names = ((chain, [part.name for link in chain.parts() for part in link]) for chain in chains)
        return next((chain for chain, parts in names if self._whole.issuperset(parts)), None)

    # Words.

    def _table(self, commits: "Sequence[Committed]", shown_max: int | None) -> Iterator[str]:
        shown = commits if shown_max is None else commits[-shown_max:]
        if not shown:
            return
        if len(shown) < len(commits):
            yield f"  ... {len(commits) - len(shown):,} earlier; --all lists them"
        cells = [("epoch", "holds", "workers", "bytes", "written", ""), *map(self._row, shown)]
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        for row in cells:
            numbers = (0, 2, 3)
            padded = (
                cell.rjust(width) if place in numbers else cell.ljust(width)
                for place, (cell, width) in enumerate(zip(row, widths, strict=True))
            )
            yield ("  " + "  ".join(padded)).rstrip()

    def _row(self, commit: "Committed") -> tuple[str, ...]:
        is_whole = all(part.name in self._whole for part in commit.parts)
        remarks = [*([f"savepoint '{commit.savepoint}'"] if commit.savepoint else [])]
        remarks += [] if is_whole else ["DAMAGED"]
        return (
            str(commit.epoch),
            "everything" if commit.is_whole else "changes",
            str(len(commit.parts)),
            f"{sum(part.size_bytes for part in commit.parts):,}",
            self._written(commit),
            ", ".join(remarks),
        )

    def _written(self, commit: "Committed") -> str:
        """The time of the last write, if the storage is a folder."""
        try:
            at = max(Path(self._storage.address, part.name).stat().st_mtime for part in commit.parts)
        except (OSError, ValueError):
            return "-"
        return datetime.fromtimestamp(at, UTC).isoformat(sep=" ", timespec="seconds").removesuffix("+00:00")


class _NoSource:
    """Stands for every source of a ledger that is only inspected, so its position is never read."""

    units_per_tick = None

    def after(self, position: "Position", unit: "Unit") -> "Position":
        """Nowhere."""
        del position, unit

    def watch(self, position: "Position", *, available_now: bool = False) -> Any:  # noqa: ANN401
        """Never called."""
        raise NotImplementedError

    def read(self, part: Any, schema: Any) -> Any:  # noqa: ANN401
        """Never called."""
        raise NotImplementedError

    def describe(self) -> str:
        """A description for messages."""
        return "no source"


def _print(lines: "Iterator[str] | Sequence[str]") -> None:
    sys.stdout.write("".join(f"{line}\n" for line in lines))


# Dropping a savepoint of a query that is stopped.
#
# It takes the journal over, as a driver does, and so would end a query that runs. A query of this host whose
# process is alive is not touched: it can do this itself. Queries on other hosts cannot be seen from here.

_OWNER: Final = re.compile(r"process (\d+) on (.*)")  # as a driver calls itself


def _drop(
    storage: "Storage",
    name: str,
    query: str,
    generations: "Sequence[GenerationStarted]",
    inputs: "Mapping[str, Source]",
) -> None:
    """Drop a savepoint, unless a process of this host may be at work on the checkpoint."""
    from pointstamp.query.savepoints import drop_savepoint

    here = socket.gethostname()
    for last in generations[-1:]:
        found = _OWNER.fullmatch(last.owner)
        if found is not None and found[2] == here and _is_alive(int(found[1])):
            raise UsageError(
                f"snapshots: {last} may be running on {storage.address}, and this command would fence it. "
                f"Stop that process first, or let it drop the savepoint: query.drop_savepoint({name!r})."
            )
    try:
        drop_savepoint(storage, inputs, query, name, owner=f"process {os.getpid()} on {here}", at=time())
    except FlowError as error:
        raise UsageError(f"snapshots: {error}") from error


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass  # it is somebody else's
    return True
