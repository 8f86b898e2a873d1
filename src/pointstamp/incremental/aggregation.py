"""Build the aggregation of a table: check columns and choose the operator.

A reduction without keys is that of one group, of all rows, which is there from the first epoch on, with rows
or without.
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import reduce
from typing import ClassVar, Final

import pyarrow as pa
from pyarrow import types

from pointstamp.arrangement.consolidate import DIFF
from pointstamp.errors import SchemaError
from pointstamp.expressions.select_columns import check_columns
from pointstamp.expressions.tree import Expression, col, lit, when
from pointstamp.flow.outlet import add_operator, begins_anew
from pointstamp.flow.physical_stream import PhysicalStream
from pointstamp.incremental import operations
from pointstamp.incremental.column_names import check_new_names, weighed
from pointstamp.incremental.exact_sums import LinearAggregate, is_linear
from pointstamp.incremental.group_aggregates import Aggregating
from pointstamp.incremental.requested_aggregates import TableAggregate, first_value_asked, table_aggregates
from pointstamp.operators.context import Context
from pointstamp.operators.spec import spec
from pointstamp.reduce.aggregate import Aggregation
from pointstamp.reduce.binding import Arguments

ALL: Final = "__all"
"""The key of all rows, where something is asked of the table as a whole."""

_IS_ROW: Final = "__is_row"
"""True in a row, and null in the one that stands for there being none."""


def reduced(
    changes: PhysicalStream,
    keys: tuple[str, ...],
    wanted: Mapping[str, Aggregation],
    name: str,
    who: str,
    *,
    in_parts: bool = False,
) -> PhysicalStream:
    """One row for each key, or one in all, with aggregates of its rows; sums may begin at each worker."""
    schema = operations.rows_schema(changes)
    check_columns(who, schema, keys)
    check_new_names(who, wanted)
    arguments = Arguments(keys)
    found = table_aggregates(who, schema, wanted, arguments)
    if twice := [column for column in found if column in keys]:
        raise SchemaError(f"{who}: the column '{twice[0]}' already exists. Give the aggregate another name.")
    if keys:
        looked_at = operations.selected(changes, f"{name}: arguments", arguments.columns, who)
        return _by_keys(looked_at, keys, found, name, in_parts=in_parts)
    if begins_anew(changes):  # a time without rows has no result
        marked = {**arguments.columns, ALL: lit(0, pa.int8())}
        made = _by_keys(operations.selected(changes, f"{name}: arguments", marked, who), (ALL,), found, name)
    else:
        rows = _with_no_row(changes, arguments, name, who)
        made = _by_keys(rows, (ALL,), _of_rows(found), name, in_parts=in_parts)
    return operations.selected(made, "drop", {column: col(column) for column in found}, who)


def _with_no_row(changes: PhysicalStream, arguments: Arguments, name: str, who: str) -> PhysicalStream:
    """All rows in one group, which has besides a row that is none: its columns are null."""
    # Under another name they are columns that may be null, whatever they were.
    columns = {column: each.alias(column) for column, each in arguments.columns.items()}
    marked = {**columns, _IS_ROW: lit(True), ALL: lit(0, pa.int8())}
    whole = operations.selected(changes, f"{name}: arguments", marked, who)
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
    changes: PhysicalStream,
    keys: tuple[str, ...],
    found: Mapping[str, TableAggregate],
    name: str,
    *,
    in_parts: bool = False,
) -> PhysicalStream:
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
        return operations.on_sums(changes, name, keys, linear, result, in_parts=in_parts)
    extremes = {
        column: first
        for column, each in found.items()
        if (first := first_value_asked(each, changes.schema)) is not None
    }
    if len(linear) + len(extremes) == len(found) and not changes.loops:
        return operations.on_extremes(changes, name, keys, linear, extremes, result)
    return operations.on_groups(changes, name, keys, function, result)


def _type_of(schema: pa.Schema, column: str | None) -> pa.DataType | None:
    return None if column is None else schema.field(column).type


def in_one_group(changes: PhysicalStream, who: str) -> PhysicalStream:
    """The same rows with a key that all have in common, as their last column."""
    rows = operations.rows_schema(changes)
    wanted: dict[str, Expression] = {name: col(name) for name in rows.names}
    return operations.selected(changes, "all rows", wanted | {ALL: lit(0, pa.int8())}, who)


# A table with one row more, which is there from the first time on and is never taken away.
#
# By it the group of all rows is a group even before the first row comes, and after the last one is gone: SQL
# has one row for an aggregate of no rows. A worker that resumes from a snapshot does not send it again; an
# operator that is new in a flow starts where the flow continues, and does.


class WithRow:
    """Sends a row once, at the least time of all, and then whatever comes."""

    keeps: ClassVar = "nothing; epoch 0 costs a row"

    def __init__(self, row: pa.RecordBatch) -> None:
        self._row = row

    def on_start(self, context: Context) -> None:
        """Send the row, from one worker."""
        if context.worker == 0:
            context.send(self._row)

    def on_receive(self, context: Context, input: str, batch: pa.RecordBatch) -> None:  # noqa: A002
        """Pass the batch on."""
        context.send(batch)


# How many different values there are, as a sum: the different values are found first, and then counted.
#
# ``count_distinct`` asked of all rows of a key would cost the key whenever one of them changes. So the values
# of each such aggregate become rows of their own, with the key, are made distinct, and are counted beside the
# other rows in the one reduction that is left: each with a mark for its aggregate, and null in all else, so
# that nothing else counts it. What is kept is each different value once, and a change costs its rows.
#
# A key is there as long as it has rows, which its different values never outlast: both are changes of one
# time.

_ROW: Final = "__row"
"""True in the rows themselves, null in those of different values."""
_WHICH: Final = "__which"
_VALUE: Final = "__value"


def can_be_apart(schema: pa.Schema, found: Mapping[str, TableAggregate]) -> bool:
    """Whether there are different values to count, and nothing that looks at complete rows besides."""
    kinds = {each.kind for each in found.values()}
    return "count_distinct" in kinds and all(_fits(schema, each) for each in found.values())


def _fits(schema: pa.Schema, asked: TableAggregate) -> bool:
    if asked.where is not None:
        return False
    data_type = None if asked.column is None else schema.field(asked.column).type
    if asked.kind == "count_distinct":
        return data_type is not None and not (types.is_nested(data_type) or types.is_dictionary(data_type))
    return asked.kind in ("min", "max") or is_linear(asked.kind, data_type)


def counted_apart(
    changes: PhysicalStream, keys: tuple[str, ...], found: Mapping[str, TableAggregate], name: str
) -> tuple[PhysicalStream, dict[str, TableAggregate]]:
    """Rows and aggregates that give the same, without a ``count_distinct``."""
    arguments = [each.column for each in found.values() if each.kind == "count_distinct"]
    marks = {column: f"__different {number}" for number, column in enumerate(dict.fromkeys(arguments))}
    kept = {column: column for column in _kept(changes.schema, found)}
    kept |= {f"__own {key}": kept.pop(key) for key in keys if key in kept}  # a key is in every row's columns
    at = {column: name for name, column in kept.items()}
    nothing = {name: lit(None).cast(changes.schema.field(column).type) for name, column in kept.items()}
    no_marks: dict[str, Expression] = {mark: lit(None).cast(pa.bool_()) for mark in marks.values()}
    own: dict[str, Expression] = {key: col(key) for key in keys}
    own |= {name: col(column).alias(name) for name, column in kept.items()} | {_ROW: lit(True)} | no_marks
    streams = [operations.selected(changes, f"{name}: rows", own, name)]
    for data_type, columns in _by_type(changes.schema, [each for each in marks if each is not None]).items():
        different = _different(changes, keys, columns, f"{name}: different {data_type}")
        shares: dict[str, Expression] = {key: col(key) for key in keys}
        shares |= nothing | {_ROW: lit(None).cast(pa.bool_())} | no_marks
        for number, column in enumerate(columns):
            shares[marks[column]] = when(col(_WHICH) == number, lit(True)).otherwise(None)
        streams.append(operations.selected(different, f"{name}: counts of {data_type}", shares, name))
    made = {
        column: replace(each, kind="count", column=marks[each.column])
        if each.kind == "count_distinct"
        else replace(each, column=_ROW)
        if each.column is None
        else replace(each, column=at[each.column])
        for column, each in found.items()
    }
    return reduce(lambda one, other: operations.union_all(one, other, f"{name}: all"), streams), made


def _kept(schema: pa.Schema, found: Mapping[str, TableAggregate]) -> list[str]:
    """The columns that aggregates of rows look at."""
    looked_at = {each.column for each in found.values() if each.kind != "count_distinct"}
    return [column for column in schema.names if column in looked_at]


def _by_type(schema: pa.Schema, columns: list[str]) -> dict[pa.DataType, list[str]]:
    """Columns of one type are made distinct together, so that there are few operators."""
    found: dict[pa.DataType, list[str]] = {}
    for column in columns:
        found.setdefault(schema.field(column).type, []).append(column)
    return found


def _different(
    changes: PhysicalStream, keys: tuple[str, ...], columns: list[str], name: str
) -> PhysicalStream:
    """Each different value of each of these columns once, with its key and the number of the column."""
    parts = []
    for number, column in enumerate(columns):
        wanted: dict[str, Expression] = {key: col(key) for key in keys}
        wanted |= {_WHICH: lit(number, pa.int16()), _VALUE: col(column)}
        there = operations.filtered(changes, f"{name}: not null", col(column).is_not_null(), name)
        parts.append(operations.selected(there, f"{name}: values", wanted, name))
    return operations.distinct(
        reduce(lambda one, other: operations.union_all(one, other, f"{name}: both"), parts), name
    )
