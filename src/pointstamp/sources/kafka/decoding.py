"""Decode JSON values of records, with or without a registry header.

A registry's wire format is a zero, the number of a schema in four bytes, and the value. What a JSON object
must be is said by the input's columns, so the schema's number is passed over.

A value that cannot be decoded is told with its place and the reason, and its columns are null; so are those
of a record without a value. The others are decoded all together, and one by one only around such a value.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

import pyarrow as pa

from pointstamp.errors import PointstampError, StorageError
from pointstamp.rows.schema import to_batches
from pointstamp.rows.undeclared import extra_of
from pointstamp.sources.json_lines import check_utf8, deletion_keys, json_lines, keys_of, refused_keys

T = TypeVar("T")

HEADER_BYTES: Final = 5
"""What a registry's wire format has before a value."""


class Decoded(NamedTuple):
    """The columns of values, one row for each, and why those are null that could not be decoded.

    ``keys`` are those that values have, declared or not. Of JSON they are those of the first value and of
    those that could not be decoded, among which are all with an undeclared key that says the change of a row.
    """

    rows: pa.RecordBatch
    problems: dict[int, str]
    keys: tuple[str, ...] = ()


Decoder: TypeAlias = Callable[[Sequence[bytes | None], pa.Schema], Decoded]


def decode_json(values: Sequence[bytes | None], schema: pa.Schema) -> Decoded:
    """JSON objects, with the columns of a schema."""
    pieces: list[pa.RecordBatch] = []
    problems: dict[int, str] = {}
    start = 0
    for place, value in enumerate([*values, None]):
        if value is None:
            run = [each for each in values[start:place] if each is not None]
            _make(run, start, schema, _parsed, pieces, problems)
            if place < len(values):
                pieces.append(nulls(schema))
            start = place + 1
    rows = pa.concat_batches(pieces) if pieces else pa.RecordBatch.from_pylist([], schema)
    first = next((value for value in values if value is not None), b"")
    looked_at = [first, *(value for place in problems if (value := values[place]) is not None)]
    return Decoded(rows, problems, tuple(keys_of(looked_at)))


def decode_json_schema(values: Sequence[bytes | None], schema: pa.Schema) -> Decoded:
    """JSON objects in a registry's wire format."""
    has_header = [value is not None and value[:1] == b"\0" and len(value) > HEADER_BYTES for value in values]
    plain = [
        value[HEADER_BYTES:] if value is not None and known else None
        for value, known in zip(values, has_header, strict=True)
    ]
    found = decode_json(plain, schema)
    without = {
        place: NO_HEADER
        for place, (value, known) in enumerate(zip(values, has_header, strict=True))
        if value is not None and not known
    }
    return Decoded(found.rows, {**found.problems, **without}, found.keys)


NO_HEADER: Final = "it does not begin with the zero and the schema's number of a registry's wire format"


def nulls(schema: pa.Schema) -> pa.RecordBatch:
    """A row without values."""
    return pa.RecordBatch.from_arrays([pa.nulls(1, field.type) for field in schema], schema=schema)


def decode_each(
    values: Sequence[bytes | None],
    schema: pa.Schema,
    decode: Callable[[bytes], dict[str, Any]],
    bad: tuple[type[Exception], ...],
) -> Decoded:
    """Values that a package decodes one by one, to rows of Python's; ``bad`` are its errors about a value."""
    found: list[dict[str, Any]] = []
    problems: dict[int, str] = {}
    keys: dict[str, None] = {}
    for place, value in enumerate(values):
        row: dict[str, Any] = {}
        if value is not None:
            try:
                row = decode(value)
            except StorageError:  # of a registry: that says nothing about the value
                raise
            except bad as error:
                problems[place] = _reason(error)
        found.append(row)
        if row.keys() - keys.keys():
            keys.update(dict.fromkeys(row))
    pieces: list[pa.RecordBatch] = []
    _make(found, 0, schema, _fitted, pieces, problems)
    rows = pa.concat_batches(pieces) if pieces else pa.RecordBatch.from_pylist([], schema)
    return Decoded(rows, problems, tuple(keys))


def _make(
    items: Sequence[T],
    start: int,
    schema: pa.Schema,
    make: Callable[[Sequence[T], pa.Schema], Iterable[pa.RecordBatch]],
    pieces: list[pa.RecordBatch],
    problems: dict[int, str],
) -> None:
    """Make columns of items: of all together, or where that fails of each half by itself."""
    if not items:
        return
    try:
        pieces.extend(list(make(items, schema)))  # all or none
    except (PointstampError, pa.ArrowException, ValueError, TypeError) as error:
        if len(items) == 1:
            problems[start] = _reason(error)
            pieces.append(nulls(schema))
            return
        half = len(items) // 2
        _make(items[:half], start, schema, make, pieces, problems)
        _make(items[half:], start + half, schema, make, pieces, problems)


def _reason(error: Exception) -> str:
    return " ".join(str(error).split()).rstrip(".") or type(error).__name__


def _fitted(rows: Sequence[dict[str, Any]], schema: pa.Schema) -> Iterable[pa.RecordBatch]:
    return to_batches([{name: row.get(name) for name in schema.names} for row in rows], schema, "a record")


def _parsed(texts: Sequence[bytes], schema: pa.Schema) -> Iterable[pa.RecordBatch]:
    # A line break in JSON can only stand between its words. An object for each text is then at least one row,
    # so that as many rows as texts are one for each.
    lines = [text.replace(b"\n", b" ").strip() for text in texts]
    for line in lines:
        if not (line.startswith(b"{") and line.endswith(b"}")):
            raise ValueError("it is not a JSON object")
    joined = b"\n".join(lines)
    check_utf8(joined)
    # A value for a key that looks like the change of a row is a problem, so that its keys are looked at.
    is_checked = extra_of(schema) != "ignore"
    if is_checked and deletion_keys(joined, schema.names):
        raise ValueError("it has a key that looks like the change of a row")
    refused = refused_keys(schema.names) if is_checked else []
    batches = list(json_lines(pa.BufferReader(joined), schema, len(joined) + 1, refused))
    if sum(batch.num_rows for batch in batches) != len(lines):
        raise ValueError("it is more than one JSON object")
    return [pa.concat_batches(batches).cast(schema)]
