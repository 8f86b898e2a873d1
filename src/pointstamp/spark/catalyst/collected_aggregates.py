"""Aggregates that see all values of a group: ``mode``, ``listagg``, percentiles, bits and moments.

Each is a ``collect_list`` and a function of the list, which is called for the groups that have changed.
``listagg`` and ``mode`` order the values by themselves where the query gives no order, or leaves it open.
"""

from collections.abc import Callable
from typing import Any, Final, TypeAlias

import pyarrow as pa
from pyarrow import types

from pointstamp.expressions.tree import Call, CastTo, Expression, Literal
from pointstamp.reduce.aggregate import Aggregate, AggregateKind
from pointstamp.spark.catalyst.expression_context import ExpressionContext
from pointstamp.spark.catalyst.trees import TreeNode

Collected: TypeAlias = tuple[Aggregate, Callable[[Expression], Expression]]
"""An aggregate of ours, and what Spark's value is of its result."""
Collecting: TypeAlias = Callable[[ExpressionContext, TreeNode, Expression | None, bool], Collected]

_DOUBLE: Final = pa.float64()


def both(one: Expression | None, other: Expression) -> Expression:
    """Return the condition that holds if both do; None always holds."""
    return other if one is None else Call("and", (one, other))


def _present(value: Expression) -> Expression:
    return Call("not", (Call("is_null", (value,)),))


def _collected(
    value: Expression,
    where: Expression | None,
    is_distinct: bool,
    function: str,
    **options: Any,  # noqa: ANN401 - what the function takes
) -> Collected:
    kind: AggregateKind = "collect_set" if is_distinct else "collect_list"
    return Aggregate(kind, value, where=where), lambda found: Call(function, (found,), options)


def _bits(operation: str) -> Collecting:
    def translate(
        translator: ExpressionContext, function: TreeNode, where: Expression | None, is_distinct: bool
    ) -> Collected:
        value = translator.translate(function.children[0])
        return _collected(value, where, is_distinct, "bits_of_group", operation=operation)

    return translate


def _mode(
    translator: ExpressionContext, function: TreeNode, where: Expression | None, is_distinct: bool
) -> Collected:
    # Spark has ``reverse`` for WITHIN GROUP (ORDER BY x), which asks for the least of several.
    takes_greatest = function.fields.get("reverseOpt") is False
    value = translator.translate(function.children[0])
    if _has_map(translator.type_of(value)):
        raise translator.rejected(function, "maps have no order")
    return _collected(value, where, is_distinct, "mode_of_group", takes_greatest=takes_greatest)


def _has_map(kind: pa.DataType) -> bool:
    inner = [kind.field(place).type for place in range(kind.num_fields)]
    return bool(types.is_map(kind)) or any(map(_has_map, inner))


def _list_of_texts(
    translator: ExpressionContext, function: TreeNode, where: Expression | None, is_distinct: bool
) -> Collected:
    child, mark, *orders = function.children
    value = translator.translate(child)
    delimiter = translator.constant(mark, "the delimiter")
    if delimiter is None:
        delimiter = b"" if types.is_binary(translator.type_of(value)) else ""
    names, parts = ["value"], [value]
    directions = []
    for number, order in enumerate(orders):
        names.append(f"order{number}")
        parts.append(translator.translate(order.children[0]))
        if _has_map(translator.type_of(parts[-1])):
            raise translator.rejected(function, "maps have no order")
        is_descending = "Descending" in order.fields["direction"]["object"]
        directions.append((is_descending, "NullsLast" in order.fields["nullOrdering"]["object"]))
    row = Call("struct", tuple(parts), {"names": tuple(names)})
    options = {"delimiter": delimiter, "directions": tuple(directions)}
    return _collected(row, both(where, _present(value)), is_distinct, "joined_group", **options)


def percentiles(translator: ExpressionContext, function: TreeNode, where: Expression | None) -> Collected:
    """Return ``percentile`` and ``percentile_disc``, of one fraction or of several."""
    child, percentage, *frequency = function.children
    fractions = translator.constant(percentage, "the percentage")
    is_list = isinstance(fractions, list)
    wanted = fractions if isinstance(fractions, list) else [fractions]
    if function.fields.get("legacyCalculation"):
        raise translator.rejected(function, "spark.sql.legacy.percentileDiscCalculation is not supported")
    if not all(isinstance(each, int | float) for each in wanted):
        raise translator.rejected(function, "its percentages must be numbers")
    value = translator.translate(child)
    if types.is_duration(found := translator.type_of(value)) or types.is_boolean(found):
        raise translator.rejected(function, f"of values of the type {found} it is not supported")
    times: Expression = Literal(1, pa.int64())
    if frequency:
        times = CastTo(translator.translate(frequency[0]), pa.int64(), is_tried=False)
    number = CastTo(value, _DOUBLE, is_tried=False)
    is_discrete, is_reversed = function.kind == "PercentileDisc", bool(function.fields.get("reverse"))
    if not (is_list or is_discrete or is_reversed or frequency[0].kind != "Literal"):
        (fraction,) = wanted
        if translator.constant(frequency[0], "the frequency") == 1 and not types.is_decimal(found):
            kind: AggregateKind = "median" if fraction == 0.5 else "quantile"
            given = None if fraction == 0.5 else float(fraction)
            return Aggregate(kind, value, where=where, fraction=given), lambda result: result
    row = Call("struct", (number, times), {"names": ("value", "times")})
    options = {
        "fractions": tuple(map(float, wanted)),
        "is_discrete": is_discrete,
        "is_reversed": is_reversed,
    }
    aggregate, finish = _collected(row, both(where, _present(value)), False, "quantiles_of_group", **options)
    if is_list:
        return aggregate, finish
    return aggregate, lambda result: Call(
        "list_item", (finish(result), Literal(0, pa.int32())), {"fails": False}
    )


def _moment(kind: str) -> Collecting:
    def translate(
        translator: ExpressionContext, function: TreeNode, where: Expression | None, is_distinct: bool
    ) -> Collected:
        _check_not_legacy(translator, function)
        value = translator.translate(function.children[0])
        return _collected(value, where, is_distinct, "moment_of_group", kind=kind)

    return translate


def _pair_moment(kind: str, *, is_y_first: bool = True) -> Collecting:
    def translate(
        translator: ExpressionContext, function: TreeNode, where: Expression | None, is_distinct: bool
    ) -> Collected:
        _check_not_legacy(translator, function)
        pair = translator.all(function.children)
        present = both(both(where, _present(pair[0])), _present(pair[1]))
        row = Call("struct", pair, {"names": ("y", "x") if is_y_first else ("x", "y")})
        return _collected(row, present, is_distinct, "pair_moment_of_group", kind=kind)

    return translate


def _check_not_legacy(translator: ExpressionContext, function: TreeNode) -> None:
    if not function.fields.get("nullOnDivideByZero", True):
        raise translator.rejected(function, "spark.sql.legacy.statisticalAggregate is not supported")


COLLECTED_AGGREGATES: Final[dict[str, Collecting]] = {
    "BitAndAgg": _bits("and"),
    "BitOrAgg": _bits("or"),
    "BitXorAgg": _bits("xor"),
    "Mode": _mode,
    "ListAgg": _list_of_texts,
    "RegrReplacement": _moment("sxx"),
    "Skewness": _moment("skewness"),
    "Kurtosis": _moment("kurtosis"),
    "Corr": _pair_moment("corr", is_y_first=False),
    "CovPopulation": _pair_moment("covar_pop", is_y_first=False),
    "CovSample": _pair_moment("covar_samp", is_y_first=False),
    "RegrSXY": _pair_moment("sxy"),
    "RegrSlope": _pair_moment("regr_slope"),
    "RegrIntercept": _pair_moment("regr_intercept"),
    "RegrR2": _pair_moment("regr_r2"),
}
