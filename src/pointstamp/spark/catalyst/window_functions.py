"""Window functions: ``WindowExpression`` of Catalyst as functions of a row's place among the rows of its key.

A window has a partition and an order, which are expressions, and a frame. A function of Spark is one or more
functions of ours, and ``finish`` makes its value of their results: ``percent_rank`` is made of a rank and a
count.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeAlias

import pyarrow as pa
from pyarrow import types

from pointstamp.errors import FlowError
from pointstamp.expressions.tree import Call, CastTo, Choice, Expression, Literal
from pointstamp.spark.catalyst.expression_context import ExpressionContext
from pointstamp.spark.catalyst.scalar_operators import mode_of
from pointstamp.spark.catalyst.trees import TreeNode
from pointstamp.tables.in_order import OrderFunction, OrderKind, RowFrame

Finish: TypeAlias = Callable[..., Expression]


@dataclass(frozen=True, slots=True)
class SortKey:
    """An expression by which rows are ordered."""

    value: Expression
    descends: bool
    nulls_first: bool

    def words(self, column: str) -> str:
        """Return what orders rows by a column that holds the expression."""
        direction = "desc" if self.descends else "asc"
        return f"{column} {direction} nulls {'first' if self.nulls_first else 'last'}"


@dataclass(frozen=True, slots=True)
class TranslatedWindow:
    """Functions of ours over a partition and an order, and Spark's value of their results."""

    partition: tuple[Expression, ...]
    order: tuple[SortKey, ...]
    functions: tuple[OrderFunction, ...]
    finish: Finish = lambda result: result


_WHOLE: Final = RowFrame(None, None)
_UP_TO_EQUALS: Final = RowFrame(None, 0, with_equals=True)
_INT: Final = pa.int32()
_PLACES: Final[dict[str, OrderKind]] = {"RowNumber": "row_number", "Rank": "rank", "DenseRank": "dense_rank"}
_RUNNING: Final[dict[str, OrderKind]] = {
    "Sum": "running_sum",
    "Average": "running_avg",
    "Min": "running_min",
    "Max": "running_max",
}
_ENDS: Final[dict[str, OrderKind]] = {"First": "first_value", "AnyValue": "first_value", "Last": "last_value"}


def translate_window(translator: ExpressionContext, node: TreeNode) -> TranslatedWindow:
    """Return what a ``WindowExpression`` means."""
    function, window = node.children
    *others, frame = window.children
    order = tuple(sort_key(translator, each) for each in others if each.kind == "SortOrder")
    partition = translator.all([each for each in others if each.kind != "SortOrder"])

    def made(*functions: OrderFunction, finish: Finish = lambda result: result) -> TranslatedWindow:
        return TranslatedWindow(partition, order, functions, finish)

    kind = function.kind
    if kind in _PLACES:
        return made(OrderFunction(_PLACES[kind]), finish=lambda place: CastTo(place, _INT, is_tried=False))
    if kind in ("Lag", "Lead"):
        return made(_neighbor(translator, function))
    if kind == "PercentRank":
        return made(OrderFunction("rank"), OrderFunction("running_count", frame=_WHOLE), finish=_percent_rank)
    if kind == "CumeDist":
        up_to = OrderFunction("running_count", frame=_UP_TO_EQUALS)
        return made(up_to, OrderFunction("running_count", frame=_WHOLE), finish=_cumulative)
    if kind == "NTile":
        buckets = translator.constant(function.children[0], "the number of buckets")
        if not isinstance(buckets, int) or buckets < 1:
            raise translator.rejected(node, f"the number of buckets must be above 0, got {buckets}")
        places = OrderFunction("row_number"), OrderFunction("running_count", frame=_WHOLE)
        return made(*places, finish=lambda place, count: _bucket(place, count, buckets))
    if kind == "AggregateExpression":
        return made(_aggregate(translator, node, function, _frame(translator, frame, order)))
    raise translator.rejected(function, "it is not supported over a window")


def sort_key(translator: ExpressionContext, node: TreeNode) -> SortKey:
    """Return what a ``SortOrder`` says."""

    def words(field: str) -> str:
        found = node.fields[field]
        return str(found["object"] if isinstance(found, dict) else found)

    value = translator.translate(node.children[0])
    return SortKey(value, "Descending" in words("direction"), "NullsFirst" in words("nullOrdering"))


def _neighbor(translator: ExpressionContext, function: TreeNode) -> OrderFunction:
    value, offset, default = function.children
    distance = translator.constant(offset, "the offset")
    if not isinstance(distance, int):
        raise translator.rejected(function, "the offset is null")
    goes_back = (function.kind == "Lag") == (distance >= 0)
    if function.kind == "Lag" and offset.kind == "UnaryMinus":
        raise translator.rejected(function, "the offset must be a number above 0")
    found = translator.constant(default, "the default")
    if isinstance(found, float) and found != found:
        raise translator.rejected(function, "the default is NaN")
    return OrderFunction(
        "lag" if goes_back else "lead",
        translator.translate(value),
        abs(distance),
        found,
        ignores_nulls=bool(function.fields.get("ignoreNulls")),
    )


def _aggregate(
    translator: ExpressionContext, window: TreeNode, node: TreeNode, frame: RowFrame | None
) -> OrderFunction:
    function = node.children[0]
    kind = function.kind
    if node.fields["isDistinct"]:
        raise translator.rejected(window, "DISTINCT over a window is not supported")
    value = translator.translate(function.children[0]) if function.children else None
    if len(node.children) > 1 and value is not None:
        if kind in _ENDS and not function.fields.get("ignoreNulls"):
            raise translator.rejected(window, "FILTER of a first or last value is not supported")
        value = Choice(((translator.translate(node.children[1]), value),))
    if kind == "Count":
        if len(function.children) > 1:
            raise translator.rejected(window, "count of several values over a window is not supported")
        is_rows = isinstance(value, Literal) and value.value is not None
        return OrderFunction("running_count", None if is_rows else value, frame=frame)
    assert value is not None
    found = translator.type_of(value)
    cannot_overflow = types.is_floating(found) or (kind == "Average" and types.is_integer(found))
    is_checked = kind not in ("Sum", "Average") or cannot_overflow or mode_of(translator, function) == "ANSI"
    if not is_checked:
        raise translator.rejected(window, "it is supported in ANSI mode only")
    if kind in _RUNNING:
        if types.is_boolean(found) or types.is_duration(found):
            raise translator.rejected(window, f"over a window of the type {found} it is not supported")
        return OrderFunction(_RUNNING[kind], value, frame=frame)
    if kind in _ENDS:
        ignores = bool(function.fields.get("ignoreNulls"))
        return OrderFunction(_ENDS[kind], value, frame=frame or RowFrame(None, 0), ignores_nulls=ignores)
    raise translator.rejected(window, f"the aggregate {kind} is not supported over a window")


def _frame(translator: ExpressionContext, node: TreeNode, order: tuple[SortKey, ...]) -> RowFrame | None:
    """Which rows a function sees; None for those up to this one."""
    if node.kind != "SpecifiedWindowFrame":
        raise translator.rejected(node, "the frame is not specified")
    is_rows = "RowFrame" in str(node.fields["frameType"])
    lower, upper = (_end(translator, each, is_rows) for each in node.children)
    if isinstance(lower, str) and isinstance(upper, str) and (lower, upper) != ("before", "after"):
        raise translator.rejected(node, "the frame ends before it begins")
    first = None if lower == "before" else lower
    last = None if upper == "after" else upper
    if isinstance(first, str) or isinstance(last, str):
        raise translator.rejected(node, "the frame ends before it begins")
    if is_rows:
        if first is None and last == 0:
            return None
        if first is not None and last is not None and first > last:
            raise translator.rejected(node, "the frame ends before it begins")
        return RowFrame(None if first is None else -first, last)
    if first is None and last is None:
        return _WHOLE
    if first is None and last == 0:
        return _UP_TO_EQUALS
    if len(order) != 1 or not _has_distances(translator.type_of(order[0].value)):
        raise translator.rejected(node, "a range of this type is not supported")
    return RowFrame(None if first is None else -first, last, by_distance=True)


def _has_distances(kind: pa.DataType) -> bool:
    return bool(types.is_integer(kind) or types.is_date(kind) or types.is_timestamp(kind))


def _end(translator: ExpressionContext, node: TreeNode, is_rows: bool) -> int | str:
    """The end of a frame: a number of rows or a distance, below 0 if it is before; or "before", "after"."""
    if node.kind == "UnboundedPreceding":
        return "before"
    if node.kind == "UnboundedFollowing":
        return "after"
    if node.kind == "CurrentRow":
        return 0
    try:
        expression = translator.translate(node)
        found = translator.constant_of(expression)
        kind = translator.type_of(expression)
    except FlowError as error:
        raise translator.rejected(node, "this end of a frame is not supported") from error
    if found is None or not isinstance(found[0], int) or not (is_rows or types.is_integer(kind)):
        raise translator.rejected(node, "the end of a frame must be a whole number")
    return found[0]


def _percent_rank(rank: Expression, count: Expression) -> Expression:
    others = Call("subtract", (count, Literal(1)))
    part = Call("divide", (Call("subtract", (rank, Literal(1))), others))
    return Choice(((Call("greater", (count, Literal(1))), part),), Literal(0.0, pa.float64()))


def _cumulative(up_to: Expression, count: Expression) -> Expression:
    return Call("divide", (up_to, count))


def _bucket(place: Expression, count: Expression, buckets: int) -> Expression:
    """The bucket of a place: the first buckets have a row more, if rows are left over."""

    def whole(one: Expression, other: Expression) -> Expression:
        return Call("whole_quotient", (one, other))

    number, one = Literal(buckets, pa.int64()), Literal(1, pa.int64())
    size, larger = whole(count, number), Call("mod", (count, number))
    before = Call("subtract", (place, one))
    in_larger = Call("multiply", (larger, Call("add", (size, one))))
    early = Call("add", (whole(before, Call("add", (size, one))), one))
    late = Call("add", (Call("add", (whole(Call("subtract", (before, in_larger)), size), larger)), one))
    found = Choice(((Call("less", (before, in_larger)), early),), late)
    return CastTo(found, _INT, is_tried=False)
