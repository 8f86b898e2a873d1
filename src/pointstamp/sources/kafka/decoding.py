"""The values of records as columns: JSON objects, with or without a registry's five bytes before them.

A registry's wire format is a zero, the number of a schema in four bytes, and the value. What a JSON object
must be is said by the input's columns, so the schema's number is passed over.

A value that cannot be decoded is told with its place and the reason, and its columns are null; so are those
of a record without a value. The others are decoded all together, and one by one only around such a value.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

import pyarrow as pa

from pointstamp.errors import PointstampError
from pointstamp.rows.schema import to_batches
from pointstamp.sources.json_lines import json_lines

HEADER_BYTES: Final = 5
"""What a registry's wire format has before a value."""


class Decoded(NamedTuple):
    """The columns of values, one row for each, and why those are null that could not be decoded."""

    rows: pa.RecordBatch
    problems: dict[int, str]


Decoder: TypeAlias = Callable[[Sequence[bytes | None], pa.Schema], Decoded]


def decode_json(values: Sequence[bytes | None], schema: pa.Schema) -> Decoded:
    """JSON objects, with the columns of a schema."""
    pieces: list[pa.RecordBatch] = []
    problems: dict[int, str] = {}
    start = 0
    for place, value in enumerate([*values, None]):
        if value is None:
            _decode_run(values[start:place], start, schema, pieces, problems)
            if place < len(values):
                pieces.append(nulls(schema))
            start = place + 1
    return Decoded(pa.concat_batches(pieces) if pieces else pa.RecordBatch.from_pylist([], schema), problems)


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
    return Decoded(found.rows, {**found.problems, **without})


NO_HEADER: Final = "it does not begin with the zero and the schema's number of a registry's wire format"


def nulls(schema: pa.Schema) -> pa.RecordBatch:
    """A row without values."""
    return pa.RecordBatch.from_arrays([pa.nulls(1, field.type) for field in schema], schema=schema)


def fitted(found: Sequence[dict[str, Any] | None], schema: pa.Schema, problems: Mapping[int, str]) -> Decoded:
    """Rows of Python's as columns, and further problems with those that do not fit; None is a row of nulls.

    All together, and where that fails each half by itself.
    """
    pieces: list[pa.RecordBatch] = []
    more = dict(problems)
    _fit_run([{} if row is None else row for row in found], 0, schema, pieces, more)
    return Decoded(pa.concat_batches(pieces) if pieces else pa.RecordBatch.from_pylist([], schema), more)


def _fit_run(
    rows: list[dict[str, Any]],
    start: int,
    schema: pa.Schema,
    pieces: list[pa.RecordBatch],
    problems: dict[int, str],
) -> None:
    if not rows:
        return
    whole = [{name: row.get(name) for name in schema.names} for row in rows]
    try:
        pieces.extend(to_batches(whole, schema, "a record"))
    except (PointstampError, ValueError, TypeError) as error:
        if len(rows) == 1:
            problems[start] = " ".join(str(error).split()).rstrip(".")
            pieces.append(nulls(schema))
            return
        half = len(rows) // 2
        _fit_run(rows[:half], start, schema, pieces, problems)
        _fit_run(rows[half:], start + half, schema, pieces, problems)


def _decode_run(
    values: Sequence[bytes | None],
    start: int,
    schema: pa.Schema,
    pieces: list[pa.RecordBatch],
    problems: dict[int, str],
) -> None:
    """Decode values of which none is missing: together, or where that fails each half by itself."""
    texts = [value for value in values if value is not None]
    if not texts:
        return
    try:
        pieces.append(_parsed(texts, schema))
    except (pa.ArrowException, ValueError) as error:
        if len(texts) == 1:
            problems[start] = " ".join(str(error).split()).rstrip(".")
            pieces.append(nulls(schema))
            return
        half = len(texts) // 2
        _decode_run(texts[:half], start, schema, pieces, problems)
        _decode_run(texts[half:], start + half, schema, pieces, problems)


def _parsed(texts: Sequence[bytes], schema: pa.Schema) -> pa.RecordBatch:
    # A line break in JSON can only stand between its words. An object for each text is then at least one row,
    # so that as many rows as texts are one for each.
    lines = [text.replace(b"\n", b" ").strip() for text in texts]
    for line in lines:
        if not (line.startswith(b"{") and line.endswith(b"}")):
            raise ValueError("it is no JSON object")
    joined = b"\n".join(lines)
    batches = list(json_lines(pa.BufferReader(joined), schema, len(joined) + 1))
    if sum(batch.num_rows for batch in batches) != len(lines):
        raise ValueError("it is more than one JSON object")
    return pa.concat_batches(batches).cast(schema)
