"""Window functions of Catalyst: what OVER (PARTITION BY ... ORDER BY ...) computes.

The order of rows that ORDER BY leaves open is decided by all columns, so that the result depends on the rows
alone. In Spark it is open: ``row_number`` over an order with ties gives other numbers in each run.
"""

from typing import Final

import pyarrow as pa

from pointstamp.expressions.tree import Expression, col
from pointstamp.plan import logical
from pointstamp.spark.catalyst.relation import BoundRelation, fresh_name, id_of, replaced
from pointstamp.spark.catalyst.rules import walk
from pointstamp.spark.catalyst.translation import Translation, rejected
from pointstamp.spark.catalyst.trees import ExpressionNode, PlanNode, TreeNode
from pointstamp.spark.catalyst.window_functions import translate_window
from pointstamp.tables.in_order import OrderFunction

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
        if pa.types.is_nested(relation.operator.schema.field(column).type):
            raise rejected(each.children[0], "has no order here", "Order by its fields or elements.")
        words.append(f"{column} {direction} nulls {nulls}")
    return relation, tuple(words)


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
