"""Merge several files into one, with a name that identifies its commits.

    epochs-<first>-<last>-query-<tag>-compaction-<number>-<token>-<index>.parquet

The number is that of the compaction which will list it, if it is created; the token keeps apart two
compactors that make the same compaction. So it can be told from a name and a list whether a file may still be
needed.

The files are read one after the other and written in row groups, so that no more is in memory than the new
file, one of the old ones, and a row group.
"""

import re
import zlib
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from pointstamp.errors import NotStored
from pointstamp.sinks import files, hive
from pointstamp.sinks.compactions import Compaction
from pointstamp.sinks.files import Origin
from pointstamp.sinks.port import Staged
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
        ending = hive.blank_ending(hive.blank_columns(group[0].path))
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
    with pq.ParquetWriter(stream, hive.stored_schema(schema, first.path)) as writer:
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
    """Whether a file was there to be listed when a compaction was made, if it was to be listed ever.

    An epoch that the compaction holds is published, so a worker's file of that epoch which it does not list
    is none that will be published. A merged file was made for the compaction in its name, and none other
    begins to list it.
    """
    merged = _NAME.fullmatch(name)
    if merged is not None:
        return merged["tag"] == Origin(then.query, 0).tag and int(merged["number"]) <= then.number
    epoch = files.first_epoch(name, then.query)
    return epoch is not None and epoch <= then.epochs_through


def _table(storage: Storage, file: Staged) -> pa.Table:
    try:
        content = storage.read(file.path)
    except NotStored as error:
        raise Unreadable(file, str(error)) from error
    words = files.damage(storage.address, file, content)
    if words is not None:
        raise Unreadable(file, words)
    return files.table_of(content)
