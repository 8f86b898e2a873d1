"""Conditions split into conjuncts: their tables and join keys."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
from pyarrow import types
from sqlglot import exp

from pointstamp.errors import FlowError
from pointstamp.expressions.compiler import compile_expression
from pointstamp.expressions.functions import coalesce
from pointstamp.expressions.tree import Call, Expression, Literal, columns_of
from pointstamp.expressions.type_rules import common_of_all

KeyPair = tuple[Expression, Expression]
"""A value of the left side and the value of the right side to which it must be equal."""


def conjuncts(node: exp.Expr | None) -> list[exp.Expr]:
    """The parts of a condition that must all hold."""
    made: list[exp.Expr] = []
    waiting = [] if node is None else [node]
    while waiting:
        each = waiting.pop()
        if isinstance(each, exp.Paren):
            waiting.append(each.this)
        elif isinstance(each, exp.And):
            waiting += [each.expression, each.this]
        else:
            made.append(each)
    return made


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
    """The condition on some columns alone that a choice implies, if every branch implies one."""
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
    return _combined(list(conditions), lambda one, other: one & other)


def any_of(conditions: Iterable[Expression]) -> Expression:
    """One condition that holds where one of them does."""
    found = _combined(list(conditions), lambda one, other: one | other)
    assert found is not None
    return found


def _combined(
    conditions: Sequence[Expression], combine: Callable[[Expression, Expression], Expression]
) -> Expression | None:
    """Conditions in their order as a tree that is as low as can be: many of them are not nested deeply."""
    if not conditions:
        return None
    if len(conditions) == 1:
        return conditions[0]
    half = (len(conditions) + 1) // 2
    one, other = _combined(conditions[:half], combine), _combined(conditions[half:], combine)
    assert one is not None
    assert other is not None
    return combine(one, other)


@dataclass(frozen=True, slots=True)
class SplitCondition:
    """A condition on pairs of rows: keys that must be equal, what refers to one side alone, and the rest.

    All four together are the condition: a caller that takes one of them must apply the others, too.
    """

    keys: list[KeyPair]
    left: list[Expression]
    right: list[Expression]
    pairs: list[Expression]


def split(conditions: Iterable[Expression], left: pa.Schema, right: pa.Schema) -> SplitCondition:
    """Take conditions apart by the columns of both sides."""
    mine, theirs = set(left.names), set(right.names)
    made = SplitCondition([], [], [], [])
    for condition in conditions:
        asked = set(columns_of(condition))
        keys = _keys(condition, left, right)
        if keys:
            made.keys.extend(keys)
        elif asked <= mine:
            made.left.append(condition)
        elif asked <= theirs:
            made.right.append(condition)
        else:
            made.pairs.append(condition)
    return made


def _keys(condition: Expression, left: pa.Schema, right: pa.Schema) -> list[KeyPair]:
    """The keys that a condition is; several for ``<=>``, where null is equal to null."""
    match condition:
        case Call("equal" | "equal_null_safe", (one, other)):
            mine, theirs = set(left.names), set(right.names)
            a, b = set(columns_of(one)), set(columns_of(other))
            if not a or not b:
                return []
            if a <= theirs and b <= mine:
                one, other = other, one
            elif not (a <= mine and b <= theirs):
                return []
            if condition.function == "equal":
                return [(one, other)]
            return null_safe_keys(one, left, other, right)
    return []


def null_safe_keys(one: Expression, left: pa.Schema, other: Expression, right: pa.Schema) -> list[KeyPair]:
    """Keys that are equal where both values are equal or both are null; none if the type has no such keys.

    A null never equals a null in a join, so whether a value is null is a separate key, and another value
    stands in its place.
    """
    try:
        kinds = [
            compile_expression(each, schema, "<=>").type for each, schema in ((one, left), (other, right))
        ]
        kind = common_of_all(kinds, "<=>")
    except FlowError:
        return []
    placeholder = some_value(kind)
    if placeholder is None:
        return []
    values = [
        coalesce(each if own == kind else each.cast(kind), Literal(pa.scalar(placeholder, kind)))
        for each, own in zip((one, other), kinds, strict=True)
    ]
    return [(one.is_null(), other.is_null()), (values[0], values[1])]


def some_value(kind: pa.DataType) -> Any:  # noqa: ANN401 - of any type
    """A value of a type to stand where a null is, beside a mark that says so; None if it has none here."""
    for is_kind, value in (
        (types.is_boolean, False),
        (types.is_integer, 0),
        (types.is_floating, 0.0),
        (types.is_decimal, Decimal(0)),
        (types.is_string, ""),
        (types.is_date, date(1970, 1, 1)),
        (types.is_timestamp, datetime(1970, 1, 1, tzinfo=UTC if getattr(kind, "tz", None) else None)),
    ):
        if is_kind(kind):
            return value
    return None
