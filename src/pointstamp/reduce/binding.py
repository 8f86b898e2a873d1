"""Bind an aggregate to a column type: its accumulator and result type.

Streams accumulate what can be brought together from parts: ``count``, ``sum``, ``min``, ``max``, ``mean`` and
custom accumulators. All other aggregates need complete groups and are computed elsewhere.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import pyarrow as pa
import pyarrow.types as types

from pointstamp.errors import FlowError, SchemaError
from pointstamp.expressions.tree import Column, Expression, col, lit, when
from pointstamp.optional import conforms
from pointstamp.reduce.accumulators import Count, ExactSum, Extreme, FloatSum, Mean, ObjectExtreme
from pointstamp.reduce.aggregate import Accumulator, Aggregate, Aggregation, FunctionAggregate

_ACCUMULATOR: Final = ("column", "result_type", "empty", "update", "merge", "result")


@dataclass(frozen=True, slots=True)
class Bound:
    """An aggregate that has met the type of its column."""

    column: str | None
    result_type: pa.DataType
    accumulator: Any
    of_nothing: Any = None
    """The result of a key that had no value."""


def bind(who: str, name: str, aggregation: Aggregation, schema: pa.Schema) -> Bound:
    """The aggregate for columns of this schema; SchemaError says what it cannot be made of."""
    if not (isinstance(aggregation, Aggregate) or conforms(aggregation, Accumulator)):
        raise FlowError(
            f"{who}: '{name}' needs an aggregate, got {type(aggregation).__name__} {aggregation!r}. Write "
            f"one such as ps.sum('amount'), or an object with {', '.join(_ACCUMULATOR)}."
        )
    assert not isinstance(aggregation, FunctionAggregate), f"{who}: '{name}' is one of whole groups"
    column = aggregation.column
    assert not isinstance(column, Expression), f"{who}: the argument of '{name}' is not a column yet"
    if column is None:
        return Bound(None, pa.int64(), Count(), 0)
    if column not in schema.names:
        have = ", ".join(f"'{field.name}' {field.type}" for field in schema)
        raise SchemaError(f"{who}: '{name}' needs the column '{column}', got {have}. Name one of these.")
    kind = plain_type(schema.field(column).type)
    if isinstance(aggregation, Aggregate):
        bound = _BINDERS[aggregation.kind](column, kind)
        if bound is None:
            raise SchemaError(
                f"{who}: '{name}' is {aggregation}, but {aggregation.kind} is not defined for {column}, "
                f"which is {kind}. Aggregate another column, or cast this one first."
            )
        return bound
    try:
        return Bound(column, aggregation.result_type(kind), aggregation)
    except TypeError as error:
        raise SchemaError(f"{who}: '{name}' cannot aggregate {column} of type {kind}: {error}") from error


def plain_type(kind: pa.DataType) -> pa.DataType:
    """The type in which values of this type are aggregated: without encodings and views."""
    if types.is_dictionary(kind) or types.is_run_end_encoded(kind):
        return plain_type(kind.value_type)
    if types.is_string_view(kind):
        return pa.large_string()
    return pa.large_binary() if types.is_binary_view(kind) else kind


def _count_of(column: str, kind: pa.DataType) -> Bound:
    return Bound(column, pa.int64(), Count(), 0)


def _sum_of(column: str, kind: pa.DataType) -> Bound | None:
    if types.is_integer(kind):
        return Bound(column, pa.int64(), ExactSum(pa.int64()))
    if types.is_floating(kind):
        return Bound(column, pa.float64(), FloatSum())
    if types.is_decimal(kind):
        make, digits_max = (pa.decimal256, 76) if kind.bit_width == 256 else (pa.decimal128, 38)
        digits = kind.precision + 10
        result = make(digits if digits < digits_max else digits_max, kind.scale)
        return Bound(column, result, ExactSum(result))
    return None


def _extreme_of(column: str, kind: pa.DataType, *, greatest: bool) -> Bound | None:
    if types.is_interval(kind):
        return None
    if types.is_primitive(kind) and not types.is_decimal(kind):
        return Bound(column, kind, Extreme(kind, greatest=greatest))
    compared = _compared_as(kind)
    return None if compared is None else Bound(column, kind, ObjectExtreme(kind, compared, greatest=greatest))


def _compared_as(kind: pa.DataType) -> pa.DataType | None:
    """The type of the same values that Arrow can compare; None if it has no order."""
    if types.is_decimal(kind):
        return kind if kind.bit_width >= 128 else pa.decimal128(kind.precision, kind.scale)
    has_offsets = types.is_string(kind) or types.is_binary(kind)
    is_large = types.is_large_string(kind) or types.is_large_binary(kind)
    return kind if has_offsets or is_large or types.is_fixed_size_binary(kind) else None


def _mean_of(column: str, kind: pa.DataType) -> Bound | None:
    is_number = types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind)
    return Bound(column, pa.float64(), Mean()) if is_number else None


_BINDERS: Final[dict[str, Callable[[str, pa.DataType], Bound | None]]] = {
    "count": _count_of,
    "sum": _sum_of,
    "min": partial(_extreme_of, greatest=False),
    "max": partial(_extreme_of, greatest=True),
    "mean": _mean_of,
}


# The columns that a reduction reads: keys and distinct arguments.
#
# What an aggregate looks at is a column of the rows, or is made one before rows are brought together by key:
# so less is sent and kept, and whoever aggregates knows columns only. A condition makes the argument null
# where it does not hold, and nulls have no part in an aggregate.


class Arguments:
    """Columns by name, as they are asked for; for one reduction that is being written."""

    def __init__(self, keys: Iterable[str]) -> None:
        self.columns: dict[str, Expression] = {key: col(key) for key in keys}

    def of(self, given: str | Expression | None, where: Expression | None = None) -> str | None:
        """The column of an argument, null where the condition does not hold; None if rows are counted."""
        if given is None:
            return None if where is None else self.made(when(where, lit(True)))
        expression = col(given) if isinstance(given, str) else given
        if where is not None:
            return self.made(when(where, expression))
        return self.named(expression.column) if isinstance(expression, Column) else self.made(expression)

    def named(self, column: str) -> str:
        """A column of the rows."""
        self.columns[column] = col(column)
        return column

    def made(self, expression: Expression) -> str:
        """A computed column, under a reserved name."""
        name = f"__{len(self.columns)} {expression}"
        self.columns[name] = expression
        return name
