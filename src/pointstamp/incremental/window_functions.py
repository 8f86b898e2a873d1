"""Window functions: functions of a row and its place in a partition.

They are SQL's window functions, with PySpark's names: ``ps.lag("price")``, ``ps.row_number()``. The order is
total, because what ``by`` leaves open is decided by all columns; so a running sum is that of the rows up to
this one (SQL's ``rows unbounded preceding``), and every copy of a row has a separate place. Only ``rank``
and ``dense_rank`` hold rows for equal that ``by`` does not tell apart.
"""

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from pointstamp.errors import FlowError
from pointstamp.expressions.tree import Expression, Value
from pointstamp.reduce.aggregate import Aggregate
from pointstamp.reduce.over import Windowed, WindowExpression

OrderKind: TypeAlias = Literal[
    "row_number",
    "rank",
    "dense_rank",
    "lag",
    "lead",
    "first_value",
    "last_value",
    "running_count",
    "running_sum",
    "running_mean",
    "running_avg",
    "running_min",
    "running_max",
]

NUMBERS: Final = ("row_number", "rank", "dense_rank", "running_count")
"""What is an integer, whatever the column."""


@dataclass(frozen=True, slots=True)
class RowFrame:
    """The rows from so many before a row to so many behind it; below 0 on the other side, None is all."""

    before: int | None
    behind: int | None
    with_equals: bool = False
    """Whether it ends with the last row that the order holds for equal to this one."""
    by_distance: bool = False
    """Whether both are distances of the one column that rows are ordered by, in its unit, and not rows."""


@dataclass(frozen=True, slots=True, eq=False)
class OrderFunction(Windowed):
    """A window function; made by ``ps.lag`` and others."""

    kind: OrderKind
    column: str | Expression | None = None
    offset: int = 1
    """How many rows before or behind, for lag and lead."""
    default: Value = None
    """What there is where no such row is."""
    frame: RowFrame | None = None
    """Of which rows a running function, the first or the last value is, if not of those up to this one."""
    ignores_nulls: bool = False
    """Whether lag, lead, the first and the last value look at rows only that have a value."""

    def __post_init__(self) -> None:
        if self.column is not None and not isinstance(self.column, str | Expression):
            raise FlowError(
                f"'{self.kind}' needs the name of a column or an expression, got "
                f"{type(self.column).__name__} {self.column}. Write {self.kind}('price')."
            )
        whole: object = self.offset
        if not isinstance(whole, int) or whole < 0:
            raise FlowError(
                f"'{self.kind}': the offset must be 0 or more, got {self.offset!r}. Use lead for later "
                "rows, lag for earlier ones."
            )

    def __str__(self) -> str:
        more = f", {self.offset}" if self.kind in ("lag", "lead") else ""
        nulls = " ignore nulls" if self.ignores_nulls else ""
        return f"{self.kind}({'' if self.column is None else self.column}{more}){nulls}"


def row_number() -> OrderFunction:
    """Number the rows of a partition from 1. Copies of a row have separate numbers.

    Examples:
        >>> flow = ps.Dataflow("row_number")
        >>> sales = flow.table("sales", "price long")
        >>> flow.output("out", sales.with_columns(x=ps.row_number().over(order_by="price")))
        >>> results = flow.run(sales=[[{"price": 5}, {"price": 3}]])
        >>> results.table("out").sort_by("price").to_pylist()
        [{'price': 3, 'x': 1}, {'price': 5, 'x': 2}]

    """
    return OrderFunction("row_number")


def rank() -> OrderFunction:
    """Return one more than the number of rows before this one in the order; ties share a rank.

    Examples:
        >>> flow = ps.Dataflow("rank")
        >>> sales = flow.table("sales", "price long")
        >>> flow.output("out", sales.with_columns(x=ps.rank().over(order_by="price")))
        >>> results = flow.run(sales=[[{"price": 5}, {"price": 3}]])
        >>> results.table("out").sort_by("price").to_pylist()
        [{'price': 3, 'x': 1}, {'price': 5, 'x': 2}]

    """
    return OrderFunction("rank")


def dense_rank() -> OrderFunction:
    """Return the rank without gaps: one more than the number of distinct places before this one.

    Examples:
        >>> flow = ps.Dataflow("dense_rank")
        >>> sales = flow.table("sales", "price long")
        >>> flow.output("out", sales.with_columns(x=ps.dense_rank().over(order_by="price")))
        >>> results = flow.run(sales=[[{"price": 5}, {"price": 3}]])
        >>> results.table("out").sort_by("price").to_pylist()
        [{'price': 3, 'x': 1}, {'price': 5, 'x': 2}]

    """
    return OrderFunction("dense_rank")


def lag(column: str | Expression, offset: int = 1, default: Value = None) -> OrderFunction:
    """Return the value of a column in an earlier row.

    Args:
        column: A column or an expression.
        offset (int, default 1): The number of rows before this one.
        default (default None): The value if there is no such row.

    Examples:
        >>> flow = ps.Dataflow("lag")
        >>> sales = flow.table("sales", "price long")
        >>> flow.output("out", sales.with_columns(x=ps.lag("price").over(order_by="price")))
        >>> results = flow.run(sales=[[{"price": 5}, {"price": 3}]])
        >>> results.table("out").sort_by("price").to_pylist()
        [{'price': 3, 'x': None}, {'price': 5, 'x': 3}]

    """
    return OrderFunction("lag", column, offset, default)


def lead(column: str | Expression, offset: int = 1, default: Value = None) -> OrderFunction:
    """Return the value of a column in a later row.

    Args:
        column: A column or an expression.
        offset (int, default 1): The number of rows after this one.
        default (default None): The value if there is no such row.

    Examples:
        >>> flow = ps.Dataflow("lead")
        >>> sales = flow.table("sales", "price long")
        >>> flow.output("out", sales.with_columns(x=ps.lead("price", default=0).over(order_by="price")))
        >>> results = flow.run(sales=[[{"price": 5}, {"price": 3}]])
        >>> results.table("out").sort_by("price").to_pylist()
        [{'price': 3, 'x': 5}, {'price': 5, 'x': 0}]

    """
    return OrderFunction("lead", column, offset, default)


def first_value(column: str | Expression) -> OrderFunction:
    """Return the value of a column in the first row of the partition.

    Examples:
        >>> flow = ps.Dataflow("first_value")
        >>> sales = flow.table("sales", "price long")
        >>> flow.output("out", sales.with_columns(x=ps.first_value("price").over(order_by="price")))
        >>> results = flow.run(sales=[[{"price": 5}, {"price": 3}]])
        >>> results.table("out").sort_by("price").to_pylist()
        [{'price': 3, 'x': 3}, {'price': 5, 'x': 3}]

    """
    return OrderFunction("first_value", column)


def last_value(column: str | Expression) -> OrderFunction:
    """Return the value of a column in the last row of the partition, also if it is after this row.

    Examples:
        >>> flow = ps.Dataflow("last_value")
        >>> sales = flow.table("sales", "price long")
        >>> flow.output("out", sales.with_columns(x=ps.last_value("price").over(order_by="price")))
        >>> results = flow.run(sales=[[{"price": 5}, {"price": 3}]])
        >>> results.table("out").sort_by("price").to_pylist()
        [{'price': 3, 'x': 5}, {'price': 5, 'x': 5}]

    """
    return OrderFunction("last_value", column)


_RUNNING: Final[dict[str, OrderKind]] = {
    "count": "running_count",
    "sum": "running_sum",
    "mean": "running_mean",
    "min": "running_min",
    "max": "running_max",
}


def placed(who: str, column: str, window: WindowExpression) -> OrderFunction:
    """Return the function of a row's place that a window expression says; FlowError where there is none."""
    function = window.function
    if isinstance(function, OrderFunction):
        if window.rows is not None:
            raise FlowError(
                f"{who}, column '{column}': {function} looks at all rows of its partition, got "
                f"rows={window.rows}. Remove rows=."
            )
        return function
    kind = _RUNNING.get(function.kind) if isinstance(function, Aggregate) else None
    if kind is None or function.where is not None:
        raise FlowError(
            f"{who}, column '{column}': {function} cannot be taken over a window; count, sum, mean, min and "
            "max can, without where=. Use one of these."
        )
    frame = None
    if window.rows is not None:
        frame = RowFrame(window.rows - 1, 0)
    elif not window.order_by:
        frame = RowFrame(None, None)
    return OrderFunction(kind, function.column, frame=frame)
