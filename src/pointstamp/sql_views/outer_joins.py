"""Two relations joined, of whatever kind: which columns are keys, and what names mean afterwards.

The key of a table's join comes out once, under its name on the left. In SQL both sides keep theirs, and where
there is no partner the one of that side is null. So a side whose key must stay gets a copy of it to join by;
only the key of an inner join on plain columns needs none, because there both names can mean one column.
"""

from collections.abc import Sequence
from dataclasses import replace

from pointstamp.dataflow.table import Table
from pointstamp.expressions.compiling import compile_expression
from pointstamp.expressions.functions import coalesce
from pointstamp.expressions.tree import Column, Expression
from pointstamp.expressions.typing import common_of_all
from pointstamp.flow.join_kind import How
from pointstamp.sql_views.conditions import KeyPair
from pointstamp.sql_views.scope import Relation, ScopeName, replaced


def inner(
    left: Relation, right: Relation, keys: Sequence[KeyPair], where: Expression | None
) -> tuple[Relation, dict[str, str]]:
    """The pairs with equal keys, and which columns of the right side are those of the left now."""
    mine, theirs = left.table, right.table
    on: dict[str, str] = {}
    merged: dict[str, str] = {}
    for number, pair in enumerate(keys):
        one, other = _as_one_type(left.table, right.table, pair)
        if _is_plain(one, left) and _is_plain(other, right):
            assert isinstance(one, Column)
            assert isinstance(other, Column)
            if one.column not in on and other.column not in on.values():
                on[one.column] = other.column
                merged[other.column] = one.column
                continue
        mine, own = _with_key(mine, one, f"__left{number}")
        theirs, copy = _with_key(theirs, other, f"__right{number}")
        on[own] = copy
    where = None if where is None else replaced(where, merged)
    found = mine.join(theirs, on, where=where)
    kept = [each for each in found.schema.names if not each.startswith("__left")]
    if len(kept) < len(found.schema.names):
        found = found.select(*kept).named("without keys")
    names = (*left.names, *(replace(each, at=merged.get(each.at, each.at)) for each in right.names))
    return Relation(found, names, left.is_single and right.is_single), merged


def joined(
    left: Relation, right: Relation, keys: Sequence[KeyPair], how: How, where: Expression | None
) -> Relation:
    """A join of another kind: left, right, full, semi or anti."""
    mine, theirs = left.table, right.table
    on: dict[str, str] = {}
    keeps_left = how in ("left", "semi", "anti")
    for number, pair in enumerate(keys):
        one, other = _as_one_type(left.table, right.table, pair)
        own = one.column if isinstance(one, Column) and keeps_left and one.column not in on else None
        if own is None:
            mine, own = _with_key(mine, one, f"__left{number}")
        theirs, on[own] = _with_key(theirs, other, f"__right{number}")
    if how in ("semi", "anti") and where is None:
        theirs = theirs.select(*on.values()).named("keys")
    found = mine.join(theirs, on, how=how, where=where)
    kept = [each for each in found.schema.names if not each.startswith(("__left", "__right"))]
    if len(kept) < len(found.schema.names):
        found = found.select(*kept).named("without keys")
    names = left.names if how in ("semi", "anti") else (*left.names, *right.names)
    return Relation(found, names)


def crossed(left: Relation, right: Relation, where: Expression | None = None) -> Relation:
    """All pairs; a side of one row is the one that is copied."""
    is_swapped = left.is_single and not right.is_single
    one, other = (right, left) if is_swapped else (left, right)
    table = one.table.join(other.table, how="cross", where=where)
    return Relation(table, (*left.names, *right.names), left.is_single and right.is_single)


def merged_names(left: Relation, right: Relation, columns: Sequence[str], how: How) -> Relation:
    """The names of a join USING: each of these columns is there once, and with a table still as its own.

    The relations must be those that were joined to ``left``'s table by now.
    """
    table, names, added = left.table, [], []
    for column in columns:
        mine = next(each for each in left.names if each.is_called(column, None))
        theirs = next(each for each in right.names if each.is_called(column, None))
        at = theirs.at if how == "right" else mine.at
        if how == "full":
            at = f"__using.{mine.at}"
            both = coalesce(mine.at, theirs.at).alias(at)
            table = table.select(*table.schema.names, both).named("using")
        added.append(ScopeName(None, mine.column, at))
    lowered = [each.lower() for each in columns]
    for each in left.names if how in ("semi", "anti") else (*left.names, *right.names):
        names.append(replace(each, is_merged=each.is_merged or each.column.lower() in lowered))
    return Relation(table, (*added, *names))


def _with_key(table: Table, key: Expression, name: str) -> tuple[Table, str]:
    """A table with a column to join by."""
    return table.select(*table.schema.names, key.alias(name)).named("with key"), name


def _is_plain(key: Expression, side: Relation) -> bool:
    return isinstance(key, Column) and key.column in side.table.schema.names


def _as_one_type(left: Table, right: Table, pair: KeyPair) -> KeyPair:
    """Both keys as the type as which they meet."""
    kinds = [
        compile_expression(key, table.schema, "a join").type
        for key, table in zip(pair, (left, right), strict=True)
    ]
    if kinds[0] == kinds[1]:
        return pair
    met = common_of_all(kinds, f"a join on {pair[0]} and {pair[1]}")
    one, other = (key if kind == met else key.cast(met) for key, kind in zip(pair, kinds, strict=True))
    return one, other
