"""Requested aggregates of a table, checked against its columns.

An aggregate that met the columns of a table is a ``TableAggregate``: which columns of the rows that are kept
it looks at, and the type that it gives. Nothing of users' expressions is left in it; they are in the
``Arguments``, which are computed before.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

import pyarrow as pa
from pyarrow import types

from pointstamp.arrangement.ordering import Ordered, ordering
from pointstamp.errors import SchemaError
from pointstamp.expressions.compiler import compile_condition, compile_expression
from pointstamp.expressions.select_columns import check_columns
from pointstamp.expressions.tree import Column, Expression, col
from pointstamp.expressions.type_rules import is_number
from pointstamp.incremental.group_values import average_type
from pointstamp.reduce.aggregate import Aggregate, Aggregation, FunctionAggregate
from pointstamp.reduce.binding import Arguments, Bound, bind, plain_type

_COUNTS: Final = ("count", "count_distinct")
_OF_NUMBERS: Final = (
    "mean",
    "avg",
    "median",
    "quantile",
    "var_samp",
    "var_pop",
    "stddev_samp",
    "stddev_pop",
)


@dataclass(frozen=True, slots=True)
class TableAggregate:
    """One column of a reduction: which aggregate, of which columns, and the type that it gives."""

    kind: str
    """One of ``AggregateKind``, or "function" or "accumulator" for a custom one."""
    column: str | None
    """The column of its values; without one it is rows that count. Null values have no part in it."""
    result_type: pa.DataType
    by: str | None = None
    """What max_by and min_by compare; rows in which it is null have no part in it."""
    order: tuple[Ordered, ...] = ()
    """The order of first and last."""
    where: str | None = None
    """A column that is true in the rows that take part; None if all do, or if others are null anyway."""
    fraction: float = 0.5
    columns: tuple[str, ...] = ()
    """The columns that a custom function reads."""
    own: FunctionAggregate | Bound | None = None

    @property
    def looked_at(self) -> list[str]:
        """The columns that it looks at."""
        ordered = [each.column for each in self.order]
        named = (self.column, self.by, self.where, *ordered, *self.columns)
        return [name for name in named if name is not None]


def table_aggregates(
    who: str, schema: pa.Schema, wanted: Mapping[str, Aggregation], arguments: Arguments
) -> dict[str, TableAggregate]:
    """Aggregates for the columns of a table; SchemaError names what cannot be aggregated."""
    found = {}
    for name, aggregate in wanted.items():
        asking = f"{who}, '{name}'"
        if isinstance(aggregate, Aggregate):
            found[name] = _built_in(asking, schema, aggregate, arguments)
        elif isinstance(aggregate, FunctionAggregate):
            found[name] = _function(asking, schema, aggregate, arguments)
        else:
            bound = bind(who, name, aggregate, schema)
            assert bound.column is not None
            arguments.named(bound.column)
            found[name] = TableAggregate("accumulator", bound.column, bound.result_type, own=bound)
    return found


def _built_in(who: str, schema: pa.Schema, aggregate: Aggregate, arguments: Arguments) -> TableAggregate:
    kind, given, where = aggregate.kind, aggregate.column, aggregate.where
    if where is not None:
        compile_condition(where, schema, f"{who}, where=")
    found = None if given is None else _type(who, schema, given)
    gives = result_type(kind, found, who)
    if kind in ("max_by", "min_by"):
        assert isinstance(aggregate.by, str | Expression)
        _check_order(f"{who}, by=", kind, _type(f"{who}, by=", schema, aggregate.by))
        by = arguments.of(aggregate.by, where)
        return TableAggregate(kind, arguments.of(given, _condition_of(given, where)), gives, by=by)
    if kind in ("first", "last"):
        assert isinstance(aggregate.by, tuple)
        order = ordering(f"{who}: {kind}", schema, aggregate.by)
        for each in order:
            arguments.named(each.column)
        holds = None if where is None else arguments.made(where)
        column = arguments.of(given, _condition_of(given, where))
        return TableAggregate(kind, column, gives, order=order, where=holds)
    column = arguments.of(given, where)
    fraction = 0.5 if aggregate.fraction is None else aggregate.fraction
    return TableAggregate(kind, column, gives, fraction=fraction)


def _condition_of(given: str | Expression | None, where: Expression | None) -> Expression | None:
    """The condition under which an argument is computed, if it is computed at all."""
    return where if isinstance(given, Expression) and not isinstance(given, Column) else None


def _function(
    who: str, schema: pa.Schema, aggregate: FunctionAggregate, arguments: Arguments
) -> TableAggregate:
    check_columns(who, schema, aggregate.columns)
    if aggregate.where is not None:
        compile_condition(aggregate.where, schema, f"{who}, where=")
    columns = tuple(map(arguments.named, aggregate.columns or schema.names))
    holds = None if aggregate.where is None else arguments.made(aggregate.where)
    return TableAggregate("function", None, aggregate.type, where=holds, columns=columns, own=aggregate)


def _type(who: str, schema: pa.Schema, given: str | Expression) -> pa.DataType:
    return plain_type(compile_expression(col(given) if isinstance(given, str) else given, schema, who).type)


def result_type(kind: str, found: pa.DataType | None, who: str) -> pa.DataType:
    """The type that an aggregate of values of some type has."""
    if kind in _COUNTS:
        return pa.int64()
    assert found is not None
    if kind in _OF_NUMBERS or kind == "sum":
        if not is_number(found):
            raise SchemaError(
                f"{who}: {kind} needs a column of numbers, got {found}. Cast it, or choose another column."
            )
        if kind == "avg" and types.is_decimal(found):
            return average_type(found)
        return pa.float64() if kind != "sum" else _sum_type(found)
    if kind in ("bool_and", "bool_or"):
        if not types.is_boolean(found):
            raise SchemaError(
                f"{who}: {kind} needs a column of booleans, got {found}. Compare it with a "
                "value, or choose another column."
            )
        return found
    if kind.startswith("collect_"):
        return pa.list_(found)
    if kind in ("min", "max"):
        _check_order(who, kind, found)
    return found


def _sum_type(found: pa.DataType) -> pa.DataType:
    if types.is_decimal(found):
        make, digits_max = (pa.decimal256, 76) if found.bit_width == 256 else (pa.decimal128, 38)
        return make(min(digits_max, found.precision + 10), found.scale)
    return pa.float64() if types.is_floating(found) else pa.int64()


def _check_order(who: str, kind: str, found: pa.DataType) -> None:
    if types.is_nested(found):
        raise SchemaError(
            f"{who}: {kind} needs a column of an ordered type, got {found}. Choose another column."
        )


# Aggregates that take a value from the first row of a group in an order, and so need not look at the others.
#
# The greatest value is that of the first row when the greatest comes first; ``max_by`` orders by another
# column and then by the value, ``last`` by the reverse of its order. So all of them are one thing.


@dataclass(frozen=True, slots=True)
class FirstValue:
    """The value of a column in the first row of each group, among the rows that take part."""

    column: str
    by: tuple[Ordered, ...]
    """The order; it decides between all values of the column."""
    not_null: str | None = None
    """A column that is not null in rows that take part."""
    where: str | None = None
    """A column that is true in rows that take part."""

    @property
    def columns(self) -> tuple[str, ...]:
        """What is looked at of a row that takes part, each once."""
        return tuple(dict.fromkeys([*(each.column for each in self.by), self.column]))

    def __str__(self) -> str:
        """What it is, as text: the name under which its rows are saved and shown."""
        rows = "" if self.where is None else f" where {self.where}"
        if self.by == (Ordered(self.column, self.by[0].descends),):
            return f"{'greatest' if self.by[0].descends else 'least'} of {self.column}{rows}"
        order = [
            f"{each.column}{' desc' * each.descends}{' nulls moved' * each.moves_nulls}" for each in self.by
        ]
        known = "" if self.not_null is None else f" that has {self.not_null}"
        return f"{self.column} of the first{known}{rows} by {', '.join(order)}"


def first_value_asked(asked: TableAggregate, schema: pa.Schema) -> FirstValue | None:
    """An aggregate as the value of a first row, if it is one."""
    column, by = asked.column, asked.by
    if column is None:
        return None
    own = Ordered(column, asked.kind in ("max", "max_by", "last"))
    made: FirstValue | None = None
    if asked.kind in ("min", "max"):
        made = FirstValue(column, (own,), column, asked.where)
    elif asked.kind in ("min_by", "max_by") and by is not None:
        made = FirstValue(column, (Ordered(by, own.descends), own), by, asked.where)
    elif asked.kind in ("first", "last"):
        order = asked.order if asked.kind == "first" else tuple(map(_reversed, asked.order))
        made = FirstValue(column, (*order, own), where=asked.where)
    if made is None:
        return None
    kinds = [schema.field(name).type for name in made.columns]
    return made if all(plain_type(kind) == kind for kind in kinds) else None


def _reversed(each: Ordered) -> Ordered:
    """The same order from its end, nulls too."""
    return replace(each, descends=not each.descends)
