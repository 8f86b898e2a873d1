"""Implicit joins: relations of FROM wait for join conditions.

Inner joins, joins by comma and conditions of WHERE are one thing: relations, and conditions that must all
hold. Each relation is filtered by what refers to it alone. One that was filtered and has keys with only one
other is joined to that one first, so that the filter holds there, too, and resumes from there: a region makes
a few nations of all, and these a few suppliers. Then all are joined in the order of the text, but those that
have a key with what is joined first. All pairs of two relations are made where the text says CROSS JOIN, or
where one of them always has one row; elsewhere they are refused, because a forgotten condition is more likely
than a table that is small.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa
from sqlglot import exp

from pointstamp.dataflow.table import Table
from pointstamp.errors import SqlError
from pointstamp.expressions.compiler import compile_expression
from pointstamp.expressions.functions import coalesce
from pointstamp.expressions.tree import Column, Expression, columns_of
from pointstamp.expressions.type_rules import common_of_all
from pointstamp.flow.plan import How
from pointstamp.sql_views.condition_parts import KeyPair, all_of, implied, split
from pointstamp.sql_views.rejection import placed, refused
from pointstamp.sql_views.scope import Relation, Scope, ScopeName, replaced


@dataclass(frozen=True, slots=True)
class Unjoined:
    """A relation that is not joined yet."""

    relation: Relation
    node: exp.Expr
    """Its position in the text."""
    is_cross: bool = False
    """Whether all pairs with it were asked for."""
    is_filtered: bool = False
    """Whether a condition has taken rows away."""

    @property
    def columns(self) -> list[str]:
        """The columns of its table."""
        return list(self.schema.names)

    @property
    def schema(self) -> pa.Schema:
        """The columns of its table, with their types."""
        return self.relation.table.schema


@dataclass(slots=True)
class JoinPool:
    """Relations that are not joined yet, and conditions that have not been applied."""

    waiting: list[Unjoined] = field(default_factory=list)
    conditions: list[Expression] = field(default_factory=list)

    @property
    def scope(self) -> Scope:
        """The names of all of them."""
        made = self.waiting[0].relation.scope
        for each in self.waiting[1:]:
            made |= each.relation.scope
        return made

    def add(self, relation: Relation, node: exp.Expr, *, is_cross: bool = False) -> None:
        """Put a relation in."""
        self.waiting.append(Unjoined(relation, node, is_cross))

    def narrow(self, position: int, narrowed: Callable[[Relation], Relation]) -> None:
        """Take rows of one relation away, after what conditions say of it alone."""
        found = self._filtered(self.waiting[position])
        self.waiting[position] = replace(found, relation=narrowed(found.relation), is_filtered=True)

    def merge(self) -> Relation:
        """All of them as one relation, with every condition applied that refers to their columns."""
        places = [name for each in self.waiting for name in _places(each.relation)]
        waiting = [self._filtered(each) for each in self.waiting]
        while len(waiting) > 2 and (found := self._leaf(waiting)) is not None:
            leaf, host = found
            waiting[host] = self._joined(waiting[host], waiting[leaf])
            del waiting[leaf]
        made = waiting.pop(0)
        while waiting:
            made = self._joined(made, waiting.pop(self._next(made, waiting)))
        names = sorted(made.relation.names, key=lambda each: places.index((each.table, each.column)))
        relation = replace(made.relation, names=tuple(names))  # as in the text, for those who select *
        self.waiting = [Unjoined(relation, made.node)]
        return relation

    def _filtered(self, each: Unjoined) -> Unjoined:
        """A relation with what conditions say of it alone."""
        condition = all_of(self._take(each.columns))
        hints = (implied(other, each.columns) for other in self.conditions)
        known = [one for one in (condition, *hints) if one is not None]
        relation = each.relation
        if (filtering := all_of(known)) is not None:
            relation = relation.with_table(relation.table.filter(filtering))
        return replace(each, relation=relation, is_filtered=each.is_filtered or bool(known))

    def _leaf(self, waiting: list[Unjoined]) -> tuple[int, int] | None:
        """A relation that was filtered and has keys with one other only, and that other one."""
        for number, each in enumerate(waiting):
            if each.is_filtered and not each.is_cross:
                others = [n for n, other in enumerate(waiting) if n != number and self._meet(each, other)]
                if len(others) == 1:
                    return number, others[0]
        return None

    def _meet(self, one: Unjoined, other: Unjoined) -> bool:
        return bool(split(self.conditions, one.schema, other.schema).keys)

    def _next(self, made: Unjoined, others: list[Unjoined]) -> int:
        """The relation to join next: the first with a key, or the first that is cross joined."""
        for number, other in enumerate(others):
            if self._meet(made, other):
                return number
        for number, other in enumerate(others):
            if other.is_cross or other.relation.is_single:
                return number
        if not made.relation.is_single:
            raise _all_pairs(others[0].node)
        return 0

    def _joined(self, made: Unjoined, other: Unjoined) -> Unjoined:
        with placed(other.node):
            found = split(self._take([*made.columns, *other.columns]), made.schema, other.schema)
            where = all_of([*found.left, *found.right, *found.pairs])
            if found.keys:
                result, merged = inner(made.relation, other.relation, found.keys, where)
                self.conditions = [replaced(each, merged) for each in self.conditions]
            else:
                result = crossed(made.relation, other.relation, where)
        return replace(made, relation=result, is_filtered=made.is_filtered or other.is_filtered)

    def _take(self, columns: Iterable[str]) -> list[Expression]:
        """The conditions that refer to these columns alone, which are applied now."""
        known = set(columns)
        taken = [each for each in self.conditions if set(columns_of(each)) <= known]
        self.conditions = [each for each in self.conditions if not set(columns_of(each)) <= known]
        return taken


def _places(relation: Relation) -> list[tuple[str | None, str]]:
    return [(each.table, each.column) for each in relation.names]


def _all_pairs(node: exp.Expr) -> SqlError:
    return refused(
        node,
        f"'{node.alias_or_name}' is joined without an equality of columns, so every row would meet every row",
        "Add a condition such as a.id = b.id, or write CROSS JOIN with the smaller table on the right if all "
        "pairs are meant.",
    )


# Two relations joined, of whatever kind: which columns are keys, and what names mean afterwards.
#
# The key of a table's join comes out once, under its name on the left. In SQL both sides keep theirs, and
# where there is no partner the one of that side is null. So a side whose key must stay gets a copy of it to
# join by; only the key of an inner join on plain columns needs none, because there both names can mean one
# column.


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
