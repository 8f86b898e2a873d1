"""A complete query: common tables first, then selects and what combines them."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np
import pyarrow as pa
from sqlglot import exp

from pointstamp.dataflow.record import written_at
from pointstamp.dataflow.table import Table
from pointstamp.expressions import functions
from pointstamp.expressions.tree import Expression, col, lit
from pointstamp.expressions.type_rules import common_of_all
from pointstamp.reduce.aggregate import Aggregate
from pointstamp.sql_views import select_clause
from pointstamp.sql_views.catalog import Begun, Catalog
from pointstamp.sql_views.expression_translation import Translator
from pointstamp.sql_views.from_clause import values
from pointstamp.sql_views.order_by import limited
from pointstamp.sql_views.rejection import place, placed, refused
from pointstamp.sql_views.scope import Aliases, Relation, Scope, check_typed
from pointstamp.sql_views.with_recursive import (
    column_names,
    is_recursive,
    mutually_recursive,
    ordered_groups,
    recursive,
)


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
            node, f"{node.key.upper()} is not a query", "Write SELECT, VALUES, or several of them with UNION."
        )

    def common_tables(self, node: exp.Expr, catalog: Catalog) -> Catalog:
        """The names that a query with a WITH clause may use."""
        return with_common_tables(node, catalog)

    def begin(self, node: exp.Select, catalog: Catalog, outer: Scope | None) -> Begun:
        """FROM and WHERE of a select, with its common tables."""
        return select_clause.begin(node, with_common_tables(node, catalog), outer)

    def finish(self, begun: Begun) -> Relation:
        """The rest of a select."""
        return select_clause.finish(begun)

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
    """The names that a query with a WITH clause may use."""
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
        raise refused(node, f"the query has {len(made.names)} columns, got {len(names)} names")
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
    """The table of a relation whose columns are referred to by name; SqlError if two have the same."""
    check_typed(node, made)
    names = [each.lower() for each in made.columns]
    for name in names:
        if names.count(name) > 1:
            raise refused(
                node, f"two columns have the name '{name}'", "Give one of them another name with AS."
            )
    return made.table


# UNION, EXCEPT and INTERSECT of relations: columns by their position, as types that both fit.

_MINE: Final = "copies on the left"
_THEIRS: Final = "copies on the right"


def combined(node: exp.SetOperation, catalog: Catalog) -> Relation:
    """The rows of two queries in one."""
    left = catalog.compiler.query(node.left, catalog)
    right = catalog.compiler.query(node.right, catalog)
    is_distinct = bool(node.args.get("distinct"))
    with placed(node):
        one, other = alike(node, [left, right])
        names = tuple(
            replace(mine, at=at, is_null=mine.is_null and theirs.is_null)
            for mine, theirs, at in zip(left.names, right.names, one.schema.names, strict=True)
        )
        if isinstance(node, exp.Union):
            made = one.union(other)
            return Relation(made.distinct() if is_distinct else made, names)
        if not is_distinct:
            return Relation(_with_copies(one, other, is_except=isinstance(node, exp.Except)), names)
        made = one.except_(other) if isinstance(node, exp.Except) else one.intersect(other)
        return Relation(made, names)


def _with_copies(one: Table, other: Table, *, is_except: bool) -> Table:
    """EXCEPT ALL and INTERSECT ALL: each row as often as it is left over, or as it is in both."""
    rows = one.schema
    mine = one.select(*rows.names, lit(1).cast("long").alias(_MINE), lit(0).cast("long").alias(_THEIRS))
    theirs = other.select(*rows.names, lit(0).cast("long").alias(_MINE), lit(1).cast("long").alias(_THEIRS))
    counted = (
        mine.union(theirs)
        .group_by(*rows.names)
        .agg({_MINE: Aggregate("sum", _MINE), _THEIRS: Aggregate("sum", _THEIRS)})
    )
    times = col(_MINE) - col(_THEIRS) if is_except else functions.least(_MINE, _THEIRS)
    found = counted.select(*rows.names, times.alias(_MINE)).filter(col(_MINE) > 0)
    return found.map_batches(_repeated, rows).named("copies")


def _repeated(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Each row as often as its last column says."""
    times = batch.column(batch.num_columns - 1).to_numpy()
    return batch.select(batch.schema.names[:-1]).take(pa.array(np.repeat(np.arange(len(times)), times)))


def alike(node: exp.Expr, queries: Sequence[Relation]) -> list[Table]:
    """Tables with the columns of the first, and types that all of them fit; SqlError if they do not.

    The literal null fits every type.
    """
    first = queries[0]
    for other in queries[1:]:
        if len(other.names) != len(first.names):
            raise refused(node, f"one query has {len(first.names)} columns and the other {len(other.names)}")
    columns = []
    for position, name in enumerate(first.names):
        kinds = [
            each.table.schema.field(each.names[position].at).type
            for each in queries
            if not each.names[position].is_null
        ]
        kind = common_of_all(kinds, f"column '{name.column}'") if kinds else pa.bool_()
        columns.append([_as_type(each, position, kind).alias(name.at) for each in queries])
    return [
        each.table.select(*(column[number] for column in columns)).named("alike")
        for number, each in enumerate(queries)
    ]


def _as_type(query: Relation, position: int, kind: pa.DataType) -> Expression:
    name = query.names[position]
    if name.is_null:
        return lit(None).cast(kind)
    own = col(name.at)
    return own if query.table.schema.field(name.at).type == kind else own.cast(kind)
