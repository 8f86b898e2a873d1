"""LATERAL VIEW explode, and explode in a select: one row for each element of a list."""

from sqlglot import exp

from pointstamp.expressions.tree import col
from pointstamp.sql_views.catalog import Catalog
from pointstamp.sql_views.functions import GENERATORS
from pointstamp.sql_views.refusing import placed, refused
from pointstamp.sql_views.scope import Relation, ScopeName
from pointstamp.sql_views.translating import Translator


def exploded(relation: Relation, lateral: exp.Lateral, catalog: Catalog) -> Relation:
    """A relation beside the elements of a list of its own."""
    call, alias = lateral.this, lateral.args.get("alias")
    names = [] if alias is None else [each.name for each in alias.args.get("columns") or []]
    table = None if alias is None or alias.this is None else alias.this.name
    if not _is_generator(call):
        raise refused(lateral, "LATERAL takes explode or posexplode here", "Write a join.")
    return _exploded(relation, call, table, names, bool(lateral.args.get("outer")), catalog)


def with_generators(
    relation: Relation, columns: list[tuple[str, exp.Expr]], catalog: Catalog
) -> tuple[Relation, list[tuple[str, exp.Expr]]]:
    """A select with explode in it: its rows, and the columns with the element in place of the call."""
    made, found = [], 0
    for name, node in columns:
        if not _is_generator(node):
            made.append((name, node))
            continue
        found += 1
        if found > 1:
            raise refused(node, "a select can have one explode", "Write lateral views.")
        alias = catalog.unique("exploded")
        is_posed = str(node.this).lower().startswith("pos")
        relation = _exploded(relation, node, alias, ["pos", "col"] if is_posed else ["col"], False, catalog)
        if is_posed:
            made.append(("pos", exp.column("pos", table=alias)))
        shown = "col" if "(" in name else name
        made.append((shown, exp.column("col", table=alias)))
    return relation, made


def _exploded(
    relation: Relation,
    call: exp.Expr,
    table: str | None,
    names: list[str],
    is_outer: bool,
    catalog: Catalog,
) -> Relation:
    kind = str(call.this).lower()
    is_posed, is_outer = kind.startswith("pos"), is_outer or kind.endswith("_outer")
    names = names or (["pos", "col"] if is_posed else ["col"])
    if len(names) != 1 + is_posed or len(call.expressions) != 1:
        raise refused(
            call, f"{kind} takes one list and makes {1 + is_posed} columns, and {len(names)} are named"
        )
    unique = catalog.unique(table or "element")
    at, position = f"{unique}.{names[-1]}", f"{unique}.{names[0]}" if is_posed else None
    with placed(call):
        values = Translator(relation.scope, catalog.parameters)(call.expressions[0])
        wide = relation.table.select(*relation.table.schema.names, values.alias(at)).named("list")
        made = wide.explode(at, outer=is_outer, position=position)
    added = [ScopeName(table, names[-1], at)]
    if position is not None:
        made = made.select(*relation.table.schema.names, col(position).cast("int").alias(position), at)
        added.insert(0, ScopeName(table, names[0], position))
    return Relation(made, (*relation.names, *added))


def _is_generator(node: exp.Expr) -> bool:
    return isinstance(node, exp.Anonymous) and str(node.this).lower() in GENERATORS
