"""Debezium's events as JSON text: the envelope, or one with Debezium's ``schema`` and ``payload`` around it.

A null in place of an event is a tombstone, which is for Kafka and says nothing. Columns that are not asked
for are left out, and one that an event does not have is null. Databases know types that JSON does not: a time
or a decimal may come as text, and a time as a number, which is taken in the unit of the column's type.
"""

from collections.abc import Mapping
from typing import Any

import msgspec
import pyarrow as pa
from pyarrow import types

from pointstamp.errors import FlowError, SchemaError
from pointstamp.rows.schema import to_batches


def parsed_events(
    batch: pa.RecordBatch,
    value: str,
    columns: pa.Schema,
    who: str,
    fields: Mapping[str, tuple[tuple[str, ...], pa.DataType]],
) -> pa.RecordBatch:
    """The events of a batch as the columns op, before and after, beside the batch's others.

    ``fields`` are further columns: where in an event each stands, and its type.
    """
    kept: list[int] = []
    events: list[dict[str, Any]] = []
    for position, text in enumerate(batch.column(value).to_pylist()):
        event = None if text is None else _decoded(text, who)
        if event is not None:
            kept.append(position)
            events.append(event)
    rows = batch.take(pa.array(kept, pa.int64())).drop_columns([value])
    own = [name for name in rows.schema.names if name not in ("op", "before", "after")]
    arrays = [rows.column(name) for name in own]
    arrays.append(pa.array([event.get("op") for event in events], pa.string()))
    arrays += [_structs([event.get(side) for event in events], columns, who) for side in ("before", "after")]
    for name, (path, kind) in fields.items():
        values = [_inside(event, path, who) for event in events]
        arrays.append(_array(values, pa.field(name, kind), f"{who}: '{'.'.join(path)}'"))
    return pa.RecordBatch.from_arrays(arrays, names=[*own, "op", "before", "after", *fields])


def _inside(event: dict[str, Any], path: tuple[str, ...], who: str) -> Any:  # noqa: ANN401 - a value of JSON
    """A value inside an event; one that no event has is a mistake in its name."""
    found: Any = event
    for name in path:
        if found is None:
            return None
        if not isinstance(found, dict) or name not in found:
            raise FlowError(
                f"{who}: the event {_short(msgspec.json.encode(event))} has no '{'.'.join(path)}'. Name a "
                "field that every event has."
            )
        found = found[name]
    return found


def _decoded(text: str | bytes, who: str) -> dict[str, Any] | None:
    """An event; None for a tombstone."""
    try:
        event = msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        raise FlowError(
            f"{who}: an event is not JSON: {error}. Its text begins with {_short(text)}."
        ) from error
    if isinstance(event, dict) and "payload" in event and "op" not in event:
        event = event["payload"]
    if event is None:
        return None
    sides = [event.get(side) for side in ("before", "after")] if isinstance(event, dict) else [0]
    is_event = all(side is None or isinstance(side, dict) for side in sides)
    if not is_event or not isinstance(event.get("op"), str):
        raise FlowError(
            f"{who}: {_short(text)} is not a change event. An event needs 'op', and 'before' or 'after' "
            "with a row, at the top or inside 'payload'."
        )
    return dict(event)


def _structs(rows: list[dict[str, Any] | None], columns: pa.Schema, who: str) -> pa.Array:
    arrays = [
        _array([None if row is None else row.get(field.name) for row in rows], field, who)
        for field in columns
    ]
    is_null = pa.array([row is None for row in rows], pa.bool_())
    return pa.StructArray.from_arrays(arrays, fields=list(columns), mask=is_null)


def _array(values: list[Any], field: pa.Field, who: str) -> pa.Array:
    """Values of JSON as a column of a type."""
    where = f"{who}: column '{field.name}'"
    is_text = any(isinstance(value, str) for value in values)
    try:
        if is_text and not (types.is_string(field.type) or types.is_large_string(field.type)):
            return pa.array(values, pa.string()).cast(field.type)
        if types.is_temporal(field.type):
            width = pa.int32() if types.is_date32(field.type) or types.is_time32(field.type) else pa.int64()
            return pa.array(values, width).cast(field.type)
    except (pa.ArrowException, TypeError) as error:
        raise SchemaError(
            f"{where} must be {field.type}, got another value: {error}. Declare a type that fits."
        ) from error
    # As rows, so that a value that would be cut is refused, and not made to fit.
    made = to_batches([{field.name: value} for value in values], pa.schema([field]), who)
    return made[0].column(0) if made else pa.nulls(0, field.type)


def _short(text: str | bytes) -> str:
    shown = repr(text)
    return shown if len(shown) <= 200 else f"{shown[:200]}..."
