"""Constructors of aggregates: ``ps.sum("amount")``, ``ps.max_by("id", "price")`` and others.

They follow SQL, with PySpark's names: nulls have no part in them, ``count()`` counts rows and ``count("x")``
the values that are not null, and an aggregate of nothing is null but for counts and collections. Sums of
integers are int64, and sums of decimals have ten digits more than their column, as in Spark; both are exact,
and a sum that does not fit is refused and never wraps. Sums of floats and all means are doubles.

Each takes the name of a column or an expression, and ``where=``, a condition on the rows that take part:

>>> print(sum(col("price") * col("pieces"), where=col("paid")))
sum((col('price') * col('pieces'))) where col('paid')
"""

from collections.abc import Callable, Iterable
from typing import Any

import pyarrow as pa

from pointstamp.arrow.ddl import parse_ddl
from pointstamp.errors import FlowError
from pointstamp.expressions.tree import Expression, col  # noqa: F401 - the example above uses it
from pointstamp.reduce.aggregate import Aggregate, AggregateKind, FunctionAggregate, check_where


def count(column: str | Expression | None = None, *, where: Expression | None = None) -> Aggregate:
    """Count the rows of a key, or the values of a column that are not null."""
    return Aggregate("count", column, where=where)


def count_distinct(column: str | Expression, *, where: Expression | None = None) -> Aggregate:
    """Count the distinct values of a column that are not null."""
    return Aggregate("count_distinct", column, where=where)


def sum(column: str | Expression, *, where: Expression | None = None) -> Aggregate:  # noqa: A001 - SQL's word
    """The sum of numbers or decimals."""
    return Aggregate("sum", column, where=where)


def min(column: str | Expression, *, where: Expression | None = None) -> Aggregate:  # noqa: A001 - as above
    """The least value of a type that has an order; NaN is greater than all other numbers."""
    return Aggregate("min", column, where=where)


def max(column: str | Expression, *, where: Expression | None = None) -> Aggregate:  # noqa: A001 - as above
    """The greatest value of a type that has an order; NaN is greater than all other numbers."""
    return Aggregate("max", column, where=where)


def mean(column: str | Expression, *, where: Expression | None = None) -> Aggregate:
    """The mean of numbers or decimals, as a double."""
    return Aggregate("mean", column, where=where)


def max_by(column: str | Expression, by: str | Expression, *, where: Expression | None = None) -> Aggregate:
    """The value of a column in the row in which another is greatest: ``ps.max_by("id", "price")``.

    Rows in which ``by`` is null have no part in it. Of several rows with the greatest it is the greatest
    value, of which null is the least; so the answer depends on the rows alone.
    """
    return _chosen_by("max_by", column, by, where)


def min_by(column: str | Expression, by: str | Expression, *, where: Expression | None = None) -> Aggregate:
    """The value of a column in the row in which another is least; of several such rows the least value."""
    return _chosen_by("min_by", column, by, where)


def first(column: str | Expression, by: str | Iterable[str], *, where: Expression | None = None) -> Aggregate:
    """The value of a column in the first row in an order: ``ps.first("price", by=["at", "id desc"])``.

    The order is said as ``top`` takes it, with nulls before all values where it ascends. What it leaves open
    is decided by the value, of which the least comes first.
    """
    return _in_order("first", column, by, where)


def last(column: str | Expression, by: str | Iterable[str], *, where: Expression | None = None) -> Aggregate:
    """Return the value of a column in the last row of an order, as in ``first``."""
    return _in_order("last", column, by, where)


def median(column: str | Expression, *, where: Expression | None = None) -> Aggregate:
    """The middle value of numbers, or the mean of both in the middle: ``quantile(column, 0.5)``."""
    return Aggregate("median", column, where=where)


def quantile(column: str | Expression, fraction: float, *, where: Expression | None = None) -> Aggregate:
    """The value below which a fraction of the values lies, as a double, interpolated between two of them.

    Of n values in order, from 0 on, it is at position ``fraction * (n - 1)``: SQL's ``percentile_cont``,
    Spark's ``percentile``.
    """
    given: object = fraction
    if not isinstance(given, int | float) or not 0 <= given <= 1:
        raise FlowError(
            f"the aggregate 'quantile' needs a fraction from 0 to 1, got {fraction!r}. Write "
            "quantile('price', 0.9)."
        )
    return Aggregate("quantile", column, where=where, fraction=float(fraction))


def var_samp(column: str | Expression, *, where: Expression | None = None) -> Aggregate:
    """The variance of a sample: the squares are divided by one less than there are values; null for one."""
    return Aggregate("var_samp", column, where=where)


def var_pop(column: str | Expression, *, where: Expression | None = None) -> Aggregate:
    """The variance of a whole population: the squares are divided by the number of values."""
    return Aggregate("var_pop", column, where=where)


def stddev_samp(column: str | Expression, *, where: Expression | None = None) -> Aggregate:
    """The standard deviation of a sample; null for one value."""
    return Aggregate("stddev_samp", column, where=where)


def stddev_pop(column: str | Expression, *, where: Expression | None = None) -> Aggregate:
    """The standard deviation of a whole population."""
    return Aggregate("stddev_pop", column, where=where)


def variance(column: str | Expression, *, where: Expression | None = None) -> Aggregate:
    """The same as ``var_samp``, as in Spark."""
    return var_samp(column, where=where)


def stddev(column: str | Expression, *, where: Expression | None = None) -> Aggregate:
    """The same as ``stddev_samp``, as in Spark."""
    return stddev_samp(column, where=where)


def bool_and(column: str | Expression, *, where: Expression | None = None) -> Aggregate:
    """Whether all values are true; null where there is none."""
    return Aggregate("bool_and", column, where=where)


def bool_or(column: str | Expression, *, where: Expression | None = None) -> Aggregate:
    """Whether some value is true; null where there is none."""
    return Aggregate("bool_or", column, where=where)


def collect_list(column: str | Expression, *, where: Expression | None = None) -> Aggregate:
    """All values as a list, in the order of the values; those that are null are left out, as in Spark.

    Values without an order, such as structs, come in an order of ours, which depends on them alone.
    """
    return Aggregate("collect_list", column, where=where)


def collect_set(column: str | Expression, *, where: Expression | None = None) -> Aggregate:
    """The different values as a list, in the order of the values, without null."""
    return Aggregate("collect_set", column, where=where)


def aggregate(
    function: Callable[[pa.RecordBatch], Any],
    type: str | pa.DataType,  # noqa: A002 - the word of ps.lit
    *columns: str,
    where: Expression | None = None,
) -> FunctionAggregate:
    """An aggregate of your own: a function from the rows of a group to a value, which has this type.

    ``ps.aggregate(lambda rows: pc.approximate_median(rows["price"]), "double", "price")``. The function is
    given an Arrow batch of the columns that are named, or of all, with every copy of a row, in the order of
    the columns from left to right. It must depend on nothing else: it is asked again when a row of the group
    changes, and what it made is taken back. A group of which no row takes part gives null.
    """
    who = "the aggregate of your own"
    if not callable(function):
        raise FlowError(
            f"{who} needs a function from the rows of a group to a value, got {function!r}. Give a function."
        )
    for column in columns:
        if not isinstance(column, str):
            raise FlowError(
                f"{who} takes names of columns after its type, got {column}. Make a column of it first, "
                "with with_columns."
            )
    check_where("aggregate", where)
    wanted = type if isinstance(type, pa.DataType) else parse_ddl(f"value {type}").field(0).type
    return FunctionAggregate(function, wanted, columns, where)


def _chosen_by(
    kind: AggregateKind, column: str | Expression, by: str | Expression, where: Expression | None
) -> Aggregate:
    if not isinstance(by, str | Expression):
        raise FlowError(
            f"the aggregate '{kind}' needs a column or an expression to compare, got {by!r}. Write "
            f"{kind}('id', 'price')."
        )
    return Aggregate(kind, column, by, where)


def _in_order(
    kind: AggregateKind, column: str | Expression, by: str | Iterable[str], where: Expression | None
) -> Aggregate:
    order = (by,) if isinstance(by, str) else () if isinstance(by, Expression) else tuple(by)
    if not order or not all(isinstance(each, str) for each in order):
        raise FlowError(
            f"the aggregate '{kind}' needs an order, got {by}. Write {kind}('price', by=['at', 'id desc'])."
        )
    return Aggregate(kind, column, order, where)
