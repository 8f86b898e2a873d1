"""How ``over`` is built: its functions checked against the columns, and the operator added."""

from collections.abc import Iterable, Mapping

import pyarrow as pa

from pointstamp.errors import FlowError, SchemaError
from pointstamp.expressions.compiling import compile_expression
from pointstamp.expressions.selecting import check_columns
from pointstamp.expressions.tree import Expression, col, lit
from pointstamp.flow.stream import Stream
from pointstamp.reduce.arguments import Arguments
from pointstamp.reduce.binding import plain_type
from pointstamp.tables import deltas
from pointstamp.tables.aggregates.asked_aggregates import result_type
from pointstamp.tables.column_names import check_new_names, weighed
from pointstamp.tables.in_order import NUMBERS, OrderFunction
from pointstamp.tables.kept.ordering import ordering
from pointstamp.tables.placing import PlaceColumn, Placing
from pointstamp.tables.reducing import ALL


def ordered(
    changes: Stream,
    keys: tuple[str, ...],
    by: str | Iterable[str],
    wanted: Mapping[str, object],
    name: str,
    who: str,
) -> Stream:
    """The rows with more columns: what their place among the rows of their key says of them."""
    schema = deltas.rows_schema(changes)
    check_columns(who, schema, keys)
    order = ordering(who, schema, by)
    arguments = Arguments(schema.names)
    added = place_columns(who, schema, wanted, arguments)
    one_key: dict[str, Expression] = {} if keys else {ALL: lit(0, pa.int8())}
    looked_at = deltas.selected(changes, f"{name}: arguments", {**arguments.columns, **one_key}, who)
    fields = [pa.field(column, each.result_type) for column, each in added.items()]
    kept = (*schema.names, *one_key)
    result = pa.schema([*(looked_at.schema.field(column) for column in kept), *fields])
    function = Placing(kept, order, added, weighed(who, result))
    made = deltas.on_groups(looked_at, name, keys or (ALL,), function, result)
    if keys:
        return made
    return deltas.selected(made, "drop", {each: col(each) for each in result.names if each != ALL}, who)


def place_columns(
    who: str, schema: pa.Schema, wanted: Mapping[str, object], arguments: Arguments
) -> dict[str, PlaceColumn]:
    """Return the columns that functions of a row's place add, checked against the columns of the rows."""
    added = {
        column: _checked(f"{who}, '{column}'", schema, each, arguments) for column, each in wanted.items()
    }
    if not added:
        raise FlowError(f"{who}: no function was given. Name one, for example before=ps.lag('price').")
    if twice := [column for column in added if column in schema.names]:
        raise SchemaError(f"{who}: the column '{twice[0]}' already exists. Give the new one another name.")
    check_new_names(who, added)
    return added


def _checked(who: str, schema: pa.Schema, function: object, arguments: Arguments) -> PlaceColumn:
    if not isinstance(function, OrderFunction):
        raise FlowError(
            f"{who} must be a function of ordered rows, got {function} of type {type(function).__name__}. "
            "Write one such as ps.lag('price') or ps.row_number()."
        )
    if function.column is None:
        return PlaceColumn(function.kind, None, pa.int64(), frame=function.frame)
    given = col(function.column) if isinstance(function.column, str) else function.column
    found = plain_type(compile_expression(given, schema, who).type)
    gives = pa.int64() if function.kind in NUMBERS else _type(function.kind, found, who)
    try:
        default = None if function.default is None else pa.scalar(function.default, gives).as_py()
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise SchemaError(
            f"{who}: the default {function.default!r} is not a value of type {gives}: {error}"
        ) from error
    column = arguments.of(function.column)
    return PlaceColumn(
        function.kind, column, gives, function.offset, default, function.frame, function.ignores_nulls
    )


def _type(kind: str, found: pa.DataType, who: str) -> pa.DataType:
    if kind.startswith("running_"):
        return result_type(kind.removeprefix("running_"), found, who)
    return found
