"""``create table``: an input that a text declares, and how its rows are meant.

With a primary key its rows are upserts; without one they are added, and what deletes rows is said with
``tblproperties``: ``'weight' = 'w'`` or ``'operation' = 'op'`` name the column that says so, and of upserts
``'order'`` and ``'deleted'``. The watermark of upserts is that of their order column, and frees tombstones.

``watermark for at as at - interval 4 seconds`` is the promise how late a row may be, by its column ``at``;
the properties ``'event_time'`` and ``'lateness'`` say the same, and ``'late'`` what becomes of later rows.
With ``'epoch' = '1 minute'`` besides, the epoch of a row is the minute in which its event time lies.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Final, get_args

import pyarrow as pa
from sqlglot import exp

from pointstamp.dataflow import Dataflow
from pointstamp.dataflow.stream import Stream
from pointstamp.dataflow.table import Table
from pointstamp.flow.event_epochs import by_event_time
from pointstamp.rows.late import LatePolicy
from pointstamp.sql_views.literals import interval_length
from pointstamp.sql_views.refusing import refused

_OF_ROWS: Final = ("weight", "operation", "trusted", "event_time", "lateness", "late", "epoch")
_OF_UPSERTS: Final = ("order", "deleted", "late")
_LATE: Final[dict[str, LatePolicy]] = {each: each for each in get_args(LatePolicy)}


@dataclass(frozen=True, slots=True)
class LatenessPromise:
    """How late a row may be, by which column, and what becomes of one that is later."""

    at: str
    lateness: timedelta | str | int
    late: LatePolicy
    every: str | int | None = None
    """How long an epoch is, if epochs are event time."""

    def stream(self, flow: Dataflow, name: str, schema: str | pa.Schema) -> Stream:
        """The rows of an input that are in time."""
        if self.every is None:
            return flow.stream_input(name, schema).with_watermark(self.at, self.lateness, late=self.late)
        epochs = by_event_time(self.at, every=self.every, lateness=self.lateness)
        return flow.stream_input(name, schema, epochs=epochs, late=self.late)


@dataclass(frozen=True, slots=True)
class InputDeclaration:
    """An input that a text declares: its columns, its key, and how its rows are meant."""

    name: str
    schema: str
    key: tuple[str, ...]
    properties: Mapping[str, str]
    promise: LatenessPromise | None = None


def input_table(flow: Dataflow, declared: InputDeclaration) -> Table:
    """The table of an input, in a flow."""
    more = declared.properties
    promise = declared.promise
    if declared.key:
        return flow.table(
            declared.name,
            declared.schema,
            key=declared.key,
            order=more.get("order"),
            deleted=more.get("deleted"),
            lateness=None if promise is None else promise.lateness,
            late="output" if promise is None else promise.late,
        )
    if promise is None:
        stream = flow.stream_input(declared.name, declared.schema)
    else:
        stream = promise.stream(flow, declared.name, declared.schema)
    is_trusted = None if "trusted" not in more else more["trusted"].lower() == "true"
    return stream.to_table(weight=more.get("weight"), operation=more.get("operation"), trusted=is_trusted)


def declaration(node: exp.Create) -> InputDeclaration:
    """What CREATE TABLE says."""
    if not isinstance(node.this, exp.Schema):
        raise refused(node, "CREATE TABLE needs columns", "Write create table t (id long, ...).")
    key: list[str] = []
    columns, watermark = [], None
    for each in node.this.expressions:
        if isinstance(each, exp.PrimaryKey):
            key.extend(column.name for column in each.expressions)
        elif isinstance(each, exp.WatermarkColumnConstraint):
            if watermark is not None:
                raise refused(each, "a table has one watermark", "Leave the second one out.")
            watermark = each
        elif isinstance(each, exp.ColumnDef):
            columns.append(_column(each, key))
        else:
            raise refused(each, "this part of CREATE TABLE is not supported", "Leave it out.")
    properties = _properties(node, bool(key))
    promise = _promise(node, watermark, properties)
    if promise is not None and key and promise.at != properties.get("order"):
        raise refused(
            node,
            "the watermark of a table with a primary key must be that of its 'order' column",
            f"Write tblproperties ('order' = '{promise.at}'), or leave the key or the watermark out.",
        )
    return InputDeclaration(node.this.this.name, ", ".join(columns), tuple(key), properties, promise)


def _column(node: exp.ColumnDef, key: list[str]) -> str:
    """A column in the words of a schema; whether it is of the key is added there."""
    if node.args.get("kind") is None:
        raise refused(node, f"the column '{node.name}' has no type", f"Write {node.name} long, or another.")
    words = f"`{node.name}` {node.args['kind'].sql(dialect='spark')}"
    for constraint in node.args.get("constraints") or []:
        if isinstance(constraint.kind, exp.PrimaryKeyColumnConstraint):
            key.append(node.name)
        elif isinstance(constraint.kind, exp.NotNullColumnConstraint):
            words += " not null"
        elif not isinstance(constraint.kind, exp.CommentColumnConstraint):
            raise refused(constraint, "this constraint is not supported", "Leave it out.")
    return words


def _properties(node: exp.Create, has_key: bool) -> dict[str, str]:
    known = _OF_UPSERTS if has_key else _OF_ROWS
    made = {}
    for each in node.args["properties"].expressions if node.args.get("properties") else []:
        name = each.this.name if isinstance(each, exp.Property) else ""
        if name not in known:
            kind = "with" if has_key else "without"
            raise refused(
                each,
                f"'{name or each.sql()}' is not known of a table {kind} a primary key",
                f"There are {', '.join(known)}.",
            )
        made[name] = each.args["value"].name
    if made.get("trusted", "true").lower() not in ("true", "false"):
        raise refused(node, f"'trusted' is true or false, and not '{made['trusted']}'")
    return made


def _promise(
    node: exp.Create, watermark: exp.WatermarkColumnConstraint | None, properties: Mapping[str, str]
) -> LatenessPromise | None:
    late = properties.get("late", "output")
    if late not in _LATE:
        raise refused(node, f"'late' is one of {', '.join(_LATE)}, and not '{late}'")
    if watermark is not None:
        if "event_time" in properties or "lateness" in properties:
            raise refused(node, "the watermark says the event time and the lateness already")
        return LatenessPromise(watermark.this.name, _lateness(watermark), _LATE[late], _epoch(properties))
    if "event_time" in properties and "lateness" in properties:
        lateness = _length(properties["lateness"])
        return LatenessPromise(properties["event_time"], lateness, _LATE[late], _epoch(properties))
    for each in ("event_time", "lateness", "late", "epoch"):
        if each in properties:
            raise refused(
                node,
                f"'{each}' needs to know which column is the event time, and how late a row may be",
                "Write watermark for at as at - interval 4 seconds, or give 'event_time' and 'lateness'.",
            )
    return None


def _epoch(properties: Mapping[str, str]) -> str | int | None:
    return _length(properties["epoch"]) if "epoch" in properties else None


def _length(said: str) -> str | int:
    """A length of time as text, or a number where the event time is one."""
    return int(said) if said.isdigit() else said


def _lateness(node: exp.WatermarkColumnConstraint) -> timedelta | int:
    """How much earlier than the greatest event time so far a row may be."""
    column, said = node.this, node.expression
    instead = f"Write watermark for {column.name} as {column.name} - interval 4 seconds."
    if isinstance(said, exp.Column) and said.name.lower() == column.name.lower():
        return 0 if _is_number(node, column.name) else timedelta(0)
    is_earlier = (
        isinstance(said, exp.Sub)
        and isinstance(said.this, exp.Column)
        and said.this.name.lower() == column.name.lower()
    )
    if is_earlier and isinstance(said.expression, exp.Interval):
        return interval_length(said.expression)
    if is_earlier and isinstance(said.expression, exp.Literal) and said.expression.name.isdigit():
        return int(said.expression.name)
    raise refused(node, "a watermark is a column less a length of time that stands in the text", instead)


def _is_number(node: exp.Expr, column: str) -> bool:
    schema = node.parent
    assert isinstance(schema, exp.Schema)
    for each in schema.expressions:
        if isinstance(each, exp.ColumnDef) and each.name.lower() == column.lower():
            return bool(each.args["kind"].this in exp.DataType.INTEGER_TYPES)
    return False
