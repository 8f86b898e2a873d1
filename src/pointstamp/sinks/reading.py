"""Reading what was published: whole epochs, without Spark, while more is being published.

``published`` says what there is, as the chain of manifests lists it; ``read_published`` reads it into Arrow
tables, and compares each file with its checksum. Both see one moment: all commits up to some one, and none
after it. Rows are read into memory whole; who has more of them takes the files from ``published``, or Spark.
"""

import os
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import overload

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pointstamp.errors import FlowError, StorageError
from pointstamp.sinks import files
from pointstamp.sinks.chain import FOLDER, Chain
from pointstamp.sinks.port import Staged
from pointstamp.storage.anywhere import storage_at
from pointstamp.storage.port import Storage


@dataclass(frozen=True, slots=True)
class PublishedOutput:
    """An output: the columns of its files, the epoch first, and the files in the order of publication."""

    schema: pa.Schema
    files: list[Staged]


@dataclass(frozen=True, slots=True)
class Published:
    """Everything that has been published at one moment, by one query."""

    query: str
    epochs_through: int
    is_complete: bool
    outputs: dict[str, PublishedOutput]


def published(
    path: str | os.PathLike[str],
    *,
    open_storage: Callable[[str], Storage] = storage_at,
    check_files: bool = True,
) -> Published:
    """What has been published in a folder; its files have been looked for, and have their sizes."""
    storage = open_storage(os.fspath(path))
    links = Chain(storage).links()
    if not links:
        raise FlowError(f"'{path}' holds no {FOLDER}/*.json: nothing has been published there.")
    outputs = {name: PublishedOutput(columns.schema(), []) for name, columns in links[-1].outputs.items()}
    for link in links:
        for commit in link.commits:
            for file in commit.files:
                outputs[file.output].files.append(file)
    last = links[-1].commits[-1]
    found = Published(links[-1].query, last.epochs_through, last.is_complete, outputs)
    if check_files:
        for problem in files.missing(storage, (file for each in outputs.values() for file in each.files)):
            raise StorageError(f"{problem} It was removed or changed after it was published.")
    return found


@overload
def read_published(
    path: str | os.PathLike[str],
    output: None = None,
    *,
    after: int | None = None,
    open_storage: Callable[[str], Storage] = storage_at,
) -> dict[str, pa.Table]: ...


@overload
def read_published(
    path: str | os.PathLike[str],
    output: str,
    *,
    after: int | None = None,
    open_storage: Callable[[str], Storage] = storage_at,
) -> pa.Table: ...


def read_published(
    path: str | os.PathLike[str],
    output: str | None = None,
    *,
    after: int | None = None,
    open_storage: Callable[[str], Storage] = storage_at,
) -> dict[str, pa.Table] | pa.Table:
    """The rows that have been published in a folder: of one output, or a table for each of them.

    With ``after``, only those of later epochs: whoever comes again gives the last epoch that it has seen.
    """
    found = published(path, open_storage=open_storage, check_files=False)
    storage = open_storage(os.fspath(path))
    if output is None:
        return {name: _table(storage, each, after) for name, each in found.outputs.items()}
    if output not in found.outputs:
        there = ", ".join(f"'{name}'" for name in found.outputs)
        raise FlowError(f"'{path}' has the outputs {there}, and not '{output}'. Ask for one of these.")
    return _table(storage, found.outputs[output], after)


def _table(storage: Storage, output: PublishedOutput, after: int | None) -> pa.Table:
    parts = [pa.Table.from_batches([], schema=output.schema), *_parts(storage, output.files, after)]
    return pa.concat_tables(parts).combine_chunks()


def _parts(storage: Storage, chosen: list[Staged], after: int | None) -> Iterator[pa.Table]:
    for file in chosen:
        if after is not None and file.last_epoch <= after:
            continue
        content = storage.read(file.path)
        if len(content) != file.size_bytes or zlib.crc32(content) != file.crc32:
            raise StorageError(
                f"'{storage.address}/{file.path}' is not as it was published: {file.size_bytes} bytes with "
                f"the CRC-32 {file.crc32:08x} were, {len(content)} with {zlib.crc32(content):08x} are there. "
                "Restore it from a copy."
            )
        table = pq.read_table(pa.BufferReader(content))
        is_part = after is not None and file.first_epoch <= after
        yield table.filter(pc.greater(table["epoch"], after)) if is_part else table
