"""Which columns are still spoken of: a table keeps what is looked at later, and joins carry nothing else.

What a join keeps is paid for in memory, and with every change. A column that only a condition needed is gone
once the condition is applied. Names are looked at without their tables, so a name that several tables have
keeps the columns of all of them.
"""

from collections.abc import Iterable, Sequence

from sqlglot import exp

from pointstamp.expressions.tree import Expression, columns_of
from pointstamp.sql_views.parsing import POSITION
from pointstamp.sql_views.scope import Relation

Names = frozenset[str]
"""Names of columns, in small letters."""

_OWN: tuple[str, ...] = ("from_", "joins", "with_", "where")
"""Parts of a select that are queries of their own, or that are applied part by part."""


def names_in(nodes: Iterable[exp.Expr]) -> Names:
    """All names that stand in nodes, also those in subqueries of them."""
    return frozenset(
        part.name.lower() for node in nodes for column in node.find_all(exp.Column) for part in column.parts
    )


def names_of_from(node: exp.Select) -> Names | None:
    """The names of which a select may speak in any of its parts; None if it wants all columns."""
    rest, joined = names_behind(node), names_of_joins(node.args.get("joins") or [])
    if rest is None or joined is None:
        return None
    return rest | joined | names_in([node.args["where"]] if node.args.get("where") else [])


def names_of_joins(joins: Sequence[exp.Join]) -> Names | None:
    """The names of which conditions of joins speak; None if these are all that both sides have."""
    if any(join.text("method").upper() == "NATURAL" for join in joins):
        return None
    on = [join.args["on"] for join in joins if join.args.get("on") is not None]
    using = {part.name.lower() for join in joins for part in join.args.get("using") or []}
    return names_in(on) | using


def names_behind(node: exp.Select) -> Names | None:
    """The names of which a select speaks behind FROM and WHERE; None if it wants all columns."""
    if any(_is_star(each.unalias()) or POSITION in each.meta for each in node.expressions):
        return None
    nodes: list[object] = []
    for part, found in node.args.items():
        if part not in _OWN:
            nodes += found if isinstance(found, list) else [found]
    return names_in(each for each in nodes if isinstance(each, exp.Expr))


def pruned(relation: Relation, wanted: Names | None, conditions: Iterable[Expression] = ()) -> Relation:
    """A relation with the columns that are called by these names, or stand in conditions."""
    if wanted is None:
        return relation
    kept = {each.at for each in relation.names if each.column.lower() in wanted}
    kept.update(column for each in conditions for column in columns_of(each))
    columns = [each for each in relation.table.schema.names if each in kept]
    columns = columns or relation.table.schema.names[:1]  # a row has a column, if only to be counted
    if len(columns) == len(relation.table.schema.names):
        return relation
    return relation.with_table(relation.table.select(*columns).named("columns"))


def _is_star(node: exp.Expr) -> bool:
    return isinstance(node.this if isinstance(node, exp.Column) else node, exp.Star)
