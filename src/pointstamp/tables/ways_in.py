"""The ways into a table: rows that are added, rows with weights, and upserts by key.

Invariant: no table begins with a weight below zero, nor with updates that are taken for rows.
"""

from collections.abc import Iterable
from functools import partial

import pyarrow as pa
from pyarrow import types

from pointstamp.errors import FlowError, SchemaError
from pointstamp.expressions.selecting import check_columns
from pointstamp.flow.marking import check_adds_up
from pointstamp.flow.stream import Stream, add_operator
from pointstamp.flow.updates import Passes
from pointstamp.tables.border import Border
from pointstamp.tables.rounds import is_round_name
from pointstamp.tables.table import Table
from pointstamp.tables.upserting import UpsertPlan, Upserts
from pointstamp.tables.weighing import Appended
from pointstamp.tables.weights import DIFF, DIFF_FIELD
from pointstamp.topology.domain import EPOCHS


def running(stream: Stream, weight: str | None = None, name: str = "running") -> Table:
    """A stream as a table: every row is added, or with a column of weights as often as that says."""
    who = f"'{name}' of {stream}"
    _check_can_be_table(stream, who)
    if weight is not None:
        check_columns(who, stream.schema, [weight])
        if not types.is_integer(stream.schema.field(weight).type):
            raise SchemaError(
                f"{who}: the weight '{weight}' is {stream.schema.field(weight).type}, and no integer."
            )
    schema = _weighed(who, [field for field in stream.schema if field.name != weight])
    logic = partial(Appended, schema, weight)
    added = add_operator(name, logic, {"in": stream}, {"out": schema}, sends=Passes.ADDED)[0]
    if weight is None:
        return Table(added)
    if stream.scope:
        raise FlowError(
            f"{who} stands in a loop, where rows with weights cannot be checked. Make the table outside, and "
            "bring it in with table.enter(loop)."
        )
    by = added.exchange(*schema.names[:-1])
    inputs, outputs = {"in": by}, {"out": schema}
    return Table(add_operator(f"{name}: border", partial(Border, schema), inputs, outputs, in_order=True)[0])


def upserted(
    stream: Stream, key: str | Iterable[str], order: str | None, deleted: str | None, name: str
) -> Table:
    """A stream of upserts as a table: each row replaces the row with its key, or deletes it."""
    who = f"table '{name}'"
    _check_can_be_table(stream, who)
    keys = (key,) if isinstance(key, str) else tuple(key)
    if not keys:
        raise FlowError(f"{who} needs key= with at least one column.")
    check_columns(who, stream.schema, [*keys, *filter(None, (order, deleted))])
    if deleted is not None and not types.is_boolean(stream.schema.field(deleted).type):
        raise SchemaError(
            f"{who}: '{deleted}' marks rows that delete, and is {stream.schema.field(deleted).type}; it must "
            "be boolean."
        )
    schema = _weighed(who, [field for field in stream.schema if field.name != deleted])
    logic = partial(Upserts, UpsertPlan(keys, order, deleted, schema))
    inputs = {"in": stream.exchange(*keys)}
    return Table(add_operator(f"{name}: upserts", logic, inputs, {"out": schema}, in_order=True)[0])


def _check_can_be_table(stream: Stream, who: str) -> None:
    plan = stream.builder.plan
    if plan.root is not EPOCHS:
        raise FlowError(
            f"{who}: flow '{plan.name}' has times of its own, and a table is what epochs add up to. "
            "Make the table in a flow with epochs."
        )
    check_adds_up(plan, stream.source, who)


def _weighed(who: str, fields: list[pa.Field]) -> pa.Schema:
    """The columns of a table, all of which may be null, and the weight."""
    if not fields:
        raise SchemaError(f"{who} would have no columns; a table needs at least one.")
    for field in fields:
        if field.name == DIFF or is_round_name(field.name):
            raise SchemaError(f"{who}: a column cannot be called '{field.name}', which is taken. Rename it.")
    return pa.schema([*(pa.field(field.name, field.type) for field in fields), DIFF_FIELD])
