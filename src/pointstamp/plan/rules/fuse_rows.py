"""Fusion: neighboring steps of single rows become one step.

Law, where f after e is f with the expressions of e in place of its columns:

    project f (project e T)  = project (f after e) T
    filter p (filter q T)    = filter (q and p) T
    union (union A B) C      = union A B C
    project of all columns in their order = T

Unsound for: a p that can raise where q is null: ``and`` evaluates its other side there, a second filter does
not, so a null q is made false first. An expression of e that f has several times is not put in, because it
would be computed several times; a step that has other readers stays.

Filter and Project stay two physical operators: one that does both at once is what the physical layer would
need.
"""

from collections import Counter
from dataclasses import replace

from pointstamp.expressions.tree import Expression, Literal, columns_of
from pointstamp.plan.logical import Filter, LogicalOperator, Project, Union, walk
from pointstamp.plan.properties import plain_column
from pointstamp.plan.rules.conditions import all_of, can_be, conjuncts, is_small, substitute
from pointstamp.plan.rules.rewriting import Readers, Roots, rewrite_once


def fuse_rows(roots: Roots) -> list[LogicalOperator]:
    """Return the roots with chains of projections, filters and unions fused."""
    readers = Readers(roots)
    inner = {
        each.input
        for each in walk(roots)
        if isinstance(each, Filter) and isinstance(each.input, Filter) and not readers.is_shared(each.input)
    }
    return rewrite_once(roots, _fuse, kept=inner)  # the last filter of a chain takes all conditions at once


def _fuse(operator: LogicalOperator, readers: Readers) -> LogicalOperator:
    match operator:
        case Filter():
            return _fuse_filters(operator, readers)
        case Project():
            return _fuse_project(operator, readers)
        case Union():
            return _fuse_union(operator, readers)
        case _:
            return operator


def _fuse_filters(operator: Filter, readers: Readers) -> Filter:
    chain = [operator]
    while isinstance(below := chain[-1].input, Filter) and not readers.is_shared(below):
        chain.append(below)
    if len(chain) == 1:
        return operator
    conditions = [part for each in reversed(chain) for part in conjuncts(each.condition)]
    name = next((each.name for each in chain if each.name), None)
    rows = chain[-1].input
    return Filter(rows, all_of(conditions, rows.schema), name=name, origin=operator.origin)


def _fuse_project(operator: Project, readers: Readers) -> LogicalOperator:
    below = operator.input
    if isinstance(below, Project) and not readers.is_shared(below):
        values = dict(below.columns)
        counts = Counter(name for _, each in operator.columns for name in columns_of(each))
        is_once = all(count == 1 or _is_free(values[name]) for name, count in counts.items())
        columns = tuple((name, substitute(each, values)) for name, each in operator.columns)
        rows = below.input.schema
        if (
            is_once
            and all(is_small(each) for _, each in columns)
            and all(can_be(each, rows, operator.schema.field(name).type) for name, each in columns)
        ):
            made = Project(below.input, columns, name=operator.name or below.name, origin=operator.origin)
            return _fuse_project(made, readers)
    is_same = operator.schema.names == below.schema.names
    is_plain = all(plain_column(each) == name for name, each in operator.columns)
    return below if operator.name is None and is_same and is_plain else operator


def _is_free(expression: Expression) -> bool:
    return plain_column(expression) is not None or isinstance(expression, Literal)


def _fuse_union(operator: Union, readers: Readers) -> LogicalOperator:
    parts: list[LogicalOperator] = []
    for each in operator.parts:
        is_fused = isinstance(each, Union) and not readers.is_shared(each)
        parts.extend(each.parts if isinstance(each, Union) and is_fused else [each])
    return operator if len(parts) == len(operator.parts) else replace(operator, parts=tuple(parts))
