"""Read JSON lines as Arrow batches of declared types.

Text that is not UTF-8 is an error, as it would be in every reader of what is published from it.
"""

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any, Final

import pyarrow as pa
import pyarrow.json as pa_json

from pointstamp.arrow.schema import CHANGE_NAMES, is_change_name

_CHANGE_KEY: Final = re.compile(
    rb'"_*(?i:' + b"|".join(re.escape(name.encode()) for name in CHANGE_NAMES) + rb')"\s*:'
)
_LOOKS_MAX: Final = 100
_USUAL: Final = ("diff", "weight", "op", "__op", "operation", "_change_type")  # each costs 5 % of parsing
_OF_DELETIONS: Final = (b"elete", b"ELETE")  # found much faster than parsed


def refused_keys(declared: Sequence[str]) -> list[str]:
    """The usual names of columns that say the change of a row, without those that are declared."""
    return [name for name in _USUAL if name not in declared]


def json_lines(
    text: Any,  # noqa: ANN401 - a stream of Arrow's
    schema: pa.Schema,
    block_bytes: int,
    refused: Sequence[str] = (),
) -> Iterator[pa.RecordBatch]:
    """The objects of a stream of Arrow's, of which no line is longer than a block; an error is Arrow's.

    A value for a key that is ``refused`` is an error, too.
    """
    # Arrow's JSON reader takes a date for a number of days. Written as text it is read by a cast.
    is_date = [pa.types.is_date(column.type) for column in schema]
    read_as = pa.schema(
        [
            pa.field(column.name, pa.string() if dated else column.type)
            for column, dated in zip(schema, is_date, strict=True)
        ]
    )
    # A column of nulls can have no value, so Arrow finds one while it parses, which no search does as fast.
    read_as = pa.schema([*read_as, *(pa.field(each, pa.null()) for each in refused)])
    read = pa_json.ReadOptions(block_size=block_bytes)
    parse = pa_json.ParseOptions(explicit_schema=read_as, unexpected_field_behavior="ignore")
    # Before version 20, Arrow could only read all of it at once.
    is_old = not hasattr(pa_json, "open_json")
    found = pa_json.read_json(text, read, parse) if is_old else pa_json.open_json(text, read, parse)
    for batch in found.to_batches() if is_old else found:
        columns = [batch.column(column.name) for column in schema]
        cast = [
            values.cast(column.type) if dated else values
            for values, column, dated in zip(columns, schema, is_date, strict=True)
        ]
        yield pa.RecordBatch.from_arrays(cast, names=schema.names)


def check_utf8(text: bytes) -> None:
    r"""ValueError, with the first byte that is wrong, if a text is not UTF-8.

    >>> check_utf8(b"caf\xe9")
    Traceback (most recent call last):
    ValueError: it is not UTF-8: byte 0xe9 at position 3
    """
    if text.isascii():
        return
    try:
        text.decode()
    except UnicodeDecodeError as error:
        raise ValueError(
            f"it is not UTF-8: byte {text[error.start]:#04x} at position {error.start}"
        ) from None


def keys_of(lines: Sequence[bytes]) -> dict[str, None]:
    """The keys of JSON objects, as far as they can be read, in order."""
    keys: dict[str, None] = {}
    for line in lines:
        with suppress(ValueError):
            value = json.loads(line)
            if isinstance(value, dict):
                keys.update(dict.fromkeys(value))
    return keys


def deletion_keys(text: bytes, declared: Sequence[str]) -> list[str]:
    """The keys of objects that look like the change of a row, if any in the text is about deletions.

    >>> deletion_keys(b'{"x": 1, "isDeleted": false}', ["x"]), deletion_keys(b'{"op": "d"}', [])
    (['isDeleted'], [])
    """
    if not any(word in text for word in _OF_DELETIONS):
        return []
    return [key for key in change_keys(text) if key not in declared]


def change_keys(text: bytes) -> list[str]:
    """The keys of the objects of a text that look like the change of a row, by the first matches."""
    keys: dict[str, None] = {}
    for number, match in enumerate(_CHANGE_KEY.finditer(text)):
        if number >= _LOOKS_MAX:
            break
        start, stop = text.rfind(b"\n", 0, match.start()) + 1, text.find(b"\n", match.end())
        line = text[start : stop if stop >= 0 else len(text)]
        keys.update(keys_of([line]))
    return [key for key in keys if is_change_name(key)]
