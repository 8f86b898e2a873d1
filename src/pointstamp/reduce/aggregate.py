"""Aggregates as plain values: ``sum("amount")``, ``max("at")``, ``count()``, and any of one's own.

The built-in ones follow SQL: nulls have no part in them, ``count()`` counts rows and ``count("x")`` the
values that are not null, and the sum, least, greatest or mean of nothing is null. Sums of integers are int64,
and sums of decimals have ten digits more than their column, as in Spark; both are exact, and a sum that does
not fit is refused and never wraps. Sums of floats and all means are doubles.

An aggregate of one's own is an object with the methods of ``Accumulator``. It works on whole arrays:

>>> class GeometricMean:
...     def __init__(self, column):
...         self.column = column
...
...     def result_type(self, column_type):
...         return pa.float64()
...
...     def empty(self):
...         return {"logarithms": 0.0, "rows": 0}
...
...     def update(self, state, slots, values):
...         np.add.at(state["logarithms"], slots, np.log(values))
...         np.add.at(state["rows"], slots, 1)
...
...     def merge(self, state, slots, other):
...         for name in state:
...             state[name][slots] += other[name]
...
...     def result(self, state):
...         return np.exp(state["logarithms"] / state["rows"])

It is used like the others, ``stream.reduce("shop", typical=GeometricMean("price"))``. To see what it does:

>>> mean, state = GeometricMean("price"), {"logarithms": np.zeros(2), "rows": np.zeros(2, int)}
>>> mean.update(state, np.array([0, 1, 0]), pa.array([2.0, 5.0, 8.0]))
>>> mean.result(state).round(3).tolist()
[4.0, 5.0]
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Literal, Protocol, TypeAlias, get_args

import numpy as np  # noqa: F401 - the example above uses it
import pyarrow as pa
import pyarrow.types as types

from pointstamp.errors import FlowError, SchemaError
from pointstamp.keyed.table import Slots
from pointstamp.reduce.accumulators import Count, ExactSum, Extreme, FloatSum, Mean, ObjectExtreme, State

AggregateKind: TypeAlias = Literal["count", "sum", "min", "max", "mean"]


class Accumulator(Protocol):
    """An aggregate of one's own over one column; to look at several, make one struct of them first.

    The state of all keys is a set of numpy columns, kept and grown by the operator. A slot is the number of a
    key: its place in these columns. Only values that are not null arrive, and the result of a key that had
    none is null. An accumulator itself keeps nothing: one object serves many times.
    """

    @property
    def column(self) -> str:
        """The column it looks at."""
        ...

    def result_type(self, column_type: pa.DataType) -> pa.DataType:
        """The type of the result, for a column of this type; raise TypeError if it cannot be aggregated."""
        ...

    def empty(self) -> Mapping[str, Any]:
        """The columns of the state with the value that each new key starts with.

        A Python or numpy number makes a numpy column of its type; anything else one of Python objects, which
        all start as that same object: replace it, and do not change it.
        """
        ...

    def update(self, state: State, slots: Slots, values: pa.Array) -> None:
        """Bring values in: ``values[i]`` is of the key ``slots[i]``, and a key can be there many times.

        ``np.add.at(state["sum"], slots, values)`` adds all; ``state["sum"][slots] += values`` only the last.
        """
        ...

    def merge(self, state: State, slots: Slots, other: State) -> None:
        """Bring states of other rows in: ``other[...][i]`` is of the key ``slots[i]``, each there once."""
        ...

    def result(self, state: State) -> Any:  # noqa: ANN401 - an Arrow or numpy array, or a list
        """The results, one for each row of this state."""
        ...


@dataclass(frozen=True, slots=True)
class Aggregate:
    """A built-in aggregate over a column; ``count`` also works without one, and then counts rows."""

    kind: AggregateKind
    column: str | None = None

    def __post_init__(self) -> None:
        if self.kind not in get_args(AggregateKind):
            known = ", ".join(get_args(AggregateKind))
            raise FlowError(f"there is no aggregate '{self.kind}'; there are {known}, and those of your own.")
        if self.column is None and self.kind != "count":
            raise FlowError(f"the aggregate '{self.kind}' needs a column: {self.kind}('amount').")
        if self.column is not None and not isinstance(self.column, str):
            raise FlowError(
                f"the aggregate '{self.kind}' needs the name of a column, {self.kind}('amount'), but was "
                f"given {type(self.column).__name__} {self.column}. Make it a column first, with "
                "map_batches, and give the name of that column."
            )

    def __str__(self) -> str:
        return f"{self.kind}({self.column or ''})"


Aggregation: TypeAlias = Aggregate | Accumulator
"""What ``reduce`` takes: a built-in aggregate or one's own."""


_ACCUMULATOR: Final = ("column", "result_type", "empty", "update", "merge", "result")


def count(column: str | None = None) -> Aggregate:
    """How many rows a key has, or how many values of a column that are not null."""
    return Aggregate("count", column)


def sum(column: str) -> Aggregate:  # noqa: A001 - the word of SQL
    """The sum of a column of numbers or decimals."""
    return Aggregate("sum", column)


def min(column: str) -> Aggregate:  # noqa: A001 - as above
    """The least value of a column whose type has an order; NaN is greater than all other numbers."""
    return Aggregate("min", column)


def max(column: str) -> Aggregate:  # noqa: A001 - as above
    """The greatest value of a column whose type has an order; NaN is greater than all other numbers."""
    return Aggregate("max", column)


def mean(column: str) -> Aggregate:
    """The mean of a column of numbers or decimals, as a double."""
    return Aggregate("mean", column)


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
    lacking = [each for each in _ACCUMULATOR if not hasattr(aggregation, each)]
    if not isinstance(aggregation, Aggregate) and lacking:
        raise FlowError(
            f"{who}: '{name}' needs an aggregate, such as ps.sum('amount') or an object of your own with "
            f"{', '.join(_ACCUMULATOR)}, but was given {type(aggregation).__name__} {aggregation!r}."
        )
    column = aggregation.column
    if column is None:
        return Bound(None, pa.int64(), Count(), 0)
    if column not in schema.names:
        have = ", ".join(f"'{field.name}' {field.type}" for field in schema)
        raise SchemaError(f"{who}: '{name}' needs the column '{column}'; there are {have}.")
    kind = plain_type(schema.field(column).type)
    if isinstance(aggregation, Aggregate):
        bound = _BINDERS[aggregation.kind](column, kind)
        if bound is None:
            raise SchemaError(
                f"{who}: '{name}' is {aggregation}, but {column} is {kind}, which has no "
                f"{aggregation.kind}. Aggregate another column, or cast this one first."
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
