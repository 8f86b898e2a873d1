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
from dataclasses import dataclass, replace
from itertools import groupby
from operator import itemgetter
from typing import TypeAlias

import pyarrow as pa

from pointstamp.expressions.tree import Expression
from pointstamp.plan import logical
from pointstamp.plan.logical import Filter, LogicalOperator, walk
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
from pointstamp.plan.rules.rewriting import Readers, Roots

Targets: TypeAlias = list[tuple[int, Expression]]
"""Inputs, by their places, and the condition as it is over the columns of each."""


def push_predicates(roots: Roots) -> list[LogicalOperator]:
    """Return the roots with every condition as far upstream as it may be."""
    return _Pushing(roots).made()


@dataclass(eq=False, slots=True)
class _Origin:
    """The filter, or the condition of a join, that conditions come from."""

    filter: Filter | None
    conditions: Sequence[Expression]
    name: str | None
    """What the first filter is called that has conditions of it in another place."""


_Sinking: TypeAlias = list[tuple[Expression, _Origin]]
"""Conditions in the order in which they are evaluated."""


class _Pushing:
    """Conditions on their way upstream: readers give them to what they read, then operators are made."""

    def __init__(self, roots: Roots) -> None:
        self._roots = roots
        self._order = list(walk(roots))
        self._readers = Readers(roots)
        self._arrived: dict[LogicalOperator, _Sinking] = {}
        self._above: dict[LogicalOperator, _Sinking] = {}
        """What stays directly downstream of an operator."""
        self._between: dict[tuple[LogicalOperator, int], _Sinking] = {}
        """What stays between an operator and one of its inputs, which others read, too."""
        self._joins: dict[LogicalOperator, logical.Join] = {}
        """Joins whose condition has lost parts."""
        self._bases: dict[LogicalOperator, LogicalOperator] = {}
        """What each filter is over, without filters that only it reads."""
        for each in self._order:
            if isinstance(each, Filter):
                is_own = isinstance(each.input, Filter) and not self._readers.is_shared(each.input)
                self._bases[each] = self._bases[each.input] if is_own else each.input

    def made(self) -> list[LogicalOperator]:
        """Return the roots of the plan with conditions in their new places."""
        for operator in reversed(self._order):
            self._sink(operator, self._arrived.pop(operator, []))
        made: dict[LogicalOperator, LogicalOperator] = {}
        for operator in self._order:
            inputs = [
                self._over(made[each], self._between.get((operator, place), ()), each)
                for place, each in enumerate(operator.inputs)
            ]
            is_gone = isinstance(operator, Filter)  # its conditions are where they can go no further
            moved = inputs[0] if is_gone else self._joins.get(operator, operator).with_inputs(inputs)
            made[operator] = self._over(moved, self._above.get(operator, ()), operator)
        return [made[root] for root in self._roots]

    def _sink(self, operator: LogicalOperator, arrived: _Sinking) -> None:
        if isinstance(operator, Filter):
            conditions = conjuncts(operator.condition)
            origin = _Origin(operator, conditions, operator.name)
            self._give(operator, 0, [*((each, origin) for each in conditions), *arrived])
            return
        moved: dict[int, _Sinking] = {}
        if isinstance(operator, logical.Join) and operator.condition is not None:
            moved = self._from_condition(operator)
        kept: _Sinking = []
        for condition, origin in arrived:
            # One that can raise stays behind those that it was evaluated after.
            is_behind = bool(kept) and can_raise(condition, operator.schema)
            targets = None if is_behind else targets_of(operator, condition)
            if not targets:
                kept.append((condition, origin))
            for place, each in targets or ():
                moved.setdefault(place, []).append((each, origin))
        if kept:
            self._above[operator] = kept
        for place, given in moved.items():
            self._give(operator, place, given)

    def _give(self, operator: LogicalOperator, place: int, conditions: _Sinking) -> None:
        below = operator.inputs[place]
        if self._readers.is_shared(below):
            self._between[operator, place] = conditions
        else:
            self._arrived[below] = conditions

    def _from_condition(self, operator: logical.Join) -> dict[int, _Sinking]:
        """Return what the condition of a join asks of one side only: it looks at pairs for the rest."""
        assert operator.condition is not None
        own = own_names(operator)
        origin = _Origin(None, (), None)
        kept: list[Expression] = []
        moved: dict[int, _Sinking] = {}
        for condition in conjuncts(operator.condition):
            is_safe = not can_raise(condition, operator.pair)
            is_left = operator.kind in ("inner", "cross", "semi", "right")
            is_right = operator.kind in ("inner", "cross", "semi", "left", "anti")
            if is_safe and is_left and is_over(condition, operator.left.schema.names):
                moved.setdefault(0, []).append((condition, origin))
            elif is_safe and is_right and is_over(condition, own):
                moved.setdefault(1, []).append((renamed(condition, own), origin))
            else:
                kept.append(condition)
        if moved:
            rest = all_of(kept, operator.pair) if kept else None
            self._joins[operator] = replace(operator, condition=rest)
        return moved

    def _over(
        self,
        made: LogicalOperator,
        conditions: Sequence[tuple[Expression, _Origin]],
        operator: LogicalOperator,
    ) -> LogicalOperator:
        """Return filters over what was made of an operator, one for each origin of conditions."""
        for origin, group in groupby(conditions, key=itemgetter(1)):
            kept = [each for each, _ in group]
            written = origin.filter
            if written is None or self._bases[written] is not operator:
                made = Filter(made, all_of(kept, made.schema), name=origin.name)
                origin.name = None
            elif len(kept) == len(origin.conditions):
                made = written.with_inputs([made])
            else:
                made = replace(written, input=made, condition=all_of(kept, made.schema))
        return made


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
