"""Rewrite min and max of append-only tables to top-k.

Law, for a column of which all values can be ordered, and with nulls last:

    aggregate T by K with max(v) = top 1 of T by K in order v desc
    aggregate T by K with min(v) = top 1 of T by K in order v asc

A table that never loses a row never needs a value that was not the best: its first rows keep one value for
each key, and an aggregate keeps all of them, because one of them may be deleted.

Unsound for: nulls first, of which an aggregate takes none as long as there is a value; floats, of which an
aggregate makes one zero; several aggregates, of which each has its own best row; no keys, because an
aggregate has a row for no rows.
"""

from dataclasses import replace

import pyarrow as pa
from pyarrow import types

from pointstamp.expressions.tree import Expression, col
from pointstamp.plan.logical import Aggregate, LogicalOperator, Project, TopK, loops_of, walk
from pointstamp.plan.properties import properties_of
from pointstamp.plan.rules.rewriting import Roots
from pointstamp.reduce.aggregate import Aggregate as Aggregated

_ORDER = {"max": "desc nulls last", "min": "asc nulls last"}


def single_values(roots: Roots) -> list[LogicalOperator]:
    """Return the roots in which tables that only grow keep one value for a greatest or least one."""
    found, loops = properties_of(roots), loops_of(roots)
    made: dict[LogicalOperator, LogicalOperator] = {}
    for operator in walk(roots):
        given = operator.with_inputs([made[each] for each in operator.inputs])
        grows = isinstance(operator, Aggregate) and found[operator.input].is_append_only
        is_kept = not grows or bool(loops[operator])
        made[operator] = given if is_kept or not isinstance(given, Aggregate) else _first_rows(given)
    return [made[root] for root in roots]


def _first_rows(operator: Aggregate) -> LogicalOperator:
    if len(operator.aggregates) != 1 or not operator.keys:
        return operator
    ((name, asked),) = operator.aggregates
    if not isinstance(asked, Aggregated) or asked.kind not in _ORDER or asked.where is not None:
        return operator
    if asked.column is None or not _is_ordered(operator.schema.field(name).type) or name in operator.keys:
        return operator
    value: Expression = col(asked.column) if isinstance(asked.column, str) else asked.column
    keys = tuple((key, col(key)) for key in operator.keys)
    rows = Project(operator.input, (*keys, (name, value)))
    made = TopK(rows, 1, operator.keys, (f"{name} {_ORDER[asked.kind]}",))
    if not made.schema.equals(operator.schema):
        return operator
    return replace(made, name=operator.name, origin=operator.origin, written=operator.written)


def _is_ordered(found: pa.DataType) -> bool:
    kinds = (types.is_integer, types.is_string, types.is_date, types.is_timestamp, types.is_decimal)
    return any(is_kind(found) for is_kind in kinds)
