"""The rows of one file as Arrow batches that fit a schema: Parquet, Arrow IPC, CSV, JSON lines.

A file may have more columns than the schema asks for; those are not read. Columns of Parquet and Arrow have
types, and must fit as in ``pointstamp.rows.schema``. Those of CSV and JSON are read as the types that
the schema declares, because such files say nothing of types: a code "007" must not become the number 7.

- CSV has a header line. An empty field is null, a quoted empty one is the empty string, and no word such as
  NA means null. Values may hold line breaks.
- JSON is one object a line. What an object leaves out is null.
- A CSV or JSON file of no bytes has no rows.

Invariant: the same part and schema give the same rows in the same order, or an error: a file whose size or
identity has changed since it was found is refused. A share ``(k, n)`` is the k-th of n runs of row groups
(Parquet) or record batches (Arrow), so the n shares are together every row once.

Errors name the source, the file and, where one is to blame, the column.
"""

import csv
import io
import re
from collections.abc import Callable, Iterator
from pathlib import PurePosixPath
from typing import Any, Final

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from pointstamp.errors import SchemaError, SourceError, StorageError
from pointstamp.rows.schema import check_asked, fit
from pointstamp.sources.folder import Folder, Handle
from pointstamp.sources.json_lines import json_lines
from pointstamp.sources.port import Part

_BLOCK_BYTES: Final = 8 * 1024 * 1024  # also the longest line of CSV or JSON that can be read
_HEADER_BYTES_MAX: Final = 1024 * 1024

_CODECS: Final = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd", ".lz4": "lz4"}

_Reader = Callable[[Handle, Part, pa.Schema, str], Iterator[pa.RecordBatch]]


def read_file(
    folder: Folder, part: Part, format_name: str, schema: pa.Schema, who: str
) -> Iterator[pa.RecordBatch]:
    """The rows of a part, in batches that are not empty."""
    try:
        with folder.open(part.locator) as handle:
            if handle.size() != part.size_bytes:
                raise StorageError(
                    f"{who}: it had {part.size_bytes} bytes when it was found and has {handle.size()} now. "
                    "Files must appear whole and stay as they are: write elsewhere, then rename."
                )
            if part.identity is not None and folder.identity(part.locator, handle) != part.identity:
                raise StorageError(
                    f"{who}: its content has changed since it was found, and its size is still "
                    f"{part.size_bytes} bytes. Files must stay as they are until what was computed from them "
                    "is committed."
                )
            for batch in _READERS[format_name](handle, part, schema, who):
                if batch.num_rows:
                    yield fit(batch, schema, who)
    except FileNotFoundError as error:
        raise StorageError(
            f"{who}: it was found, but is not there any more. Keep files until what was computed from them "
            "is committed."
        ) from error
    except OSError as error:
        # Arrow says so of bytes that it cannot decode, too.
        if error.errno is None and _is_readable(folder, part):
            raise _corrupt(who, format_name, error) from error
        raise StorageError(f"{who}: it cannot be read: {_line(error)}.") from error
    except pa.ArrowException as error:
        raise _corrupt(who, format_name, error) from error


def _corrupt(who: str, format_name: str, error: Exception) -> SourceError:
    """The error for an unchanged file that cannot be decoded: trying again will not help."""
    return SourceError(
        f"{who}: it cannot be read as {format_name}: {_line(error)}. Files must appear whole: write "
        "elsewhere, then rename. To go on without this file, name it in ps.files(..., skip=[...])."
    )


def _is_readable(folder: Folder, part: Part) -> bool:
    """Whether all bytes of a file can be read, whatever they mean."""
    try:
        with folder.open(part.locator) as handle:
            while handle.read(_BLOCK_BYTES):
                pass
    except OSError:
        return False
    return True


def _parquet(handle: Handle, part: Part, schema: pa.Schema, who: str) -> Iterator[pa.RecordBatch]:
    # Spark's old times (INT96) are read as nanoseconds unless told, and those end in 2262.
    file = pq.ParquetFile(handle, coerce_int96_timestamp_unit="us")
    _check_columns(file.schema_arrow.names, schema, who)
    groups = _run(file.num_row_groups, part)
    if groups:
        yield from file.iter_batches(row_groups=groups, columns=schema.names)


def _arrow(handle: Handle, part: Part, schema: pa.Schema, who: str) -> Iterator[pa.RecordBatch]:
    names = pa.ipc.open_file(handle).schema.names
    _check_columns(names, schema, who)
    wanted = [names.index(name) for name in schema.names]
    file = pa.ipc.open_file(handle, options=pa.ipc.IpcReadOptions(included_fields=sorted(wanted)))
    for number in _run(file.num_record_batches, part):
        yield file.get_batch(number)


def _csv(handle: Handle, part: Part, schema: pa.Schema, who: str) -> Iterator[pa.RecordBatch]:
    if not part.size_bytes:
        return
    with _plain(handle, part) as text:
        header = _header(text.read(_HEADER_BYTES_MAX))
    _check_columns(header, schema, who)
    handle.seek(0)
    convert = pa_csv.ConvertOptions(
        column_types=schema,
        include_columns=schema.names,
        null_values=[""],
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
    )
    try:
        with _plain(handle, part) as text:
            yield from pa_csv.open_csv(
                text,
                read_options=pa_csv.ReadOptions(block_size=_BLOCK_BYTES),
                parse_options=pa_csv.ParseOptions(newlines_in_values=True),
                convert_options=convert,
            )
    except pa.ArrowException as error:
        words = re.sub(r"In CSV column #(\d+)", lambda found: _column(header, int(found[1])), _line(error))
        raise SchemaError(
            f"{who}: its rows do not have the declared types: {words}. Correct the file, or declare another "
            "type."
        ) from error


def _json(handle: Handle, part: Part, schema: pa.Schema, who: str) -> Iterator[pa.RecordBatch]:
    if not part.size_bytes:
        return
    try:
        yield from _json_rows(handle, part, schema)
    except pa.ArrowException as error:
        if str(error).startswith("Empty JSON"):
            return
        where = _json_culprit(handle, part, schema)
        raise SchemaError(
            f"{who}{where}: its objects do not have the declared types: {_line(error)}. Correct the file, or "
            "declare another type."
        ) from error


def _json_rows(handle: Handle, part: Part, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    handle.seek(0)
    with _plain(handle, part) as text:
        yield from json_lines(text, schema, _BLOCK_BYTES)


def _json_culprit(handle: Handle, part: Part, schema: pa.Schema) -> str:
    """The column that cannot be read, as a message names it; Arrow does not always say which it was."""
    if _reads(handle, part, pa.schema([])):
        for column in schema:
            if not _reads(handle, part, pa.schema([column])):
                return f", column '{column.name}'"
    return ""  # it is no JSON, whatever the columns


def _reads(handle: Handle, part: Part, schema: pa.Schema) -> bool:
    try:
        for _ in _json_rows(handle, part, schema):
            pass
    except pa.ArrowException:
        return False
    return True


_READERS: Final[dict[str, _Reader]] = {"parquet": _parquet, "arrow": _arrow, "csv": _csv, "json": _json}


def _plain(handle: Handle, part: Part) -> Any:  # noqa: ANN401  a pyarrow stream
    """The content of a file, decompressed if its name says that it is compressed; the handle stays open."""
    kept = pa.PythonFile(_Kept(handle), mode="r")
    codec = _CODECS.get(PurePosixPath(part.locator).suffix)
    return kept if codec is None else pa.CompressedInputStream(kept, codec)


class _Kept(io.RawIOBase):
    """A handle that Arrow's readers may close without closing it, so that it can be read once more."""

    def __init__(self, handle: Handle) -> None:
        self._handle = handle

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        data: bytes = self._handle.read(size if size >= 0 else None)
        return data


def _run(count: int, part: Part) -> list[int]:
    """The numbers that belong to a share, out of so many row groups or batches."""
    number, ways = part.share or (0, 1)
    return list(range(number * count // ways, (number + 1) * count // ways))


def _check_columns(names: list[str], schema: pa.Schema, who: str) -> None:
    check_asked(names, schema, who)
    if missing := [name for name in schema.names if name not in names]:
        raise SchemaError(
            f"{who}: the file has no column {_named(missing)}, which the input declares; it has "
            f"{_named(names)}. Declare what the files have, or leave this file out with pattern=."
        )
    if twice := [name for name in schema.names if names.count(name) > 1]:
        raise SchemaError(
            f"{who}: the file has more than one column {_named(twice)}. Rename one of them in the file."
        )


def _header(start: bytes) -> list[str]:
    text = start.decode("utf-8-sig", errors="replace")
    return next((line for line in csv.reader(io.StringIO(text, newline="")) if line), [])


def _column(header: list[str], number: int) -> str:
    return f"column '{header[number]}'" if number < len(header) else f"column {number}"


def _named(names: list[str]) -> str:
    return ", ".join(map(repr, names)) or "no column"


def _line(error: BaseException) -> str:
    return " ".join(str(error).split()).rstrip(".")
