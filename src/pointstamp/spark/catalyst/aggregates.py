"""Aggregates of Catalyst: grouping, FILTER, DISTINCT, pivots and sessions.

The result expressions of an Aggregate may compute with aggregates (``sum(a) / count(b)``). Each aggregate
becomes a column of a logical Aggregate, and the expressions a Project over these columns.

Aggregates of distinct values, but for ``count(distinct x)``, are aggregates of rows that are put beside the
rows of the input: the distinct values of each group, marked with the number of the aggregate.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any, Final, TypeAlias

import pyarrow as pa
from pyarrow import types

from pointstamp.expressions.tree import Call, CastTo, Expression, Literal, col, lit, when
from pointstamp.incremental.window_functions import OrderFunction, RowFrame
from pointstamp.plan import logical
from pointstamp.plan.logical import LogicalOperator
from pointstamp.reduce.aggregate import Aggregate, AggregateKind
from pointstamp.spark.catalyst.collected_aggregates import COLLECTED_AGGREGATES, both, percentiles
from pointstamp.spark.catalyst.expression_context import ExpressionContext
from pointstamp.spark.catalyst.relation import (
    BoundRelation,
    attribute,
    fresh_name,
    id_of,
    replaced,
    same_expression,
)
from pointstamp.spark.catalyst.rules import walk
from pointstamp.spark.catalyst.scalar_operators import mode_of
from pointstamp.spark.catalyst.translation import Translation, all_of, rejected
from pointstamp.spark.catalyst.trees import ExpressionNode, PlanNode, TreeNode, catalyst_type, has_map
from pointstamp.spark.catalyst.windows import order_of

_MARK: Final = "of distinct values"


def aggregate(translation: Translation, node: PlanNode) -> BoundRelation:
    """Return one row for each group, or one row of all."""
    check_no_session_sets(node)
    child = translation.relation(node.children[0])
    grouping: list[ExpressionNode] = node.fields["groupingExpressions"]
    results: list[ExpressionNode] = node.fields["aggregateExpressions"]
    child, given = translation.without_functions(child, [*grouping, *results])
    grouping, results = given[: len(grouping)], given[len(grouping) :]
    # A subquery in a key or an aggregate is a column of the input, any other one a column of the groups.
    asked = [each for result in results for each in walk(result) if each.kind == "AggregateExpression"]
    child, given = translation.without_subqueries(child, [*grouping, *asked])
    grouping = given[: len(grouping)]
    own = {id(old): new for old, new in zip(asked, given[len(grouping) :], strict=True) if old is not new}
    results = [replaced(each, own) for each in results]
    keys: list[str] = []
    found: dict[Any, str] = {}
    for number, each in enumerate(grouping):
        child, key = translation.column(child, each, f"group {number}")
        if has_map(child.operator.schema.field(key).type):
            raise rejected(each, "is a map, which has no equality here", "Group by map_entries of it.")
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
    relation, plain = translation.without_subqueries(relation, plain)
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


# Aggregates: ``AggregateExpression`` of Catalyst as aggregates of ours, with DISTINCT and FILTER.
#
# An aggregate becomes a column of an ``Aggregate`` operator, and ``finish`` makes Spark's value of it where
# the two differ: ``try_sum`` adds decimals, which have room, and casts the sum. An aggregate of distinct
# values that is not ``count_distinct`` is a ``DistinctAggregate``: its operator has the distinct values as an
# input.
#
# A sum is exact: it overflows if the sum of all values does. In Spark it also overflows if a sum on the way
# does, which depends on the order of the rows.
#
# In Spark the row of ``first``, ``last`` and ``any_value`` depends on the order of arrival. Here it is the
# first row (for ``last``, the last one) in the order of all columns of the input, so that it is the same row
# for all of them and does not depend on the workers.

Finish: TypeAlias = Callable[[Expression], Expression]


@dataclass(frozen=True, slots=True)
class DistinctAggregate:
    """An aggregate of the distinct values of rows that take part; of several values, none may be null."""

    kind: AggregateKind
    values: tuple[Expression, ...]
    where: Expression | None


@dataclass(frozen=True, slots=True)
class TranslatedAggregate:
    """An aggregate of ours, and what Spark's value is of its result."""

    aggregate: Aggregate | DistinctAggregate
    finish: Finish = lambda result: result


_EXTREMES: Final[dict[str, tuple[AggregateKind, AggregateKind]]] = {
    "Min": ("min", "bool_and"),
    "Max": ("max", "bool_or"),
}
_MOMENTS: Final[dict[str, AggregateKind]] = {
    "StddevSamp": "stddev_samp",
    "StddevPop": "stddev_pop",
    "VarianceSamp": "var_samp",
    "VariancePop": "var_pop",
}
_BY_ANOTHER: Final[dict[str, AggregateKind]] = {"MaxBy": "max_by", "MinBy": "min_by"}
_OF_STRUCTS: Final[dict[str, AggregateKind]] = {
    "Max": "last",
    "Min": "first",
    "MaxBy": "last",
    "MinBy": "first",
}
_COLLECTED: Final[dict[str, AggregateKind]] = {"CollectList": "collect_list", "CollectSet": "collect_set"}
_ENDS: Final[dict[str, AggregateKind]] = {"First": "first", "AnyValue": "first", "Last": "last"}
_APPROXIMATE: Final = re.compile("HyperLogLog|Approx|Hll|Kll|Theta|Tuple|CountMinSketch|HistogramNumeric")

_LONG_DIGITS: Final = pa.decimal128(20, 0)


def translate_aggregate(
    translator: ExpressionContext, node: TreeNode, columns: Sequence[str]
) -> TranslatedAggregate:
    """Return the aggregate that an ``AggregateExpression`` means over an input with these columns."""
    function = node.children[0]
    where = translator.translate(node.children[1]) if len(node.children) > 1 else None
    is_distinct = bool(node.fields["isDistinct"])
    kind = function.kind
    if kind == "Count":
        return TranslatedAggregate(_count(translator, function, where, is_distinct))
    if kind in ("Sum", "Average"):
        return _sum(translator, function, where, is_distinct)
    if kind in _EXTREMES:
        value = translator.translate(function.children[0])
        plain, of_booleans = _EXTREMES[kind]
        is_boolean = types.is_boolean(translator.type_of(value))
        return TranslatedAggregate(Aggregate(of_booleans if is_boolean else plain, value, where=where))
    if kind in _MOMENTS:
        if not function.fields.get("nullOnDivideByZero", True):
            raise translator.rejected(node, "spark.sql.legacy.statisticalAggregate is not supported")
        return _plain(translator, _MOMENTS[kind], function, where, is_distinct)
    if kind in _COLLECTED:
        if not function.fields.get("ignoreNulls", True):
            raise translator.rejected(node, "RESPECT NULLS is not supported")
        return _plain(translator, _COLLECTED[kind], function, where, is_distinct and kind == "CollectList")
    if kind in _BY_ANOTHER and len(function.children) == 2:
        value, by = translator.all(function.children)
        return TranslatedAggregate(Aggregate(_BY_ANOTHER[kind], value, by=by, where=where))
    if kind in _ENDS:
        value = translator.translate(function.children[0])
        if function.fields.get("ignoreNulls"):
            where = both(where, Call("not", (Call("is_null", (value,)),)))
        return TranslatedAggregate(Aggregate(_ENDS[kind], value, by=tuple(columns), where=where))
    if kind in ("Percentile", "PercentileDisc") and not is_distinct:
        return TranslatedAggregate(*percentiles(translator, function, where))
    if kind in COLLECTED_AGGREGATES:
        return TranslatedAggregate(*COLLECTED_AGGREGATES[kind](translator, function, where, is_distinct))
    if _APPROXIMATE.match(kind):
        raise translator.rejected(
            node, f"the aggregate {kind} is approximate, and its value depends on the order of the rows"
        )
    raise translator.rejected(node, f"the aggregate {kind} is not supported in an incremental view")


def _plain(
    translator: ExpressionContext,
    kind: AggregateKind,
    function: TreeNode,
    where: Expression | None,
    is_distinct: bool,
) -> TranslatedAggregate:
    value = translator.translate(function.children[0])
    if is_distinct:
        return TranslatedAggregate(DistinctAggregate(kind, (value,), where))
    return TranslatedAggregate(Aggregate(kind, value, where=where))


def _count(
    translator: ExpressionContext, function: TreeNode, where: Expression | None, is_distinct: bool
) -> Aggregate | DistinctAggregate:
    values = translator.all(function.children)
    if not values:
        raise translator.rejected(function, "count() counts no rows in Spark; count(*) counts them")
    if is_distinct:
        if any(has_map(translator.type_of(value)) for value in values):
            raise translator.rejected(
                function, "distinct maps are not supported, which have no equality here"
            )
        if len(values) == 1:
            return Aggregate("count_distinct", values[0], where=where)
        return DistinctAggregate("count", values, where)
    known = [value for value in values if not (isinstance(value, Literal) and value.value is not None)]
    if len(known) == 1:
        return Aggregate("count", known[0], where=where)
    present = [Call("not", (Call("is_null", (value,)),)) for value in known]
    return Aggregate("count", where=reduce(both, present, where))


def _sum(
    translator: ExpressionContext, function: TreeNode, where: Expression | None, is_distinct: bool
) -> TranslatedAggregate:
    value = translator.translate(function.children[0])
    kind = translator.type_of(value)
    if types.is_duration(kind) or types.is_null(kind):
        raise translator.rejected(function, f"of values of the type {kind} it is not supported")
    mode = mode_of(translator, function)
    name: AggregateKind = "sum" if function.kind == "Sum" else "avg"
    finish: Finish = lambda result: result  # noqa: E731 - one of several
    if mode != "ANSI" and types.is_decimal(kind):
        raise translator.rejected(function, "of decimals it is supported in ANSI mode only")
    if mode != "ANSI" and types.is_integer(kind) and name == "sum":
        value = CastTo(value, _LONG_DIGITS, is_tried=False)
        if mode == "TRY":
            finish = lambda result: CastTo(result, pa.int64(), is_tried=True)  # noqa: E731
        else:
            finish = lambda result: Call("legacy_cast", (result,), {"to": "long"})  # noqa: E731
    if is_distinct:
        return TranslatedAggregate(DistinctAggregate(name, (value,), where), finish)
    return TranslatedAggregate(Aggregate(name, value, where=where), finish)


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
        if function.kind in _OF_STRUCTS and (
            asked_by_struct := self._by_struct(function, condition[0] if condition else None, columns)
        ):
            self._asked[name] = asked_by_struct
            return
        made = translate_aggregate(translator, node, columns)
        asked = made.aggregate
        if isinstance(asked, DistinctAggregate):
            number = self._add_distinct(list(asked.values), asked.where)
            value = None if asked.kind == "count" else col(_value(number, 0))
            asked = Aggregate(asked.kind, value, where=col(_MARK) == number)
        self._asked[name] = asked
        self._finish[name] = made.finish

    def _by_struct(
        self, function: ExpressionNode, condition: ExpressionNode | None, columns: list[str]
    ) -> Aggregate | None:
        """Return the aggregate of the row with the greatest or the least struct; None if it is not one."""
        by = function.children[-1]
        kind = self.translation.type_of(self._expression(by), self.input.operator)
        if not types.is_struct(kind):
            return None
        value = self._expression(function.children[0])
        where = None if condition is None else self._expression(condition)
        self.input, column = self.translation.column(self.input, by, "by")
        self.input, words = order_of(self.translation, self.input, by, column, kind, "asc", "first")
        others = [f"{each} asc nulls first" for each in columns] if len(function.children) > 1 else []
        end = _OF_STRUCTS[function.kind]
        return Aggregate(end, value, by=(*words, *others), where=both(where, col(column).is_not_null()))

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


# Session windows: rows that are near each other in time, merged as Spark does it after planning.
#
# In the analyzed plan the window of each row begins with the row and is as long as the gap. Spark merges
# windows that overlap, for the same values of the other grouping keys, when it plans the query. So this is
# done here: the rows of a key are ordered by the start of their window, and a session begins where the window
# of a row starts after the end of all windows before it.

_BEFORE: Final = RowFrame(None, -1)
_WHOLE: Final = RowFrame(None, None)


def is_session(node: ExpressionNode) -> bool:
    """Return whether a grouping key is a session window."""
    return bool(node.fields.get("is_session"))


def check_no_session_sets(node: PlanNode) -> None:
    """Reject session windows in grouping sets: a copy of the window is not marked as one."""
    if not any(each.fields.get("name") == "spark_grouping_id" for each in node.fields["groupingExpressions"]):
        return
    for inner in walk(node):
        for each in inner.fields.get("projectList", ()):
            if each.kind == "Alias" and each.fields["name"] == "session_window":
                raise rejected(
                    each, "is not supported in grouping sets", "Group by the session window, and union."
                )


def with_sessions(
    translation: Translation, relation: BoundRelation, window: str, keys: Sequence[str]
) -> tuple[BoundRelation, str]:
    """Return a relation with the session of each row among those with its keys, and the session's column."""
    operators, given = translation.operators, relation.operator.schema.names
    names: list[str] = []
    for wanted in ("start", "end", "latest end", "begins", "number", "first start", "last end", "session"):
        names.append(fresh_name(f"session {wanted}", [*given, *names]))
    start, end, latest, begins, number, first, last, session = names
    timed = operators.with_columns(
        relation, {start: col(window).field("start"), end: col(window).field("end")}
    )
    by = f"{start} asc nulls first"
    before = OrderFunction("running_max", end, frame=_BEFORE)
    ordered = operators.make(logical.WindowFunctions, timed.operator, tuple(keys), (by,), ((latest, before),))
    is_first = col(latest).is_null() | (col(start) > col(latest))
    marked = operators.with_columns(
        replace(timed, operator=ordered), {begins: when(is_first, 1).otherwise(0)}
    )
    # Of rows that start together the one that begins a session is the first, so that it counts for all.
    order = (by, f"{begins} desc nulls last")
    count = OrderFunction("running_sum", begins, frame=RowFrame(None, 0))
    numbered = operators.make(
        logical.WindowFunctions, marked.operator, tuple(keys), order, ((number, count),)
    )
    ends = (
        (first, OrderFunction("running_min", start, frame=_WHOLE)),
        (last, OrderFunction("running_max", end, frame=_WHOLE)),
    )
    bounded = operators.make(logical.WindowFunctions, numbered, (*keys, number), (by,), ends)
    kind = bounded.schema.field(window).type
    parts: list[TreeNode] = []
    ids = {-1_000_001: first, -1_000_002: last}
    for (identity, _), part in zip(ids.items(), kind, strict=True):
        parts.append(TreeNode("Literal", "Literal", {"value": part.name, "dataType": "string"}, ()))
        parts.append(attribute(identity, part.name, catalyst_type(part.type)))
    struct = translation.expression(TreeNode("CreateNamedStruct", "CreateNamedStruct", {}, tuple(parts)), ids)
    own = {name: col(name) for name in given}
    operator = operators.project(bounded, {**own, session: struct})
    return replace(relation, operator=operator, is_single=False, order=()), session
