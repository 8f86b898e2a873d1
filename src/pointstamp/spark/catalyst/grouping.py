"""Aggregates of Catalyst: grouping, FILTER, DISTINCT, pivots and sessions.

The result expressions of an Aggregate may compute with aggregates (``sum(a) / count(b)``). Each aggregate
becomes a column of a logical Aggregate, and the expressions a Project over these columns.

Aggregates of distinct values, but for ``count(distinct x)``, are aggregates of rows that are put beside the
rows of the input: the distinct values of each group, marked with the number of the aggregate.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import pyarrow as pa
from pyarrow import types

from pointstamp.expressions.tree import Expression, col, lit
from pointstamp.plan import logical
from pointstamp.plan.logical import LogicalOperator
from pointstamp.reduce.aggregate import Aggregate
from pointstamp.spark.catalyst.aggregates import DistinctAggregate, Finish, translate_aggregate
from pointstamp.spark.catalyst.relation import (
    BoundRelation,
    fresh_name,
    id_of,
    replaced,
    same_expression,
)
from pointstamp.spark.catalyst.rules import walk
from pointstamp.spark.catalyst.sessions import check_no_session_sets, is_session, with_sessions
from pointstamp.spark.catalyst.translation import Translation, all_of
from pointstamp.spark.catalyst.trees import ExpressionNode, PlanNode, TreeNode

_MARK: Final = "of distinct values"


def aggregate(translation: Translation, node: PlanNode) -> BoundRelation:
    """Return one row for each group, or one row of all."""
    check_no_session_sets(node)
    child = translation.relation(node.children[0])
    grouping: list[ExpressionNode] = node.fields["groupingExpressions"]
    results: list[ExpressionNode] = node.fields["aggregateExpressions"]
    child, given = translation.without_subqueries(child, [*grouping, *results])
    grouping, results = given[: len(grouping)], given[len(grouping) :]
    keys: list[str] = []
    found: dict[Any, str] = {}
    for number, each in enumerate(grouping):
        child, key = translation.column(child, each, f"group {number}")
        found.setdefault(same_expression(each), key)
        keys.append(key)
    for place, each in enumerate(grouping):
        if is_session(each):
            others = [key for key in dict.fromkeys(keys) if key != keys[place]]
            child, keys[place] = with_sessions(translation, child, keys[place], others)
            found[same_expression(each)] = keys[place]
    made = _Aggregates(translation, child, tuple(dict.fromkeys(keys)))
    for result in results:
        for each in walk(result):
            if each.kind == "AggregateExpression":
                made.add(each)
    relation = made.relation()
    # What is grouped by is a column now, and so is each aggregate.
    stand_in: dict[int, ExpressionNode] = {}
    columns: dict[int, str] = {}
    for each in grouping:
        if each.kind == "AttributeReference":
            columns[id_of(each)] = found[same_expression(each)]
    relation = replace(relation, columns=columns)
    for result in results:
        for each in walk(result):
            key = same_expression(each)
            if id(each) not in stand_in and key in found and each.kind != "AttributeReference":
                relation, stand_in[id(each)] = translation.attribute(relation, found[key])
            elif each.kind == "AggregateExpression" and id(each) not in stand_in:
                column = made.names[same_expression(each)]
                if column not in made.pivots:
                    relation, stand_in[id(each)] = translation.attribute(relation, column)
    arrays: dict[int, tuple[int, ...]] = {}
    plain: list[ExpressionNode] = []
    for result in results:
        inner = result.children[0] if result.kind == "Alias" else result
        name = made.names.get(same_expression(inner)) if inner.kind == "AggregateExpression" else None
        if name in made.pivots:
            ids = []
            for column in made.pivots[name]:
                relation, element = translation.attribute(relation, column)
                ids.append(id_of(element))
                plain.append(element)
            arrays[id_of(result)] = tuple(ids)
        else:
            plain.append(replaced(result, stand_in))
    projected = project_onto(translation, relation, plain)
    return replace(projected, arrays=arrays, is_single=not grouping)


def project_onto(
    translation: Translation, relation: BoundRelation, results: Sequence[ExpressionNode]
) -> BoundRelation:
    """Return a relation with these expressions as its output: attributes, and aliases of others."""
    relation, results = translation.without_functions(relation, results)  # over aggregates
    columns: dict[int, str] = {}
    added: dict[str, Expression] = {}
    known: dict[str, str] = {}
    taken = list(relation.operator.schema.names)
    for each in results:
        if each.kind == "AttributeReference":
            columns[id_of(each)] = relation.columns[id_of(each)]
            continue
        inner = each.children[0] if each.kind == "Alias" else each
        if inner.kind == "AttributeReference":
            columns[id_of(each)] = relation.columns[id_of(inner)]
            continue
        if inner.kind == "Literal" and inner.fields["dataType"] == "void":
            expression = lit(None).cast("string")  # Spark casts it before it compares it
        else:
            expression = translation.expression(inner, relation.columns)
        if repr(expression) not in known:
            name = fresh_name(str(each.fields["name"]), [*taken, *added])
            added[name] = expression
            known[repr(expression)] = name
        columns[id_of(each)] = known[repr(expression)]
    output = tuple(map(id_of, results))
    if not added:
        return replace(relation, columns=columns, output=output)
    kept = [each.rsplit(" ", 3)[0] for each in relation.order]
    names = dict.fromkeys([*columns.values(), *kept])
    own = {name: added.get(name, col(name)) for name in names}
    return replace(
        relation,
        operator=translation.operators.project(relation.operator, own),
        columns=columns,
        output=output,
    )


@dataclass(slots=True)
class _Aggregates:
    """The aggregates of one node, each with the name of its column."""

    translation: Translation
    input: BoundRelation
    keys: tuple[str, ...]
    names: dict[Any, str] = field(default_factory=dict)
    """The column of each aggregate, by what it means."""
    pivots: dict[str | None, list[str]] = field(default_factory=dict)
    _asked: dict[str, Aggregate] = field(default_factory=dict)
    _finish: dict[str, Finish] = field(default_factory=dict)
    _distinct: list[tuple[list[Expression], Expression | None]] = field(default_factory=list)
    """The distinct values that are put beside the rows: of what, and of which rows."""

    def add(self, node: ExpressionNode) -> None:
        """Take in an aggregate, if it is a new one."""
        key = same_expression(node)
        if key in self.names:
            return
        function, *condition = node.children
        name = self._name(function.kind.lower())
        self.names[key] = name
        if function.kind == "PivotFirst":
            self._pivot(function, self._expression(condition[0]) if condition else None, name)
            return
        translator = self.translation.translator(self.input.columns)
        columns = [each.name for each in self.input.operator.schema if not types.is_nested(each.type)]
        made = translate_aggregate(translator, node, columns)
        asked = made.aggregate
        if isinstance(asked, DistinctAggregate):
            number = self._add_distinct(list(asked.values), asked.where)
            value = None if asked.kind == "count" else col(_value(number, 0))
            asked = Aggregate(asked.kind, value, where=col(_MARK) == number)
        self._asked[name] = asked
        self._finish[name] = made.finish

    def relation(self) -> BoundRelation:
        """Return the keys and the aggregates of each group."""
        operators, rows = self.translation.operators, self.input.operator
        if self._distinct:
            rows = self._with_distinct_values()
            self._asked = {name: _of_rows(each) for name, each in self._asked.items()}
        if not self._asked:
            if not self.keys:
                return BoundRelation(operators.make(logical.Values, _ONE_ROW), {}, ())
            own = operators.project(rows, {each: col(each) for each in self.keys})
            return BoundRelation(operators.make(logical.Distinct, own), {}, ())
        made = operators.make(logical.Aggregate, rows, self.keys, tuple(self._asked.items()))
        columns = {name: self._finish.get(name, _as_it_is)(col(name)) for name in made.schema.names}
        return BoundRelation(operators.project(made, columns), {}, ())

    def _name(self, wanted: str) -> str:
        pivots = [column for each in self.pivots.values() for column in each]
        taken = [*self.input.operator.schema.names, *self.names.values(), *self._asked, *pivots]
        return fresh_name(wanted, taken)

    def _expression(self, node: ExpressionNode) -> Expression:
        return self.translation.expression(node, self.input.columns)

    def _pivot(self, function: ExpressionNode, where: Expression | None, name: str) -> None:
        """Take in one aggregate for each value of a pivot: of the one row of the group that has it."""
        pivot, value = function.children
        columns: list[str] = []
        self.pivots[name] = columns
        for each in function.fields["pivotColumnValues"]:
            text = None if each is None else str(each)
            literal = TreeNode(
                "Literal", "Literal", {"value": text, "dataType": pivot.fields["dataType"]}, ()
            )
            is_this = self._expression(pivot).eq_null_safe(self._expression(literal))
            column = self._name(f"{name} {each}")
            columns.append(column)
            holds = is_this if where is None else is_this & where
            self._asked[column] = Aggregate("max", self._expression(value), where=holds)

    # Distinct values.

    def _add_distinct(self, values: list[Expression], where: Expression | None) -> int:
        for number, (known, condition) in enumerate(self._distinct, 1):
            if repr((known, condition)) == repr((values, where)):
                return number
        self._distinct.append((values, where))
        return len(self._distinct)

    def _with_distinct_values(self) -> LogicalOperator:
        operators, rows = self.translation.operators, self.input.operator
        added = {
            _value(number, place): self.translation.type_of(each, rows)
            for number, (values, _) in enumerate(self._distinct, 1)
            for place, each in enumerate(values)
        }
        own = {name: col(name) for name in rows.schema.names}
        nothing = {name: lit(None).cast(kind) for name, kind in added.items()}
        whole = operators.project(rows, {**own, **nothing, _MARK: lit(0).cast("int")})
        parts: list[LogicalOperator] = [whole]
        for number, (values, where) in enumerate(self._distinct, 1):
            present = all_of([*([] if where is None else [where]), *(each.is_not_null() for each in values)])
            assert present is not None
            taking_part = operators.make(logical.Filter, rows, present)
            named = {_value(number, place): each for place, each in enumerate(values)}
            keys = {key: col(key) for key in self.keys}
            distinct = operators.make(logical.Distinct, operators.project(taking_part, {**keys, **named}))
            known = distinct.schema.names
            columns = {
                each.name: col(each.name) if each.name in known else lit(None).cast(each.type)
                for each in whole.schema
                if each.name != _MARK
            }
            parts.append(operators.project(distinct, {**columns, _MARK: lit(number).cast("int")}))
        return operators.make(logical.Union, tuple(parts))


def _of_rows(asked: Aggregate) -> Aggregate:
    """Return an aggregate that does not see the distinct values that are put beside the rows."""
    if asked.where is not None and _MARK in repr(asked.where):
        return asked
    where = col(_MARK) == 0
    return replace(asked, where=where if asked.where is None else where & asked.where)


def _as_it_is(result: Expression) -> Expression:
    return result


def _value(number: int, place: int) -> str:
    return f"distinct value {number}.{place}"


_ONE_ROW: Final = pa.RecordBatch.from_pydict({"one": pa.array([True])})
