"""How a reduction of a table is built: its columns checked, and the operator chosen that keeps it up to date.

A reduction without keys is that of one group, of all rows, which is there from the first change on and stays
when all its rows are gone.
"""

from collections.abc import Mapping
from typing import Final

import pyarrow as pa

from pointstamp.errors import SchemaError
from pointstamp.expressions.selecting import check_columns
from pointstamp.expressions.tree import Expression, col, lit
from pointstamp.flow.stream import Stream
from pointstamp.reduce.aggregate import Aggregation
from pointstamp.reduce.arguments import Arguments
from pointstamp.tables import deltas
from pointstamp.tables.aggregating import Aggregating
from pointstamp.tables.asked_aggregates import TableAggregate, table_aggregates
from pointstamp.tables.distinct_counts import can_be_apart, counted_apart
from pointstamp.tables.sums import LinearAggregate, is_linear

ALL: Final = "__all"
"""The key of all rows, where something is asked of the table as a whole."""


def reduced(
    changes: Stream, keys: tuple[str, ...], wanted: Mapping[str, Aggregation], name: str, who: str
) -> Stream:
    """One row for each key, or one in all, with aggregates of its rows."""
    schema = deltas.rows_schema(changes)
    check_columns(who, schema, keys)
    arguments = Arguments(keys)
    found = table_aggregates(who, schema, wanted, arguments)
    if twice := [column for column in found if column in keys]:
        raise SchemaError(f"{who} would have the column '{twice[0]}' twice. Name the aggregate differently.")
    if keys:
        looked_at = deltas.selected(changes, f"{name}: arguments", arguments.columns, who)
        return _by_keys(looked_at, keys, found, name)
    one_key = {ALL: lit(0, pa.int8())}
    whole = deltas.selected(changes, f"{name}: arguments", one_key | arguments.columns, who)
    made = _by_keys(whole, (ALL,), found, name, is_whole=True)
    return deltas.selected(made, "drop", {column: col(column) for column in found}, who)


def _by_keys(
    changes: Stream,
    keys: tuple[str, ...],
    found: Mapping[str, TableAggregate],
    name: str,
    *,
    is_whole: bool = False,
) -> Stream:
    """The reduction of the groups of these keys: here the operator is chosen."""
    if can_be_apart(changes.schema, found):
        changes, found = counted_apart(changes, keys, found, name)
    own = [changes.schema.field(key) for key in keys]
    result = pa.schema([*own, *(pa.field(column, each.result_type) for column, each in found.items())])
    function = Aggregating(found, deltas.weighed(result))
    nothing = None
    if is_whole:
        nothing = function.of_nothing(
            pa.RecordBatch.from_arrays([pa.array([0], pa.int8())], schema=pa.schema(own))
        )
    if all(is_linear(each.kind, _type_of(changes.schema, each.column)) for each in found.values()):
        linear = {
            column: LinearAggregate(each.kind, each.column, each.result_type, each.where)
            for column, each in found.items()
        }
        return deltas.on_sums(changes, name, keys, linear, result, nothing)
    return deltas.on_groups(changes, name, keys, function, result, nothing)


def _type_of(schema: pa.Schema, column: str | None) -> pa.DataType | None:
    return None if column is None else schema.field(column).type


def in_one_group(changes: Stream, who: str) -> Stream:
    """The same rows with a key that all have in common, as their last column."""
    rows = deltas.rows_schema(changes)
    wanted: dict[str, Expression] = {name: col(name) for name in rows.names}
    return deltas.selected(changes, "all rows", wanted | {ALL: lit(0, pa.int8())}, who)
