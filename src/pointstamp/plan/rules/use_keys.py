"""Distinct, Aggregate, TopK and outer joins that a key makes needless.

Law, where K is a key of T, so that no two rows of T, copies included, are equal in K:

    distinct T                          = T
    aggregate T by K                    = each row with its aggregates, computed of this row alone
    top n of T by K                     = T, for n of 1 or more
    left join L T on K, T unused        = L, because each row has one partner or none
    distinct (union (distinct A) B)     = distinct (union A B), also without keys

Unsound for: an aggregate without keys, which has a row for no rows; floats, of which an aggregate makes one
zero and one NaN; aggregates that are opaque; the rank of a TopK; an inner join, which removes rows without
partners.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

import pyarrow as pa
from pyarrow import types

from pointstamp.expressions.tree import Expression, Literal, col, lit, when
from pointstamp.plan import logical
from pointstamp.plan.logical import (
    Aggregate,
    Distinct,
    DistinctOn,
    Join,
    LogicalOperator,
    Project,
    TopK,
    Union,
)
from pointstamp.plan.properties import Columns, Properties, properties_of, used_columns
from pointstamp.plan.rules.conditions import can_be
from pointstamp.plan.rules.rewriting import Readers, Roots
from pointstamp.reduce.aggregate import Aggregate as Aggregated
from pointstamp.reduce.aggregate import Aggregation


def use_keys(roots: Roots) -> list[LogicalOperator]:
    """Return the roots without operators that a key makes needless."""
    found = properties_of(roots)
    used = used_columns(roots, found)
    readers = Readers(roots)
    made: dict[int, LogicalOperator] = {}
    for operator in logical.walk(roots):
        given = operator.with_inputs([made[id(each)] for each in operator.inputs])
        known = {new: found[old] for new, old in zip(given.inputs, operator.inputs, strict=True)}
        readers.stands_for(given, operator)
        made[id(operator)] = changed = _use(given, known, used[operator], readers)
        readers.stands_for(changed, operator)
    return [made[id(root)] for root in roots]


def _use(
    operator: LogicalOperator,
    known: Mapping[LogicalOperator, Properties],
    used: Columns,
    readers: Readers,
) -> LogicalOperator:
    match operator:
        case Distinct():
            return operator.input if known[operator.input].keys else _distinct_once(operator, readers)
        case Aggregate() if operator.keys and known[operator.input].is_key(operator.keys):
            return _of_single_rows(operator)
        case DistinctOn() if known[operator.input].is_key(operator.keys):
            return operator.input
        case TopK() if operator.rank is None:
            rows = known[operator.input]
            is_single = bool(operator.keys) and rows.is_key(operator.keys)
            is_short = rows.rows_max is not None and rows.rows_max <= operator.count
            return operator.input if is_single or is_short else operator
        case Join() if operator.kind == "left" and known[operator.right].is_key(
            theirs for _, theirs in operator.keys
        ):
            return _without_right(operator, used)
        case _:
            return operator


def _distinct_once(operator: Distinct, readers: Readers) -> LogicalOperator:
    """Return a distinct over a union without the distincts of its parts."""
    union = operator.input
    if not isinstance(union, Union) or readers.is_shared(union):
        return operator
    parts = [
        each.input if isinstance(each, Distinct) and not readers.is_shared(each) else each
        for each in union.parts
    ]
    if all(new is old for new, old in zip(parts, union.parts, strict=True)):
        return operator
    return replace(operator, input=union.with_inputs(parts))


def _without_right(operator: Join, used: Columns) -> LogicalOperator:
    mine = operator.left.schema.names
    if used - set(mine):
        return operator
    nulls = [(each.name, Literal(None, each.type)) for each in operator.schema if each.name not in mine]
    columns: list[tuple[str, Expression]] = [*((name, col(name)) for name in mine), *nulls]
    return Project(operator.left, tuple(columns), name=operator.name) if nulls else operator.left


def _of_single_rows(operator: Aggregate) -> LogicalOperator:
    """Return each row with the aggregates of a group that has no other row."""
    columns: list[tuple[str, Expression]] = [(key, col(key)) for key in operator.keys]
    for name, each in operator.aggregates:
        value = _of_one_row(each, operator.input.schema, operator.schema.field(name).type)
        if value is None:
            return operator
        columns.append((name, value))
    made = Project(operator.input, tuple(columns), name=operator.name)
    return made if made.schema.equals(operator.schema) else operator


_OF_ONE: Final = ("sum", "min", "max", "first", "last", "bool_and", "bool_or")


def _of_one_row(asked: Aggregation, schema: pa.Schema, gives: pa.DataType) -> Expression | None:
    if not isinstance(asked, Aggregated) or types.is_floating(gives) or types.is_nested(gives):
        return None
    value = col(asked.column) if isinstance(asked.column, str) else asked.column
    if asked.kind == "count":
        holds = asked.where
        if value is not None:
            known = value.is_not_null()
            holds = known if holds is None else when(holds, known).otherwise(lit(False))
        one, none = Literal(1, pa.int64()), Literal(0, pa.int64())
        return one if holds is None else when(holds, one).otherwise(none)
    if asked.kind not in _OF_ONE or value is None:
        return None
    if asked.where is not None:
        value = when(asked.where, value)
    return value if can_be(value, schema, gives) else value.cast(gives)
