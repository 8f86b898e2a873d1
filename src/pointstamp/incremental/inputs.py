"""Inputs of tables: inserted rows, rows with weights, and upserts.

Invariant: no table begins with a weight below zero, nor with updates that are taken for rows; except that of
an input that is trusted not to delete rows that are not there.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import ClassVar, Final

import numpy as np
import pyarrow as pa
from pyarrow import types

from pointstamp.arrangement.arrangement import Arrangement
from pointstamp.arrangement.consolidate import DIFF, columns_without_weight, with_weights
from pointstamp.arrangement.open_changes import OpenChanges, added_up
from pointstamp.errors import FlowError, SchemaError
from pointstamp.expressions.select_columns import check_columns
from pointstamp.expressions.tree import Expression, col, when
from pointstamp.flow.outlet import add_operator, check_adds_up, wiring
from pointstamp.flow.physical_stream import PhysicalStream
from pointstamp.flow.updates import Passes
from pointstamp.flow.watermarks import bounds_for, is_event_time_of
from pointstamp.incremental.column_names import weighed_columns
from pointstamp.incremental.debezium import DELETED, ORDER, WEIGHT, Events, change_events
from pointstamp.incremental.deletion_check import Border, has_fingerprints
from pointstamp.incremental.physical_table import PhysicalTable
from pointstamp.incremental.shared_arrangements import arranged_by
from pointstamp.incremental.stateless import Appended
from pointstamp.incremental.upsert import OrderedUpserts, TimedUpserts, UpsertPlan, Upserts
from pointstamp.operators.context import Context
from pointstamp.operators.spec import spec
from pointstamp.state.pieces import Piece
from pointstamp.topology.domain import EPOCHS, Time

_ADDING: Final = ("insert", "update_postimage", "update_after", "+I", "+U")
_DELETING: Final = ("delete", "update_preimage", "update_before", "-D", "-U")
_DELTA_FEED: Final = ("_change_type", "_commit_version", "_commit_timestamp")
"""What Delta's change feed has besides the columns of a row: other values when it is deleted than before."""

_WEIGHT: Final = "weight of operation"


@dataclass(frozen=True, slots=True)
class TableWay:
    """How the rows of a stream make a table."""

    weight: str | None = None
    """The column of their weights; without it each row is added."""
    operation: str | None = None
    """The column that says as text whether a row is inserted or deleted."""
    is_whole: bool = False
    """Whether the rows of an epoch are all that there are."""
    trusted: bool | None = None
    """Whether rows that are deleted are known to be there; None: of change feeds of databases they are."""
    empty: str | None = None
    """Of complete states: the column that marks a row which is none, but says that its epoch counts."""
    events: Events | None = None
    """Debezium's change events in place of rows."""


def table_of(stream: PhysicalStream, way: TableWay, name: str) -> PhysicalTable:
    """A stream as a table: every row is added, or as often as it says, or each epoch has all rows."""
    who = f"'{name}' of {stream}"
    _check_can_be_table(stream, who)
    if way.trusted is not None and way.weight is None and way.operation is None and way.events is None:
        raise FlowError(
            f"{who}: trusted= needs weight= or operation=, because rows without them are never deleted. "
            "Leave it out."
        )
    is_feed = way.events is not None or way.operation == _DELTA_FEED[0]
    is_trusted = is_feed if way.trusted is None else way.trusted
    if way.events is not None:
        return _events(stream, way.events, who, name, is_trusted=is_trusted)
    if way.is_whole:
        return _whole(stream, who, way.empty, name)
    if way.operation is None:
        return _added(stream, who, way.weight, name, is_trusted=is_trusted)
    if way.weight is not None:
        raise FlowError(f"{who}: expected either weight= or operation=. Leave one of them out.")
    check_columns(who, stream.schema, [way.operation])
    if not types.is_string(stream.schema.field(way.operation).type):
        kind = stream.schema.field(way.operation).type
        raise SchemaError(f"{who}: the operation '{way.operation}' must be a string, got {kind}. Cast it.")
    said = col(way.operation)
    weight = when(said.is_in(*_ADDING), 1).when(said.is_in(*_DELETING), -1).otherwise(None)
    dropped = _DELTA_FEED if way.operation == _DELTA_FEED[0] else (way.operation,)
    own: list[Expression] = [col(field.name) for field in stream.schema if field.name not in dropped]
    weighed = stream.select(*own, weight.cast("long").alias(_WEIGHT), name=f"{name}: operations")
    return _added(weighed, who, _WEIGHT, name, is_trusted=is_trusted)


def _added(
    stream: PhysicalStream, who: str, weight: str | None, name: str, *, is_trusted: bool
) -> PhysicalTable:
    if weight is not None:
        check_columns(who, stream.schema, [weight])
        if not types.is_integer(stream.schema.field(weight).type):
            raise SchemaError(
                f"{who}: the weight '{weight}' must be an integer, got "
                f"{stream.schema.field(weight).type}. Cast it."
            )
    schema = weighed_columns(who, [field for field in stream.schema if field.name != weight])
    logic = spec(Appended, schema, weight)
    added = add_operator(name, logic, {"in": stream}, {"out": schema}, sends=Passes.ADDED)[0]
    if weight is None:
        return PhysicalTable(added)
    if stream.loops:
        raise FlowError(
            f"{who} cannot be used in a loop, where rows with weights cannot be checked. Make the table "
            "outside, and bring it in with table.enter(loop)."
        )
    if is_trusted:
        return PhysicalTable(added)
    by = added.exchange(*schema.names[:-1])
    inputs, outputs = {"in": by}, {"out": schema}
    whole = {"rows": arranged_by(added, tuple(schema.names[:-1]), has_nulls=True)}
    arranged = {} if has_fingerprints(schema) else whole
    border = spec(Border, schema, arranged=arranged)
    return PhysicalTable(add_operator(f"{name}: border", border, inputs, outputs, in_order=True)[0])


def _events(
    stream: PhysicalStream, events: Events, who: str, name: str, *, is_trusted: bool
) -> PhysicalTable:
    made, plan = change_events(stream, events, name, who)
    if not plan.key:
        return _added(made, who, WEIGHT, name, is_trusted=is_trusted)
    if plan.order is None:
        return upserted(made, plan.key, None, DELETED, name)
    is_event_time = events.order is not None and is_event_time_of(stream, events.order)
    return upserted(made, plan.key, ORDER, DELETED, name, is_event_time=is_event_time).drop(ORDER)


def _whole(stream: PhysicalStream, who: str, empty: str | None, name: str) -> PhysicalTable:
    if stream.loops:
        raise FlowError(
            f"{who} cannot be used in a loop. Make the table outside, and bring it in with table.enter(loop)."
        )
    there = stream
    if empty is not None:
        check_columns(who, stream.schema, [empty])
        if not types.is_boolean(stream.schema.field(empty).type):
            kind = stream.schema.field(empty).type
            raise SchemaError(
                f"{who}: '{empty}', which marks an empty state, must be boolean, got {kind}. Cast it."
            )
        there = stream.filter(col(empty).is_null() | ~col(empty), name=f"{name}: without marks")
    schema = weighed_columns(who, [field for field in stream.schema if field.name != empty])
    rows = add_operator(f"{name}: rows", spec(Appended, schema, None), {"in": there}, {"out": schema})[0]
    ticks = add_operator(f"{name}: epochs", Ticks, {"in": stream}, {"out": TICKS})[0]
    inputs = {"rows": rows.exchange(*schema.names[:-1]), "ticks": ticks.broadcast()}
    logic = spec(States, schema)
    return PhysicalTable(add_operator(name, logic, inputs, {"out": schema}, in_order=True)[0])


def upserted(
    stream: PhysicalStream,
    key: str | Iterable[str],
    order: str | None,
    deleted: str | None,
    name: str,
    *,
    is_event_time: bool = False,
) -> PhysicalTable:
    """A stream of upserts as a table: each row replaces the row with its key, or deletes it.

    With ``is_event_time`` the order column is the event time of the stream, whose watermark frees tombstones.
    """
    who = f"table '{name}'"
    _check_can_be_table(stream, who)
    keys = (key,) if isinstance(key, str) else tuple(key)
    if not keys:
        raise FlowError(f"{who}: key= must name at least one column. Name the key.")
    check_columns(who, stream.schema, [*keys, *filter(None, (order, deleted))])
    if deleted is not None and not types.is_boolean(stream.schema.field(deleted).type):
        raise SchemaError(
            f"{who}: '{deleted}', which marks deletions, must be boolean, got "
            f"{stream.schema.field(deleted).type}. Cast it."
        )
    if deleted is not None and deleted in (*keys, order):
        raise SchemaError(f"{who}: deleted='{deleted}' is also a column of key= or order=. Name another one.")
    if order is not None and types.is_nested(stream.schema.field(order).type):
        raise SchemaError(
            f"{who}: order='{order}' must be a number, a text or a time, got "
            f"{stream.schema.field(order).type}."
        )
    schema = weighed_columns(who, [field for field in stream.schema if field.name != deleted])
    plan = UpsertPlan(keys, order, deleted, schema)
    inputs = {"in": stream.exchange(*keys)}
    logic: Callable[[], Upserts | OrderedUpserts] = spec(Upserts, plan)
    if order is not None:
        logic = spec(OrderedUpserts, plan)
        if is_event_time and deleted is not None:
            _, told, lateness = bounds_for(stream, who)
            inputs |= told
            logic = spec(TimedUpserts, plan, lateness)
    return PhysicalTable(add_operator(f"{name}: upserts", logic, inputs, {"out": schema}, in_order=True)[0])


def _check_can_be_table(stream: PhysicalStream, who: str) -> None:
    plan = wiring(stream).builder.plan
    if plan.root is not EPOCHS:
        raise FlowError(
            f"{who}: a table needs epochs, but flow '{plan.name}' has custom times. Use a flow with epochs."
        )
    check_adds_up(plan, wiring(stream).source, who)


# Whole states: each epoch has all rows of a table as they are then, and the difference is computed.
#
# Rows are kept by the worker that owns them. A worker that is given none of an epoch's rows must still know
# that there was such an epoch, because all its own rows are gone then; so every worker is told of each epoch.
#
# Invariant: after an epoch that had rows, what was sent so far accumulates to the rows of that epoch.

TICKS: Final = pa.schema({"rows": pa.int64()})


class Ticks:
    """Says that an epoch has rows."""

    keeps: ClassVar = "nothing; an epoch costs a row"

    def on_receive(self, context: Context, input: str, batch: pa.RecordBatch) -> None:  # noqa: A002
        """Send how many."""
        context.send(pa.RecordBatch.from_arrays([pa.array(np.array([batch.num_rows]))], schema=TICKS))


class States:
    """Sends the difference of each epoch's rows to those before; keeps the rows of the last epoch."""

    keeps: ClassVar = "the rows of the last epoch; an epoch costs all rows, of it and of the last one"

    def __init__(self, schema: pa.Schema) -> None:
        self._rows = Arrangement(schema, columns_without_weight(schema))
        self._open = OpenChanges()
        self._ticked: set[Time] = set()

    def on_receive(self, context: Context, input: str, batch: pa.RecordBatch) -> None:  # noqa: A002
        """Keep the rows until their epoch is settled."""
        if input == "rows":
            self._open.put(context.time, "rows", batch)
        self._ticked.add(context.time)
        context.notify_at()

    def on_notify(self, context: Context) -> None:
        """Replace all rows by those of the epoch."""
        self._ticked.discard(context.time)
        before = self._rows.all_rows().combine_chunks().to_batches()
        gone = [with_weights(batch, -batch.column(DIFF).to_numpy()) for batch in before]
        parts = [*self._open.take(context.time).values(), *gone]
        if parts:
            change = added_up(parts)
            self._rows.add(change)
            context.send(change)

    def save(self, *, changes_only: bool) -> Mapping[str, Piece]:
        """The rows of the last epoch."""
        assert not self._ticked, "rows wait at a snapshot"
        return {"rows": self._rows.save(changes_only=changes_only)}

    def restore(self, context: Context, pieces: Mapping[str, pa.Table]) -> None:
        """Continue with the rows of this worker."""
        self._rows.load(pieces["rows"])
