"""Narrow joins: outer to inner joins, and joins with a distinct to semi joins.

Law: a row that an outer join adds is null in all columns of the other side. If a condition downstream holds
for no such row, the join need not add it: left becomes inner, right becomes inner, full becomes left, right
or inner.

    distinct (columns of L (inner join L R)) = distinct (columns of L (semi join L R))

because a partner is needed, and how many there are is lost by the distinct.

Unsound for: a condition that is not null for nulls (coalesce, is_null, eq_null_safe); a distinct over columns
of the right side that are not join keys; a join that others read, which need all of its rows.
"""

from dataclasses import replace

from pointstamp.expressions.tree import Expression, columns_of
from pointstamp.flow.plan import How
from pointstamp.plan.logical import Distinct, Filter, Join, LogicalOperator, Project
from pointstamp.plan.properties import right_names
from pointstamp.plan.rules.conditions import rejects_nulls
from pointstamp.plan.rules.rewriting import Readers, Roots, rewrite_once


def narrow_joins(roots: Roots) -> list[LogicalOperator]:
    """Return the roots with joins that add and repeat fewer rows."""
    return rewrite_once(roots, _narrow)


def _narrow(operator: LogicalOperator, readers: Readers) -> LogicalOperator:
    if isinstance(operator, Distinct):
        return _to_semi(operator, readers)
    if not isinstance(operator, Filter) or not isinstance(operator.input, Join):
        return operator
    join = operator.input
    if readers.is_shared(join) or join.kind not in ("left", "right", "full"):
        return operator
    kind = inner_kind(join, operator.condition)
    if kind == join.kind:
        return operator
    return replace(operator, input=replace(join, kind=kind))


def inner_kind(join: Join, condition: Expression) -> How:
    """Return the narrowest kind of a join of which a condition holds for the same rows."""
    keys = {mine for mine, _ in join.keys}
    left = set(join.left.schema.names) - keys
    right = {name for own, name in right_names(join).items() if name not in keys}
    keeps_left = join.kind in ("left", "full") and not (right and rejects_nulls(condition, right))
    keeps_right = join.kind in ("right", "full") and not (left and rejects_nulls(condition, left))
    if keeps_left and keeps_right:
        return "full"
    return "left" if keeps_left else "right" if keeps_right else "inner"


def _to_semi(operator: Distinct, readers: Readers) -> LogicalOperator:
    """Return a distinct over rows that have a partner, in place of one over pairs."""
    below = operator.input
    project = below if isinstance(below, Project) else None
    join = below if project is None else project.input
    if (
        not isinstance(join, Join)
        or join.kind != "inner"
        or readers.is_shared(below)
        or readers.is_shared(join)
    ):
        return operator
    mine = set(join.left.schema.names)
    shown = (
        join.schema.names if project is None else [n for _, each in project.columns for n in columns_of(each)]
    )
    if not set(shown) <= mine:
        return operator
    semi = replace(join, kind="semi")
    return replace(operator, input=semi if project is None else replace(project, input=semi))
