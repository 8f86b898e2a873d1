"""UNION, EXCEPT and INTERSECT of relations: columns by their position, as types that both fit."""

from collections.abc import Sequence

from sqlglot import exp

from pointstamp.expressions.tree import col
from pointstamp.expressions.typing import common_of_all
from pointstamp.tables.table import Table
from pointstamp.views.catalog import Catalog
from pointstamp.views.refusing import placed, refused
from pointstamp.views.scope import Relation


def combined(node: exp.SetOperation, catalog: Catalog) -> Relation:
    """The rows of two queries in one."""
    left = catalog.compiler.query(node.left, catalog)
    right = catalog.compiler.query(node.right, catalog)
    is_distinct = bool(node.args.get("distinct"))
    with placed(node):
        one, other = alike(node, [left.table, right.table])
        if isinstance(node, exp.Union):
            made = one.union(other)
            return Relation(made.distinct() if is_distinct else made, left.names)
        words = "EXCEPT" if isinstance(node, exp.Except) else "INTERSECT"
        if not is_distinct:
            raise refused(
                node, f"{words} ALL is not supported", f"Number the copies with row_number(), or use {words}."
            )
        made = one.minus(other) if isinstance(node, exp.Except) else one.intersect(other)
        return Relation(made, left.names)


def alike(node: exp.Expr, tables: Sequence[Table]) -> list[Table]:
    """Tables with the names of the first, and types that all of them fit; SqlError if they do not."""
    first = tables[0].schema
    for table in tables[1:]:
        if len(table.schema) != len(first):
            raise refused(node, f"one query has {len(first)} columns and the other {len(table.schema)}")
    kinds = [
        common_of_all([table.schema.field(n).type for table in tables], f"column '{first.names[n]}'")
        for n in range(len(first))
    ]
    return [
        table.select(
            *(
                (col(own) if field.type == kind else col(own).cast(kind)).alias(name)
                for own, field, name, kind in zip(
                    table.schema.names, table.schema, first.names, kinds, strict=True
                )
            ),
            name="alike",
        )
        for table in tables
    ]
