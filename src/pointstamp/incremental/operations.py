"""Operations on tables as functions of streams of changes.

A change may come in parts here, a row several times with weights that are summed. Each function adds one
operator to the flow, and keeps the law of tables, in loops too; what is made of several of them therefore
keeps it.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

import pyarrow as pa

from pointstamp.arrangement.consolidate import DIFF_FIELD
from pointstamp.arrangement.groups import GroupFunction
from pointstamp.errors import FlowError, SchemaError
from pointstamp.expressions.compiler import compile_condition, compile_expression
from pointstamp.expressions.select_columns import selection, shown
from pointstamp.expressions.time_windows import event_time_type
from pointstamp.expressions.tree import Expression, col
from pointstamp.flow.outlet import add_operator, wiring
from pointstamp.flow.physical_stream import PhysicalStream
from pointstamp.flow.plan import Node, Plan
from pointstamp.flow.updates import Passes
from pointstamp.flow.watermarks import above, bounds_for, check_forgets
from pointstamp.incremental.aggregate_operators import (
    ExtremesPlan,
    InParts,
    OnExtremes,
    OnSums,
    SumsOfGroups,
    SumsPlan,
)
from pointstamp.incremental.column_names import weighed, weighed_columns
from pointstamp.incremental.deletion_check import Border
from pointstamp.incremental.distinct import InBoth, OnlyInFirst, OnRows
from pointstamp.incremental.event_time_filters import (
    AwaitsEventTime,
    KeptUntil,
    PhysicalEmitOnClose,
    UntilPlan,
)
from pointstamp.incremental.exact_sums import LinearAggregate, Summing
from pointstamp.incremental.group_aggregates import Once
from pointstamp.incremental.group_operator import GroupPlan, OnGroups
from pointstamp.incremental.hash_join import InnerJoin, Joining, JoinPlan, joining
from pointstamp.incremental.requested_aggregates import FirstValue
from pointstamp.incremental.session_windows import EpochSessions, OpenSessions, Sessions
from pointstamp.incremental.shared_arrangements import arranged_by
from pointstamp.incremental.stateless import Consolidated, MappedRows, Negated, Repeated, Weighed
from pointstamp.incremental.top_k import First, FirstOfBatch, OnFirstOnly, OnTop, TopPlan
from pointstamp.operators.spec import spec, spec_of
from pointstamp.operators.stateless import (
    BatchFunction,
    Concat,
    InWindows,
    PhysicalExplode,
    PhysicalFilter,
    Windowing,
    exploding,
)
from pointstamp.topology.ports import SourcePort


def rows_schema(deltas: PhysicalStream) -> pa.Schema:
    """The columns of a row, without the weight."""
    return pa.schema(list(deltas.schema)[:-1])


# What an operator has computed from all that came at a time, by key, is added up already: each row comes once
# for each time, from one worker. Adding it up again before it leaves would cost as much as making it.

_SEND_SUMS: Final = (
    *(Border, Consolidated, InBoth, OnExtremes, OnGroups),
    *(OnlyInFirst, OnRows, OnSums, OnTop, OnFirstOnly),
)


def come_in_parts(plan: Plan, source: SourcePort) -> bool:
    """Whether the changes that come out here may have to be added up."""
    return spec_of(plan.nodes[source.operator].logic).kind not in _SEND_SUMS


def summed(deltas: PhysicalStream, name: str, sends: Passes | None = None) -> PhysicalStream:
    """Each row once for each time, with the sum of its weights there, if that is not 0."""
    at = wiring(deltas)
    if not come_in_parts(at.builder.plan, at.source):
        return add_operator(name, Concat, {"in": deltas}, {"out": deltas.schema}, sends=sends)[0]
    by = deltas.exchange(*rows_schema(deltas).names)
    return add_operator(name, Consolidated, {"in": by}, {"out": deltas.schema}, sends=sends)[0]


def expand_multiplicity(deltas: PhysicalStream, name: str) -> PhysicalStream:
    """The rows of a table that only grows, each as often as it is added."""
    return add_operator(
        name, Repeated, {"in": summed(deltas, f"{name}: changes")}, {"out": rows_schema(deltas)}
    )[0]


def in_order_of(deltas: PhysicalStream, schema: pa.Schema, who: str) -> PhysicalStream:
    """The same columns in the order of a schema; SchemaError if they are others."""
    own = rows_schema(deltas)
    if own == schema:
        return deltas
    if {(each.name, each.type) for each in own} != {(each.name, each.type) for each in schema}:
        raise SchemaError(
            f"{who} needs the same columns on both sides, got {shown(schema)} and {shown(own)}. Select "
            "and cast them."
        )
    return selected(deltas, "select", {name: col(name) for name in schema.names}, who)


def selected(deltas: PhysicalStream, name: str, wanted: Mapping[str, Expression], who: str) -> PhysicalStream:
    """Rows with other columns."""
    if not wanted:
        raise FlowError(f"{who} would have no columns, but a table needs at least one. Keep one.")
    made = selection(who, rows_schema(deltas), wanted)
    weighed(who, made.schema)
    return _one(name, spec(Weighed, made), deltas, made.schema)


def filtered(deltas: PhysicalStream, name: str, condition: Expression, who: str) -> PhysicalStream:
    """The rows for which a condition holds."""
    compiled = compile_condition(condition, rows_schema(deltas), who)
    return _one(name, spec(PhysicalFilter, compiled), deltas, rows_schema(deltas))


def in_windows(deltas: PhysicalStream, name: str, asked: Windowing) -> PhysicalStream:
    """Rows with the windows in which they lie."""
    return _one(name, spec(InWindows, asked), deltas, asked.schema)


def kept_until(
    deltas: PhysicalStream,
    name: str,
    when: Expression,
    who: str,
    *,
    only_grows: bool,
    beside: PhysicalStream | None = None,
    later: int = 0,
) -> PhysicalStream:
    """The rows whose event time is not over, or was not so long ago; also by that of a stream beside it."""
    others = () if beside is None else (beside,)
    return _waiting(deltas, name, when, who, KeptUntil, deltas.schema, others, later, only_grows=only_grows)


def open_sessions(
    deltas: PhysicalStream, name: str, keys: tuple[str, ...], function: Sessions, result: pa.Schema, who: str
) -> PhysicalStream:
    """The rows of sessions whose event time is not over."""
    kind, told, lateness = bounds_for(deltas, who)
    if kind != result.field(len(result) - 1).type:
        raise SchemaError(
            f"{who} uses the event time '{function.at}', but the event time of its rows is "
            f"{kind}. Use that column."
        )
    plan = GroupPlan(deltas.schema, keys, weighed(f"'{name}'", result), keys, function, 0)
    inputs = {"in": deltas.exchange(*keys), **told}
    logic = spec(OpenSessions, plan, lateness)
    made = add_operator(name, logic, inputs, {"out": plan.result}, in_order=True)[0]
    wiring(made).builder.forgets.add(wiring(made).source.operator)
    return made


def epoch_sessions(
    deltas: PhysicalStream, name: str, keys: tuple[str, ...], function: Sessions, every: int
) -> PhysicalStream:
    """The rows of sessions, in the epoch in which these are over, where epochs are event time."""
    plan = GroupPlan(deltas.schema, keys, function.result, keys, function, 0)
    inputs, outputs = {"in": deltas.exchange(*keys)}, {"out": pa.schema(list(function.result)[:-1])}
    return add_operator(name, spec(EpochSessions, plan, every), inputs, outputs, in_order=True)[0]


def final(
    deltas: PhysicalStream, name: str, when: Expression, who: str, *, only_grows: bool
) -> PhysicalStream:
    """Each row once, without its weight, when its event time is over."""
    check_forgets(deltas, who)
    return _waiting(deltas, name, when, who, PhysicalEmitOnClose, rows_schema(deltas), only_grows=only_grows)


def _waiting(
    deltas: PhysicalStream,
    name: str,
    when: Expression,
    who: str,
    logic: type[AwaitsEventTime],
    result: pa.Schema,
    others: tuple[PhysicalStream, ...] = (),
    later: int = 0,
    *,
    only_grows: bool = False,
) -> PhysicalStream:
    kind, told, lateness = bounds_for(deltas, who, *others)
    compiled = compile_expression(when, rows_schema(deltas), who)
    if event_time_type(f"{who}: {when}", compiled.type) != kind:
        raise SchemaError(
            f"{who}: {when} is {compiled.type} and the event time is {kind}, but both must have one type. "
            "Cast one of them."
        )
    # A row at the end of a session is still in it: what is made of sessions is over when their end is passed.
    later += any(_makes_sessions(node) for node in _nodes_above(deltas))
    plan = UntilPlan(deltas.schema, compiled, lateness, only_grows, later)
    inputs = {"in": deltas.exchange(*rows_schema(deltas).names), **told}
    made = add_operator(name, spec(logic, plan), inputs, {"out": result}, in_order=True)[0]
    wiring(made).builder.forgets.add(wiring(made).source.operator)
    return made


def _nodes_above(deltas: PhysicalStream) -> list[Node]:
    builder = wiring(deltas).builder
    return [builder.plan.nodes[index] for index in above(builder, wiring(deltas).source.operator)]


def _makes_sessions(node: Node) -> bool:
    plan = spec_of(node.logic).parameters.get("plan")
    return isinstance(plan, GroupPlan) and isinstance(plan.function, Sessions)


def exploded(
    deltas: PhysicalStream, column: str, position: str | None, name: str, is_outer: bool, who: str
) -> PhysicalStream:
    """One row for each element of a list."""
    plan = exploding(who, rows_schema(deltas), column, position, is_outer=is_outer, last=(DIFF_FIELD,))
    weighed_columns(who, list(plan.schema)[:-1])
    return _one(name, spec(PhysicalExplode, plan), deltas, pa.schema(list(plan.schema)[:-1]))


def mapped(
    deltas: PhysicalStream, function: BatchFunction, schema: pa.Schema, name: str, who: str
) -> PhysicalStream:
    """What a function makes of the rows."""
    made = pa.schema(list(weighed_columns(who, schema))[:-1])
    return _one(name, spec(MappedRows, function, made), deltas, made)


def negated(deltas: PhysicalStream, name: str) -> PhysicalStream:
    """The same rows taken away."""
    return _one(name, Negated, deltas, rows_schema(deltas))


def union_all(one: PhysicalStream, other: PhysicalStream, name: str) -> PhysicalStream:
    """The rows of both."""
    return add_operator(name, Concat, {"left": one, "right": other}, {"out": one.schema})[0]


def subtract(deltas: PhysicalStream, part: PhysicalStream, name: str) -> PhysicalStream:
    """A table without some of its own rows."""
    return union_all(deltas, negated(part, f"{name}: negated"), name)


def on_groups(
    deltas: PhysicalStream,
    name: str,
    keys: tuple[str, ...],
    function: GroupFunction,
    result: pa.Schema,
    summing: Summing | None = None,
) -> PhysicalStream:
    """What a function makes of the rows of each key, or of their sums."""
    rounds = len(deltas.loops)
    plan = GroupPlan(deltas.schema, keys, weighed(f"'{name}'", result), keys, function, rounds, summing)
    inputs, outputs = {"in": deltas.exchange(*keys)}, {"out": plan.result}
    return add_operator(name, spec(OnGroups, plan), inputs, outputs, in_order=True)[0]


def on_sums(
    deltas: PhysicalStream,
    name: str,
    keys: tuple[str, ...],
    aggregates: Mapping[str, LinearAggregate],
    result: pa.Schema,
    *,
    in_parts: bool = False,
) -> PhysicalStream:
    """Aggregates of each key that are sums, in parts if each worker may begin them with its own rows."""
    summing = Summing(deltas.schema, keys, aggregates)
    if deltas.loops:
        function = SumsOfGroups(summing, weighed(f"'{name}'", result))
        return on_groups(deltas, name, keys, function, result, summing)
    inputs, outputs = {"in": deltas.exchange(*keys)}, {"out": weighed(f"'{name}'", result)}
    if in_parts and summing.has_parts:
        schemas = {"rows": deltas.schema, "parts": summing.stored}
        rows, parts = add_operator(f"{name}: in parts", spec(InParts, summing), {"in": deltas}, schemas)
        inputs = {"in": rows.exchange(*keys), "parts": parts.exchange(*keys)}
    logic = spec(OnSums, SumsPlan(summing, weighed(f"'{name}'", result)))
    return add_operator(name, logic, inputs, outputs, in_order=True)[0]


def on_extremes(
    deltas: PhysicalStream,
    name: str,
    keys: tuple[str, ...],
    aggregates: Mapping[str, LinearAggregate],
    extremes: Mapping[str, FirstValue],
    result: pa.Schema,
) -> PhysicalStream:
    """Values in the first rows of each key, and aggregates that are sums; not for loops."""
    assert not deltas.loops
    plan = ExtremesPlan(Summing(deltas.schema, keys, aggregates), extremes, weighed(f"'{name}'", result))
    inputs, outputs = {"in": deltas.exchange(*keys)}, {"out": weighed(f"'{name}'", result)}
    return add_operator(name, spec(OnExtremes, plan), inputs, outputs, in_order=True)[0]


def on_top(
    deltas: PhysicalStream,
    name: str,
    keys: tuple[str, ...],
    first: First,
    result: pa.Schema,
    *,
    only_grows: bool = False,
    in_parts: bool = False,
) -> PhysicalStream:
    """The first rows of each key; of a table that only grows no others are kept.

    In parts each worker sends the first of its own rows only, which it may if the table only grows.
    """
    if deltas.loops:
        return on_groups(deltas, name, keys, first, result)
    inputs, outputs = {"in": deltas.exchange(*keys)}, {"out": weighed(f"'{name}'", result)}
    plan = TopPlan(deltas.schema, keys, first)
    if only_grows and first.rank is None:
        if in_parts:
            chosen = add_operator(
                f"{name}: in parts", spec(FirstOfBatch, plan), {"in": deltas}, {"out": deltas.schema}
            )[0]
            inputs = {"in": chosen.exchange(*keys)}
        return add_operator(name, spec(OnFirstOnly, plan, arranged={}), inputs, outputs, in_order=True)[0]
    arranged = {"rows": arranged_by(deltas, keys, has_nulls=True, order=first.by[0])}
    logic = spec(OnTop, plan, arranged=arranged)
    return add_operator(name, logic, inputs, outputs, in_order=True)[0]


def distinct(deltas: PhysicalStream, name: str) -> PhysicalStream:
    """Every row once."""
    rows = rows_schema(deltas)
    if deltas.loops:
        return on_groups(deltas, name, tuple(rows.names), Once(deltas.schema), rows)
    inputs, outputs = {"in": deltas.exchange(*rows.names)}, {"out": weighed(f"'{name}'", rows)}
    arranged = {"rows": arranged_by(deltas, tuple(rows.names), has_nulls=True)}
    logic = spec(OnRows, weighed(f"'{name}'", rows), arranged=arranged)
    return add_operator(name, logic, inputs, outputs, in_order=True)[0]


def inner_join(
    left: PhysicalStream,
    right: PhysicalStream,
    asked: Joining,
    name: str,
    where: Expression | None = None,
    *,
    nulls_match: bool = False,
) -> PhysicalStream:
    """The pairs of rows with equal keys for which a condition holds."""
    condition = None if where is None else compile_condition(where, asked.result, f"where= of '{name}'")
    plan = JoinPlan(
        left.schema,
        right.schema,
        tuple(asked.pairs),
        tuple(asked.pairs.values()),
        tuple(asked.added),
        weighed(f"'{name}'", asked.result),
        len(left.loops),
        condition,
        nulls_match,
    )
    arranged = {
        "left": arranged_by(left, plan.left_keys, has_nulls=nulls_match),
        "right": arranged_by(right, plan.right_keys, has_nulls=nulls_match),
    }
    inputs = {"left": left.exchange(*plan.left_keys), "right": right.exchange(*plan.right_keys)}
    logic = spec(InnerJoin, plan, arranged=arranged)
    return add_operator(name, logic, inputs, {"out": plan.result}, in_order=True)[0]


def semi_join_rows(deltas: PhysicalStream, known: PhysicalStream, name: str) -> PhysicalStream:
    """The rows that another table has, too; null equals null. There each row must be once."""
    rows = rows_schema(deltas)
    asked = joining(name, rows, rows_schema(known), tuple(rows.names), "")
    return inner_join(deltas, known, asked, name, nulls_match=True)


def _one(name: str, logic: Callable[[], Any], deltas: PhysicalStream, schema: pa.Schema) -> PhysicalStream:
    return add_operator(name, logic, {"in": deltas}, {"out": weighed(f"'{name}'", schema)})[0]
