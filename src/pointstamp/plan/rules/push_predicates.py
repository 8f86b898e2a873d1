"""Predicate pushdown: a condition is evaluated as far upstream as it may be.

Law, with p over the columns that are named:

    filter p (project e)        = project e (filter p[e])
    filter p (inner join L R)   = inner join (filter p L) (filter p R), each where p is over the side
    filter p (left join L R)    = left join (filter p L) R, for p over L; right joins are mirrored
    filter p (full join L R)    = full join (filter p L) (filter p R), for p over the join keys only
    filter p (semi, anti L R)   = semi, anti (filter p L) R
    filter p (aggregate, top, window functions by K) = the same over (filter p), for p over K, K not empty
    filter p (union, distinct, except, intersect)    = the same over filters

A p over join keys restricts the other side, too. The condition of a join is moved to a side in the same way,
where a row that fails it is a row without a partner on the side that is not preserved.

Unsound for: the side of an outer join that is filled with nulls; aggregates without keys, which have a row
for no rows; a condition that can raise, below everything that removes rows: it would be evaluated for rows
for which it was not evaluated before. Such a condition stays, except above steps that keep every row
(Project, Union). An operator that has other readers stays as it is, so that it is computed once.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

import pyarrow as pa

from pointstamp.expressions.tree import Expression
from pointstamp.plan import logical
from pointstamp.plan.logical import Filter, LogicalOperator
from pointstamp.plan.properties import right_names
from pointstamp.plan.rules.conditions import (
    all_of,
    can_be,
    can_raise,
    conjuncts,
    is_over,
    is_small,
    renamed,
    substitute,
)
from pointstamp.plan.rules.rewriting import Readers, Roots, rewrite_once

Targets: TypeAlias = list[tuple[int, Expression]]
"""Inputs, by their places, and the condition as it is over the columns of each."""


def push_predicates(roots: Roots) -> list[LogicalOperator]:
    """Return the roots with every condition as far upstream as it may be."""
    return rewrite_once(roots, _push)


def _push(operator: LogicalOperator, readers: Readers) -> LogicalOperator:
    if isinstance(operator, Filter):
        sinking = _Sinking(readers, operator.name)
        kept, below = sinking.sink(conjuncts(operator.condition), operator.input)
        if below is operator.input:
            return operator
        return below if not kept else replace(operator, input=below, condition=all_of(kept, below.schema))
    if isinstance(operator, logical.Join) and operator.condition is not None:
        return _push_condition(operator, readers)
    return operator


class _Sinking:
    """Sinks the conditions of one filter."""

    def __init__(self, readers: Readers, name: str | None) -> None:
        self._readers = readers
        self._name = name

    def above(self, conditions: Sequence[Expression], operator: LogicalOperator) -> LogicalOperator:
        """Return the rows of an operator for which these conditions hold."""
        kept, below = self.sink(conditions, operator)
        if not kept:
            return below
        name, self._name = self._name, None
        return Filter(below, all_of(kept, below.schema), name=name)

    def sink(
        self, conditions: Sequence[Expression], operator: LogicalOperator
    ) -> tuple[Sequence[Expression], LogicalOperator]:
        """Return the conditions that stay above an operator, and the operator over the others."""
        if self._readers.is_shared(operator):
            return conditions, operator
        if isinstance(operator, Filter):
            return self._sink_through(conditions, operator)
        kept: list[Expression] = []
        moved: dict[int, list[Expression]] = {}
        for condition in conditions:
            targets = targets_of(operator, condition)
            if not targets or (kept and can_raise(condition, operator.schema)):
                kept.append(condition)  # one that can raise stays behind those that it was evaluated after
                continue
            for place, each in targets:
                moved.setdefault(place, []).append(each)
        if not moved:
            return conditions, operator
        inputs = [
            self.above(moved[place], each) if place in moved else each
            for place, each in enumerate(operator.inputs)
        ]
        return kept, operator.with_inputs(inputs)

    def _sink_through(
        self, conditions: Sequence[Expression], operator: Filter
    ) -> tuple[Sequence[Expression], LogicalOperator]:
        """Return the same for a filter, which conditions pass only on the way to something else."""
        safe = [each for each in conditions if not can_raise(each, operator.schema)]
        kept, below = self.sink(safe, operator.input) if safe else (safe, operator.input)
        if below is operator.input:
            return conditions, operator
        moved = {id(each) for each in safe} - {id(each) for each in kept}
        return [each for each in conditions if id(each) not in moved], replace(operator, input=below)


def targets_of(operator: LogicalOperator, condition: Expression) -> Targets | None:
    """Return the inputs for whose rows a condition can be evaluated in place of those of the operator."""
    if isinstance(operator, logical.Project):
        made = substitute(condition, dict(operator.columns))
        return [(0, made)] if is_small(made) and can_be(made, operator.input.schema, pa.bool_()) else None
    if isinstance(operator, logical.Union):
        return [(place, condition) for place in range(len(operator.parts))]
    if can_raise(condition, operator.schema):
        return None
    match operator:
        case logical.Distinct():
            return [(0, condition)]
        case logical.Except() | logical.Intersect():
            return [(0, condition), (1, condition)]
        case logical.Explode():
            changed = {operator.column, operator.position}
            return _first(condition, set(operator.schema.names) - changed)
        case logical.TimeWindow():
            return _first(condition, set(operator.input.schema.names))
        case logical.Aggregate() | logical.TopK() | logical.WindowFunctions() | logical.DistinctOn():
            return _first(condition, set(operator.keys))
        case logical.AsOfJoin():
            if is_over(condition, (mine for mine, _ in operator.keys)):
                return [(0, condition), (1, renamed(condition, dict(operator.keys)))]
            return _first(condition, set(operator.left.schema.names))
        case logical.Join():
            return _targets_of_join(operator, condition)
        case _:
            return None


def _first(condition: Expression, columns: set[str]) -> Targets | None:
    return [(0, condition)] if is_over(condition, columns) else None


def _targets_of_join(operator: logical.Join, condition: Expression) -> Targets | None:
    if is_over(condition, (mine for mine, _ in operator.keys)):
        return [(0, condition), (1, renamed(condition, dict(operator.keys)))]
    if operator.kind not in ("right", "full") and is_over(condition, operator.left.schema.names):
        return [(0, condition)]
    if operator.kind in ("inner", "cross", "right"):
        own = own_names(operator)
        if is_over(condition, own):
            return [(1, renamed(condition, own))]
    return None


def own_names(operator: logical.Join) -> Mapping[str, str]:
    """Return the columns of the right side by the names that they have in a pair."""
    return {name: own for own, name in right_names(operator).items()}


def _push_condition(operator: logical.Join, readers: Readers) -> LogicalOperator:
    """Return a join whose condition looks at pairs only; what it asks of one side restricts that side."""
    assert operator.condition is not None
    own = own_names(operator)
    kept: list[Expression] = []
    moved: list[list[Expression]] = [[], []]
    for condition in conjuncts(operator.condition):
        is_safe = not can_raise(condition, operator.pair)
        is_left = operator.kind in ("inner", "cross", "semi", "right")
        is_right = operator.kind in ("inner", "cross", "semi", "left", "anti")
        if is_safe and is_left and is_over(condition, operator.left.schema.names):
            moved[0].append(condition)
        elif is_safe and is_right and is_over(condition, own):
            moved[1].append(renamed(condition, own))
        else:
            kept.append(condition)
    if not any(moved):
        return operator
    sinking = _Sinking(readers, None)
    left, right = (
        sinking.above(conditions, each) if conditions else each
        for conditions, each in zip(moved, operator.inputs, strict=True)
    )
    rest = all_of(kept, operator.pair) if kept else None
    return replace(operator, left=left, right=right, condition=rest)
