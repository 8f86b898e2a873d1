"""UNION, EXCEPT and INTERSECT of relations: columns by their position, as types that both fit."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np
import pyarrow as pa
from sqlglot import exp

from pointstamp.dataflow.table import Table
from pointstamp.expressions import functions
from pointstamp.expressions.tree import Expression, col, lit
from pointstamp.expressions.typing import common_of_all
from pointstamp.reduce.aggregate import Aggregate
from pointstamp.sql_views.catalog import Catalog
from pointstamp.sql_views.refusing import placed, refused
from pointstamp.sql_views.scope import Relation

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
