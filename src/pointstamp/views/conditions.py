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
        case Call("or", _):
            yield from _without_common_parts(branches_of(condition))
        case _:
            yield condition


def branches_of(condition: Expression) -> list[Expression]:
    """The parts of a condition of which one must hold."""
    match condition:
        case Call("or", arguments):
            return [branch for each in arguments for branch in branches_of(each)]
        case _:
            return [condition]


def _without_common_parts(branches: list[Expression]) -> Iterator[Expression]:
    """``(a and b) or (a and c)`` is ``a and (b or c)``, so that a key in every branch is a key."""
    taken = [{str(part): part for part in parts_of(branch)} for branch in branches]
    common = [words for words in taken[0] if all(words in each for each in taken)]
    yield from (taken[0][words] for words in common)
    rests = [all_of(part for words, part in each.items() if words not in common) for each in taken]
    if all(rest is not None for rest in rests):  # if nothing is left of a branch, it holds with the others
        yield any_of(rest for rest in rests if rest is not None)


def implied(condition: Expression, columns: Iterable[str]) -> Expression | None:
    """What a condition says of some columns alone, if it is a choice and every branch says something."""
    known = set(columns)
    found = []
    for branch in branches_of(condition):
        asked = [(part, set(columns_of(part))) for part in parts_of(branch)]
        own = all_of(part for part, names in asked if names and names <= known)
        if own is None:
            return None
        found.append(own)
    return any_of(found)


def all_of(conditions: Iterable[Expression]) -> Expression | None:
    """One condition that holds where all of them do."""
    made: Expression | None = None
    for each in conditions:
        made = each if made is None else made & each
    return made


def any_of(conditions: Iterable[Expression]) -> Expression:
    """One condition that holds where one of them does."""
    first, *others = conditions
    for each in others:
        first = first | each
    return first


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
