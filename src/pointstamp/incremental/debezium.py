"""Debezium change events: rows before and after each change.

An event has an operation, ``op``: ``c`` and ``r`` bring the row ``after`` (created, or read by a first look
at the complete table), ``u`` replaces ``before`` by ``after``, and ``d`` deletes ``before``. Events come as
columns, or as JSON text of which one column holds the complete envelope (this module). Messages (``m``)
say nothing of rows.

Weights need ``before`` complete, as Postgres sends it with ``replica identity full``. Where it is missing, or
where events may come twice, the key says which row is meant: an event is then an upsert, or deletes its key.
The order of the events of a key is a column of the stream, or a field inside the events (``source.lsn``).
A truncated table (``t``) has lost rows without events, and is rejected.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from pointstamp.arrow.schema import as_schema, to_batches
from pointstamp.errors import FlowError, SchemaError
from pointstamp.expressions.select_columns import check_columns
from pointstamp.flow.outlet import add_operator
from pointstamp.flow.physical_stream import PhysicalStream
from pointstamp.flow.updates import Passes
from pointstamp.operators.context import Context
from pointstamp.operators.spec import spec

WEIGHT: Final = "weight of event"
DELETED: Final = "deleted by event"
ORDER: Final = "order of event"

_KINDS: Final = ("c", "r", "u", "d", "m")
_BRING: Final = ("c", "r", "u")


@dataclass(frozen=True, slots=True)
class Events:
    """How Debezium's change events stand in a stream."""

    schema: str | pa.Schema | None
    value: str | None
    key: str | Iterable[str] | None
    order: str | None


@dataclass(frozen=True, slots=True)
class EventOrder:
    """Where the order value of an event stands: a column of the stream, or a field inside the event."""

    column: str | None
    """The column, or that of the struct that has the field; None where the event is JSON text."""
    path: tuple[str, ...]
    kind: pa.DataType


@dataclass(frozen=True, slots=True)
class EventPlan:
    """Where the events stand in a stream, and what comes out: rows with weights, or upserts by key."""

    columns: pa.Schema
    """Of the table."""
    value: str | None
    """The column with the event as JSON text; None where ``op``, ``before`` and ``after`` are columns."""
    key: tuple[str, ...]
    order: EventOrder | None
    result: pa.Schema


class ChangeEvents:
    """Sends rows with weights, or upserts, for the events of a stream."""

    keeps: ClassVar = "nothing; a change costs its rows"

    def __init__(self, plan: EventPlan) -> None:
        self._plan = plan
        self._taking = pa.array(("d",) if plan.key else ("u", "d"))

    def on_receive(self, context: Context, input: str, batch: pa.RecordBatch) -> None:  # noqa: A002
        """Take the events of a batch apart."""
        who = f"operator '{context.operator}', epoch {context.epoch}"
        events = (
            batch
            if self._plan.value is None
            else parsed_events(batch, self._plan.value, self._plan.columns, who, self._fields())
        )
        self._check(events, who)
        for side, kinds in (("after", pa.array(_BRING)), ("before", self._taking)):
            chosen = events.filter(pc.is_in(events.column("op"), kinds))
            missing = chosen.filter(pc.is_null(chosen.column(side)))
            if missing.num_rows:
                self._refuse_missing(missing, side, who)
            context.send(self._made(chosen, side))

    def _fields(self) -> dict[str, tuple[tuple[str, ...], pa.DataType]]:
        """What is read of JSON text besides the row: the order value, if it is inside the event."""
        order = self._plan.order
        return {} if order is None or order.column is not None else {ORDER: (order.path, order.kind)}

    def _made(self, events: pa.RecordBatch, side: str) -> pa.RecordBatch:
        rows = dict(zip(self._plan.columns.names, events.column(side).flatten(), strict=True))
        count = events.num_rows
        if self._plan.key:
            rows[DELETED] = pa.array(np.full(count, side == "before"))
            if self._plan.order is not None:
                values = events.column(self._plan.order.column or ORDER)
                inside = self._plan.order.path if self._plan.order.column is not None else ()
                rows[ORDER] = pc.struct_field(values, list(inside)) if inside else values
        else:
            rows[WEIGHT] = pa.array(np.full(count, 1 if side == "after" else -1))
        return pa.RecordBatch.from_arrays(
            [rows[name] for name in self._plan.result.names], schema=self._plan.result
        )

    def _check(self, events: pa.RecordBatch, who: str) -> None:
        is_known = pc.fill_null(pc.is_in(events.column("op"), pa.array(_KINDS)), False)
        others = events.filter(pc.invert(is_known))
        if not others.num_rows:
            return
        event = others.slice(0, 1).to_pylist()[0]
        if event["op"] == "t":
            raise FlowError(
                f"{who}: got a truncate event, {event}, which does not list the deleted rows. Start a new "
                "query with a new snapshot of the table."
            )
        raise FlowError(
            f"{who}: op must be one of {', '.join(_KINDS)}, got the event {event}. Filter such events out."
        )

    def _refuse_missing(self, events: pa.RecordBatch, side: str, who: str) -> None:
        event = events.slice(0, 1).to_pylist()[0]
        can_use_key = side == "before" and not self._plan.key
        advice = (
            "Let the database send it (in Postgres: replica identity full), or name the key of the table, "
            "key=, by which rows are then replaced."
            if can_use_key
            else "Look where the event comes from."
        )
        raise FlowError(f"{who}: the event {event} has no '{side}'. {advice}")


def change_events(
    stream: PhysicalStream, events: Events, name: str, who: str
) -> tuple[PhysicalStream, EventPlan]:
    """The events of a stream as rows with weights, or as upserts where a key is named."""
    columns = (
        _from_text(stream, events, who) if events.value is not None else _from_structs(stream, events, who)
    )
    key = (events.key,) if isinstance(events.key, str) else tuple(events.key or ())
    check_columns(f"{who}: key=", columns, key)
    order = None if events.order is None else _order(stream, events, key, who)
    extra = [pa.field(DELETED, pa.bool_())] if key else [pa.field(WEIGHT, pa.int64())]
    if order is not None:
        extra.append(pa.field(ORDER, order.kind))
    plan = EventPlan(columns, events.value, key, order, pa.schema([*columns, *extra]))
    logic = spec(ChangeEvents, plan)
    made = add_operator(f"{name}: events", logic, {"in": stream}, {"out": plan.result}, sends=Passes.MADE)[0]
    return made, plan


def _order(stream: PhysicalStream, events: Events, key: tuple[str, ...], who: str) -> EventOrder:
    """What ``order=`` names: a column of the stream, or a field inside the events."""
    assert events.order is not None
    if not key:
        raise FlowError(
            f"{who}: order= needs key=, because it orders the rows of a key. Name the key, or leave "
            "order= out."
        )
    name, _, told = events.order.partition(" ")
    first, *inside = name.split(".")
    if events.order in stream.schema.names or not inside:
        check_columns(f"{who}: order=", stream.schema, [events.order])
        return EventOrder(events.order, (), stream.schema.field(events.order).type)
    if first in ("before", "after"):
        raise FlowError(
            f"{who}: order='{name}' is a column of the table, which the event of a deleted row lacks. "
            "Name a field that every event has, for example order='source.lsn'."
        )
    if events.value is not None and first not in stream.schema.names:
        return EventOrder(None, (first, *inside), _ordered_type(told or "long", events.order, who))
    check_columns(f"{who}: order=", stream.schema, [first])
    kind = stream.schema.field(first).type
    for depth, field in enumerate(inside):
        names = [kind.field(n).name for n in range(kind.num_fields)] if types.is_struct(kind) else []
        if told or field not in names:
            of = ".".join([first, *inside[:depth]])
            raise SchemaError(
                f"{who}: order='{events.order}' is not a field of '{of}', which is {kind}. Name one of "
                "its fields."
            )
        kind = kind.field(names.index(field)).type
    if types.is_nested(kind):
        raise SchemaError(f"{who}: order='{name}' must be a number, a text or a time, got {kind}.")
    return EventOrder(first, tuple(inside), kind)


def _ordered_type(told: str, order: str, who: str) -> pa.DataType:
    try:
        return as_schema(f"x {told}").field(0).type
    except SchemaError as error:
        raise SchemaError(
            f"{who}: order='{order}' must be a path such as 'source.lsn', or a path and a type such as "
            f"'source.scn string': {error}"
        ) from error


def _from_text(stream: PhysicalStream, events: Events, who: str) -> pa.Schema:
    assert events.value is not None
    check_columns(who, stream.schema, [events.value])
    kind = stream.schema.field(events.value).type
    if not (types.is_string(kind) or types.is_binary(kind)):
        raise SchemaError(
            f"{who}: the column '{events.value}' must be string or binary to hold JSON "
            f"events, got {kind}. Cast it, or leave value= out."
        )
    if events.schema is None:
        raise FlowError(
            f"{who}: JSON events need schema=, the columns of the table. Write schema='id long, ...'."
        )
    return as_schema(events.schema)


def _from_structs(stream: PhysicalStream, events: Events, who: str) -> pa.Schema:
    if events.schema is not None:
        raise FlowError(
            f"{who}: schema= is only for JSON events, with value= for their column. Leave it out, or name "
            "the column with value=."
        )
    check_columns(who, stream.schema, ["op", "before", "after"])
    before, after = (stream.schema.field(side).type for side in ("before", "after"))
    if not types.is_struct(after) or before != after:
        raise SchemaError(
            f"{who}: 'before' and 'after' must be structs with the columns of the table, got {before} and "
            f"{after}. Declare them so."
        )
    if not types.is_string(stream.schema.field("op").type):
        raise SchemaError(f"{who}: 'op' must be a string, got {stream.schema.field('op').type}. Cast it.")
    return pa.schema([after.field(number) for number in range(after.num_fields)])


# Debezium's events as JSON text: the envelope, or one with Debezium's ``schema`` and ``payload`` around it.
#
# A null in place of an event is a tombstone, which is for Kafka and says nothing. Columns that are not asked
# for are left out, and one that an event does not have is null. Databases know types that JSON does not: a
# time or a decimal may come as text, and a time as a number, which is taken in the unit of the column's type.


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
