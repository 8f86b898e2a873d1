"""Constant folding, contradictions, and the operators that a table without rows makes needless.

Law: an expression and its value are the same; a condition that is true for every row removes none; one that
holds for no row leaves a table without rows, and what follows from that is known without rows.

Unsound for: a global aggregate, which has a row for no rows; the preserved side of an outer join; a part that
raises or depends on the time zone, which is not folded.
"""

from dataclasses import replace
from datetime import date
from decimal import Decimal
from typing import Any, Final
from weakref import WeakKeyDictionary

import pyarrow as pa
from pyarrow import types

from pointstamp.expressions.tree import Call, Column, Expression, Literal, col
from pointstamp.plan import logical
from pointstamp.plan.logical import LogicalOperator, rewrite, walk
from pointstamp.plan.rules.conditions import conjuncts, fold
from pointstamp.plan.rules.rewriting import Roots, is_empty, with_columns, without_rows
from pointstamp.reduce.aggregate import Aggregate as Aggregated


def fold_constants(roots: Roots) -> list[LogicalOperator]:
    """Return the roots with constants folded and without what has no rows."""
    if not any(isinstance(each, logical.Scan) for each in walk(roots)):
        return list(roots)  # a table without rows has the epochs of an input
    return rewrite(roots, _fold)


def _fold(operator: LogicalOperator) -> LogicalOperator:
    match operator:
        case logical.Filter() if is_table(operator):
            return _fold_filter(operator)
        case logical.Project():
            columns = tuple((name, fold(each)) for name, each in operator.columns)
            if any(new is not old for (_, new), (_, old) in zip(columns, operator.columns, strict=True)):
                operator = replace(operator, columns=columns)
        case logical.Join():
            operator = _fold_condition(operator)
        case logical.Aggregate():
            operator = _fold_means(operator)
    return _without_rows(operator)


_OF_ROWS: Final = (logical.Filter, logical.Project, logical.Explode, logical.MapBatches, logical.TimeWindow)
_OF_TABLES: Final = (
    *(logical.Distinct, logical.DistinctOn, logical.TopK, logical.WindowFunctions, logical.Intersect),
)


def is_table(operator: LogicalOperator) -> bool:
    """Return whether an operator is known to make a table; streams have operators of rows, too."""
    path: list[LogicalOperator] = []
    while operator not in _tables and isinstance(operator, (*_OF_ROWS, logical.Union)):
        path.append(operator)
        operator = operator.inputs[0]
    known = _tables.get(operator, type(operator).__module__ == LogicalOperator.__module__)
    _tables.update(dict.fromkeys(path, known))
    return known


_tables: Final[WeakKeyDictionary[LogicalOperator, bool]] = WeakKeyDictionary()


def _fold_filter(operator: logical.Filter) -> LogicalOperator:
    condition = fold(operator.condition)
    if isinstance(condition, Literal):
        return operator.input if condition.value is True else without_rows(operator.schema)
    if contradicts(conjuncts(condition), operator.schema) or is_empty(operator.input):
        return without_rows(operator.schema)
    return operator if condition is operator.condition else replace(operator, condition=condition)


def _fold_condition(operator: logical.Join) -> logical.Join:
    if operator.condition is None:
        return operator
    condition = fold(operator.condition)
    if isinstance(condition, Literal) and condition.value is True:
        return replace(operator, condition=None)
    return operator if condition is operator.condition else replace(operator, condition=condition)


def _fold_means(operator: logical.Aggregate) -> logical.Aggregate:
    """Return an aggregate in which SQL's mean is the other one where both are doubles."""
    aggregates = tuple(
        (name, replace(each, kind="mean"))
        if isinstance(each, Aggregated) and each.kind == "avg" and _is_double(operator, name)
        else (name, each)
        for name, each in operator.aggregates
    )
    is_same = all(new is old for (_, new), (_, old) in zip(aggregates, operator.aggregates, strict=True))
    return operator if is_same else replace(operator, aggregates=aggregates)


def _is_double(operator: logical.Aggregate, name: str) -> bool:
    return bool(types.is_float64(operator.schema.field(name).type))


def _without_rows(operator: LogicalOperator) -> LogicalOperator:
    """Return what an operator is if one of its inputs has no rows."""
    if not any(map(is_empty, operator.inputs)):
        if isinstance(operator, logical.Join) and isinstance(operator.condition, Literal):
            return _of_no_pairs(operator)  # a condition that holds for no pair
        return operator
    nothing = without_rows(operator.schema)
    match operator:
        case logical.Aggregate():
            return nothing if operator.keys else operator
        case logical.Union():
            return _union_of_others(operator, nothing)
        case logical.Join():
            return _of_no_pairs(operator)
        case logical.AsOfJoin():
            return nothing if is_empty(operator.left) or operator.kind == "inner" else operator
        case logical.Except():
            if is_empty(operator.left):
                return nothing
            return (
                operator.left
                if operator.keeps_copies
                else logical.Distinct(operator.left, name=operator.name)
            )
        case _ if isinstance(operator, (*_OF_ROWS, *_OF_TABLES)):
            return nothing
        case _:
            return operator


def _union_of_others(operator: logical.Union, nothing: LogicalOperator) -> LogicalOperator:
    parts = [each for each in operator.parts if not is_empty(each)]
    if not parts:
        return nothing
    first = with_columns(parts[0], operator.schema.names)
    return first if len(parts) == 1 else replace(operator, parts=(first, *parts[1:]))


def _of_no_pairs(operator: logical.Join) -> LogicalOperator:
    """Return a join in which no row has a partner."""
    match operator.kind:
        case "anti":
            return operator.left
        case "left" if not is_empty(operator.left):
            nulls = [(each.name, Literal(None, each.type)) for each in operator.schema]
            mine: list[tuple[str, Expression]] = [(name, col(name)) for name in operator.left.schema.names]
            return logical.Project(operator.left, (*mine, *nulls[len(mine) :]), name=operator.name)
        case "right" if not is_empty(operator.right):
            return operator
        case "full" if not (is_empty(operator.left) and is_empty(operator.right)):
            return operator
        case _:
            return without_rows(operator.schema)


# Contradictions.

_COMPARED: Final = {
    "less": ("above", False),
    "less_equal": ("above", True),
    "greater": ("below", False),
    "greater_equal": ("below", True),
}
_MIRRORED: Final = {
    "less": "greater",
    "less_equal": "greater_equal",
    "greater": "less",
    "greater_equal": "less_equal",
    "equal": "equal",
}


def contradicts(conditions: list[Expression], schema: pa.Schema) -> bool:
    """Return whether no row satisfies all of these conditions, as far as bounds of single columns tell.

    >>> contradicts(conjuncts((col("a") > 5) & (col("a") < 3)), pa.schema({"a": pa.int64()}))
    True
    """
    lower: dict[str, tuple[Any, bool]] = {}
    upper: dict[str, tuple[Any, bool]] = {}
    nulls: set[str] = set()
    for condition in conditions:
        match condition:
            case Call("is_null", (Column(name),)):
                nulls.add(name)
            case Call(function, (Column(name), Literal(value))) if function in _MIRRORED:
                _bound(lower, upper, name, function, value, schema)
            case Call(function, (Literal(value), Column(name))) if function in _MIRRORED:
                _bound(lower, upper, name, _MIRRORED[function], value, schema)
    for name in lower.keys() & upper.keys():
        (least, with_least), (most, with_most) = lower[name], upper[name]
        if least > most or (least == most and not (with_least and with_most)):
            return True
    return bool(nulls & (lower.keys() | upper.keys()))


def _bound(
    lower: dict[str, tuple[Any, bool]],
    upper: dict[str, tuple[Any, bool]],
    name: str,
    function: str,
    value: Any,  # noqa: ANN401 - of a literal
    schema: pa.Schema,
) -> None:
    if not _is_compared_as_it_is(value, schema.field(name).type):
        return
    if function == "equal":
        sides = [(lower, True, True), (upper, False, True)]
    else:
        side, with_it = _COMPARED[function]
        sides = [(upper, False, with_it)] if side == "above" else [(lower, True, with_it)]
    for bounds, is_lower, with_it in sides:
        known = bounds.get(name)
        if known is None:
            bounds[name] = (value, with_it)
            continue
        is_closer = value > known[0] if is_lower else value < known[0]
        if is_closer or (value == known[0] and not with_it):
            bounds[name] = (value, with_it)


def _is_compared_as_it_is(value: Any, found: pa.DataType) -> bool:  # noqa: ANN401
    """Return whether a column is compared with a value without a cast that could change one of them."""
    if isinstance(value, bool):
        return bool(types.is_boolean(found))
    if isinstance(value, int):
        return bool(types.is_integer(found))
    if isinstance(value, Decimal):
        return bool(types.is_decimal(found)) and value.is_finite()
    if isinstance(value, date) and type(value) is date:
        return bool(types.is_date32(found))
    return isinstance(value, str) and bool(types.is_string(found))
