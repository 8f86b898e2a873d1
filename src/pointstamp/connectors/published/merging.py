"""Merge several files into one, with a name that identifies its commits.

    epochs-<first>-<last>-query-<tag>-compaction-<number>-<token>-<index>.parquet

The number is that of the compaction which will list it, if it is created; the token keeps apart two
compactors that make the same compaction. So it can be told from a name and a list whether a file may still be
needed.

The files are read one after the other and written in row groups, so that no more is in memory than the new
file, one of the old ones, and a row group.
"""

import math
import re
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from pointstamp.connectors import staging
from pointstamp.connectors.files import partitions
from pointstamp.connectors.files.partitions import blank_columns
from pointstamp.connectors.published.chain import Compaction
from pointstamp.connectors.sink import Staged
from pointstamp.connectors.staging import Origin
from pointstamp.errors import FlowError, NotStored
from pointstamp.storage.port import Storage

_ROW_GROUP_BYTES: Final = 16 * 1024 * 1024
_NAME: Final = re.compile(
    r"epochs-\d{12,}-\d{12,}-query-(?P<tag>[0-9a-f]{16})-compaction-(?P<number>\d{12,})-[0-9a-f]{16}-\d{5,}"
    r"(-blank-[0-9.]+)?\.parquet"
)


class Stopped(Exception):  # noqa: N818 - no error: it was asked for
    """The compactor was told to end."""


class Unreadable(Exception):  # noqa: N818 - it is said, and left alone
    """A file cannot be merged: it is gone, or not as it was written."""

    def __init__(self, file: Staged, words: str) -> None:
        super().__init__(words)
        self.file = file


class Maker(NamedTuple):
    """The origin of merged files: query, compaction and a unique token."""

    query: str
    compaction: int
    token: str

    def name(self, group: Sequence[Staged], index: int) -> str:
        """Return the file name of a group."""
        first, last = min(file.first_epoch for file in group), max(file.last_epoch for file in group)
        by = f"query-{Origin(self.query, 0).tag}-compaction-{self.compaction:012d}-{self.token}-{index:05d}"
        ending = partitions.blank_ending(partitions.blank_columns(group[0].path))
        return f"epochs-{first:012d}-{last:012d}-{by}{ending}.parquet"


def merge(
    storage: Storage,
    schema: pa.Schema,
    group: Sequence[Staged],
    name: str,
    is_stopped: Callable[[], bool],
) -> Staged:
    """Store the rows of files of one folder as one file; Unreadable where one of them is damaged."""
    first = group[0]
    stream = pa.BufferOutputStream()
    with pq.ParquetWriter(stream, partitions.stored_schema(schema, first.path)) as writer:
        waiting: list[pa.Table] = []
        size = 0
        for file in group:
            if is_stopped():
                raise Stopped
            waiting.append(_table(storage, file))
            size += waiting[-1].nbytes
            if size > _ROW_GROUP_BYTES:
                writer.write_table(pa.concat_tables(waiting))
                waiting, size = [], 0
        if waiting:
            writer.write_table(pa.concat_tables(waiting))
    content: bytes = stream.getvalue().to_pybytes()
    path = f"{first.path.rpartition('/')[0]}/{name}"
    storage.create(path, content)
    epochs = min(file.first_epoch for file in group), max(file.last_epoch for file in group)
    rows = sum(file.rows for file in group)
    return Staged(first.output, *epochs, path, rows, len(content), zlib.crc32(content))


def is_no_newer(name: str, then: Compaction) -> bool:
    """Return whether a file was there to be listed when a compaction was made, if it was to be listed ever.

    An epoch that the compaction holds is published, so a worker's file of that epoch which it does not list
    is none that will be published. A merged file was made for the compaction in its name, and none other
    begins to list it.
    """
    merged = _NAME.fullmatch(name)
    if merged is not None:
        return merged["tag"] == Origin(then.query, 0).tag and int(merged["number"]) <= then.number
    epoch = staging.first_epoch(name, then.query)
    return epoch is not None and epoch <= then.epochs_through


def _table(storage: Storage, file: Staged) -> pa.Table:
    try:
        content = storage.read(file.path)
    except NotStored as error:
        raise Unreadable(file, str(error)) from error
    words = staging.damage(storage.address, file, content)
    if words is not None:
        raise Unreadable(file, words)
    return staging.table_of(content)


# Choose the files to merge: adjacent ones of similar size.
#
# Files are taken in the order of their epochs, so that each holds the epochs of some time, and by size in
# *tiers*: a tier ends where a file has less than a part of the rows of the largest one left. Enough files in
# a tier become one of the next. So a row is written about once for each tier that it rises through, and n
# epochs are files in the order of log n, each tier having fewer than ``files``. A merge of everything that is
# small, whenever something new is there, would write a row n times; one of files that are not neighbours
# would let a reader of the last epochs read all of them.
#
# Rows say how large a file is, not bytes: a Parquet file of one row has a thousand bytes, and so has one of
# ten. Bytes say when it is large enough to be left alone.

_TIER: Final = 0.75
"""The size range of a tier below its largest file, in powers of ``files``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionPolicy:
    """Policy: when published files are merged, and how long replaced files are kept.

    Attributes:
        files: The number of files of about the same size that become one.
        file_bytes: A file of half of this size is merged no more; one turn reads no more than this.
        keep_seconds: How long replaced files are kept for readers that still need them.
        pause_seconds: The shortest time between two turns.

    Examples:
        >>> sink = ps.io.ParquetSink("/data/out", compaction=ps.io.CompactionPolicy(files=8))

    """

    files: int = 8
    file_bytes: int = 64 * 1024 * 1024
    keep_seconds: float = 24 * 3600.0
    pause_seconds: float = 1.0

    def __post_init__(self) -> None:
        if self.files < 2 or self.file_bytes < 1:
            raise FlowError(
                f"compaction: files must be at least 2 and file_bytes at least 1, got files={self.files} "
                f"and file_bytes={self.file_bytes}. Give larger values."
            )
        if self.keep_seconds < 0 or self.pause_seconds < 0:
            raise FlowError(
                f"compaction: keep_seconds and pause_seconds must be 0 or more, got {self.keep_seconds} "
                f"and {self.pause_seconds}. Give seconds."
            )


def chosen_groups(
    files: Sequence[Staged], policy: CompactionPolicy, *, is_full: bool = False
) -> list[list[Staged]]:
    """The groups of files to be merged, each into one; ``is_full`` takes all neighbours that fit together."""
    return [
        group
        for neighbours in _neighbours(files, policy)
        for run in ([neighbours] if is_full else _tiers(neighbours, policy.files))
        for group in _fitting(run, policy, 2 if is_full else policy.files)
    ]


def folder_of(file: Staged) -> tuple[str, str, tuple[int, ...]]:
    """The output and partition values that merged files must share."""
    return file.output, file.path.rpartition("/")[0], blank_columns(file.path)


def _neighbours(files: Sequence[Staged], policy: CompactionPolicy) -> Iterator[list[Staged]]:
    """Files of a folder that follow one another, with none between them that is large enough."""
    folders: dict[tuple[str, str, tuple[int, ...]], list[list[Staged]]] = {}
    for file in files:
        runs = folders.setdefault(folder_of(file), [[]])
        if 2 * file.size_bytes >= policy.file_bytes:
            runs.append([])
        else:
            runs[-1].append(file)
    for runs in folders.values():
        yield from runs


def _tiers(files: list[Staged], fanout: int) -> Iterator[list[Staged]]:
    """The files of each tier that has enough, with smaller ones that lie between."""
    levels = [math.log(max(1, file.rows), fanout) for file in files]
    start = 0
    while start < len(files):
        bottom = max(levels[start:]) - _TIER
        end = 1 + max(place for place in range(start, len(files)) if levels[place] >= bottom)
        if end - start >= fanout:
            yield files[start:end]
        start = end


def _fitting(run: list[Staged], policy: CompactionPolicy, least: int) -> Iterator[list[Staged]]:
    """Cut a run into groups that become one file each; files that are too few for a group stay."""
    group: list[Staged] = []
    size = 0
    for file in run:
        if size + file.size_bytes > policy.file_bytes:
            if len(group) > 1:
                yield group
            group, size = [], 0
        group.append(file)
        size += file.size_bytes
    if len(group) >= least:
        yield group
