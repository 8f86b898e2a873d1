"""Join order by keys: a join that cannot multiply rows comes before one that can.

Law, for inner joins where all keys of the second join are columns of A:

    join (join A B) C = join (join A C) B, with the columns in their order
    semi, anti (join A B) C = join (semi, anti A C) B

C has a key on its join keys, so ``join A C`` has at most as many rows as A; B has none, so ``join A B`` can
have more. The rows that are kept between the two joins are fewer, the result is the same. A join with rows
that a condition has left stays first: it takes more away than a key does.

Unsound for: a condition that can raise and would see rows of A that have no partner in B; a join that others
read; names that depend on the order of the joins (they are compared).
"""

from dataclasses import replace

from pointstamp.expressions.tree import columns_of
from pointstamp.plan.logical import Distinct, Filter, Join, LogicalOperator, Project
from pointstamp.plan.properties import Found, properties_of, right_names
from pointstamp.plan.rules.conditions import can_raise
from pointstamp.plan.rules.rewriting import Readers, Roots, rewrite_once, with_columns


def order_joins(roots: Roots) -> list[LogicalOperator]:
    """Return the roots with joins by key first."""
    found = properties_of(roots)
    return rewrite_once(roots, lambda operator, readers: _order(operator, readers, found))


def _order(operator: LogicalOperator, readers: Readers, found: Found) -> LogicalOperator:
    if not isinstance(operator, Join) or not isinstance(operator.left, Join):
        return operator
    first = operator.left
    known = first in found and first.right in found and operator.right in found
    if not known or readers.is_shared(first) or first.kind not in ("inner", "cross") or not operator.keys:
        return operator
    if found[first.right].is_key(theirs for _, theirs in first.keys) or _is_filtered(first.right):
        return operator  # it does not multiply, or leaves few rows
    base = set(first.left.schema.names)
    if not {mine for mine, _ in operator.keys} <= base:
        return operator
    if operator.kind in ("semi", "anti"):
        return _filter_first(operator, first, base)
    if operator.kind != "inner" or not found[operator.right].is_key(theirs for _, theirs in operator.keys):
        return operator
    return _join_first(operator, first, base)


def _is_filtered(operator: LogicalOperator) -> bool:
    """Return whether a condition has taken rows away from a table."""
    match operator:
        case Filter():
            return True
        case Project() | Distinct():
            return _is_filtered(operator.input)
        case Join():
            return operator.kind in ("inner", "semi") and any(map(_is_filtered, operator.inputs))
        case _:
            return False


def _filter_first(operator: Join, first: Join, base: set[str]) -> LogicalOperator:
    if operator.condition is not None:
        return operator
    fewer = replace(operator, left=first.left)
    return replace(first, left=fewer)


def _join_first(operator: Join, first: Join, base: set[str]) -> LogicalOperator:
    keys = {theirs for _, theirs in operator.keys}
    own = {name: new for name, new in right_names(operator).items() if name not in keys}
    if operator.condition is not None:
        looked_at = set(columns_of(operator.condition))
        if not looked_at <= base | set(own.values()) or can_raise(operator.condition, operator.pair):
            return operator
    taken = set(first.left.schema.names)
    natural = {name: f"{name}{operator.suffix}" if name in taken else name for name in own}
    if natural != own:
        return operator
    inner = replace(operator, left=first.left)
    names = right_names(first)
    moved = {name: f"{name}{first.suffix}" if name in inner.schema.names else name for name in names}
    others = {theirs for _, theirs in first.keys}
    if any(moved[name] != names[name] for name in names if name not in others):
        return operator
    outer = replace(first, left=inner)
    return with_columns(outer, operator.schema.names)
