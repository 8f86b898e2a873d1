"""Read published output without Spark, while more is being published.

``published_now`` says what there is, as the chain of manifests lists it; ``read_changes`` reads it into
Arrow tables, and compares each file with its checksum. Both see one moment: all commits up to some commit,
and none after it. All rows are read into memory; for more rows than that, use ``published_files`` or Spark.

A file may be replaced by a larger one with the same rows, and be removed after some time. A reader that finds
a file gone looks at the list again; only a file that is still listed then is lost.
"""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, TypeVar, overload

import pyarrow as pa
import pyarrow.compute as pc

from pointstamp.arrangement.open_changes import copies, rows_of_table, sum_of
from pointstamp.connectors import staging
from pointstamp.connectors.files import partitions
from pointstamp.connectors.published.bases import Base, base_changes, bases
from pointstamp.connectors.published.chain import moment_now
from pointstamp.connectors.sink import Staged
from pointstamp.errors import FlowError, NotStored, StorageError
from pointstamp.redaction import redact
from pointstamp.storage.anywhere import storage_at, url_of
from pointstamp.storage.port import Storage

_TRIES_MAX: Final = 100
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class PublishedOutput:
    """An output: the columns of its files, the epoch first, and the files in the order of publication."""

    schema: pa.Schema
    files: list[Staged]


@dataclass(frozen=True, slots=True)
class Published:
    """The published output of one query at one moment."""

    query: str
    epochs_through: int
    is_complete: bool
    outputs: dict[str, PublishedOutput]


def published_now(
    path: str | os.PathLike[str],
    *,
    open_storage: Callable[[str], Storage] = storage_at,
    check_files: bool = True,
) -> Published:
    """Return the published commits of a folder, after a check of files and sizes."""

    def look(storage: Storage, found: Published) -> Published:
        for file in _files_of(found) if check_files else ():
            for problem in staging.missing(storage, [file]):
                if storage.size(file.path) is None:
                    raise _GoneError(file, problem)
                raise StorageError(f"{problem} It was removed or changed after it was published.")
        return found

    return _at_a_moment(path, open_storage, look)


def published_files(
    path: str | os.PathLike[str],
    output: str,
    *,
    after: int | None = None,
    open_storage: Callable[[str], Storage] = storage_at,
) -> list[str]:
    """Return the addresses of the files of a published output, for other readers of Parquet.

    The files are kept as long as the compaction policy of the sink sets. The partition columns of an output
    are in the names of the folders.

    Args:
        path: The folder of the published output.
        output: The name of the output.
        after (int, default None): Only files with rows of later epochs, which may also have earlier ones.
        open_storage: Opens the folder as a ``ps.ports.Storage``.

    Examples:
        >>> import tempfile
        >>> folder = tempfile.mkdtemp()
        >>> flow = ps.Dataflow("words")
        >>> flow.output("words", flow.stream_input("words", "word string"))
        >>> places = {"checkpoint": f"{folder}/state", "output": f"{folder}/out"}
        >>> flow.start(words=[[{"word": "so"}]], available_now=True, **places).await_termination()
        >>> len(ps.io.published_files(f"{folder}/out", "words"))
        1

    """
    found = published_now(path, open_storage=open_storage, check_files=False)
    address = url_of(open_storage(os.fspath(path)))
    chosen = _of(path, found, output).files
    return [f"{address}/{file.path}" for file in chosen if after is None or file.last_epoch > after]


@overload
def read_changes(
    path: str | os.PathLike[str],
    output: None = None,
    *,
    after: int | None = None,
    open_storage: Callable[[str], Storage] = storage_at,
) -> dict[str, pa.Table]: ...


@overload
def read_changes(
    path: str | os.PathLike[str],
    output: str,
    *,
    after: int | None = None,
    open_storage: Callable[[str], Storage] = storage_at,
) -> pa.Table: ...


def read_changes(
    path: str | os.PathLike[str],
    output: str | None = None,
    *,
    after: int | None = None,
    open_storage: Callable[[str], Storage] = storage_at,
) -> dict[str, pa.Table] | pa.Table:
    """Read the published rows of one output, or of all outputs by name, with their epochs.

    Args:
        path: The folder of the published output.
        output (str, default None): The name of an output. Default: all outputs.
        after (int, default None): Only rows of later epochs: the last epoch that you have read.
        open_storage: Opens the folder as a ``ps.ports.Storage``.

    Examples:
        >>> import tempfile
        >>> folder = tempfile.mkdtemp()
        >>> flow = ps.Dataflow("words")
        >>> flow.output("words", flow.stream_input("words", "word string"))
        >>> places = {"checkpoint": f"{folder}/state", "output": f"{folder}/out"}
        >>> flow.start(words=[[{"word": "so"}]], available_now=True, **places).await_termination()
        >>> ps.read_changes(f"{folder}/out", "words").to_pylist()
        [{'epoch': 0, 'word': 'so'}]

    """

    def read(storage: Storage, found: Published) -> dict[str, pa.Table] | pa.Table:
        if output is None:
            return {name: _table(storage, each, after) for name, each in found.outputs.items()}
        return _table(storage, _of(path, found, output), after)

    return _at_a_moment(path, open_storage, read)


def read_table(
    path: str | os.PathLike[str],
    output: str,
    *,
    as_of: int | None = None,
    open_storage: Callable[[str], Storage] = storage_at,
) -> pa.Table:
    """Read the accumulated rows of a published output that is a table, now or after an epoch.

    It reads about as much as the table has, and not the complete history: a query, and ``ps.io.compact``,
    also publish accumulated rows. All published epochs can be read.

    Args:
        path: The folder of the published output.
        output: The name of the output.
        as_of (int, default None): The epoch. Default: the last one.
        open_storage: Opens the folder as a ``ps.ports.Storage``.

    Examples:
        >>> import tempfile
        >>> folder = tempfile.mkdtemp()
        >>> flow = ps.Dataflow("words")
        >>> flow.output("counts", flow.table("words", "word string").count("word"))
        >>> places = {"checkpoint": f"{folder}/state", "output": f"{folder}/out"}
        >>> flow.start(words=[[{"word": "so"}]] * 3, available_now=True, **places).await_termination()
        >>> ps.read_table(f"{folder}/out", "counts").to_pylist()
        [{'word': 'so', 'count': 3}]

    """

    def read(storage: Storage, found: Published) -> pa.Table:
        whole: list[pa.Table] = []

        def use(base: Base) -> bool:
            rows = base_changes(storage, base)
            whole.extend(rows or ())
            return rows is not None

        parts = table_parts(storage, path, found, output, as_of, use)
        later = PublishedOutput(parts.schema, parts.files)
        changes = [
            each.filter(pc.less_equal(each["epoch"], parts.epoch)).drop_columns(["epoch"])
            for each in _parts(storage, later, None if parts.base is None else parts.base.epoch)
        ]
        total = sum_of([*whole, *changes], pa.schema(list(parts.schema)[1:]))
        return copies(total, f"output '{output}' in '{redact(path)}'")

    return _at_a_moment(path, open_storage, read)


def files_of_epoch(storage: Storage, path: str, output: str, epoch: int) -> list[Staged]:
    """The files that hold the rows of an epoch now."""
    own = _of(path, _found(storage, path), output)
    return [file for file in own.files if file.first_epoch <= epoch <= file.last_epoch]


@dataclass(frozen=True, slots=True)
class TableParts:
    """The parts of a table after an epoch: an optional base, and later files of changes."""

    schema: pa.Schema
    epoch: int
    base: Base | None
    files: list[Staged]


def table_parts(
    storage: Storage,
    path: str | os.PathLike[str],
    found: Published,
    output: str,
    as_of: int | None,
    use: Callable[[Base], bool],
) -> TableParts:
    """The parts of a table; ``use`` says whether a base can be used, and an older one is tried if not."""
    own = _of(path, found, output)
    rows_of_table(own.schema, f"output '{output}' in '{redact(path)}'")
    epoch = found.epochs_through if as_of is None else as_of
    if not 0 <= epoch <= found.epochs_through:
        raise FlowError(
            f"table '{output}' in '{redact(path)}': as_of must be an epoch from 0 to "
            f"{found.epochs_through}, got {as_of}. Ask for one of these."
        )
    base = next((each for each in bases(storage, found.query, output, epoch) if use(each)), None)
    after = -1 if base is None else base.epoch
    later = [file for file in own.files if file.last_epoch > after and file.first_epoch <= epoch]
    return TableParts(own.schema, epoch, base, later)


class _GoneError(Exception):
    """A file is not there."""

    def __init__(self, file: Staged, words: str) -> None:
        super().__init__(words)
        self.file = file


def _at_a_moment(
    path: str | os.PathLike[str],
    open_storage: Callable[[str], Storage],
    act: Callable[[Storage, Published], T],
) -> T:
    """Do something with what is published, and repeat it if files have been replaced meanwhile."""
    storage = open_storage(os.fspath(path))
    found = _found(storage, path)
    for _ in range(_TRIES_MAX):
        try:
            return act(storage, found)
        except _GoneError as error:
            gone, found = error, _found(storage, path)
            if gone.file in _files_of(found):
                raise StorageError(f"{gone} It was removed or changed after it was published.") from None
    raise StorageError(
        f"'{redact(path)}': files were replaced during the read, {_TRIES_MAX} times in a row. Keep "
        "replaced files for longer: CompactionPolicy(keep_seconds=...)."
    )


def _found(storage: Storage, path: str | os.PathLike[str]) -> Published:
    now = moment_now(storage, path)
    outputs = {name: PublishedOutput(columns.schema(), []) for name, columns in now.outputs.items()}
    for file in now.files:
        outputs[file.output].files.append(file)
    return Published(now.query, now.epochs_through, now.is_complete, outputs)


def _files_of(found: Published) -> Iterator[Staged]:
    return (file for output in found.outputs.values() for file in output.files)


def _of(path: str | os.PathLike[str], found: Published, output: str) -> PublishedOutput:
    if output not in found.outputs:
        there = ", ".join(f"'{name}'" for name in found.outputs)
        raise FlowError(
            f"'{redact(path)}' has the outputs {there}, but not '{output}'. Ask for one of these."
        )
    return found.outputs[output]


def _table(storage: Storage, output: PublishedOutput, after: int | None) -> pa.Table:
    parts = [pa.Table.from_batches([], schema=output.schema), *_parts(storage, output, after)]
    return pa.concat_tables(parts).combine_chunks()


def _parts(storage: Storage, output: PublishedOutput, after: int | None) -> Iterator[pa.Table]:
    for file in output.files:
        if after is not None and file.last_epoch <= after:
            continue
        try:
            table = partitions.with_values(content_of(storage, file), file.path, output.schema)
        except NotStored as error:
            raise _GoneError(file, str(error)) from error
        is_part = after is not None and file.first_epoch <= after
        yield table.filter(pc.greater(table["epoch"], after)) if is_part else table


def content_of(storage: Storage, file: Staged) -> pa.Table:
    """Return the content of a file, after a check of its checksum."""
    content = storage.read(file.path)
    if (words := staging.damage(storage.address, file, content)) is not None:
        raise StorageError(words)
    return staging.table_of(content)
