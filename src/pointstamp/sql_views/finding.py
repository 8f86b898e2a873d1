"""Where subqueries stand in an expression, and which of them surely speak of their own tables alone."""

from collections.abc import Iterator

from sqlglot import exp

from pointstamp.sql_views.catalog import Catalog
from pointstamp.sql_views.translating import Translator


def subqueries_in(node: exp.Expr) -> Iterator[exp.Expr]:
    """The subqueries of an expression, the outermost ones only."""
    if _is_subquery(node):
        yield node
        return
    for child in node.iter_expressions():
        yield from subqueries_in(child)


def not_known(node: exp.Expr, translator: Translator) -> Iterator[exp.Expr]:
    """The subqueries of an expression, but for those in what rows are grouped by, which has a column."""
    if not any(True for _ in subqueries_in(node)) or translator.knows(node):
        return
    if _is_subquery(node):
        yield node
        return
    for child in node.iter_expressions():
        yield from not_known(child, translator)


def _is_subquery(node: exp.Expr) -> bool:
    return isinstance(node, exp.Exists | exp.Subquery | exp.All | exp.Any) or (
        isinstance(node, exp.In) and node.args.get("query") is not None
    )


def is_plain_in(node: exp.Expr, catalog: Catalog) -> bool:
    """Whether a condition is IN of a query that surely speaks of its own tables alone."""
    query = node.args["query"].unnest() if isinstance(node, exp.In) and node.args.get("query") else None
    if not isinstance(query, exp.Select) or query.args.get("with_") or query.find(exp.Lateral):
        return False
    if any(each is not query for each in query.find_all(exp.Query)):
        return False
    tables = list(query.find_all(exp.Table))
    known = {name.lower() for each in tables for name in catalog.find(each).schema.names}
    aliases = {each.alias_or_name.lower() for each in tables}
    return all(
        each.table.lower() in aliases if each.table else each.name.lower() in known
        for each in query.find_all(exp.Column)
    )
