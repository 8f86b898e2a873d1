"""Window functions of Catalyst: what OVER (PARTITION BY ... ORDER BY ...) computes.

The order of rows that ORDER BY leaves open is decided by all columns, so that the result depends on the rows
alone. In Spark it is open: ``row_number`` over an order with ties gives other numbers in each run.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeAlias

import pyarrow as pa
from pyarrow import types

from pointstamp.errors import FlowError
from pointstamp.expressions.tree import Call, CastTo, Choice, Expression, Literal, col
from pointstamp.incremental.window_functions import OrderFunction, OrderKind, RowFrame
from pointstamp.plan import logical
from pointstamp.spark.catalyst.expression_context import ExpressionContext
from pointstamp.spark.catalyst.relation import BoundRelation, fresh_name, id_of, replaced
from pointstamp.spark.catalyst.rules import walk
from pointstamp.spark.catalyst.scalar_operators import mode_of
from pointstamp.spark.catalyst.translation import Translation, rejected
from pointstamp.spark.catalyst.trees import ExpressionNode, PlanNode, TreeNode

_DAY: Final = 86_400_000_000


def window(translation: Translation, node: PlanNode) -> BoundRelation:
    """Return the rows with a column for each function over a window."""
    child = translation.operators.exact(translation.relation(node.children[0]))
    keys = []
    for number, each in enumerate(node.fields["partitionSpec"]):
        child, key = translation.column(child, each, f"partition {number}")
        keys.append(key)
    child, by = ordered_by(translation, child, node.fields["orderSpec"])
    functions: dict[str, OrderFunction] = {}
    taken = child.operator.schema.names
    results: dict[int, tuple[str, Expression]] = {}
    for each in node.fields["windowExpressions"]:
        if each.kind != "Alias":
            raise rejected(
                each, "is in a window of a correlated subquery", "Write a join, and a window over it."
            )
        over = _with_plain_frame(each.children[0])
        found = translate_window(translation.translator(child.columns), over)
        values = [col(_named(functions, function, taken)) for function in found.functions]
        results[id_of(each)] = (str(each.fields["name"]), found.finish(*values))
    order = by or (_any_order(child, node),)
    keyed = tuple(dict.fromkeys(keys))
    made = translation.operators.make(
        logical.WindowFunctions, child.operator, keyed, order, tuple(functions.items())
    )
    columns, output = dict(child.columns), list(child.output)
    added: dict[str, Expression] = {}
    for identity, (name, expression) in results.items():
        column = fresh_name(name, [*made.schema.names, *added])
        added[column] = expression
        columns[identity] = column
        output.append(identity)
    own = {name: col(name) for name in child.operator.schema.names}
    operator = translation.operators.project(made, {**own, **added})
    return BoundRelation(operator, columns, tuple(output))


def _with_plain_frame(over: ExpressionNode) -> ExpressionNode:
    """Return a window expression whose frame has lengths of time as numbers, in the unit of its order."""
    *others, frame = over.child("windowSpec").children
    orders = [each.children[0] for each in others if each.kind == "SortOrder"]
    lengths = [each for end in frame.children for each in walk(end) if _is_length(each)]
    if not lengths or len(orders) != 1:
        return over
    kind = orders[0].fields.get("dataType")
    unit = {"timestamp": 1, "timestamp_ntz": 1, "date": _DAY}.get(str(kind))
    if unit is None:
        raise rejected(orders[0], "orders a range by a length of time", "Order by a column of timestamps.")
    found: dict[int, ExpressionNode] = {}
    for end in frame.children:
        if any(map(_is_length, walk(end))):
            length = _length(end)
            if length % unit:
                raise rejected(end, "is not a number of days", "Order by a timestamp, not by a date.")
            fields = {"value": str(length // unit), "dataType": "long"}
            found[id(end)] = TreeNode("Literal", "Literal", fields, ())
    return replaced(over, found)


def _is_length(node: ExpressionNode) -> bool:
    return node.kind == "Literal" and str(node.fields["dataType"]).startswith("interval")


def _length(node: ExpressionNode) -> int:
    """Return the microseconds of a literal length of time, below 0 if it is negated."""
    if node.kind == "UnaryMinus":
        return -_length(node.children[0])
    if not _is_length(node) or not str(node.fields["value"]).lstrip("-").isdigit():
        raise rejected(node, "must be a literal length of time")
    if "year" in node.fields["dataType"] or "month" in node.fields["dataType"]:
        raise rejected(node, "has no fixed length", "Give days or hours.")
    return int(node.fields["value"])


def ordered_by(
    translation: Translation, relation: BoundRelation, orders: list[ExpressionNode]
) -> tuple[BoundRelation, tuple[str, ...]]:
    """Return a relation with the columns of an order, and the order as text."""
    words = []
    for number, each in enumerate(orders):
        relation, column = translation.column(relation, each.children[0], f"order {number}")
        direction = "desc" if "Descending" in each.fields["direction"]["object"] else "asc"
        nulls = "last" if "NullsLast" in each.fields["nullOrdering"]["object"] else "first"
        kind = relation.operator.schema.field(column).type
        relation, own = order_of(translation, relation, each.children[0], column, kind, direction, nulls)
        words += own
    return relation, tuple(words)


def order_of(
    translation: Translation,
    relation: BoundRelation,
    node: ExpressionNode,
    column: str,
    kind: pa.DataType,
    direction: str,
    nulls: str,
) -> tuple[BoundRelation, list[str]]:
    """Return the order of a column: that of a struct is whether it is null, and then that of its fields."""
    if not pa.types.is_nested(kind):
        return relation, [f"{column} {direction} nulls {nulls}"]
    if not pa.types.is_struct(kind):
        raise rejected(node, "has no order here", "Order by its elements.")
    names = relation.operator.schema.names
    parts = {fresh_name(f"{column} is null", names): col(column).is_null()}
    for field in kind:
        parts[fresh_name(f"{column} {field.name}", [*names, *parts])] = col(column).field(field.name)
    relation = translation.operators.with_columns(relation, parts)
    is_null, *fields = parts
    words = [f"{is_null} {'desc' if nulls == 'first' else 'asc'} nulls first"]
    least = "first" if direction == "asc" else "last"  # in a struct, null is less than all values
    for name, field in zip(fields, kind, strict=True):
        relation, own = order_of(translation, relation, node, name, field.type, direction, least)
        words += own
    return relation, words


def _any_order(relation: BoundRelation, node: PlanNode) -> str:
    for each in relation.operator.schema:
        if not pa.types.is_nested(each.type):
            return f"{each.name} asc nulls first"
    raise rejected(node, "needs a column that has an order")


def _named(functions: dict[str, OrderFunction], wanted: OrderFunction, taken: list[str]) -> str:
    """Return the column of a function, a new one if it is not computed yet."""
    for name, known in functions.items():
        if repr(known) == repr(wanted):
            return name
    made = fresh_name(wanted.kind, [*taken, *functions])
    functions[made] = wanted
    return made


# Window functions: ``WindowExpression`` of Catalyst as functions of a row's place among the rows of its key.
#
# A window has a partition and an order, which are expressions, and a frame. A function of Spark is one or
# more functions of ours, and ``finish`` makes its value of their results: ``percent_rank`` is made of a rank
# and a count.

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
        if len(function.children) != 1:
            raise translator.rejected(window, "over a window, count needs one value or *")
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
