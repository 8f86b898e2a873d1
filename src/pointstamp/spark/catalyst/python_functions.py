"""Python functions of a query: scalar functions and functions of groups.

A call becomes a ``MapBatches`` that adds a column to its input, so it is made for every row that reaches it,
as in Spark. Rows of groups are collected in lists, and the function is called for the groups with changes.
It sees the rows of a group in the order of their columns, from left to right, where Spark leaves the order
open. The function itself, with its module, name and code, is part of what the operator is.
"""

import json
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, Protocol

import pyarrow as pa
from pyspark import cloudpickle

from pointstamp.errors import SqlError
from pointstamp.expressions.tree import Call, Expression, col, lit
from pointstamp.plan import logical
from pointstamp.plan.logical import LogicalOperator
from pointstamp.reduce.aggregate import Aggregate
from pointstamp.spark.catalyst.expression_context import SessionSettings
from pointstamp.spark.catalyst.python_batches import (
    CallingWay,
    GroupCall,
    ScalarCall,
    with_result,
    with_rows_of_groups,
)
from pointstamp.spark.catalyst.relation import BoundRelation, Operators, fresh_name, id_of
from pointstamp.spark.catalyst.rules import walk
from pointstamp.spark.catalyst.trees import ExpressionNode, PlanNode, arrow_type

_WAYS: Final[dict[int, CallingWay]] = {
    100: "pickled", 101: "rows", 200: "pandas", 204: "pandas_iterator", 250: "arrow", 251: "arrow_iterator",
}  # fmt: skip
"""Spark's ``PythonEvalType``, a part of the protocol between its JVM and its workers."""
_GROUPED: Final = {201: False, 206: False, 209: True, 211: True}
"""The functions of groups, and whether they are called with tables of Arrow."""


class _Translation(Protocol):
    """What calls of Python functions need of the translation that they are a part of."""

    session: SessionSettings
    operators: Operators
    functions: dict[bytes, Any]

    @property
    def relation(self) -> Callable[[PlanNode], BoundRelation]:
        """The translation of a node of the plan."""
        ...

    def column(self, relation: BoundRelation, node: ExpressionNode, name: str) -> tuple[BoundRelation, str]:
        """Return a relation with a column that is an expression, and the name of the column."""
        ...

    def note(self, text: str) -> None:
        """Add something to be said, once."""
        ...


def has_function(node: ExpressionNode) -> bool:
    """Return whether a Python function is called in an expression."""
    return any(each.kind == "PythonUDF" for each in walk(node))


def with_call(
    translation: _Translation, relation: BoundRelation, node: ExpressionNode
) -> tuple[LogicalOperator, str]:
    """Return the operator of a relation with a column for a call, and the name of the column."""
    way = _WAYS.get(int(node.fields["evalType"]))
    if way is None:
        raise _rejected(node, "is not called for rows", "Write a scalar function.")
    function = _function(translation, node)
    arguments, keywords = [], []
    for place, each in enumerate(node.children):
        is_named = each.kind == "NamedArgumentExpression"
        value = each.children[0] if is_named else each
        relation, column = translation.column(relation, value, f"argument {place}")
        keywords.append((str(each.fields["key"]), column)) if is_named else arguments.append(column)
    spec = ScalarCall(
        str(node.fields["name"]),
        way,
        tuple(arguments),
        tuple(keywords),
        _written(node.fields["dataType"]),
        translation.session.conversions,
    )
    schema = relation.operator.schema
    name = fresh_name(spec.name, schema.names)
    gives = arrow_type(node.fields["dataType"], f"the Python function '{spec.name}'")
    called = partial(with_result, function, spec, name)
    declared = schema.append(pa.field(name, gives))
    return translation.operators.make(logical.MapBatches, relation.operator, called, declared), name


def grouped_map(translation: _Translation, node: PlanNode) -> BoundRelation:
    """Return the rows that a function makes of each group (``applyInPandas``, ``applyInArrow``)."""
    call = node.fields["functionExpr"]
    child = translation.relation(node.children[0])
    keys = [child.columns[id_of(each)] for each in node.fields["groupingAttributes"]]
    values = [(str(each.fields["name"]), child.columns[id_of(each)]) for each in call.children]
    return _with_groups(translation, node, [(child, keys, values)])


def cogrouped_map(translation: _Translation, node: PlanNode) -> BoundRelation:
    """Return the rows that a function makes of groups of two inputs that have the same key."""
    sides = []
    for place, count in enumerate((node.fields["leftGroupingLen"], node.fields["rightGroupingLen"])):
        child = translation.relation(node.children[place])
        attributes = [child.columns[each] for each in child.output]
        names = _names(node.fields["functionExpr"], child)
        sides.append((child, attributes[: int(count)], names))
    return _with_groups(translation, node, sides)


def _names(call: ExpressionNode, child: BoundRelation) -> list[tuple[str, str]]:
    """The columns of one side that a function is called with, with their names in the query."""
    found = [each for each in call.children if id_of(each) in child.output]
    return [(str(each.fields["name"]), child.columns[id_of(each)]) for each in found]


_Side = tuple[BoundRelation, Sequence[str], Sequence[tuple[str, str]]]
"""A relation, the columns of its keys, and the columns of its rows with their names."""


def _with_groups(translation: _Translation, node: PlanNode, sides: Sequence[_Side]) -> BoundRelation:
    call = node.fields["functionExpr"]
    if int(call.fields["evalType"]) not in _GROUPED:
        raise _rejected(
            call, "is not a function of groups that is supported", "Return one frame for a group."
        )
    operators = translation.operators
    keys = tuple(f"key {place}" for place in range(len(sides[0][1])))
    lists = tuple(f"rows {place}" for place in range(len(sides)))
    kinds = [_row_type(child, values) for child, _, values in sides]
    parts = []
    for number, (child, own, values) in enumerate(sides):
        columns: dict[str, Expression] = {key: col(column) for key, column in zip(keys, own, strict=True)}
        row = Call("struct", tuple(col(each) for _, each in values), {"names": tuple(n for n, _ in values)})
        for place, name in enumerate(lists):
            columns[name] = row if place == number else lit(None).cast(kinds[place])
        columns["side"] = lit(number)
        parts.append(operators.project(child.operator, columns))
    rows = operators.make(logical.Union, tuple(parts)) if len(parts) > 1 else parts[0]
    collected = tuple(
        (name, Aggregate("collect_list", name, where=col("side") == place))
        for place, name in enumerate(lists)
    )
    groups = operators.make(logical.Aggregate, rows, keys, collected)
    output = node.fields["output"]
    gives = arrow_type(call.fields["dataType"], f"the Python function '{call.fields['name']}'")
    spec = GroupCall(
        str(call.fields["name"]),
        _GROUPED[int(call.fields["evalType"])],
        keys,
        lists,
        _written(call.fields["dataType"]),
        translation.session.conversions,
    )
    called = partial(with_rows_of_groups, _function(translation, call), spec, "made")
    declared = pa.schema([*(groups.schema.field(key) for key in keys), pa.field("made", pa.list_(gives))])
    made = operators.make(logical.MapBatches, groups, called, declared)
    exploded = operators.make(logical.Explode, made, "made", None, False)
    translation.note(
        f"'{spec.name}' is called again for every group with a change; it sees the rows of a group in the "
        "order of their columns."
    )
    names: dict[str, Expression] = {}
    columns_of: dict[int, str] = {}
    for each, field in zip(output, gives, strict=True):
        columns_of[id_of(each)] = fresh_name(field.name, names)
        names[columns_of[id_of(each)]] = col("made").field(field.name)
    operator = operators.project(exploded, names)
    return BoundRelation(operator, columns_of, tuple(map(id_of, output)))


def _row_type(child: BoundRelation, values: Sequence[tuple[str, str]]) -> pa.DataType:
    schema = child.operator.schema
    return pa.struct([pa.field(name, schema.field(column).type) for name, column in values])


def _function(translation: _Translation, node: ExpressionNode) -> Any:  # noqa: ANN401 - a user's function
    if not node.fields["udfDeterministic"]:
        raise _rejected(
            node,
            "is not deterministic, so results of a deleted row cannot be retracted",
            "Compute its value upstream, and make it a column of the input.",
        )
    if unusual := translation.session.conversions.unusual:
        raise _rejected(
            node, f"has other conversions by the setting {unusual[0]}=true", "Set it to false for this view."
        )
    if not _has_conversions():
        raise _rejected(node, "needs the conversions of pyspark 4.3", "Update pyspark.")
    pickled = node.fields["func"]
    if pickled is None:
        raise _rejected(node, "has a pickled function of more than a megabyte", "Read its data as a table.")
    if pickled not in translation.functions:
        found = cloudpickle.loads(pickled)
        translation.functions[pickled] = found[0] if isinstance(found, tuple) else found
    return translation.functions[pickled]


def _has_conversions() -> bool:
    try:
        from pyspark.sql.conversion import ArrowBatchTransformer
    except ImportError:
        return False
    return ArrowBatchTransformer is not None


def _rejected(node: ExpressionNode, why: str, advice: str) -> SqlError:
    return SqlError(f"the Python function '{node.fields['name']}' {why}. {advice}")


def _written(kind: Any) -> str:  # noqa: ANN401 - a type in JSON
    return json.dumps(kind, sort_keys=True)
