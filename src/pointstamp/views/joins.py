"""What stands side by side in FROM: relations wait in a pool until conditions say how they are joined.

Inner joins, joins by comma and conditions of WHERE are one thing: relations, and conditions that must all
hold. Each relation is filtered by what speaks of it alone, and then joined to those before it by keys, in the
order of the text but with those that have a key first. All pairs of two relations are made where the text
says CROSS JOIN, or where one of them always has one row; elsewhere they are refused, because a forgotten
condition is more likely than a table that is small.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from sqlglot import exp

from pointstamp.errors import SqlError
from pointstamp.expressions.tree import Expression, columns_of
from pointstamp.views.conditions import all_of, split
from pointstamp.views.outer_joins import crossed, inner
from pointstamp.views.refusing import placed, refused
from pointstamp.views.scope import Relation, Scope, replaced


@dataclass(slots=True)
class JoinPool:
    """Relations that are not joined yet, and conditions that have not been applied."""

    relations: list[tuple[Relation, exp.Expr, bool]] = field(default_factory=list)
    """Each with where it stands in the text, and whether all pairs with it were asked for."""
    conditions: list[Expression] = field(default_factory=list)

    @property
    def scope(self) -> Scope:
        """The names of all of them."""
        made = self.relations[0][0].scope
        for relation, _, _ in self.relations[1:]:
            made |= relation.scope
        return made

    def add(self, relation: Relation, node: exp.Expr, *, is_cross: bool = False) -> None:
        """Put a relation in."""
        self.relations.append((relation, node, is_cross))

    def merge(self) -> Relation:
        """All of them as one relation, with every condition applied that speaks of their columns."""
        waiting = [(self._filtered(relation), node, is_cross) for relation, node, is_cross in self.relations]
        made, node, _ = waiting.pop(0)
        while waiting:
            position = self._next(made, [relation for relation, _, _ in waiting])
            if position is None:
                position = next(
                    (n for n, (each, _, is_cross) in enumerate(waiting) if is_cross or each.is_single), None
                )
            if position is None and made.is_single:
                position = 0
            if position is None:
                raise _all_pairs(waiting[0][1])
            other, node, _ = waiting.pop(position)
            with placed(node):
                made = self._joined(made, other)
        self.relations = [(made, node, False)]
        return made

    def _filtered(self, relation: Relation) -> Relation:
        own = self._take(relation.table.schema.names)
        condition = all_of(own)
        return relation if condition is None else relation.with_table(relation.table.filter(condition))

    def _next(self, made: Relation, others: list[Relation]) -> int | None:
        """Which relation has a key with those that are joined; the first in the text."""
        for number, other in enumerate(others):
            if split(self.conditions, made.table.schema.names, other.table.schema.names).keys:
                return number
        return None

    def _joined(self, made: Relation, other: Relation) -> Relation:
        mine, theirs = made.table.schema.names, other.table.schema.names
        found = split(self._take([*mine, *theirs]), mine, theirs)
        where = all_of([*found.left, *found.right, *found.pairs])
        if not found.keys:
            return crossed(made, other, where)
        result, merged = inner(made, other, found.keys, where)
        self.conditions = [replaced(each, merged) for each in self.conditions]
        return result

    def _take(self, columns: Iterable[str]) -> list[Expression]:
        """The conditions that speak of these columns alone, which are applied now."""
        known = set(columns)
        taken = [each for each in self.conditions if set(columns_of(each)) <= known]
        self.conditions = [each for each in self.conditions if not set(columns_of(each)) <= known]
        return taken


def _all_pairs(node: exp.Expr) -> SqlError:
    return refused(
        node,
        f"'{node.alias_or_name}' is joined without an equality of columns, so every row would meet every row",
        "Add a condition such as a.id = b.id, or write CROSS JOIN with the smaller table on the right if all "
        "pairs are meant.",
    )
