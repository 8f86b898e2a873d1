"""JSON objects, one a line, as Arrow batches of declared types: those of a file, or of records of a topic."""

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.json as pa_json


def json_lines(text: Any, schema: pa.Schema, block_bytes: int) -> Iterator[pa.RecordBatch]:  # noqa: ANN401
    """The objects of a stream of Arrow's, of which no line is longer than a block; an error is Arrow's."""
    # Arrow's JSON reader takes a date for a number of days. Written as text it is read by a cast.
    is_date = [pa.types.is_date(column.type) for column in schema]
    read_as = pa.schema(
        [
            pa.field(column.name, pa.string() if dated else column.type)
            for column, dated in zip(schema, is_date, strict=True)
        ]
    )
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
