"""Sums and first rows begin at each worker, before rows are exchanged by key.

Law, where T is divided among workers in any way:

    aggregate T by K = the sums by K of what each worker's changes add to the sums by K
    top n of T by K  = top n by K of the first n rows by K of each worker's changes, if T only grows

A count, a sum or a mean of whole numbers, decimals or floats is a sum of exact shares, of which a deletion
has negative ones, so it does not matter which shares are added first. A row that is not among the first rows
of its key among some rows is not among the first of more rows. What is kept, and its signature's inputs, stay
the same; fewer rows are hashed, divided and sent.

It pays where several rows can have one key: not where the keys are a key of the table. How many rows do have
one key is not known here; at run time each worker looks at a sample of a batch, and sends rows as they are
if parts would not be fewer, or if there is no other worker.

Unsound for: first rows of a table that loses rows, because the next one may be needed; least and greatest
values of such a table; first rows with places or ties. In a loop rows of several rounds are open at once, so
nothing begins before the exchange there.
"""

from dataclasses import replace

import pyarrow as pa

from pointstamp.errors import PointstampError
from pointstamp.expressions.compiler import compile_expression
from pointstamp.incremental.exact_sums import is_linear
from pointstamp.plan.logical import Aggregate, LogicalOperator, TopK, loops_of, walk
from pointstamp.plan.properties import Properties, properties_of
from pointstamp.plan.rules.rewriting import Roots
from pointstamp.reduce.aggregate import Aggregate as Aggregated


def aggregate_in_parts(roots: Roots) -> list[LogicalOperator]:
    """Return the roots in which sums and first rows of many rows begin at each worker."""
    found, loops = properties_of(roots), loops_of(roots)
    made: dict[LogicalOperator, LogicalOperator] = {}
    for operator in walk(roots):
        given = operator.with_inputs([made[each] for each in operator.inputs])
        if isinstance(given, Aggregate | TopK) and not given.in_parts and not loops[operator]:
            (read,) = operator.inputs
            if has_parts(given, found[read]):
                given = replace(given, in_parts=True)
        made[operator] = given
    return [made[root] for root in roots]


def has_parts(operator: Aggregate | TopK, rows: Properties) -> bool:
    """Return whether an operator over a table with these properties can begin at each worker, and gains."""
    if rows.is_key(operator.keys):
        return False
    if isinstance(operator, TopK):
        return rows.is_append_only and operator.rank is None and not operator.ties
    return bool(operator.aggregates) and all(_is_sum(each, operator) for _, each in operator.aggregates)


def _is_sum(asked: object, operator: Aggregate) -> bool:
    if not isinstance(asked, Aggregated) or (asked.where is not None and asked.kind != "count"):
        return False
    try:
        return is_linear(asked.kind, _type_of(asked, operator.input.schema))
    except PointstampError:
        return False  # a function that was not given is needed to know the type


def _type_of(asked: Aggregated, schema: pa.Schema) -> pa.DataType | None:
    if asked.column is None or isinstance(asked.column, str):
        return None if asked.column is None else schema.field(asked.column).type
    return compile_expression(asked.column, schema, "a rule").type
