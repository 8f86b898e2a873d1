"""The prefix of a plan that an engine can execute upstream of the workers.

The walk goes from an input along its only reader, as long as that is an operator of ours that keeps nothing
and asks for expressions on the allow-list (``wording``), outside loops. If it then comes to a reduction of
counts, sums of integers, and least and greatest values, it goes one step further: parts of the aggregates are
made before, and the reduction brings them together. Another reader, a function, or a column that may not be
null ends the walk.

The operators that are pushed are no longer in the plan that is left, and others have other numbers there.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from pointstamp.arrangement.consolidate import DIFF_FIELD
from pointstamp.arrow.hash_table import Slots
from pointstamp.errors import FlowError
from pointstamp.expressions.compiler import Compiled
from pointstamp.expressions.select_columns import Selection
from pointstamp.flow.plan import ExchangeBy, InputPort, Node, NodeKind, OutputPort, Plan, StayHere
from pointstamp.incremental.stateless import Appended, Weighed
from pointstamp.operators.spec import OperatorSpec, spec, spec_of
from pointstamp.operators.stateless import PhysicalFilter, PhysicalProject
from pointstamp.pushdown.steps import KeepRows, MakeColumns, MakeParts, Pushed, PushedPlan, Step, quoted
from pointstamp.pushdown.wording import ORDERED, worded
from pointstamp.reduce.accumulators import ExactSum, State
from pointstamp.reduce.aggregate import Aggregate, Aggregation
from pointstamp.reduce.reductions import RunningReduce, WindowedReduce
from pointstamp.topology.ports import OperatorIndex, SourcePort

_KEY_TYPES: Final = ORDERED | {pa.bool_()}


def pushed(plan: Plan, inputs: Collection[str] | None = None) -> PushedPlan:
    """Split a plan into the part that can run before the workers, for all or some inputs, and the rest.

    The plan that is given stays as it is.
    """
    left = replace(plan, nodes=[_copy(node) for node in plan.nodes])
    found = {}
    for name, node in left.named(NodeKind.INPUT).items():
        declared = node.outputs[0].schema
        is_asked = inputs is None or name in inputs
        if is_asked and _may_push(node) and (steps := _push(left, node)):
            found[name] = Pushed(declared, steps)
    _leave_out(left)
    return PushedPlan(left, found)


def _leave_out(plan: Plan) -> None:
    """Leave out the operators that have no ports any more, and give the others numbers without gaps."""
    nodes = [node for node in plan.nodes if node.inputs or node.outputs]
    numbers = {node.index: OperatorIndex(number) for number, node in enumerate(nodes)}
    for node in nodes:
        node.index = numbers[node.index]
        for port in node.inputs:
            if port.source is not None:
                port.source = SourcePort(numbers[port.source.operator], port.source.port)
    plan.nodes[:] = nodes


def _copy(node: Node) -> Node:
    inputs = [InputPort(port.name, port.source, port.pact) for port in node.inputs]
    return replace(node, inputs=inputs, outputs=[OutputPort(port.name, port.schema) for port in node.outputs])


def _may_push(node: Node) -> bool:
    schema = node.outputs[0].schema
    has_rules = len(node.outputs) > 1 or node.event_epochs is not None or node.late != "error"
    # Where a column may not be null, a row that breaks this must come to who refuses it.
    return not has_rules and all(field.nullable for field in schema) and _are_apart(schema.names)


def _push(plan: Plan, start: Node) -> tuple[Step, ...]:
    """Take the steps behind an input out of a plan, and return them."""
    steps, nodes, table = _walk(plan, start)
    last = nodes[-1] if nodes else start
    reader = _only_reader(plan, last)
    parts = None if reader is None or table is not None else _parts_of(reader, _after(steps, start))
    while parts is None and steps and not _has_plain_names(steps[-1].schema):
        steps.pop()
        nodes.pop()
    before = [node for node in nodes if table is None or node.index < table.index]
    behind = nodes[len(before) :]
    _bypass(plan, start, before)
    if table is not None and behind:
        _bypass(plan, table, behind)
        schema = pa.schema([*_after(steps, start), DIFF_FIELD])
        table.logic, table.outputs[0].schema = spec(Appended, schema, None), schema
    if reader is not None and parts is not None:
        steps.append(parts[0])
        reader.logic = parts[1]
    start.outputs[0].schema = _after(steps, start)
    return tuple(steps)


def _walk(plan: Plan, start: Node) -> tuple[list[Step], list[Node], Node | None]:
    """The steps behind an input, their operators, and the one between them that makes a table of the rows.

    That one stays where it is, and steps behind it are done before it.
    """
    steps: list[Step] = []
    nodes: list[Node] = []
    table: Node | None = None
    last = start
    while (reader := _only_reader(plan, last)) is not None:
        if table is None and _adds_weights(reader):
            table = reader
        elif (step := _step_of(reader, _after(steps, start))) is not None:
            steps.append(step)
            nodes.append(reader)
        else:
            break
        last = reader
    return steps, nodes, table


def _after(steps: Sequence[Step], start: Node) -> pa.Schema:
    return steps[-1].schema if steps else start.outputs[0].schema


def _only_reader(plan: Plan, node: Node) -> Node | None:
    readers = [
        each for each in plan.nodes for port in each.inputs if port.source == SourcePort(node.index, 0)
    ]
    if len(readers) != 1:
        return None
    (reader,) = readers
    is_plain = reader.kind is NodeKind.OPERATOR and not reader.scope and reader.summaries is None
    return reader if is_plain and len(reader.inputs) == len(reader.outputs) == 1 else None


def _bypass(plan: Plan, before: Node, nodes: Sequence[Node]) -> None:
    """Let who reads the last of these nodes read what stands before the first, and take their ports away."""
    if not nodes:
        return
    behind = SourcePort(nodes[-1].index, 0)
    for reader in plan.nodes:
        for port in reader.inputs:
            if port.source == behind:
                port.source = SourcePort(before.index, 0)
    for node in nodes:
        node.inputs, node.outputs = [], []


def _adds_weights(node: Node) -> bool:
    made = spec_of(node.logic)
    is_appended = made.kind is Appended and made.parameters["weight"] is None
    return is_appended and isinstance(node.inputs[0].pact, StayHere)


def _step_of(node: Node, schema: pa.Schema) -> Step | None:
    """The SQL of an operator without state; None if there is none."""
    made = spec_of(node.logic)
    if not isinstance(node.inputs[0].pact, StayHere):
        return None
    if made.kind is PhysicalFilter and isinstance(kept := made.parameters["condition"], Compiled):
        condition = worded(kept.tree, schema)
        return None if condition is None else KeepRows(node.name, condition.text, schema)
    return (
        _made(node.name, made.parameters["selection"], schema)
        if made.kind in (PhysicalProject, Weighed)
        else None
    )


def _made(operator: str, selection: Selection, schema: pa.Schema) -> Step | None:
    texts = []
    for name, compiled in zip(selection.schema.names, selection.columns, strict=True):
        made = worded(compiled.tree, schema)
        if made is None or made.type != selection.schema.field(name).type:
            return None
        texts.append((name, made.text))
    if not _are_apart(selection.schema.names):
        return None
    return MakeColumns(operator, tuple(texts), selection.schema)


def _parts_of(node: Node, schema: pa.Schema) -> tuple[MakeParts, OperatorSpec] | None:
    """The parts of a reduction's aggregates, and the logic that brings them together."""
    made = spec_of(node.logic)
    if made.kind not in (RunningReduce, WindowedReduce):
        return None
    keys, aggregates = made.parameters["keys"], made.parameters["aggregates"]
    if node.inputs[0].pact != ExchangeBy(tuple(keys)) or not _are_apart((*keys, *aggregates)):
        return None
    if any(schema.field(key).type not in _KEY_TYPES for key in keys):
        return None
    found = {name: _part_of(name, each, schema) for name, each in aggregates.items()}
    parts = {name: part for name, part in found.items() if part is not None}
    if len(parts) < len(found):
        return None
    fields = [
        *(schema.field(key) for key in keys),
        *(pa.field(name, part[1]) for name, part in parts.items()),
    ]
    texts = tuple((name, part[0]) for name, part in parts.items())
    together = {name: part[2] for name, part in parts.items()}
    step = MakeParts(node.name, tuple(keys), texts, pa.schema(fields))
    if not _has_plain_names(step.schema):
        return None
    return step, spec(made.kind, step.schema, keys, together)


def _part_of(
    name: str, aggregate: Aggregation, schema: pa.Schema
) -> tuple[str, pa.DataType, Aggregation] | None:
    """The partial aggregate, its type, and the aggregate of the parts; None if it has no parts."""
    if not isinstance(aggregate, Aggregate) or aggregate.where is not None or aggregate.by is not None:
        return None
    if aggregate.column is None:
        return "count(1)", pa.int64(), Aggregate("sum", name)
    if not isinstance(aggregate.column, str):
        return None
    value, kind = quoted(aggregate.column), schema.field(aggregate.column).type
    if aggregate.kind == "count":
        return f"count({value})", pa.int64(), Aggregate("sum", name)
    if aggregate.kind == "sum" and types.is_signed_integer(kind):
        return halves_in_sql(value), HALVES, WideSum(name)
    if aggregate.kind in ("min", "max") and kind in ORDERED:
        return f"{aggregate.kind}({value})", kind, Aggregate(aggregate.kind, name)
    return None


def _has_plain_names(schema: pa.Schema) -> bool:
    """Whether rows of these columns can be handed to Python: PySpark asks for each by its bare name."""
    return not any(mark in name for name in schema.names for mark in ".`")


def _are_apart(names: Iterable[str]) -> bool:
    """Return whether no two names are one for Spark, which does not tell capital letters from small ones."""
    lowered = [name.lower() for name in names]
    return len(set(lowered)) == len(lowered)


# Sums of integers that come in two halves, so that no part of one can overflow before all are together.

_HALF_BITS: Final = 32
_LOW_HALF: Final = (1 << _HALF_BITS) - 1
HALVES: Final = pa.struct([("high", pa.int64()), ("low", pa.int64())])
"""The sum of values shifted right by 32 bits, and that of the 32 bits that were shifted out."""


def halves_in_sql(value: str) -> str:
    """The sums of the halves of an integer, null where there is no value; a half that overflows is null."""
    long = f"CAST({value} AS BIGINT)"
    high, low = f"try_sum(shiftright({long}, {_HALF_BITS}))", f"try_sum({long} & {_LOW_HALF})"
    return f"CASE WHEN count({value}) > 0 THEN named_struct('high', {high}, 'low', {low}) END"


class WideSum(ExactSum):
    """The exact sum of integers from the sums of their halves; it must fit a long when it is sent."""

    def __init__(self, column: str) -> None:
        super().__init__(pa.int64())
        self.column = column

    def result_type(self, column_type: pa.DataType) -> pa.DataType:
        """A long, as of the values themselves."""
        assert column_type == HALVES, f"'{self.column}' is {column_type}"
        return pa.int64()

    def update(self, state: State, slots: Slots, values: pa.Array) -> None:
        """Bring sums of halves in."""
        high, low = (pc.struct_field(values, name) for name in ("high", "low"))
        if high.null_count or low.null_count:
            raise FlowError(
                f"'{self.column}': a sum that is computed by Spark has at most two thousand million rows "
                "per key. Run the flow with push=False."
            )
        lower = low.to_numpy()
        np.add.at(state["limb0"], slots, lower & _LOW_HALF)
        np.add.at(state["limb1"], slots, high.to_numpy() + (lower >> _HALF_BITS))
        self._carry_if_large(state, slots)
