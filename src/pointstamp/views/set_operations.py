"""UNION, EXCEPT and INTERSECT of relations: columns by their position, as types that both fit."""

from collections.abc import Sequence
from typing import Final

import numpy as np
import pyarrow as pa
from sqlglot import exp

from pointstamp.expressions import functions
from pointstamp.expressions.tree import col, lit
from pointstamp.expressions.typing import common_of_all
from pointstamp.reduce.aggregate import Aggregate
from pointstamp.tables.table import Table
from pointstamp.views.catalog import Catalog
from pointstamp.views.refusing import placed, refused
from pointstamp.views.scope import Relation

_MINE: Final = "copies on the left"
_THEIRS: Final = "copies on the right"


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
        if not is_distinct:
            return Relation(_with_copies(one, other, is_except=isinstance(node, exp.Except)), left.names)
        made = one.minus(other) if isinstance(node, exp.Except) else one.intersect(other)
        return Relation(made, left.names)


def _with_copies(one: Table, other: Table, *, is_except: bool) -> Table:
    """EXCEPT ALL and INTERSECT ALL: each row as often as it is left over, or as it is in both."""
    rows = one.schema
    mine = one.select(*rows.names, lit(1).cast("long").alias(_MINE), lit(0).cast("long").alias(_THEIRS))
    theirs = other.select(*rows.names, lit(0).cast("long").alias(_MINE), lit(1).cast("long").alias(_THEIRS))
    counted = mine.union(theirs).reduce(
        *rows.names, aggregates={_MINE: Aggregate("sum", _MINE), _THEIRS: Aggregate("sum", _THEIRS)}
    )
    times = col(_MINE) - col(_THEIRS) if is_except else functions.least(_MINE, _THEIRS)
    found = counted.select(*rows.names, times.alias(_MINE)).filter(col(_MINE) > 0)
    return found.map_batches(_repeated, rows, name="copies")


def _repeated(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Each row as often as its last column says."""
    times = batch.column(batch.num_columns - 1).to_numpy()
    return batch.select(batch.schema.names[:-1]).take(pa.array(np.repeat(np.arange(len(times)), times)))


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
