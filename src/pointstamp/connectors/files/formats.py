"""Read a file as Arrow batches of a schema: Parquet, Arrow IPC, CSV, JSON lines.

Columns are found by their exact names, or else by names that differ only in case, if there is one such
column. A file may have more columns than the schema asks for; those are not read
(``pointstamp.arrow.schema``). The values of folders such as ``day=2024-01-31`` are columns of the files in
them. Columns of Parquet and Arrow have types, and must fit as in ``pointstamp.arrow.schema``. Those of CSV
and JSON are read as the types that the schema declares, because such files say nothing of types: a code "007"
must not become the number 7.

- Parquet: times that Spark writes as INT96 are instants, as Spark reads them.
- CSV has a header line by default. An empty field is null, a quoted empty one is the empty string, and no
  word such as NA means null. Values may hold line breaks.
- JSON is one object a line. What an object leaves out is null.
- A timestamp in CSV or JSON without a zone is in UTC.
- A CSV or JSON file of no bytes has no rows.
- Text must be UTF-8 in every format.

Invariant: the same part and schema give the same rows in the same order, or an error: a file whose size or
identity has changed since it was found is refused. A share ``(k, n)`` is the k-th of n runs of row groups
(Parquet) or record batches (Arrow), so the n shares are together every row once.

Errors name the source, the file and, where one is to blame, the line and the column.
"""

import csv
import io
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from pointstamp.arrow.schema import check_asked, check_text, check_undeclared, extra_of, fit
from pointstamp.connectors.files.folder import (
    Folder,
    Format,
    Handle,
    codec_of,
    delimiter_of,
    format_of,
    partition_values,
)
from pointstamp.connectors.json_lines import (
    change_keys,
    check_utf8,
    deletion_keys,
    json_lines,
    keys_of,
    refused_keys,
)
from pointstamp.connectors.source import Part
from pointstamp.errors import SchemaError, SourceError, StorageError

OnBadRow: TypeAlias = Literal["error", "drop", "keep"]

LINE_BYTES_MAX: Final = 64 * 1024 * 1024
"""The longest line of CSV or JSON that is read by default."""

ERROR: Final = "error"
FILE: Final = "file"

_BLOCK_BYTES: Final = 8 * 1024 * 1024
_BINARY: Final = ("parquet", "arrow")
_HEADER_BYTES_MAX: Final = 1024 * 1024
_SAMPLE_LINES: Final = 20
_ZONE: Final = r"\d[T ]\d\d[^+-]*(?:[zZ]|[+-]\d\d(?::?\d\d)?)\s*$"
_STRADDLES: Final = "straddling object"


@dataclass(frozen=True, slots=True)
class FileOptions:
    """Options of file formats; ``format`` is None if file names determine it."""

    format: Format | None = None
    delimiter: str | None = None
    quote: str | None = '"'
    header: bool = True
    on_bad: OnBadRow = "error"
    columns: Mapping[str, str] = field(default_factory=dict)
    line_bytes_max: int = LINE_BYTES_MAX


class ReadRows(NamedTuple):
    """Rows of a file, and why those are null that could not be read, by their place."""

    rows: pa.RecordBatch
    problems: Mapping[int, str]


@dataclass(frozen=True, slots=True)
class _Job:
    """The arguments of the reader of a format."""

    handle: Handle
    part: Part
    schema: pa.Schema
    """The columns that the file holds itself."""
    who: str
    options: FileOptions
    others: frozenset[str]
    """Declared columns that come from elsewhere."""
    wanted: pa.Schema

    def undeclared(self, names: Sequence[str], used: Sequence[str]) -> None:
        """Reject or report columns of the file that are not read."""
        left = [name for name in names if name not in used]
        source = self.who.partition(", file '")[0]
        check_undeclared(left, self.schema.names, source, extra_of(self.wanted), known=self.others)


_Reader: TypeAlias = Callable[[_Job], Iterator[ReadRows]]


def read_file(
    folder: Folder,
    part: Part,
    options: FileOptions,
    schema: pa.Schema,
    who: str,
    on_skipped: Callable[[int], None] = lambda count: None,
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a part in non-empty batches; ``on_skipped`` gets the number of skipped rows."""
    format_name = options.format or format_of(part.locator)
    values = partition_values(part.locator)
    others = frozenset((*values, *options.columns))
    own = pa.schema([column for column in schema if column.name not in others])
    plain = schema.remove_metadata()
    try:
        with folder.open(part.locator) as handle:
            if handle.size() != part.size_bytes:
                raise StorageError(
                    f"{who}: it had {part.size_bytes} bytes when it was listed, and now has "
                    f"{handle.size()}. Files must appear complete and never change: write to another "
                    "folder, then rename."
                )
            if part.identity is not None and folder.identity(part.locator, handle) != part.identity:
                raise StorageError(
                    f"{who}: its content has changed since it was listed; its size is still "
                    f"{part.size_bytes} bytes. Do not change a file until the epochs computed from it are "
                    "committed."
                )
            job = _Job(handle, part, own, who, options, others, schema)
            check_undeclared(values, schema.names, who.partition(", file '")[0], extra_of(schema))
            job_values = _typed_values(values, schema, who)
            for rows, problems in _READERS[format_name](job):
                if problems and options.on_bad == "drop":
                    on_skipped(len(problems))
                    is_good = pa.array([place not in problems for place in range(rows.num_rows)])
                    rows = rows.filter(is_good)
                    problems = {}
                if rows.num_rows:
                    batch = _completed(rows, problems, job, job_values)
                    fitted = fit(batch, plain, who)
                    if format_name in _BINARY:  # readers of text have looked at all of it
                        check_text(fitted, who)
                    yield fitted
    except FileNotFoundError as error:
        raise StorageError(
            f"{who}: it was listed, but no longer exists. Keep files until the epochs computed from them "
            "are committed."
        ) from error
    except OSError as error:
        # Arrow says so of bytes that it cannot decode, too.
        if error.errno is None and _is_readable(folder, part):
            raise _corrupt(who, format_name, error, options) from error
        raise StorageError(f"{who}: it cannot be read: {_line(error)}.") from error
    except pa.ArrowException as error:
        raise _corrupt(who, format_name, error, options) from error


def least_value(folder: Folder, name: str, column: str, options: FileOptions, who: str) -> Any:  # noqa: ANN401
    """The least value of a column in a file, for its place in an order; None for a file without rows.

    Text is read as what it looks like, because a source does not know the types that an input declares.
    """
    values = partition_values(name)
    if column in values:
        return values[column]
    format_name = options.format or format_of(name)
    try:
        with folder.open(name) as handle:
            found = _LEAST[format_name](handle, name, column, options)
    except (OSError, pa.ArrowException) as error:
        raise SourceError(
            f"{who}: order_by={column!r} cannot be decided, because the file cannot be read: {_line(error)}. "
            "Correct the file, or leave it out with skip=[...]."
        ) from error
    except KeyError:
        raise SourceError(
            f"{who}: order_by={column!r} cannot be decided, because the file has no column {column!r}. "
            "Choose a column of all files, or order_by='modified'."
        ) from None
    if found is None:
        return None
    least = found.as_py()
    if least is None:
        raise SourceError(
            f"{who}: order_by={column!r} cannot be decided, because the column has only nulls. Choose "
            "another column, or order_by='modified'."
        )
    return least


def _least_of(values: pa.ChunkedArray | pa.Array) -> pa.Scalar | None:
    return None if len(values) == 0 else pc.min(values)


def _least_parquet(handle: Handle, name: str, column: str, options: FileOptions) -> pa.Scalar | None:
    del name, options
    file = pq.ParquetFile(handle, coerce_int96_timestamp_unit="us")
    if column not in file.schema_arrow.names:
        raise KeyError(column)
    return _least_of(file.read([column]).column(0))


def _least_arrow(handle: Handle, name: str, column: str, options: FileOptions) -> pa.Scalar | None:
    del name, options
    return _least_of(pa.ipc.open_file(handle).read_all().column(column))


def _least_csv(handle: Handle, name: str, column: str, options: FileOptions) -> pa.Scalar | None:
    if not handle.size():
        return None
    convert = pa_csv.ConvertOptions(include_columns=[column])
    with _plain(handle, name) as text:
        return _least_of(
            pa_csv.read_csv(text, parse_options=_csv_parse(name, options), convert_options=convert).column(
                column
            )
        )


def _least_json(handle: Handle, name: str, column: str, options: FileOptions) -> pa.Scalar | None:
    lines: list[bytes] = []
    with _plain(handle, name) as text:
        for block in _line_blocks(text, options.line_bytes_max, name):
            lines += [line for line in block.text.splitlines() if line.strip()]
    if not lines:
        return None
    values = [json.loads(line).get(column) for line in lines]
    if all(value is None for value in values) and column not in keys_of(lines):
        raise KeyError(column)
    return _least_of(pa.array(values))


_LEAST: Final[dict[str, Callable[[Handle, str, str, FileOptions], pa.Scalar | None]]] = {
    "parquet": _least_parquet,
    "arrow": _least_arrow,
    "csv": _least_csv,
    "json": _least_json,
}


def _corrupt(who: str, format_name: str, error: Exception, options: FileOptions) -> SourceError:
    """The error for an unchanged file that cannot be decoded: trying again will not help."""
    guessed = "" if options.format else " If it has another format, set format=."
    return SourceError(
        f"{who}: it cannot be read as {format_name}: {_line(error)}. Files must appear whole: write "
        f"elsewhere, then rename.{guessed} To skip this file, name it in ps.io.files(..., skip=[...])."
    )


def _is_readable(folder: Folder, part: Part) -> bool:
    """Return whether all bytes of a file can be read, whatever they mean."""
    try:
        with folder.open(part.locator) as handle:
            while handle.read(_BLOCK_BYTES):
                pass
    except OSError:
        return False
    return True


# Columns that are not in the file.


def _typed_values(values: Mapping[str, str | None], schema: pa.Schema, who: str) -> dict[str, pa.Scalar]:
    """The values of a file's folders, as the types that are declared."""
    typed = {}
    for name, text in values.items():
        if name not in schema.names:
            continue
        kind = schema.field(name).type
        try:
            typed[name] = _from_text(pa.array([text], pa.string()), kind)[0]
        except pa.ArrowException as error:
            raise SchemaError(
                f"{who}: its folder is {name}={text}, but {name!r} is declared as {kind}: {_line(error)}. "
                "Declare the column as string, or rename the folder."
            ) from error
    return typed


def _completed(
    rows: pa.RecordBatch, problems: Mapping[int, str], job: _Job, values: Mapping[str, pa.Scalar]
) -> pa.RecordBatch:
    """Rows with the columns of the file's folders, its name and the reasons, in the declared order."""
    if len(job.schema) == len(job.wanted):
        return rows
    columns = []
    for column in job.wanted:
        known = job.options.columns.get(column.name)
        if known == ERROR:
            columns.append(pa.array([problems.get(place) for place in range(rows.num_rows)], pa.string()))
        elif known == FILE:
            columns.append(pa.repeat(pa.scalar(job.part.locator), rows.num_rows))
        elif column.name in values:
            columns.append(pa.repeat(values[column.name], rows.num_rows))
        else:
            columns.append(rows.column(column.name))
    return pa.RecordBatch.from_arrays(columns, names=job.wanted.names)


# Parquet and Arrow.


def _parquet(job: _Job) -> Iterator[ReadRows]:
    # Spark's old times (INT96) are read as nanoseconds unless told, and those end in 2262.
    file = pq.ParquetFile(job.handle, coerce_int96_timestamp_unit="us")
    used = _matched(file.schema_arrow.names, job)
    instants = _int96_columns(file)
    for group in _run(file.num_row_groups, job.part):
        if not used:
            yield ReadRows(_no_columns(file.metadata.row_group(group).num_rows), {})
            continue
        for batch in file.iter_batches(row_groups=[group], columns=list(dict.fromkeys(used))):
            columns = [
                _as_instants(batch.column(name), column.type) if name in instants else batch.column(name)
                for name, column in zip(used, job.schema, strict=True)
            ]
            yield ReadRows(pa.RecordBatch.from_arrays(columns, names=job.schema.names), {})


def _int96_columns(file: pq.ParquetFile) -> set[str]:
    """The columns with a time in the old encoding, which has no zone and means an instant."""
    leaves = [file.schema.column(number) for number in range(len(file.schema))]
    paths = [leaf.path for leaf in leaves if leaf.physical_type == "INT96"]
    return {name for name in file.schema_arrow.names for path in paths if f"{path}.".startswith(f"{name}.")}


def _as_instants(values: pa.Array, declared: pa.DataType) -> pa.Array:
    """Times without a zone as instants, where instants are declared; nested ones, too."""
    kind = _with_zones(values.type, declared)
    return values if kind == values.type else values.cast(kind)


def _with_zones(came: pa.DataType, declared: pa.DataType) -> pa.DataType:
    types = pa.types
    if types.is_timestamp(came) and types.is_timestamp(declared):
        return pa.timestamp(came.unit, declared.tz) if came.tz is None else came
    if types.is_struct(came) and types.is_struct(declared):
        inner = {each.name: each.type for each in declared}
        return pa.struct(
            [each.with_type(_with_zones(each.type, inner.get(each.name, each.type))) for each in came]
        )
    if types.is_list(came) and types.is_list(declared):
        element = came.value_field
        return pa.list_(element.with_type(_with_zones(element.type, declared.value_type)))
    if types.is_map(came) and types.is_map(declared):
        return pa.map_(
            _with_zones(came.key_type, declared.key_type), _with_zones(came.item_type, declared.item_type)
        )
    return came


def _arrow(job: _Job) -> Iterator[ReadRows]:
    names = pa.ipc.open_file(job.handle).schema.names
    used = _matched(names, job)
    wanted = sorted({names.index(name) for name in used})
    file = pa.ipc.open_file(job.handle, options=pa.ipc.IpcReadOptions(included_fields=wanted))
    for number in _run(file.num_record_batches, job.part):
        batch = file.get_batch(number)
        columns = [batch.column(name) for name in used]
        if not used:
            yield ReadRows(_no_columns(batch.num_rows), {})
            continue
        yield ReadRows(pa.RecordBatch.from_arrays(columns, names=job.schema.names), {})


# CSV.


def _csv_parse(name: str, options: FileOptions) -> pa_csv.ParseOptions:
    return pa_csv.ParseOptions(
        delimiter=options.delimiter or delimiter_of(name),
        quote_char=options.quote or False,
        newlines_in_values=options.quote is not None,
    )


def _csv(job: _Job) -> Iterator[ReadRows]:
    if not job.part.size_bytes:
        return
    options, name = job.options, job.part.locator
    header: list[str] = job.schema.names
    if options.header:
        with _plain(job.handle, name) as text:
            header = _header(text.read(_HEADER_BYTES_MAX), _csv_parse(name, options))
    used = _matched(header, job)
    given, block_bytes = 0, _BLOCK_BYTES
    while True:
        seen = 0
        try:
            for read in _csv_rows(job, header, used, block_bytes, is_strict=options.on_bad == "error"):
                seen += read.rows.num_rows
                if seen > given:  # what was given before a longer block was needed is not given twice
                    yield _last_of(read, seen - given)
                    given = seen
        except pa.ArrowInvalid as error:
            if _STRADDLES not in str(error):
                raise _csv_misfit(job, header, used, block_bytes, error) from error
            if block_bytes >= options.line_bytes_max:
                raise _long_line(job.who, f"a row after row {given + 1}", options.line_bytes_max) from error
            block_bytes = min(4 * block_bytes, options.line_bytes_max)
        else:
            return


def _csv_rows(
    job: _Job, header: Sequence[str], used: Sequence[str], block_bytes: int, *, is_strict: bool
) -> Iterator[ReadRows]:
    """The rows of a file with blocks of this size; an error is Arrow's, and there is none unless strict."""
    job.handle.seek(0)
    columns = list(zip(used, job.schema, strict=True))
    zoned = {name for name, column in columns if _has_zone(column.type)}
    kinds = {name: pa.string() if name in zoned else column.type for name, column in columns}
    convert = pa_csv.ConvertOptions(
        column_types=kinds if is_strict else dict.fromkeys(used, pa.binary()),
        include_columns=list(kinds),
        null_values=[""],
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
    )
    parse = _csv_parse(job.part.locator, job.options)
    torn: list[str] = []
    if not is_strict:
        parse.invalid_row_handler = lambda row: _note_torn(torn, row)
    names = None if job.options.header else list(header)
    read_options = pa_csv.ReadOptions(block_size=block_bytes, column_names=names)
    with _plain(job.handle, job.part.locator) as text:
        for batch in pa_csv.open_csv(text, read_options, parse, convert):
            if not columns:
                yield ReadRows(_no_columns(batch.num_rows), {})
            elif is_strict:
                arrays = [
                    _from_text(batch.column(name), column.type) if name in zoned else batch.column(name)
                    for name, column in columns
                ]
                yield ReadRows(pa.RecordBatch.from_arrays(arrays, names=job.schema.names), {})
            else:
                yield _converted(batch, columns, job.schema)
    if torn:
        rows = pa.RecordBatch.from_arrays(
            [pa.nulls(len(torn), each.type) for each in job.schema], job.schema.names
        )
        yield ReadRows(rows, dict(enumerate(torn)))


def _note_torn(torn: list[str], row: Any) -> str:  # noqa: ANN401 - pyarrow.csv.InvalidRow
    torn.append(f"it has {row.actual_columns} fields and not {row.expected_columns}: {row.text[:200]}")
    return "skip"


def _converted(batch: pa.RecordBatch, columns: Sequence[tuple[str, pa.Field]], schema: pa.Schema) -> ReadRows:
    """Bytes as the declared types; rows with a value that cannot be read are null, with the reason."""
    arrays: list[pa.Array] = []
    problems: dict[int, str] = {}
    for name, column in columns:
        array, wrong = _parsed(batch.column(name), column.type)
        arrays.append(array)
        for place, reason in wrong.items():
            problems.setdefault(place, f"column '{name}': {reason}")
    if problems:
        is_good = pa.array([place not in problems for place in range(batch.num_rows)])
        arrays = [pc.if_else(is_good, array, pa.scalar(None, array.type)) for array in arrays]
    return ReadRows(pa.RecordBatch.from_arrays(arrays, names=schema.names), problems)


def _parsed(values: pa.Array, kind: pa.DataType) -> tuple[pa.Array, dict[int, str]]:
    """Bytes as values of a type: all together, or where that fails each half by itself."""
    try:
        return _from_text(values if pa.types.is_binary(kind) else values.cast(pa.string()), kind), {}
    except pa.ArrowException as error:
        if len(values) == 1:
            return pa.nulls(1, kind), {0: f"{values[0].as_py()!r} is not {kind} ({_line(error)})"}
    half = len(values) // 2
    first, wrong = _parsed(values.slice(0, half), kind)
    second, more = _parsed(values.slice(half), kind)
    return pa.concat_arrays([first, second]), {**wrong, **{place + half: why for place, why in more.items()}}


def _from_text(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """Text as values of a type, as CSV has it: numbers and times may stand between spaces."""
    if kind == values.type or pa.types.is_string(kind) or pa.types.is_binary(kind):
        return values.cast(kind)
    trimmed = pc.utf8_trim_whitespace(values)
    if not _has_zone(kind):
        return trimmed.cast(kind)
    is_zoned = pc.match_substring_regex(trimmed, _ZONE)
    nothing = pa.scalar(None, pa.string())
    zoned = pc.if_else(is_zoned, trimmed, nothing).cast(kind)
    # Without a zone it is in UTC, as in JSON.
    plain = pc.if_else(is_zoned, nothing, trimmed).cast(pa.timestamp(kind.unit))
    return pc.coalesce(zoned, plain.cast(kind))


def _has_zone(kind: pa.DataType) -> bool:
    return bool(pa.types.is_timestamp(kind)) and kind.tz is not None


def _csv_misfit(
    job: _Job, header: Sequence[str], used: Sequence[str], block_bytes: int, error: Exception
) -> SchemaError:
    """The error for rows that do not have the declared types, with the first of them."""
    words = re.sub(r"In CSV column #(\d+)", lambda found: _column(header, int(found[1])), _line(error))
    where, before = "", 0
    for read in _csv_rows(job, header, used, block_bytes, is_strict=False):
        if read.problems:
            place, reason = min(read.problems.items())
            where, words = f", row {before + place + 1}", reason
            break
        before += read.rows.num_rows
    return SchemaError(
        f"{job.who}{where}: its rows do not have the declared types: {words}. Correct the file, declare "
        "another type, or set on_bad='drop' or on_bad='keep'."
    )


def _last_of(read: ReadRows, count: int) -> ReadRows:
    """The last rows."""
    start = read.rows.num_rows - count
    problems = {place - start: why for place, why in read.problems.items() if place >= start}
    return ReadRows(read.rows.slice(start), problems)


# JSON.


class _Block(NamedTuple):
    """Complete lines, and the number of the first."""

    first_line: int
    text: bytes


def _line_blocks(stream: Any, line_bytes_max: int, who: str) -> Iterator[_Block]:  # noqa: ANN401
    """A text in blocks of complete lines; SourceError for a line that is too long."""
    line, rest = 1, b""
    is_first = True
    while True:
        more = stream.read(_BLOCK_BYTES)
        if is_first:
            more, is_first = more.removeprefix(b"\xef\xbb\xbf"), False
        end = more.rfind(b"\n") + 1
        if not more:
            if rest:
                yield _Block(line, rest)
            return
        if end:
            text, rest = rest + more[:end], more[end:]
            _check_lines(_Block(line, text), line_bytes_max, who)
            yield _Block(line, text)
            line += text.count(b"\n")
        else:
            rest += more
        if len(rest) > line_bytes_max:
            raise _long_line(who, f"line {line}", line_bytes_max)


def _check_lines(block: _Block, line_bytes_max: int, who: str) -> None:
    """SourceError for a line that is too long, of lines with their ends."""
    start, text = 0, block.text
    while start + line_bytes_max < len(text):
        end = text.rfind(b"\n", start, start + line_bytes_max + 1)
        if end < 0:
            line = block.first_line + text.count(b"\n", 0, start)
            raise _long_line(who, f"line {line}", line_bytes_max)
        start = end + 1


def _long_line(who: str, where: str, line_bytes_max: int) -> SourceError:
    return SourceError(
        f"{who}, {where}: it is longer than line_bytes_max={line_bytes_max:,} bytes. Set a greater "
        "line_bytes_max= on ps.io.files, or write shorter lines."
    )


def _json(job: _Job) -> Iterator[ReadRows]:
    job.handle.seek(0)
    with _plain(job.handle, job.part.locator) as text:
        for block in _line_blocks(text, job.options.line_bytes_max, job.who):
            sample = block.text.split(b"\n", _SAMPLE_LINES)[:_SAMPLE_LINES]
            job.undeclared(list(keys_of(sample)), job.schema.names)
            yield from _json_block(job, block)


def _json_block(job: _Job, block: _Block) -> Iterator[ReadRows]:
    is_checked = extra_of(job.wanted) != "ignore"
    refused = refused_keys(job.wanted.names) if is_checked else []
    if is_checked:
        job.undeclared(deletion_keys(block.text, job.wanted.names), job.schema.names)
    try:
        yield from [ReadRows(rows, {}) for rows in _json_rows(block.text, job.schema, refused)]
    except (pa.ArrowException, ValueError) as error:
        if is_checked:
            job.undeclared(change_keys(block.text), job.schema.names)
        lines = [
            (number, line)
            for number, line in enumerate(block.text.split(b"\n"), block.first_line)
            if line.strip()
        ]
        pieces: list[pa.RecordBatch] = []
        problems: dict[int, str] = {}
        _sift_lines(lines, job, pieces, problems)
        if not problems:  # only together they are wrong
            raise SchemaError(
                f"{job.who}: it cannot be read as JSON lines: {_line(error)}. Write one object per line."
            ) from error
        yield ReadRows(pa.concat_batches(pieces), problems)


def _sift_lines(
    lines: Sequence[tuple[int, bytes]], job: _Job, pieces: list[pa.RecordBatch], problems: dict[int, str]
) -> None:
    """ReadRows lines together, or where that fails each half by itself; the first bad one may be an error."""
    if not lines:
        return
    try:
        pieces.extend(_json_rows(b"\n".join(line for _, line in lines), job.schema, ()))
    except (pa.ArrowException, ValueError) as error:
        if len(lines) > 1:
            half = len(lines) // 2
            _sift_lines(lines[:half], job, pieces, problems)
            _sift_lines(lines[half:], job, pieces, problems)
            return
        number, line = lines[0]
        if job.options.on_bad == "error":
            raise _json_misfit(job, number, line, error) from error
        problems[sum(piece.num_rows for piece in pieces)] = f"line {number}: {_line(error)}"
        nulls = [pa.nulls(1, column.type) for column in job.schema]
        pieces.append(pa.RecordBatch.from_arrays(nulls, names=job.schema.names) if nulls else _no_columns(1))


def _json_rows(text: bytes, schema: pa.Schema, refused: Sequence[str]) -> list[pa.RecordBatch]:
    check_utf8(text)
    if not schema.names:
        return [_no_columns(sum(1 for line in text.split(b"\n") if line.strip()))]
    if not text.strip():
        return []
    return list(json_lines(pa.BufferReader(text), schema, len(text) + 1, refused))


def _json_misfit(job: _Job, number: int, line: bytes, error: Exception) -> SchemaError:
    """The error for a line that cannot be read, with the column if one is to blame."""
    who, words = f"{job.who}, line {number}", _line(error)
    if isinstance(error, pa.ArrowException):
        if (column := _json_culprit(line, job.schema)) is not None:
            who += f", column '{column}'"
        words = f"its objects do not have the declared types: {words}"
    return SchemaError(
        f"{who}: {words}. Correct the file, declare another type, or set on_bad='drop' or on_bad='keep'."
    )


def _json_culprit(line: bytes, schema: pa.Schema) -> str | None:
    """The column that cannot be read; Arrow does not always say which it was."""
    for column in schema:
        try:
            _json_rows(line, pa.schema([column]), ())
        except pa.ArrowException:
            try:
                json.loads(line)
            except ValueError:
                return None  # it is not JSON, whatever the columns
            return str(column.name)
    return None


_READERS: Final[dict[str, _Reader]] = {"parquet": _parquet, "arrow": _arrow, "csv": _csv, "json": _json}


# Together.


def _plain(handle: Handle, name: str) -> Any:  # noqa: ANN401  a pyarrow stream
    """The content of a file, decompressed if its name says that it is compressed; the handle stays open."""
    handle.seek(0)
    kept = pa.PythonFile(_Kept(handle), mode="r")
    codec = codec_of(name)
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


def _no_columns(count: int) -> pa.RecordBatch:
    """So many rows of a file of which no column is declared."""
    return pa.RecordBatch.from_arrays([pa.nulls(count)], ["none"])


def _run(count: int, part: Part) -> list[int]:
    """The numbers that belong to a share, out of so many row groups or batches."""
    number, ways = part.share or (0, 1)
    return list(range(number * count // ways, (number + 1) * count // ways))


def _matched(names: Sequence[str], job: _Job) -> list[str]:
    """The columns of the file that are declared: by exact name, or else by one that differs in case."""
    found = {name: _alike(name, names, job) for name in job.schema.names}
    there = [name for name, alike in found.items() if alike is not None]
    check_asked([*names, *there, *job.others], job.wanted, job.who)
    if missing := [name for name, alike in found.items() if alike is None]:
        raise SchemaError(
            f"{job.who}: the file has no column {_named(missing)}, which the input declares; it has "
            f"{_named(names)}. Declare what the files have, or leave this file out with skip=."
        )
    used = [alike for alike in found.values() if alike is not None]
    job.undeclared(names, used)
    return used


def _alike(name: str, names: Sequence[str], job: _Job) -> str | None:
    if names.count(name) > 1:
        raise SchemaError(
            f"{job.who}: the file has more than one column {name!r}. Rename one of them in the file."
        )
    if name in names:
        return name
    alike = [each for each in names if each.casefold() == name.casefold() and each not in job.schema.names]
    if len(alike) > 1:
        raise SchemaError(
            f"{job.who}: the input declares {name!r}, but the file has {_named(alike)}, which differ from "
            "it only in case. Declare one of these."
        )
    return alike[0] if alike else None


def _header(start: bytes, parse: pa_csv.ParseOptions) -> list[str]:
    text = start.decode("utf-8-sig", errors="replace")
    quote = parse.quote_char or None
    reader = csv.reader(
        io.StringIO(text, newline=""),
        delimiter=parse.delimiter,
        quotechar=quote,
        quoting=csv.QUOTE_MINIMAL if quote else csv.QUOTE_NONE,
    )
    return next((line for line in reader if line), [])


def _column(header: Sequence[str], number: int) -> str:
    return f"column '{header[number]}'" if number < len(header) else f"column {number}"


def _named(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names)) or "no column"


def _line(error: BaseException) -> str:
    return " ".join(str(error).split()).rstrip(".")
