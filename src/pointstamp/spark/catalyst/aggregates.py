"""Aggregates: ``AggregateExpression`` of Catalyst as aggregates of ours, with DISTINCT and FILTER.

An aggregate becomes a column of an ``Aggregate`` operator, and ``finish`` makes Spark's value of it where the
two differ: ``try_sum`` adds decimals, which have room, and casts the sum. An aggregate of distinct values
that is not ``count_distinct`` is a ``DistinctAggregate``: its operator has the distinct values as an input.

A sum is exact: it overflows if the sum of all values does. In Spark it also overflows if a sum on the way
does, which depends on the order of the rows.

In Spark the row of ``first``, ``last`` and ``any_value`` depends on the order of arrival. Here it is the
first row (for ``last``, the last one) in the order of all columns of the input, so that it is the same row
for all of them and does not depend on the workers.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Final, TypeAlias

import pyarrow as pa
from pyarrow import types

from pointstamp.expressions.tree import Call, CastTo, Expression, Literal
from pointstamp.reduce.aggregate import Aggregate, AggregateKind
from pointstamp.spark.catalyst.collected_aggregates import COLLECTED_AGGREGATES, both, percentiles
from pointstamp.spark.catalyst.expression_context import ExpressionContext
from pointstamp.spark.catalyst.scalar_operators import mode_of
from pointstamp.spark.catalyst.trees import TreeNode

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
    if is_distinct:
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
