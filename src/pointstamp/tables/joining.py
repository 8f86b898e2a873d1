"""What a join was asked for: which columns meet, and what comes out under which names.

The key comes out once, under the name that it has on the left; of the right side come all other columns, with
a suffix where the left side has one of that name.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, get_args

import pyarrow as pa

from pointstamp.errors import FlowError, SchemaError
from pointstamp.expressions.selecting import check_columns
from pointstamp.expressions.tree import Expression, col, lit
from pointstamp.flow.join_kind import How
from pointstamp.tables.column_names import check_new_names

_ELSEWHERE: Final = {
    "outer": "full",
    "full_outer": "full",
    "fullouter": "full",
    "left_outer": "left",
    "leftouter": "left",
    "right_outer": "right",
    "rightouter": "right",
    "left_semi": "semi",
    "leftsemi": "semi",
    "left_anti": "anti",
    "leftanti": "anti",
}


@dataclass(frozen=True, slots=True)
class Joining:
    """The columns of a join: ``pairs`` from left keys to right keys, ``added`` from right columns on."""

    left: pa.Schema
    right: pa.Schema
    pairs: Mapping[str, str]
    added: Mapping[str, str]

    @property
    def result(self) -> pa.Schema:
        """The columns of a pair."""
        return pa.schema([*self.left, *(self.right.field(own).with_name(n) for own, n in self.added.items())])

    def left_of_pairs(self) -> dict[str, Expression]:
        """The row of the left side, out of a pair."""
        return {name: col(name) for name in self.left.names}

    def right_of_pairs(self) -> dict[str, Expression]:
        """The row of the right side, out of a pair: its keys are those of the left."""
        mine = {theirs: own for own, theirs in self.pairs.items()}
        return {name: col(mine.get(name) or self.added[name]) for name in self.right.names}

    def left_alone(self) -> dict[str, Expression]:
        """What comes out for a row of the left side that has no partner."""
        nulls = {name: lit(None).cast(self.right.field(own).type) for own, name in self.added.items()}
        return self.left_of_pairs() | nulls

    def right_alone(self) -> dict[str, Expression]:
        """What comes out for a row of the right side that has no partner."""
        made: dict[str, Expression] = {}
        for field in self.left:
            theirs = self.pairs.get(field.name)
            made[field.name] = lit(None).cast(field.type) if theirs is None else col(theirs)
        return made | {name: col(own) for own, name in self.added.items()}


def joining(
    who: str, left: pa.Schema, right: pa.Schema, on: str | Mapping[str, str] | Iterable[str], suffix: str
) -> Joining:
    """Work a join's columns out; SchemaError names what does not fit."""
    pairs = _pairs(who, on)
    check_columns(f"{who}, on its left side,", left, pairs)
    check_columns(f"{who}, on its right side,", right, pairs.values())
    for mine, theirs in pairs.items():
        one, other = left.field(mine).type, right.field(theirs).type
        if one != other:
            raise SchemaError(
                f"{who}: '{mine}' is {one} and '{theirs}' is {other}, but both must have one type. Cast "
                "one of them with with_columns."
            )
    added: dict[str, str] = {}
    for own in right.names:
        if own not in pairs.values():
            added[own] = f"{own}{suffix}" if own in left.names else own
    check_new_names(who, (name for own, name in added.items() if name != own))
    names = [*left.names, *added.values()]
    if twice := [name for name in names if names.count(name) > 1]:
        raise SchemaError(
            f"{who}: both sides have a column '{twice[0]}'. Give another suffix=, or rename one of them."
        )
    return Joining(left, right, pairs, added)


def checked_how(who: str, how: str) -> How:
    """Which join is meant; FlowError says its name here if it has another one elsewhere."""
    for known in get_args(How):
        if how == known:
            return known  # type: ignore[no-any-return]
    said = f"; here that is '{_ELSEWHERE[how]}'" if how in _ELSEWHERE else ""
    raise FlowError(
        f"{who}: how must be one of {', '.join(get_args(How))}, got {how!r}{said}. Choose one of these."
    )


def check_no_key(who: str, on: str | Mapping[str, str] | Iterable[str]) -> None:
    """Refuse a key for all pairs."""
    if on != ():
        raise FlowError(f"{who}: how='cross' takes no on=, got {on!r}. Leave one of them out.")


def _pairs(who: str, on: str | Mapping[str, str] | Iterable[str]) -> dict[str, str]:
    if isinstance(on, Expression):
        raise FlowError(
            f"{who}: on= takes names of columns, got the expression {on}. Write on='id' or "
            "on={'mine': 'theirs'}, or give a condition with where=."
        )
    pairs = {on: on} if isinstance(on, str) else dict(on) if isinstance(on, Mapping) else {k: k for k in on}
    if not pairs:
        raise FlowError(
            f"{who} needs at least one column to join on, got none. Give on=, or how='cross' for all pairs."
        )
    if len(set(pairs.values())) < len(pairs):
        raise FlowError(f"{who}: a column of the right side is twice in on={pairs}. Name each column once.")
    return pairs
