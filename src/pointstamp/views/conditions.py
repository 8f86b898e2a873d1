"""Conditions taken apart: what is joined by AND, of which tables each part speaks, which are keys."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from sqlglot import exp

from pointstamp.expressions.tree import Call, Expression, columns_of


def conjuncts(node: exp.Expr | None) -> list[exp.Expr]:
    """The parts of a condition that must all hold."""
    if node is None:
        return []
    if isinstance(node, exp.Paren):
        return conjuncts(node.this)
    if isinstance(node, exp.And):
        return [*conjuncts(node.this), *conjuncts(node.expression)]
    return [node]


def parts_of(condition: Expression) -> Iterator[Expression]:
    """The parts of a condition that must all hold, after it was translated."""
    match condition:
        case Call("and", arguments):
            for each in arguments:
                yield from parts_of(each)
        case _:
            yield condition


def all_of(conditions: Iterable[Expression]) -> Expression | None:
    """One condition that holds where all of them do."""
    made: Expression | None = None
    for each in conditions:
        made = each if made is None else made & each
    return made


@dataclass(frozen=True, slots=True)
class SplitCondition:
    """A condition on pairs of rows: keys that must be equal, what speaks of one side alone, and the rest."""

    keys: list[tuple[Expression, Expression]]
    left: list[Expression]
    right: list[Expression]
    pairs: list[Expression]


def split(conditions: Iterable[Expression], left: Iterable[str], right: Iterable[str]) -> SplitCondition:
    """Take conditions apart by the columns of both sides."""
    mine, theirs = set(left), set(right)
    made = SplitCondition([], [], [], [])
    for condition in conditions:
        asked = set(columns_of(condition))
        key = _key(condition, mine, theirs)
        if key is not None:
            made.keys.append(key)
        elif asked <= mine:
            made.left.append(condition)
        elif asked <= theirs:
            made.right.append(condition)
        else:
            made.pairs.append(condition)
    return made


def _key(condition: Expression, mine: set[str], theirs: set[str]) -> tuple[Expression, Expression] | None:
    match condition:
        case Call("equal", (one, other)):
            a, b = set(columns_of(one)), set(columns_of(other))
            if not a or not b:
                return None
            if a <= mine and b <= theirs:
                return one, other
            if a <= theirs and b <= mine:
                return other, one
    return None
