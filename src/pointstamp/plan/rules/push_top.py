"""The first rows are chosen before a join that only adds columns to them.

Law: if every row of L has one partner in R or none, and rows are grouped and ordered by columns of L, then

    top n (left join L R) = left join (top n L) R

because the columns of L come first in a pair: they decide what the order leaves open, and rows that are equal
in all of them have the same partner.

Unsound for: an order or keys over columns of R; an R that can have several partners for one row; the rank,
which would stand before the columns of R; an inner join, which removes rows that would have been among the
first.
"""

from dataclasses import replace

from pointstamp.arrangement.ordering import ordering
from pointstamp.plan.logical import Join, LogicalOperator, TopK
from pointstamp.plan.properties import Found, properties_of
from pointstamp.plan.rules.rewriting import Readers, Roots, rewrite_once


def push_top(roots: Roots) -> list[LogicalOperator]:
    """Return the roots with the first rows chosen before left joins by key."""
    found = properties_of(roots)
    return rewrite_once(roots, lambda operator, readers: _push(operator, readers, found))


def _push(operator: LogicalOperator, readers: Readers, found: Found) -> LogicalOperator:
    if not isinstance(operator, TopK) or operator.rank is not None or not isinstance(operator.input, Join):
        return operator
    join = operator.input
    if join.kind != "left" or readers.is_shared(join) or join.right not in found:
        return operator
    if not found[join.right].is_key(theirs for _, theirs in join.keys):
        return operator
    order = ordering(str(operator), join.schema, operator.by) if operator.by else ()
    if not {*operator.keys, *(each.column for each in order)} <= set(join.left.schema.names):
        return operator
    return replace(join, left=replace(operator, input=join.left))
