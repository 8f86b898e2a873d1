"""The state of a translation: expressions, subqueries, errors."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar, Final

import pyarrow as pa
import pyarrow.compute as pc

from pointstamp.errors import FlowError, PointstampError, SqlError
from pointstamp.expressions.compiler import compile_expression
from pointstamp.expressions.tree import Expression, col
from pointstamp.plan import logical
from pointstamp.plan.logical import LogicalOperator
from pointstamp.reduce.aggregate import Aggregate
from pointstamp.spark.catalyst.expression_context import ExpressionContext, Handler, SessionSettings
from pointstamp.spark.catalyst.nested_functions import NESTED_FUNCTIONS
from pointstamp.spark.catalyst.python_functions import has_function, with_call
from pointstamp.spark.catalyst.relation import (
    BoundRelation,
    Operators,
    attribute,
    fresh_name,
    id_of,
    replaced,
    same_expression,
    text_of,
)
from pointstamp.spark.catalyst.rules import walk
from pointstamp.spark.catalyst.scalar_functions import FUNCTIONS
from pointstamp.spark.catalyst.scalar_operators import OPERATORS
from pointstamp.spark.catalyst.trees import ExpressionNode, PlanNode, TreeNode, catalyst_type

_MICROS: Final = {
    "microsecond": 1,
    "millisecond": 1_000,
    "second": 1_000_000,
    "minute": 60_000_000,
    "hour": 3_600_000_000,
}
_LENGTH: Final = re.compile(r"\s*(\d+)\s+(microsecond|millisecond|second|minute|hour)s?\s*")
"""The gap of a session; days and months have no fixed length."""


# Expressions: trees of Catalyst as expressions of ours, with Spark's types and semantics.
#
# ``ExpressionTranslator`` finds for each class of Catalyst what it is here: arithmetic, comparison, casts,
# branches and structs in ``scalar_operators``, functions that have a name in SQL in ``scalar_functions``, and
# those on lists and maps, with lambda functions, in ``nested_functions``. A class that is not there, and one
# whose meaning the tree does not say, is rejected with its name.
#
# Catalyst has inserted all casts before, so types are found, and never guessed. Arithmetic and casts carry
# their evaluation mode (ANSI, LEGACY or TRY), which ``rules`` has read from
# the plan.


class ExpressionTranslator(ExpressionContext):
    """Translates expressions over attributes of Catalyst, which have names of columns here.

    ``translate`` returns the expression that a tree means.
    """

    handlers: ClassVar[Mapping[str, Handler]] = {**OPERATORS, **FUNCTIONS, **NESTED_FUNCTIONS}


class Translation:
    """One translation of plans to logical operators; operators are shared by all its plans."""

    def __init__(self, session: SessionSettings, node_of: Callable[[PlanNode], BoundRelation]) -> None:
        self.session = session
        self.operators = Operators()
        self.notes: list[str] = []
        """What is said of the plan besides: what it ignores, and what it decides."""
        self.relation = node_of
        self._last_id = 0
        self.functions: dict[bytes, Any] = {}
        """The Python functions of the queries, by what Spark pickled, so that each is one."""
        self._calls: dict[Any, tuple[LogicalOperator, str]] = {}
        """The operator and the column of each call of a Python function, by its input and the call."""

    def new_id(self) -> int:
        """Return an expression id that Catalyst does not have."""
        self._last_id -= 1
        return self._last_id

    def note(self, text: str) -> None:
        """Add something to be said, once."""
        if text not in self.notes:
            self.notes.append(text)

    # Expressions.

    def expression(self, node: ExpressionNode, columns: Mapping[int, str]) -> Expression:
        """Return an expression over columns."""
        return self.translator(columns).translate(_with_plain_times(node))

    def translator(self, columns: Mapping[int, str]) -> ExpressionTranslator:
        """Return what translates expressions over columns."""
        return ExpressionTranslator(columns, self.session)

    def column(self, relation: BoundRelation, node: ExpressionNode, name: str) -> tuple[BoundRelation, str]:
        """Return a relation with a column that is an expression, and the name of the column."""
        if node.kind == "AttributeReference":
            return relation, relation.columns[id_of(node)]
        relation, [node] = self.without_functions(relation, [node])
        if node.kind == "AttributeReference":
            return relation, relation.columns[id_of(node)]
        made = fresh_name(name, relation.operator.schema.names)
        expression = self.expression(node, relation.columns)
        return self.operators.with_columns(relation, {made: expression}), made

    def type_of(self, expression: Expression, operator: LogicalOperator) -> pa.DataType:
        """Return the type of an expression over the columns of an operator."""
        return compile_expression(expression, operator.schema, "a view").type

    def attribute(self, relation: BoundRelation, column: str) -> tuple[BoundRelation, ExpressionNode]:
        """Return a reference to a column of the operator that no expression id means yet."""
        made = self.new_id()
        kind = relation.operator.schema.field(column).type
        known = replace(relation, columns={**relation.columns, made: column})
        return known, attribute(made, column, catalyst_type(kind))

    # Python functions.

    def without_functions(
        self, relation: BoundRelation, nodes: Iterable[ExpressionNode]
    ) -> tuple[BoundRelation, list[ExpressionNode]]:
        """Return a relation with a column for each call of a Python function, which stands for it.

        A call over the result of an aggregate stays: its column is made later.
        """
        current = relation

        def visited(node: ExpressionNode) -> ExpressionNode:
            nonlocal current
            children = tuple(map(visited, node.children))
            if any(new is not old for new, old in zip(children, node.children, strict=True)):
                node = TreeNode(node.kind, node.class_name, node.fields, children)
            if node.kind != "PythonUDF" or any(each.kind == "AggregateExpression" for each in walk(node)):
                return node
            key = (id(current.operator), same_expression(node))
            if key not in self._calls:
                self._calls[key] = with_call(self, current, node)
            added, column = self._calls[key]
            current = replace(current, operator=added)
            current, reference = self.attribute(current, column)
            return reference

        given = [visited(node) if has_function(node) else node for node in nodes]
        return current, given

    # Subqueries.

    def without_subqueries(
        self, relation: BoundRelation, nodes: Iterable[ExpressionNode]
    ) -> tuple[BoundRelation, list[ExpressionNode]]:
        """Return a relation with a column for each scalar subquery, which stands for it in expressions."""
        relation, given = self.without_functions(relation, nodes)
        found: dict[int, ExpressionNode] = {}
        known: dict[str, ExpressionNode] = {}
        for node in given:
            for each in walk(node):
                if "plan" not in each.fields:
                    continue
                if each.kind != "ScalarSubquery":
                    raise rejected(each, "is not supported here", "Write a join, or move it to WHERE.")
                single = self._single_row(self.relation(each.fields["plan"]), each)
                column = single.columns[single.output[0]]
                key = str(id(single.operator)) + column
                if key not in known:
                    relation, name = self.beside(relation, single, column)
                    relation, known[key] = self.attribute(relation, name)
                found[id(each)] = known[key]
        return relation, [replaced(node, found) for node in given]

    def _single_row(self, relation: BoundRelation, node: ExpressionNode) -> BoundRelation:
        """Return one row: that of a subquery, or null if it has none."""
        if relation.is_single:
            return relation
        rows, value = self.operators.exact(relation), relation.columns[relation.output[0]]
        kind = rows.operator.schema.field(value).type
        if pa.types.is_nested(kind):
            raise rejected(
                node,
                f"is one value of type {kind}, which has no order",
                "Aggregate it with max_by.",
            )
        count = fresh_name("number of rows", [value])
        aggregates = ((value, Aggregate("min", value)), (count, Aggregate("count")))
        one = self.operators.make(logical.Aggregate, rows.operator, (), aggregates)
        check = partial(_check_one_row, count)
        checked = self.operators.make(logical.MapBatches, one, check, one.schema)
        return replace(rows, operator=checked, is_single=True)

    def beside(
        self, relation: BoundRelation, single: BoundRelation, column: str
    ) -> tuple[BoundRelation, str]:
        """Return a relation with a column of a relation that has one row, and the name that it has there."""
        name = fresh_name(column, relation.operator.schema.names)
        one = self.operators.project(single.operator, {name: col(column)})
        crossed = self.operators.make(logical.Join, relation.operator, one, "cross")
        return replace(relation, operator=crossed), name

    def renamed(self, relation: BoundRelation, taken: Iterable[str]) -> BoundRelation:
        """Return a relation none of whose columns has a name that is taken."""
        own, new = relation.operator.schema.names, dict[str, str]()
        for name in own:
            others = (each for each in own if each != name)
            new[name] = fresh_name(name, [*taken, *new.values(), *others])
        if all(old == name for old, name in new.items()):
            return relation
        operator = self.operators.project(relation.operator, {name: col(old) for old, name in new.items()})
        columns = {each: new[name] for each, name in relation.columns.items()}
        return replace(relation, operator=operator, columns=columns)


def _with_plain_times(node: ExpressionNode) -> ExpressionNode:
    """Return an expression in which the times of windows are converted as ``unix_micros`` does it."""
    children = tuple(map(_with_plain_times, node.children))
    if node.kind == "PreciseTimestampConversion":
        names = {("timestamp", "long"): "UnixMicros", ("long", "timestamp"): "MicrosToTimestamp"}
        kind = names.get((node.fields["fromType"], node.fields["toType"]))
        if kind is None:
            raise rejected(node, "of timestamps without a zone is not supported", "Cast it to timestamp.")
        return TreeNode(kind, kind, {}, children)
    length = node
    if node.kind == "Cast" and node.fields["dataType"] == "interval":
        (length,) = node.children
    if length.kind == "Literal" and node.fields["dataType"] == "interval":
        found = _LENGTH.fullmatch(str(length.fields["value"]))
        if found is not None:
            value = str(int(found[1]) * _MICROS[found[2]])
            return TreeNode("Literal", "Literal", {"value": value, "dataType": "interval day to second"}, ())
    if all(new is old for new, old in zip(children, node.children, strict=True)):
        return node
    return TreeNode(node.kind, node.class_name, node.fields, children)


def _check_one_row(count: str, batch: pa.RecordBatch) -> pa.RecordBatch:
    most = pc.max(batch.column(batch.schema.names.index(count))).as_py()
    if most is not None and most > 1:
        raise FlowError(
            f"a scalar subquery must have one row, got {most}. Write max(...) or another aggregate, or a "
            "condition that leaves one row."
        )
    return batch


def rejected(node: PlanNode | ExpressionNode, problem: str, advice: str = "") -> SqlError:
    """Return the error that names a node, its text and what to write instead."""
    shown = text_of(node)
    words = f"{node.kind} '{shown[:120]}'" if shown.lower() != f"{node.kind.lower()}()" else node.kind
    return SqlError(f"{words} {problem}.{' ' + advice if advice else ''}")


@contextmanager
def naming(node: PlanNode):  # type: ignore[no-untyped-def]  # noqa: ANN201 - a context
    """Name the node of the plan in errors of what it is made of."""
    try:
        yield
    except SqlError:
        raise
    except PointstampError as error:
        raise SqlError(f"{node.kind}: {error}") from error


def conjuncts(node: ExpressionNode | None) -> list[ExpressionNode]:
    """Return the conditions that must all hold."""
    if node is None:
        return []
    if node.kind == "And":
        return [part for child in node.children for part in conjuncts(child)]
    return [node]


def references(node: ExpressionNode) -> set[int]:
    """Return the ids of the attributes in an expression."""
    return {id_of(each) for each in walk(node) if each.kind == "AttributeReference"}


def all_of(conditions: Sequence[Expression]) -> Expression | None:
    """Return the condition that holds if all of these do; None of none."""
    made: Expression | None = None
    for each in conditions:
        made = each if made is None else made & each
    return made
