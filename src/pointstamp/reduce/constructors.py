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
    """Count rows, or the values of a column that are not null.

    Examples:
        >>> flow = ps.Dataflow("count")
        >>> sales = flow.table("sales", "price long")
        >>> flow.output("out", sales.agg(x=ps.count()))
        >>> flow.run(sales=[[{"price": 5}, {"price": 3}]]).table("out").to_pylist()
        [{'x': 2}]

    """
    return Aggregate("count", column, where=where)


def count_distinct(column: str | Expression, *, where: Expression | None = None) -> Aggregate:
    """Count the distinct values of a column that are not null.

    Examples:
        >>> flow = ps.Dataflow("count_distinct")
        >>> sales = flow.table("sales", "price long")
        >>> flow.output("out", sales.agg(x=ps.count_distinct("price")))
        >>> flow.run(sales=[[{"price": 5}, {"price": 3}]]).table("out").to_pylist()
        [{'x': 2}]

    """
    return Aggregate("count_distinct", column, where=where)


def sum(column: str | Expression, *, where: Expression | None = None) -> Aggregate:  # noqa: A001 - SQL's word
    """Return the sum of numbers or decimals.

    Examples:
        >>> flow = ps.Dataflow("sum")
        >>> sales = flow.table("sales", "price long")
        >>> flow.output("out", sales.agg(x=ps.sum("price")))
        >>> flow.run(sales=[[{"price": 5}, {"price": 3}]]).table("out").to_pylist()
        [{'x': 8}]

    """
    return Aggregate("sum", column, where=where)


def min(column: str | Expression, *, where: Expression | None = None) -> Aggregate:  # noqa: A001 - as above
    """Return the least value of a type that has an order. NaN is greater than all other numbers.

    Examples:
        >>> flow = ps.Dataflow("min")
        >>> sales = flow.table("sales", "price long")
        >>> flow.output("out", sales.agg(x=ps.min("price")))
        >>> flow.run(sales=[[{"price": 5}, {"price": 3}]]).table("out").to_pylist()
        [{'x': 3}]

    """
    return Aggregate("min", column, where=where)


def max(column: str | Expression, *, where: Expression | None = None) -> Aggregate:  # noqa: A001 - as above
    """Return the greatest value of a type that has an order. NaN is greater than all other numbers.

    Examples:
        >>> flow = ps.Dataflow("max")
        >>> sales = flow.table("sales", "price long")
        >>> flow.output("out", sales.agg(x=ps.max("price")))
        >>> flow.run(sales=[[{"price": 5}, {"price": 3}]]).table("out").to_pylist()
        [{'x': 5}]

    """
    return Aggregate("max", column, where=where)


def mean(column: str | Expression, *, where: Expression | None = None) -> Aggregate:
    """Return the mean of numbers or decimals, as a double.

    Examples:
        >>> flow = ps.Dataflow("mean")
        >>> sales = flow.table("sales", "price long")
        >>> flow.output("out", sales.agg(x=ps.mean("price")))
        >>> flow.run(sales=[[{"price": 5}, {"price": 3}]]).table("out").to_pylist()
        [{'x': 4.0}]

    """
    return Aggregate("mean", column, where=where)


def max_by(column: str | Expression, by: str | Expression, *, where: Expression | None = None) -> Aggregate:
    """Return the value of a column in the row in which another column is greatest.

    Rows in which ``by`` is null are ignored. If several rows have the greatest, the greatest value wins, of
    which null is the least; so the result depends only on the rows.

    Examples:
        >>> flow = ps.Dataflow("max_by")
        >>> sales = flow.table("sales", "id long, price long")
        >>> flow.output("out", sales.agg(x=ps.max_by("id", by="price")))
        >>> flow.run(sales=[[{"id": 1, "price": 5}, {"id": 2, "price": 3}]]).table("out").to_pylist()
        [{'x': 1}]

    """
    return _chosen_by("max_by", column, by, where)


def min_by(column: str | Expression, by: str | Expression, *, where: Expression | None = None) -> Aggregate:
    """Return the value of a column in the row in which another column is least.

    Rows in which ``by`` is null are ignored. If several rows have the least, the least value wins.

    Examples:
        >>> flow = ps.Dataflow("min_by")
        >>> sales = flow.table("sales", "id long, price long")
        >>> flow.output("out", sales.agg(x=ps.min_by("id", by="price")))
        >>> flow.run(sales=[[{"id": 1, "price": 5}, {"id": 2, "price": 3}]]).table("out").to_pylist()
        [{'x': 2}]

    """
    return _chosen_by("min_by", column, by, where)


def first(column: str | Expression, by: str | Iterable[str], *, where: Expression | None = None) -> Aggregate:
    """Return the value of a column in the first row of an order.

    The order has the form that ``top`` takes; ascending, nulls are first. Ties are broken by the value: the
    least is first.

    Examples:
        >>> flow = ps.Dataflow("first")
        >>> sales = flow.table("sales", "id long, price long")
        >>> flow.output("out", sales.agg(x=ps.first("price", by="id")))
        >>> flow.run(sales=[[{"id": 1, "price": 5}, {"id": 2, "price": 3}]]).table("out").to_pylist()
        [{'x': 5}]

    """
    return _in_order("first", column, by, where)


def last(column: str | Expression, by: str | Iterable[str], *, where: Expression | None = None) -> Aggregate:
    """Return the value of a column in the last row of an order, as in ``first``.

    Examples:
        >>> flow = ps.Dataflow("last")
        >>> sales = flow.table("sales", "id long, price long")
        >>> flow.output("out", sales.agg(x=ps.last("price", by="id")))
        >>> flow.run(sales=[[{"id": 1, "price": 5}, {"id": 2, "price": 3}]]).table("out").to_pylist()
        [{'x': 3}]

    """
    return _in_order("last", column, by, where)


def median(column: str | Expression, *, where: Expression | None = None) -> Aggregate:
    """Return the median: the middle value, or the mean of the two in the middle.

    Examples:
        >>> flow = ps.Dataflow("median")
        >>> sales = flow.table("sales", "price long")
        >>> flow.output("out", sales.agg(x=ps.median("price")))
        >>> flow.run(sales=[[{"price": 5}, {"price": 3}]]).table("out").to_pylist()
        [{'x': 4.0}]

    """
    return Aggregate("median", column, where=where)


def quantile(column: str | Expression, fraction: float, *, where: Expression | None = None) -> Aggregate:
    """Return the value below which a fraction of the values lies, as a double, interpolated.

    Of n values in order, from 0, it is at position ``fraction * (n - 1)``: SQL's ``percentile_cont``, Spark's
    ``percentile``.

    Args:
        column: A column or an expression.
        fraction: A number from 0 to 1.
        where (Expression, default None): Aggregate only the rows for which this is true.

    Examples:
        >>> flow = ps.Dataflow("quantile")
        >>> sales = flow.table("sales", "price long")
        >>> flow.output("out", sales.agg(x=ps.quantile("price", 0.9)))
        >>> flow.run(sales=[[{"price": 5}, {"price": 3}]]).table("out").to_pylist()
        [{'x': 4.8}]

    """
    given: object = fraction
    if not isinstance(given, int | float) or not 0 <= given <= 1:
        raise FlowError(
            f"the aggregate 'quantile' needs a fraction from 0 to 1, got {fraction!r}. Write "
            "quantile('price', 0.9)."
        )
    return Aggregate("quantile", column, where=where, fraction=float(fraction))


def var_samp(column: str | Expression, *, where: Expression | None = None) -> Aggregate:
    """Return the sample variance, which divides by n - 1; null for one value.

    Examples:
        >>> flow = ps.Dataflow("var_samp")
        >>> sales = flow.table("sales", "price long")
        >>> flow.output("out", sales.agg(x=ps.var_samp("price")))
        >>> flow.run(sales=[[{"price": 5}, {"price": 3}]]).table("out").to_pylist()
        [{'x': 2.0}]

    """
    return Aggregate("var_samp", column, where=where)


def var_pop(column: str | Expression, *, where: Expression | None = None) -> Aggregate:
    """Return the population variance, which divides by n.

    Examples:
        >>> flow = ps.Dataflow("var_pop")
        >>> sales = flow.table("sales", "price long")
        >>> flow.output("out", sales.agg(x=ps.var_pop("price")))
        >>> flow.run(sales=[[{"price": 5}, {"price": 3}]]).table("out").to_pylist()
        [{'x': 1.0}]

    """
    return Aggregate("var_pop", column, where=where)


def stddev_samp(column: str | Expression, *, where: Expression | None = None) -> Aggregate:
    """Return the sample standard deviation; null for one value.

    Examples:
        >>> flow = ps.Dataflow("stddev_samp")
        >>> sales = flow.table("sales", "price long")
        >>> flow.output("out", sales.agg(x=ps.stddev_samp("price")))
        >>> flow.run(sales=[[{"price": 5}, {"price": 3}]]).table("out").to_pylist()
        [{'x': 1.4142135623730951}]

    """
    return Aggregate("stddev_samp", column, where=where)


def stddev_pop(column: str | Expression, *, where: Expression | None = None) -> Aggregate:
    """Return the population standard deviation.

    Examples:
        >>> flow = ps.Dataflow("stddev_pop")
        >>> sales = flow.table("sales", "price long")
        >>> flow.output("out", sales.agg(x=ps.stddev_pop("price")))
        >>> flow.run(sales=[[{"price": 5}, {"price": 3}]]).table("out").to_pylist()
        [{'x': 1.0}]

    """
    return Aggregate("stddev_pop", column, where=where)


def variance(column: str | Expression, *, where: Expression | None = None) -> Aggregate:
    """Alias of ``var_samp``, as in Spark.

    Examples:
        >>> flow = ps.Dataflow("variance")
        >>> sales = flow.table("sales", "price long")
        >>> flow.output("out", sales.agg(x=ps.variance("price")))
        >>> flow.run(sales=[[{"price": 5}, {"price": 3}]]).table("out").to_pylist()
        [{'x': 2.0}]

    """
    return var_samp(column, where=where)


def stddev(column: str | Expression, *, where: Expression | None = None) -> Aggregate:
    """Alias of ``stddev_samp``, as in Spark.

    Examples:
        >>> flow = ps.Dataflow("stddev")
        >>> sales = flow.table("sales", "price long")
        >>> flow.output("out", sales.agg(x=ps.stddev("price")))
        >>> flow.run(sales=[[{"price": 5}, {"price": 3}]]).table("out").to_pylist()
        [{'x': 1.4142135623730951}]

    """
    return stddev_samp(column, where=where)


def bool_and(column: str | Expression, *, where: Expression | None = None) -> Aggregate:
    """Return whether all values are true; null if there is none.

    Examples:
        >>> flow = ps.Dataflow("bool_and")
        >>> sales = flow.table("sales", "price long")
        >>> flow.output("out", sales.agg(x=ps.bool_and(ps.col("price") > 4)))
        >>> flow.run(sales=[[{"price": 5}, {"price": 3}]]).table("out").to_pylist()
        [{'x': False}]

    """
    return Aggregate("bool_and", column, where=where)


def bool_or(column: str | Expression, *, where: Expression | None = None) -> Aggregate:
    """Return whether any value is true; null if there is none.

    Examples:
        >>> flow = ps.Dataflow("bool_or")
        >>> sales = flow.table("sales", "price long")
        >>> flow.output("out", sales.agg(x=ps.bool_or(ps.col("price") > 4)))
        >>> flow.run(sales=[[{"price": 5}, {"price": 3}]]).table("out").to_pylist()
        [{'x': True}]

    """
    return Aggregate("bool_or", column, where=where)


def collect_list(column: str | Expression, *, where: Expression | None = None) -> Aggregate:
    """Collect all values in a list, sorted. Nulls are ignored, as in Spark.

    Values without an order, such as structs, have an internal order that depends only on them.

    Examples:
        >>> flow = ps.Dataflow("collect_list")
        >>> sales = flow.table("sales", "price long")
        >>> flow.output("out", sales.agg(x=ps.collect_list("price")))
        >>> flow.run(sales=[[{"price": 5}, {"price": 3}]]).table("out").to_pylist()
        [{'x': [3, 5]}]

    """
    return Aggregate("collect_list", column, where=where)


def collect_set(column: str | Expression, *, where: Expression | None = None) -> Aggregate:
    """Collect the distinct values in a list, sorted. Nulls are ignored.

    Examples:
        >>> flow = ps.Dataflow("collect_set")
        >>> sales = flow.table("sales", "price long")
        >>> flow.output("out", sales.agg(x=ps.collect_set("price")))
        >>> flow.run(sales=[[{"price": 5}, {"price": 3}]]).table("out").to_pylist()
        [{'x': [3, 5]}]

    """
    return Aggregate("collect_set", column, where=where)


def aggregate(
    function: Callable[[pa.RecordBatch], Any],
    type: str | pa.DataType,  # noqa: A002 - the word of ps.lit
    *columns: str,
    where: Expression | None = None,
) -> FunctionAggregate:
    """Return a custom aggregate: a function from the rows of a group to a value.

    Args:
        function: Takes an Arrow batch of the named columns, or of all, with every copy of a row, sorted by
            the columns from left to right. It must depend only on the batch: it is called again when a row of
            the group changes, and its old result is retracted.
        type: The type of the value, Spark's or Arrow's.
        *columns: The columns that the function needs.
        where (Expression, default None): Aggregate only the rows for which this is true. A group without such
            rows gives null.

    Examples:
        >>> def spread(rows):
        ...     return pc.max(rows["price"]).as_py() - pc.min(rows["price"]).as_py()
        >>> flow = ps.Dataflow("spread")
        >>> sales = flow.table("sales", "price long")
        >>> flow.output("out", sales.agg(x=ps.aggregate(spread, "long", "price")))
        >>> flow.run(sales=[[{"price": 5}, {"price": 3}]]).table("out").to_pylist()
        [{'x': 2}]

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
