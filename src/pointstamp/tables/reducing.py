"""How a reduction of a table is built: its columns checked, and the operator chosen that keeps it up to date.

A reduction without keys is that of one group, of all rows, which is there from the first epoch on, with rows
or without.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

import pyarrow as pa

from pointstamp.errors import SchemaError
from pointstamp.expressions.selecting import check_columns
from pointstamp.expressions.tree import Expression, col, lit
from pointstamp.flow.outlet import add_operator, begins_anew
from pointstamp.flow.stream import Stream
from pointstamp.operators.spec import spec
from pointstamp.reduce.aggregate import Aggregation
from pointstamp.reduce.arguments import Arguments
from pointstamp.tables import deltas
from pointstamp.tables.aggregates.aggregating import Aggregating
from pointstamp.tables.aggregates.asked_aggregates import TableAggregate, table_aggregates
from pointstamp.tables.aggregates.first_values import first_value_asked
from pointstamp.tables.aggregates.sums import LinearAggregate, is_linear
from pointstamp.tables.column_names import check_new_names, weighed
from pointstamp.tables.distinct_counts import can_be_apart, counted_apart
from pointstamp.tables.kept.weights import DIFF
from pointstamp.tables.with_row import WithRow

ALL: Final = "__all"
"""The key of all rows, where something is asked of the table as a whole."""

_IS_ROW: Final = "__is_row"
"""True in a row, and null in the one that stands for there being none."""


def reduced(
    changes: Stream, keys: tuple[str, ...], wanted: Mapping[str, Aggregation], name: str, who: str
) -> Stream:
    """One row for each key, or one in all, with aggregates of its rows."""
    schema = deltas.rows_schema(changes)
    check_columns(who, schema, keys)
    check_new_names(who, wanted)
    arguments = Arguments(keys)
    found = table_aggregates(who, schema, wanted, arguments)
    if twice := [column for column in found if column in keys]:
        raise SchemaError(f"{who}: the column '{twice[0]}' already exists. Give the aggregate another name.")
    if keys:
        looked_at = deltas.selected(changes, f"{name}: arguments", arguments.columns, who)
        return _by_keys(looked_at, keys, found, name)
    if begins_anew(changes):  # a time without rows has no result
        marked = {**arguments.columns, ALL: lit(0, pa.int8())}
        made = _by_keys(deltas.selected(changes, f"{name}: arguments", marked, who), (ALL,), found, name)
    else:
        made = _by_keys(_with_no_row(changes, arguments, name, who), (ALL,), _of_rows(found), name)
    return deltas.selected(made, "drop", {column: col(column) for column in found}, who)


def _with_no_row(changes: Stream, arguments: Arguments, name: str, who: str) -> Stream:
    """All rows in one group, which has besides a row that is none: its columns are null."""
    # Under another name they are columns that may be null, whatever they were.
    columns = {column: each.alias(column) for column, each in arguments.columns.items()}
    marked = {**columns, _IS_ROW: lit(True), ALL: lit(0, pa.int8())}
    whole = deltas.selected(changes, f"{name}: arguments", marked, who)
    none = {column: [None] for column in whole.schema.names} | {ALL: [0], DIFF: [1]}
    row = pa.RecordBatch.from_pydict(none, schema=whole.schema)
    return add_operator("from the start on", spec(WithRow, row), {"in": whole}, {"out": whole.schema})[0]


def _of_rows(found: Mapping[str, TableAggregate]) -> dict[str, TableAggregate]:
    """The same aggregates of rows that are rows: null has no part in an aggregate, except in some."""
    made = {}
    for name, each in found.items():
        counts_rows = each.kind == "count" and each.column is None
        sees_nulls = each.kind in ("first", "last", "function") and each.where is None
        made[name] = (
            replace(each, column=_IS_ROW)
            if counts_rows
            else replace(each, where=_IS_ROW)
            if sees_nulls
            else each
        )
    return made


def _by_keys(
    changes: Stream,
    keys: tuple[str, ...],
    found: Mapping[str, TableAggregate],
    name: str,
) -> Stream:
    """The reduction of the groups of these keys: here the operator is chosen."""
    if can_be_apart(changes.schema, found):
        changes, found = counted_apart(changes, keys, found, name)
    own = [changes.schema.field(key) for key in keys]
    result = pa.schema([*own, *(pa.field(column, each.result_type) for column, each in found.items())])
    function = Aggregating(found, weighed(f"'{name}'", result))
    linear = {
        column: LinearAggregate(each.kind, each.column, each.result_type, each.where)
        for column, each in found.items()
        if is_linear(each.kind, _type_of(changes.schema, each.column))
        and (each.kind == "count" or each.where is None)
    }
    if len(linear) == len(found):
        return deltas.on_sums(changes, name, keys, linear, result)
    extremes = {
        column: first
        for column, each in found.items()
        if (first := first_value_asked(each, changes.schema)) is not None
    }
    if len(linear) + len(extremes) == len(found) and not changes.loops:
        return deltas.on_extremes(changes, name, keys, linear, extremes, result)
    return deltas.on_groups(changes, name, keys, function, result)


def _type_of(schema: pa.Schema, column: str | None) -> pa.DataType | None:
    return None if column is None else schema.field(column).type


def in_one_group(changes: Stream, who: str) -> Stream:
    """The same rows with a key that all have in common, as their last column."""
    rows = deltas.rows_schema(changes)
    wanted: dict[str, Expression] = {name: col(name) for name in rows.names}
    return deltas.selected(changes, "all rows", wanted | {ALL: lit(0, pa.int8())}, who)
