"""The aggregates of SQL by their names in Spark, each for a value and the rows that take part."""

from collections.abc import Callable
from functools import partial
from typing import Final, TypeAlias

from pointstamp.expressions.tree import Expression
from pointstamp.reduce.aggregate import Aggregate, AggregateKind

MakeAggregate: TypeAlias = Callable[[Expression, Expression | None], Aggregate]


def _plain(kind: AggregateKind, value: Expression, where: Expression | None) -> Aggregate:
    return Aggregate(kind, value, where=where)


def _count_if(value: Expression, where: Expression | None) -> Aggregate:
    return Aggregate("count", where=value if where is None else value & where)


_KINDS: Final[dict[str, AggregateKind]] = {
    "count": "count",
    "sum": "sum",
    "min": "min",
    "max": "max",
    "avg": "avg",
    "mean": "avg",
    "median": "median",
    "variance": "var_samp",
    "var_samp": "var_samp",
    "var_pop": "var_pop",
    "stddev": "stddev_samp",
    "std": "stddev_samp",
    "stddev_samp": "stddev_samp",
    "stddev_pop": "stddev_pop",
    "bool_and": "bool_and",
    "every": "bool_and",
    "bool_or": "bool_or",
    "some": "bool_or",
    "any": "bool_or",
    "collect_list": "collect_list",
    "array_agg": "collect_list",
    "collect_set": "collect_set",
}

ONE_VALUE: Final[dict[str, MakeAggregate]] = {
    **{name: partial(_plain, kind) for name, kind in _KINDS.items()},
    "count_if": _count_if,
}

OF_DISTINCT: Final[dict[str, AggregateKind]] = {
    name: kind
    for name, kind in _KINDS.items()
    if kind in ("sum", "avg", "var_samp", "var_pop", "stddev_samp", "stddev_pop", "collect_list")
}
"""Aggregates that may be of distinct values, where copies make a difference."""

BY_ANOTHER: Final[dict[str, AggregateKind]] = {"max_by": "max_by", "min_by": "min_by"}
"""Aggregates of one value in the row in which another is extreme."""

QUANTILES: Final = ("percentile", "percentile_cont")

AGGREGATES: Final = frozenset([*ONE_VALUE, *BY_ANOTHER, *QUANTILES])
