"""Rewrite bounded row numbers to top-k.

Law, where the rows of a key have the places 1, 2, 3 and so on in a total order:

    filter (place <= n) (row_number T by K in order O) = top n of T by K in order O, with its places
    filter (place <= n) (top n of T)                   = top n of T
    top n in order O, then all other columns in turn   = top n in order O

because all columns decide, in their order and with nulls first, what an order leaves open. First rows keep
a few rows of each key in order; functions of places are computed again for all rows of a key that changed.

Unsound for: ``rank`` and ``dense_rank`` of rows that are equal in the order, of which more than n have a
place up to n; several functions of places, of which each has its own condition; places that others read, too.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from pointstamp.arrangement.ordering import Ordered, ordering
from pointstamp.expressions.tree import Call, Column, Expression, Literal
from pointstamp.plan.logical import Filter, LogicalOperator, TopK, WindowFunctions
from pointstamp.plan.rules.conditions import all_of, conjuncts
from pointstamp.plan.rules.rewriting import Readers, Roots, rewrite_once

_MIRRORED: Final = {"greater": "less", "greater_equal": "less_equal", "equal": "equal"}


def first_rows(roots: Roots) -> list[LogicalOperator]:
    """Return the roots with first rows where places are bounded."""
    return rewrite_once(roots, _first)


def _first(operator: LogicalOperator, readers: Readers) -> LogicalOperator:
    if isinstance(operator, TopK):
        return _shortest_order(operator)
    if not isinstance(operator, Filter) or readers.is_shared(operator.input):
        return operator
    below = operator.input
    if isinstance(below, WindowFunctions):
        below = _of_places(below, conjuncts(operator.condition))
    if not isinstance(below, TopK) or below.rank is None:
        return operator
    conditions = conjuncts(operator.condition)
    left = [each for each in conditions if (_most(each, below.rank) or 0) < below.count]
    if len(left) == len(conditions):
        return operator
    return replace(operator, input=below, condition=all_of(left, below.schema)) if left else below


def _of_places(operator: WindowFunctions, conditions: Sequence[Expression]) -> LogicalOperator:
    """Return first rows in place of the number of each row, if a condition bounds it."""
    if len(operator.functions) != 1 or not operator.by:
        return operator
    ((name, function),) = operator.functions
    bounds = [most for each in conditions if (most := _most(each, name)) is not None and most > 0]
    if function.kind != "row_number" or not bounds:
        return operator
    made = TopK(operator.input, min(bounds), operator.keys, operator.by, rank=name, name=operator.name)
    return made if made.schema.equals(operator.schema) else operator


def _most(condition: Expression, name: str) -> int | None:
    """Return the n for which a condition holds for the places 1 to n and no others; None if it is another."""
    match condition:
        case Call(function, (Column(column), Literal(value))) if column == name:
            return _bound(function, value)
        case Call(function, (Literal(value), Column(column))) if column == name:
            return _bound(_MIRRORED.get(function, ""), value)
        case _:
            return None


def _bound(function: str, value: Any) -> int | None:  # noqa: ANN401 - of a literal
    if not isinstance(value, int) or isinstance(value, bool):
        return None
    match function:
        case "less_equal":
            return max(value, 0)
        case "less":
            return max(value - 1, 0)
        case "equal":
            return 1 if value == 1 else None
        case _:
            return None


def _shortest_order(operator: TopK) -> LogicalOperator:
    """Return first rows whose order does not end with what decides anyway."""
    if operator.ties or not operator.by:
        return operator
    order = list(ordering(str(operator), operator.input.schema, operator.by))
    if {*operator.keys, *(each.column for each in order)} < set(operator.input.schema.names):
        return operator  # a column that decides nothing may be left out
    kept = len(order)
    while kept > 1 and _is_implied(order[:kept], operator):
        kept -= 1
    return operator if kept == len(order) else replace(operator, by=operator.by[:kept])


def _is_implied(order: Sequence[Ordered], operator: TopK) -> bool:
    """Return whether the last column of an order comes next among those that decide what is open."""
    *before, last = order
    decided = {each.column for each in before} | set(operator.keys)
    others = [name for name in operator.input.schema.names if name not in decided]
    return bool(others) and last.column == others[0] and not last.descends and not last.moves_nulls
