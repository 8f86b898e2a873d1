"""The published output of another query as a source: ``published(path, output)``.

This is how flows are composed: what one query publishes, epoch by epoch and exactly once, another one reads,
while both run and whichever of them dies. Completeness carries over. An epoch is a unit here once it is
published there, and a unit says that nothing before the epoch after it follows; so with ``epoch="epoch"``,
the column that every published output has, an epoch here is the same epoch there, and is complete here when
it was complete there. Without an epoch column each epoch with rows is a tick, as a file of a folder is.

There is a unit for each epoch that has rows, and one for the last epoch of each commit: epochs of event time
may be millions apart, and between them there is nothing to tell.

A unit can be read again as long as the output is there. A part names the files that held the rows of its
epoch when it was found; where these have been merged into others meanwhile, the rows of the epoch are read
out of the files that are there now, which are the same rows.

A position is the query whose output it is and the last epoch taken. Another query's output in its place is
refused: its epochs would not continue where these ended.
"""

import logging
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from time import monotonic
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa

from pointstamp.arrow.schema import check_undeclared, extra_of, fit
from pointstamp.connectors.files import partitions
from pointstamp.connectors.files.inotify import FolderEvents, can_watch
from pointstamp.connectors.published.chain import FOLDER, Chain, Compactions, moment
from pointstamp.connectors.published.reader import content_of, files_of_epoch
from pointstamp.connectors.sink import Staged
from pointstamp.connectors.source import (
    AllAtOnce,
    Identity,
    Part,
    Position,
    SourceBase,
    Unit,
    Watch,
    WatchBase,
    check_bytes_per_tick,
    options_of,
    share_of_bytes,
    units_with_bytes,
)
from pointstamp.errors import FlowError, NotStored, StorageError
from pointstamp.redaction import RedactedRepr, redact
from pointstamp.storage.anywhere import absolute_place, recorded_place, storage_at, url_of
from pointstamp.storage.local import LocalStorage
from pointstamp.storage.port import Storage

_TRIES_MAX: Final = 100
_LOOK_EVERY_SECONDS: Final = 0.1
_FAR_EVERY_SECONDS: Final = 1.0


# Extract the rows of single epochs from published files.
#
# A merged file holds thousands of epochs, and whoever catches up asks for one after the other. So the last
# file is remembered as it was decoded, with where each epoch begins: the next epoch is then a slice, and not
# the whole file again. One file is remembered, and only if it has several epochs.
#
# May be used by several threads: what is remembered is replaced as a whole, and never changed.


class FileByEpoch:
    """The rows of one file in the order of their epochs, and where each epoch begins."""

    def __init__(self, rows: pa.Table) -> None:
        epochs = rows.column("epoch").to_numpy()
        if (epochs[1:] < epochs[:-1]).any():
            order = np.argsort(epochs, kind="stable")
            rows, epochs = rows.take(order), epochs[order]
        self._rows = rows
        self.epochs, self._starts = np.unique(epochs, return_index=True)

    def of(self, epoch: int) -> pa.Table:
        """The rows of an epoch, in their order in the file."""
        at = int(np.searchsorted(self.epochs, epoch))
        if at == len(self.epochs) or self.epochs[at] != epoch:
            return self._rows.slice(0, 0)
        stop = self._starts[at + 1] if at + 1 < len(self._starts) else self._rows.num_rows
        return self._rows.slice(int(self._starts[at]), int(stop - self._starts[at]))


class EpochsOfFiles:
    """Reads files, and remembers the last one that has several epochs."""

    def __init__(self) -> None:
        self._last: tuple[tuple[str, str, int], FileByEpoch] | None = None

    def epochs(self, storage: Storage, file: Staged) -> list[int]:
        """The epochs that a file has rows of, in order; NotStored if it is gone."""
        if file.first_epoch == file.last_epoch:
            return [file.first_epoch]
        epochs: list[int] = self._file(storage, file).epochs.tolist()
        return epochs

    def rows(
        self, storage: Storage, files: Sequence[Staged], epoch: int, schema: pa.Schema, who: str
    ) -> list[pa.Table]:
        """The rows of an epoch out of files, in the columns of a schema that there are.

        SchemaError for a column that the schema does not declare and that looks like the change of a row.
        """
        found = [(file.path, self._file(storage, file).of(epoch)) for file in files]
        tables = []
        for path, rows in found:
            there = dict.fromkeys([*rows.schema.names, *partitions.values_of(path)])
            check_undeclared(there, schema.names, who, extra_of(schema), known=("epoch",))
            wanted = [_field(rows, schema, name) for name in schema.names if name in there]
            tables.append(partitions.with_values(rows, path, pa.schema(wanted)))
        return tables

    def _file(self, storage: Storage, file: Staged) -> FileByEpoch:
        key = (url_of(storage), file.path, file.crc32)
        last = self._last
        if last is not None and last[0] == key:
            return last[1]
        read = FileByEpoch(content_of(storage, file))
        if len(read.epochs) > 1:
            self._last = (key, read)
        return read


def _field(rows: pa.Table, schema: pa.Schema, name: str) -> pa.Field:
    """A column as the file has it, or, where only its path does, as it is asked for."""
    return rows.schema.field(name) if name in rows.schema.names else schema.field(name)


RECENT: Final = EpochsOfFiles()
"""The files that this process has read last: a merged file has many epochs and is read once for all."""

_log = logging.getLogger("pointstamp.query")


def published(
    path: str | os.PathLike[str],
    output: str,
    *,
    units_per_tick: int | None = 1,
    bytes_per_tick: int | None = None,
    storage_options: Mapping[str, Any] | None = None,
    moved_from: str | os.PathLike[str] | None = None,
) -> "PublishedSource":
    """Read the published output of another query as an input, epoch by epoch.

    Rows have the column ``epoch`` besides those of the output. Name it as the epoch column of the input
    (``epoch="epoch"``), and the epochs are those of the other query, also for several of its outputs. A table
    has the column ``diff``, a multiplicity.

    Args:
        path: The ``output=`` of the other query.
        output: The name of one of its outputs.
        units_per_tick (int, default 1): Maximum number of epochs per tick; None for no limit.
        bytes_per_tick (int, default None): Maximum number of bytes in the files of a tick, instead; at least
            one epoch is read.
        storage_options (Mapping[str, object], default None): What fsspec needs to open the path.
        moved_from (path, default None): The former path of the same output.

    Examples:
        >>> ps.io.published("/data/out", "counts").describe()
        "what is published in '/data/out' as 'counts'"

    """
    if units_per_tick is not None and units_per_tick < 1:
        raise FlowError(
            f"published {redact(path)!r}: units_per_tick must be at least 1, got {units_per_tick}. Give a "
            "larger number, or None for all available epochs."
        )
    # Workers may run in another folder than the driver, so a local path is made absolute here.
    check_bytes_per_tick(f"published {redact(path)!r}", bytes_per_tick)
    units_max = units_with_bytes(units_per_tick, bytes_per_tick)
    moved = None if moved_from is None else absolute_place(moved_from)
    options = dict(storage_options or {})
    return PublishedSource(absolute_place(path), output, units_max, options, bytes_per_tick, moved)


class _Place(msgspec.Struct, frozen=True, array_like=True):
    """The files with the rows of an epoch when it was found."""

    epoch: int
    files: list[Staged]


@dataclass(frozen=True, slots=True, repr=False)
class PublishedSource(SourceBase, RedactedRepr):
    """A source of published epochs; made by ``published``."""

    path: str
    output: str
    units_per_tick: int | None
    storage_options: Mapping[str, Any] = field(repr=False)  # it may hold keys
    bytes_per_tick: int | None = None
    moved_from: str | None = None

    def check(self) -> None:
        """Raise FlowError if the query there has no such output; one that has published nothing may yet."""
        last = Chain(self._storage()).last()
        if last is not None:
            _check_output(self, last.outputs)

    def watch(self, position: Position, *, available_now: bool = False) -> Watch:
        """Find the epochs after a position, those published and those to come."""
        watch = PublishedWatch(self, self._storage(), position)
        if not available_now:
            return watch
        try:
            return AllAtOnce([*watch.poll(), *watch.poll()])  # the second finds what was merged meanwhile
        finally:
            watch.close()

    def read(self, part: Part, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """The rows of one epoch, with the columns of the schema and no others."""
        place = msgspec.json.decode(part.locator, type=_Place)
        storage, who = self._storage(), f"{self.describe()}, epoch {place.epoch}"
        for table in self._rows(storage, place, schema):
            for batch in table.to_batches():
                yield fit(batch, schema.remove_metadata(), who)

    def _rows(self, storage: Storage, place: _Place, schema: pa.Schema) -> list[pa.Table]:
        """The rows of an epoch, where they were found or, once those files are merged, where they are now."""
        files = place.files
        for _ in range(_TRIES_MAX):
            try:
                return RECENT.rows(storage, files, place.epoch, schema, self.describe())
            except NotStored:
                before, files = files, files_of_epoch(storage, self.path, self.output, place.epoch)
                if files == before:
                    raise
        raise StorageError(
            f"{self.describe()}, epoch {place.epoch}: its files were replaced during the read, "
            f"{_TRIES_MAX} times in a row. Keep replaced files for longer: "
            "CompactionPolicy(keep_seconds=...)."
        )

    def after(self, position: Position, unit: Unit) -> tuple[str, int]:
        """The query and the epoch that the unit is of."""
        query, _, epoch = unit.name.rpartition(":")
        return query, int(epoch)

    def share_of_tick(self, unit: Unit) -> float:
        """Return the share of one tick that a unit takes."""
        return share_of_bytes(unit, self.bytes_per_tick)

    def identity(self) -> Identity:
        """Return the identity of this source, for the checkpoint."""
        place = recorded_place(self.path)
        return {"kind": "published output", "place": place, **options_of(self, "path")}

    def describe(self) -> str:
        """A description for messages."""
        return f"what is published in '{redact(self.path)}' as '{self.output}'"

    def _storage(self) -> Storage:
        return storage_at(self.path, **self.storage_options)


class PublishedWatch(WatchBase):
    """The epochs of a published output as they come, found by its chain of commits; for one thread."""

    is_refreshing: bool

    def __init__(
        self,
        source: PublishedSource,
        storage: Storage,
        position: Position,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._source = source
        self._storage = storage
        self._query: str | None = None if position is None else position[0]
        self._epoch: int = -1 if position is None else position[1]
        self._clock = clock
        self._look_at = clock()
        self._is_far = not isinstance(storage, LocalStorage)
        self._events: FolderEvents | None = None
        self._commit = -1
        self._found_at = clock()
        self._is_finished = False
        self._is_first = True
        self._is_looking_anew = False
        self.is_refreshing = False
        """Whether what was there at the last ``refresh`` may not have been returned yet."""

    def refresh(self) -> None:
        """Let the next poll look at what is published."""
        self.is_refreshing = not self._is_finished
        self._look_at = self._clock()

    def poll(self) -> list[Unit]:
        """The epochs published since the last call."""
        if self._is_finished or not self._is_due():
            return []
        self.is_refreshing = False
        first, self._is_first = self._is_first, False
        units: list[Unit] = []
        try:
            self._find(units)
        except NotStored as gone:
            self._look_anew(gone)
        if first and self._commit < 0 and not self._is_looking_anew:
            _log.info("%s: nothing is published yet; waiting for the first epoch.", self._source.describe())
        return units

    def fileno(self) -> int | None:
        """Return a file that becomes readable after a commit, if the kernel supports it."""
        return None if self._events is None else self._events.fileno()

    @property
    def is_finished(self) -> bool:
        """Whether the other query has come to its end, and everything was found."""
        return self._is_finished

    def waits_for(self) -> str:
        """The next epoch there, as text, and since when it has not come."""
        seconds = self._clock() - self._found_at
        if self._commit < 0:
            return f"{self._source.describe()}; nothing is there, for {seconds:.1f} seconds"
        return (
            f"epoch {self._epoch + 1} of {self._source.describe()}, by '{self._query}'; the last one was "
            f"found {seconds:.1f} seconds ago, and why no other follows that query can say"
        )

    def close(self) -> None:
        """Stop watching."""
        if self._events is not None:
            self._events.close()
            self._events = None

    def _is_due(self) -> bool:
        """Return whether to look: the kernel has told of something, or it is time."""
        is_told = False
        if self._events is not None:
            names, is_overflow = self._events.read()
            is_told = bool(names) or is_overflow
        elif not self._is_far:
            is_told = self._listen()
        now = self._clock()
        if not is_told and now < self._look_at:
            return False
        self._look_at = now + (_FAR_EVERY_SECONDS if self._is_far or self._events else _LOOK_EVERY_SECONDS)
        return True

    def _listen(self) -> bool:
        """Ask the kernel to tell of commits, once there is a folder for them; whether that began now."""
        folder = os.path.join(self._storage.address, FOLDER)
        if not (os.path.isdir(folder) and can_watch(folder)):
            return False
        try:
            self._events = FolderEvents(folder)
        except OSError:
            return False  # gone again, or no watch is left: looking at times finds the same
        return True

    def _find(self, units: list[Unit]) -> None:
        """Append what is published after the last epoch found: by all files at first, then by new commits."""
        if self._commit < 0:
            now = moment(self._storage, Compactions(self._storage).newest())
            if now is not None:
                self._check(now.query, now.outputs)
                units += self._units(now.files, now.epochs_through)
                self._commit, self._is_finished = now.commits_through, now.is_complete
            return
        chain = Chain(self._storage)
        if chain.newest() == self._commit:
            return
        for link in chain.links(after=self._commit):
            self._check(link.query, link.outputs)
            for commit in link.commits:
                if commit.number > self._commit:
                    units += self._units(commit.files, commit.epochs_through)
                    self._commit, self._is_finished = commit.number, commit.is_complete

    def _look_anew(self, gone: NotStored) -> None:
        """A file was merged into others before it was read: find it by the lists of all files, next time."""
        if self._is_looking_anew:
            raise StorageError(f"{self._source.describe()}: {gone} It is listed, but was removed.") from gone
        self._is_looking_anew, self._commit, self._look_at = True, -1, self._clock()

    def _units(self, files: Sequence[Staged], through: int) -> list[Unit]:
        """A unit for each epoch with rows after the last one found, and for the last epoch of all."""
        if through <= self._epoch:
            return []
        places: dict[int, list[Staged]] = {through: []}
        mine = [file for file in files if file.output == self._source.output]
        for file in (each for each in mine if each.last_epoch > self._epoch):
            for epoch in RECENT.epochs(self._storage, file):
                if epoch > self._epoch:
                    places.setdefault(epoch, []).append(file)
        found = [self._unit(epoch, places[epoch]) for epoch in sorted(places)]
        self._epoch, self._found_at, self._is_looking_anew = through, self._clock(), False
        return found

    def _unit(self, epoch: int, files: list[Staged]) -> Unit:
        locator = msgspec.json.encode(_Place(epoch, files)).decode()
        size_bytes = sum(each.size_bytes // (each.last_epoch - each.first_epoch + 1) for each in files)
        parts = (Part(locator, size_bytes),) if files else ()
        return Unit(f"{self._query}:{epoch}", parts, epoch, epoch + 1)

    def _check(self, query: str, outputs: Mapping[str, object]) -> None:
        if self._query is not None and query != self._query:
            raise StorageError(
                f"{self._source.describe()}: epochs up to {self._epoch} of query '{self._query}' were "
                f"read, but the output now belongs to query '{query}', whose epochs do not continue "
                "these. Restore the old output, or start with a new checkpoint."
            )
        self._query = query
        _check_output(self._source, outputs)


def _check_output(source: PublishedSource, outputs: Mapping[str, object]) -> None:
    if source.output not in outputs:
        there = ", ".join(f"'{name}'" for name in outputs)
        raise FlowError(
            f"'{source.path}' has the outputs {there}, but not '{source.output}'. Ask for one of these."
        )
