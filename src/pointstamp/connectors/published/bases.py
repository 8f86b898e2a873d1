"""Bases: the accumulated rows of a published table after an epoch.

    <path>/_pointstamp/tables/<output>/<epoch>-<token>.json            which files, with their checksums
    <path>/_pointstamp/tables/<output>/<epoch>-<token>-<part>.parquet  rows with weights

An output that is a table is published as changes, and its value is their sum. A base is that sum after an
epoch, computed beside the query: a reader of the table takes the newest base up to the epoch that is
wanted, and adds the changes after it. A new one is made when there are about as many changed rows as the last
one has rows: so a row is written into bases about as often as it is changed, and a reader reads at most about
twice what is there.

A base is a shortcut and nothing else. The changes stay, and with them every epoch can be read; where a base
is gone, or is not as it was written, a reader takes an older one, or the changes from the first on. So
nothing here must be atomic but the object that names a base, and a maker that dies leaves only files that no
base names.
"""

import logging
import re
import secrets
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import pairwise
from typing import Final

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pointstamp.arrangement.consolidate import columns_without_weight
from pointstamp.arrangement.open_changes import check_table, is_changes, sum_of
from pointstamp.arrow.row_hashing import hash_columns
from pointstamp.connectors import staging
from pointstamp.connectors.files import partitions
from pointstamp.connectors.published.chain import FOLDER, PublishedMoment
from pointstamp.connectors.published.merging import CompactionPolicy, Stopped
from pointstamp.connectors.sink import Staged
from pointstamp.connectors.staging import EPOCH_COLUMN, folder_name
from pointstamp.errors import FlowError, NotStored, StorageError
from pointstamp.storage.port import Storage
from pointstamp.storage.sealed import seal_json, unseal_json

_log = logging.getLogger("pointstamp.connectors")

PLACE: Final = f"{FOLDER}/tables"
BASE_VERSION: Final = 1
CHANGES_MIN: Final = 10_000
"""So many changed rows are read faster than they are worth a base."""

_NAME: Final = re.compile(r"(?P<epoch>\d{12,})-(?P<token>[0-9a-f]{16})(-\d{5,}\.parquet|\.json)")


class Base(msgspec.Struct, frozen=True):
    """The accumulated rows of a table after an epoch: files of rows with their weights."""

    query: str
    output: str
    epoch: int
    rows: int
    parts: list[Staged]
    at_seconds: float


def bases(storage: Storage, query: str, output: str, through: int) -> Iterator[Base]:
    """The bases of a query's table up to an epoch, the newest first; without those that cannot be read."""
    for name in sorted(_manifests(storage, output), reverse=True):
        if int(_parsed(name)["epoch"]) > through:
            continue
        try:
            base = _read(storage, name)
        except (NotStored, StorageError) as error:
            _log.warning("a base of the table '%s' is ignored: %s", output, error)
            continue
        if base.query == query:
            yield base


def base_changes(storage: Storage, base: Base) -> list[pa.Table] | None:
    """The rows of a base, with weights; None if it is not as it was written."""
    made = []
    for part in base.parts:
        try:
            content = storage.read(part.path)
        except NotStored:
            return None  # a newer base has replaced it
        if (words := staging.damage(storage.address, part, content)) is not None:
            _log.warning("a base of the table '%s' is ignored: %s", base.output, words)
            return None
        made.append(staging.table_of(content))
    return made


class BaseKeeper:
    """Makes bases of the tables below a folder, and removes those that were replaced."""

    def __init__(
        self, storage: Storage, policy: CompactionPolicy, now_seconds: Callable[[], float], *, is_full: bool
    ) -> None:
        self._storage = storage
        self._policy = policy
        self._now_seconds = now_seconds
        self._is_full = is_full

    def turn(self, now: PublishedMoment, is_stopped: Callable[[], bool]) -> None:
        """Make a base of each table for which one is due, up to this moment."""
        for output, columns in now.outputs.items():
            schema = columns.schema()
            if is_changes(schema) and not is_stopped():
                own = [file for file in now.files if file.output == output]
                self._keep(now, output, schema, own, is_stopped)

    def _keep(
        self,
        now: PublishedMoment,
        output: str,
        schema: pa.Schema,
        changed: list[Staged],
        is_stopped: Callable[[], bool],
    ) -> None:
        last = next(bases(self._storage, now.query, output, now.epochs_through), None)
        after = -1 if last is None else last.epoch
        changed = [file for file in changed if file.last_epoch > after]
        rows = sum(file.rows for file in changed)
        least = 1 if self._is_full else max(CHANGES_MIN, 0 if last is None else last.rows)
        if rows >= least:
            try:
                self._make(now, output, schema, last, changed, is_stopped)
            except (FlowError, NotStored, StorageError) as error:
                # Readers will say so, with more about it.
                _log.warning("no base of the table '%s' was written: %s", output, error)
        self._remove_old(output)

    def _make(
        self,
        now: PublishedMoment,
        output: str,
        schema: pa.Schema,
        last: Base | None,
        changed: Sequence[Staged],
        is_stopped: Callable[[], bool],
    ) -> None:
        before = [] if last is None else last.parts
        after = -1 if last is None else last.epoch
        # In shares, so that no more is in memory than one of them and a file.
        count = 1 + sum(file.size_bytes for file in (*before, *changed)) // self._policy.file_bytes
        stem = f"{_place(output)}{now.epochs_through:012d}-{secrets.token_hex(8)}"
        own = pa.schema(list(schema)[1:])
        parts: list[Staged] = []
        for number in range(count):
            changes = []
            for file in (*before, *changed):
                if is_stopped():
                    raise Stopped
                table = self._table(file)
                if file not in before:
                    table = partitions.with_values(table, file.path, schema)
                    table = table.filter(pc.greater(table[EPOCH_COLUMN.name], after)).select(own.names)
                changes.append(_share(table, own, number, count))
            total = sum_of(changes, own)
            check_table(total, f"output '{output}'")
            parts.append(self._store(f"{stem}-{number:05d}.parquet", output, now.epochs_through, total))
        rows = sum(part.rows for part in parts)
        base = Base(now.query, output, now.epochs_through, rows, parts, self._now_seconds())
        name = f"{stem}.json"
        self._storage.create(name, seal_json(msgspec.json.encode(base), name, BASE_VERSION))

    def _table(self, file: Staged) -> pa.Table:
        content = self._storage.read(file.path)
        if (words := staging.damage(self._storage.address, file, content)) is not None:
            raise StorageError(words)
        return staging.table_of(content)

    def _store(self, path: str, output: str, epoch: int, total: pa.RecordBatch) -> Staged:
        content = staging.parquet(pa.Table.from_batches([total]))
        self._storage.create(path, content)
        return Staged(output, epoch, epoch, path, total.num_rows, len(content), zlib.crc32(content))

    def _remove_old(self, output: str) -> None:
        """Remove the bases that have been replaced for long enough, and what is left of those never made."""
        latest = self._now_seconds() - self._policy.keep_seconds
        made = [base for _, base in sorted(self._readable(output), key=lambda each: each[0])]
        replaced = [
            base.epoch
            for base, after in pairwise(made)
            if base.epoch < after.epoch and after.at_seconds <= latest
        ]
        if not replaced:
            return
        for path in self._storage.list(_place(output)):
            if int(_parsed(path)["epoch"]) <= replaced[-1]:
                self._storage.delete(path)

    def _readable(self, output: str) -> Iterator[tuple[str, Base]]:
        for name in _manifests(self._storage, output):
            with suppress(NotStored, StorageError):
                yield name, _read(self._storage, name)


def _share(table: pa.Table, schema: pa.Schema, number: int, count: int) -> pa.Table:
    """One of so many shares of rows; equal rows are in one share."""
    table = table.cast(schema)
    if count == 1 or not table.num_rows:
        return table
    (batch,) = table.combine_chunks().to_batches()
    shares = (hash_columns(batch, list(columns_without_weight(schema))) >> np.uint64(20)) % np.uint64(count)
    return table.filter(pa.array(shares == number))


def _read(storage: Storage, name: str) -> Base:
    try:
        return msgspec.json.decode(unseal_json(storage.read(name), name, BASE_VERSION), type=Base)
    except msgspec.DecodeError as error:
        raise StorageError(f"'{storage.address}/{name}' cannot be read as a base: {error}.") from error


def _place(output: str) -> str:
    return f"{PLACE}/{folder_name(output)}/"


def _parsed(path: str) -> re.Match[str]:
    found = _NAME.fullmatch(path.rpartition("/")[2])
    if found is None:
        raise StorageError(
            f"'{path}' is not the name of a base. Remove it: only pointstamp may write to this folder."
        )
    return found


def _manifests(storage: Storage, output: str) -> list[str]:
    return [name for name in storage.list(_place(output)) if name.endswith(".json")]
