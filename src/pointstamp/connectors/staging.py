"""Stage Parquet files, one per output, worker and group of epochs.

Where rows are partitioned by columns, it is one per folder (``partitions``). A file is complete when
``stage`` returns; nothing here makes it visible. Its name says who wrote it: the first epoch, the worker, a
tag of the query, the generation. So two queries, or two generations of one, never write the same file, and
what a dead generation has left can be told from the names alone.

Files are made in memory and stored at once, because storage takes objects complete. Rows are brought to the
columns given (``schemas``), never cut: a value that a type cannot hold is an error.
"""

import hashlib
import re
import zlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple
from urllib.parse import quote

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from pointstamp.arrow.arrays import integers
from pointstamp.connectors.files import partitions as hive
from pointstamp.connectors.sink import Epochs, Staged, WriterBase
from pointstamp.errors import SchemaError
from pointstamp.optional import conforms
from pointstamp.storage.port import SizesAtOnce, Storage

EPOCH_COLUMN: Final = pa.field("epoch", pa.int64())
_THREADS_BYTES: Final = 1024 * 1024
_NAME: Final = re.compile(
    r"epoch-(?P<epoch>\d{12,})-worker-\d{5,}-query-(?P<tag>[0-9a-f]{16})-(?P<generation>\d{6,})(-blank-[0-9.]+)?"
    r"\.parquet"
)


class StagedFiles(WriterBase):
    """Stages the files of one worker; ``folders`` are where those of each output go, below the storage."""

    def __init__(
        self,
        storage: Storage,
        folders: Mapping[str, str],
        schemas: Mapping[str, pa.Schema],
        origin: "Origin",
        worker: int,
        layout: "FileLayout | None" = None,
    ) -> None:
        self._storage = storage
        self._folders = folders
        self._schemas = schemas
        self._origin = origin
        self._worker = worker
        self._layout = layout or FileLayout()

    def stage(self, output: str, epochs: Epochs, inline_bytes_max: int = 0) -> list[Staged]:
        """Write all rows of these epochs into one file per folder; no file if there are no rows.

        One that has no more bytes than ``inline_bytes_max`` is not stored: its piece holds it.
        """
        tables = {
            epoch: table
            for epoch, batches in sorted(epochs.items())
            if batches and (table := pa.Table.from_batches(batches)).num_rows
        }
        if not tables:
            return []
        with_epochs = [self._with_epoch(output, epoch, table) for epoch, table in tables.items()]
        columns = self._layout.columns.get(output, ())
        partitions = hive.split(output, pa.concat_tables(with_epochs), columns, self._layout.partitions_max)
        return [self._store(output, min(tables), each, inline_bytes_max) for each in partitions]

    def _store(self, output: str, epoch: int, partition: hive.Partition, inline_bytes_max: int) -> Staged:
        rows = partition.rows
        content = parquet(rows)
        name = self._origin.file_name(epoch, self._worker, partition.ending)
        path = f"{self._folders[output]}{partition.folder}/{name}"
        held = content if len(content) <= inline_bytes_max else b""
        if not held:
            # Created, not written: a name that is taken means that two processes think they are this worker.
            self._storage.create(path, content)
        # In the order of epochs, as they were put together.
        first, last = rows[EPOCH_COLUMN.name][0].as_py(), rows[EPOCH_COLUMN.name][-1].as_py()
        return Staged(output, first, last, path, rows.num_rows, len(content), zlib.crc32(content), held)

    def _with_epoch(self, output: str, epoch: int, table: pa.Table) -> pa.Table:
        try:
            fitted = table.cast(self._schemas[output])
        except (pa.ArrowInvalid, ValueError) as error:
            raise SchemaError(
                f"output '{output}' has values that the types of its files cannot hold: {error}. Round or "
                "cast them in the flow."
            ) from error
        epochs = integers(np.full(table.num_rows, epoch), EPOCH_COLUMN.type)
        return fitted.add_column(0, EPOCH_COLUMN, epochs)


class FileLayout(NamedTuple):
    """By which columns the files of each output are laid out in folders, and in how many at most."""

    columns: Mapping[str, tuple[str, ...]] = {}
    partitions_max: int = hive.PARTITIONS_MAX


class Origin(NamedTuple):
    """The writer of files: a query, in one of its generations."""

    query: str
    generation: int

    @property
    def tag(self) -> str:
        """The query's name as part of a file's name, whatever characters it has."""
        return hashlib.blake2b(self.query.encode(), digest_size=8).hexdigest()

    def file_name(self, epoch: int, worker: int, ending: str = "") -> str:
        """The name of the file with a worker's rows from this epoch on."""
        by = f"worker-{worker:05d}-query-{self.tag}-{self.generation:06d}"
        return f"epoch-{epoch:012d}-{by}{ending}.parquet"

    def supersedes(self, name: str, after: int) -> bool:
        """Whether an earlier generation of the query wrote a file of this name, of epochs after this one."""
        found = _NAME.fullmatch(name)
        return (
            found is not None
            and found["tag"] == self.tag
            and int(found["generation"]) < self.generation
            and int(found["epoch"]) > after
        )


def discard(
    storage: Storage, folders: Iterable[str], origin: Origin, keep: Collection[str], after: int = -1
) -> None:
    """Remove the files of earlier generations of the query, except those to keep and those of old epochs."""
    for folder in folders:
        for path in storage.list(f"{folder}/"):
            if path not in keep and origin.supersedes(path.rpartition("/")[2], after):
                storage.delete(path)


def first_epoch(name: str, query: str) -> int | None:
    """The first epoch in a file of this name, if a worker of the query wrote it."""
    found = _NAME.fullmatch(name)
    return int(found["epoch"]) if found is not None and found["tag"] == Origin(query, 0).tag else None


def damage(address: str, file: Staged, content: bytes) -> str | None:
    """Return the damage of a file's content as text; None if it is intact."""
    if len(content) == file.size_bytes and zlib.crc32(content) == file.crc32:
        return None
    return (
        f"'{address}/{file.path}' is not as it was published: it had {file.size_bytes} bytes with the CRC-32 "
        f"{file.crc32:08x}, and now has {len(content)} with {zlib.crc32(content):08x}. Restore it from a "
        "copy."
    )


def table_of(content: bytes) -> pa.Table:
    """The rows of a file."""
    # Threads cost a small file more than they give.
    return pq.ParquetFile(pa.BufferReader(content)).read(use_threads=len(content) > _THREADS_BYTES)


def missing(storage: Storage, files: Iterable[Staged]) -> Iterator[str]:
    """Yield the missing or altered files as text."""
    there = list(files)
    for file, size in zip(there, _sizes(storage, [file.path for file in there]), strict=True):
        if size != file.size_bytes:
            found = "is not there" if size is None else f"has {size} bytes"
            yield f"'{storage.address}/{file.path}' must have {file.size_bytes} bytes, but {found}."


def _sizes(storage: Storage, names: Sequence[str]) -> Iterable[int | None]:
    """The sizes of objects; a far storage is asked for all at once."""
    return storage.sizes(names) if conforms(storage, SizesAtOnce) else map(storage.size, names)


def file_schema(output: str, schema: pa.Schema) -> pa.Schema:
    """The columns of an output's files: the epoch, then its own."""
    if any(name.lower() == EPOCH_COLUMN.name for name in schema.names):
        raise SchemaError(
            f"output '{output}' has a column 'epoch', which is reserved for each row's epoch. Rename it "
            "in the flow."
        )
    return pa.schema([EPOCH_COLUMN, *schema])


def folder_name(name: str) -> str:
    """A folder's name for an output's name, whatever characters that has.

    >>> folder_name("components"), folder_name("../a b"), folder_name("_hidden")
    ('components', '%2E.%2Fa%20b', '%5Fhidden')
    """
    quoted = quote(name, safe="")
    # Spark does not see names that begin so; and "..", a name of an output, is another folder.
    return f"%{ord(quoted[0]):02X}{quoted[1:]}" if quoted[:1] in ("_", ".") else quoted


def parquet(table: pa.Table) -> bytes:
    """Rows as a file."""
    stream = pa.BufferOutputStream()
    pq.write_table(table, stream)
    content: bytes = stream.getvalue().to_pybytes()
    return content
