"""A whole query: common tables first, then selects and what combines them."""

from dataclasses import replace

from sqlglot import exp

from pointstamp.dataflow.record import written_at
from pointstamp.dataflow.table import Table
from pointstamp.expressions.tree import Expression, col
from pointstamp.sql_views import selecting
from pointstamp.sql_views.aliases import Aliases
from pointstamp.sql_views.catalog import Begun, Catalog
from pointstamp.sql_views.limits import limited
from pointstamp.sql_views.mutual import column_names, mutually_recursive, ordered_groups
from pointstamp.sql_views.recursion import is_recursive, recursive
from pointstamp.sql_views.refusing import place, placed, refused
from pointstamp.sql_views.scope import Relation, Scope, check_typed
from pointstamp.sql_views.set_operations import combined
from pointstamp.sql_views.sources import values
from pointstamp.sql_views.translating import Translator


class Compiler:
    """Makes relations of queries; the one ``QueryCompiler``."""

    def query(self, node: exp.Expr, catalog: Catalog) -> Relation:
        """A query of any kind."""
        with written_at(f"SQL, {place(node)}"):
            return self._query(node, catalog)

    def _query(self, node: exp.Expr, catalog: Catalog) -> Relation:
        if isinstance(node, exp.Subquery):
            catalog = with_common_tables(node, catalog)
            return self._limited(node, self.query(node.this, catalog), catalog)
        if isinstance(node, exp.Select):
            return self.finish(self.begin(node, catalog, None))
        if isinstance(node, exp.SetOperation):
            catalog = with_common_tables(node, catalog)
            return self._limited(node, combined(node, catalog), catalog)
        if isinstance(node, exp.Values):
            return values(node, catalog)
        if isinstance(node, exp.Table):
            return catalog.relation(node)
        raise refused(
            node, f"{node.key.upper()} is no query", "Write SELECT, VALUES, or several of them with UNION."
        )

    def common_tables(self, node: exp.Expr, catalog: Catalog) -> Catalog:
        """What a query may speak of that begins with WITH."""
        return with_common_tables(node, catalog)

    def begin(self, node: exp.Select, catalog: Catalog, outer: Scope | None) -> Begun:
        """FROM and WHERE of a select, with its common tables."""
        return selecting.begin(node, with_common_tables(node, catalog), outer)

    def finish(self, begun: Begun) -> Relation:
        """The rest of a select."""
        return selecting.finish(begun)

    def _limited(self, node: exp.Expr, made: Relation, catalog: Catalog) -> Relation:
        """ORDER BY and LIMIT behind a set operation."""
        order = node.args.get("order")
        if order is None and not any(node.args.get(part) for part in ("limit", "offset")):
            return made
        columns = [(name, exp.column(name)) for name in made.columns]
        aliases = Aliases(list(columns), made.scope)
        ordered = [] if order is None else [aliases.first(each) for each in order.expressions]
        wanted: dict[str, Expression] = {each.at: col(each.at) for each in made.names}
        with placed(node):
            translator = Translator(made.scope, catalog.parameters)
            return made.with_table(limited(node, made.table, wanted, ordered, translator))


def with_common_tables(node: exp.Expr, catalog: Catalog) -> Catalog:
    """What a query may speak of that begins with WITH."""
    with_ = node.args.get("with_")
    if with_ is None:
        return catalog
    in_order = with_.expressions
    if with_.args.get("recursive"):
        in_order = ordered_groups({each.alias: each for each in with_.expressions}, lambda each: each.this)
    for group in in_order:
        if isinstance(group, list):
            for name, table in mutually_recursive({each.alias: each for each in group}, catalog).items():
                catalog = catalog.with_table(name, table)
            continue
        common = group
        names = column_names(common)
        if with_.args.get("recursive") and is_recursive(common):
            catalog = catalog.with_table(common.alias, recursive(common, names, catalog))
            continue
        made = catalog.compiler.query(common.this, catalog)
        catalog = catalog.with_relation(common.alias, called(common, made, names) if names else made)
    return catalog


def called(node: exp.Expr, made: Relation, names: list[str]) -> Relation:
    """A relation whose columns have these names."""
    if len(names) != len(made.names):
        raise refused(node, f"there are {len(made.names)} columns, and {len(names)} names are given")
    if len({each.lower() for each in names}) < len(names):
        return replace(
            made,
            names=tuple(replace(each, column=new) for each, new in zip(made.names, names, strict=True)),
        )
    table = made.table.select(*(col(each.at).alias(new) for each, new in zip(made.names, names, strict=True)))
    return Relation(
        table,
        tuple(replace(each, column=new, at=new) for each, new in zip(made.names, names, strict=True)),
        made.is_single,
    )


def named(node: exp.Expr, made: Relation) -> Table:
    """The table of a relation whose columns are spoken of by name; SqlError if two have the same."""
    check_typed(node, made)
    names = [each.lower() for each in made.columns]
    for name in names:
        if names.count(name) > 1:
            raise refused(node, f"two columns are called '{name}'", "Give one of them another name with AS.")
    return made.table
