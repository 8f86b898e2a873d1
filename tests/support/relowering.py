"""The logical plan of a flow is lowered a second time, into a fresh flow, and compared with what runs.

``check_record`` compares the operators as they were written: nothing of the plan that runs may be missing in
the record, not even an order or a name. ``check_structured`` compares the plan for rules, in which loops of
tables are recursions: the same operators, except that a table may enter a loop in another place.
"""

from collections import Counter
from dataclasses import fields, replace
from typing import Any

import pointstamp as ps
from pointstamp.dataflow.record import FlowRecord
from pointstamp.flow.plan import Node, NodeKind, Plan
from pointstamp.journal.flow_shape import operator_shape
from pointstamp.plan import streams
from pointstamp.plan.lowering import Lowering, lower_written
from pointstamp.plan.recursion import roots_of, structured

_BY_SHAPE = {"logic", "inputs", "outputs"}


def _node(plan: Plan, node: Node) -> dict[str, Any]:
    """A node as values that can be compared: its options, and its parameters as canonical text."""
    own = {each.name: getattr(node, each.name) for each in fields(node) if each.name not in _BY_SHAPE}
    shape = operator_shape(plan, node, None)
    wires = [(each.name, each.source) for each in node.inputs]
    outputs = [(each.name, each.schema) for each in node.outputs]
    return {
        **own,
        "parameters": shape.parameters,
        "code": shape.functions,
        "wires": wires,
        "outputs": outputs,
    }


def record_of_flow(flow: ps.Dataflow) -> FlowRecord:
    """What was written of a flow."""
    return flow._record


def check_record(record: FlowRecord) -> None:
    """Lower what was written once more, and compare node by node."""
    builder = record.fresh()
    lower_written(record.written, builder)
    # What a node is a part of is said when the plan is complete.
    nodes = [replace(each, identity="", step=None) for each in record.builder.plan.nodes]
    before, after = replace(record.builder.plan, nodes=nodes), builder.plan
    assert [each.name for each in after.nodes] == [each.name for each in before.nodes]
    for old, new in zip(before.nodes, after.nodes, strict=True):
        new.extra_columns = old.extra_columns  # may be set when a flow is there already
        one, other = _node(before, old), _node(after, new)
        differing = {key: (one[key], other[key]) for key in one if str(one[key]) != str(other[key])}
        assert not differing, f"{old.name}: {differing}"


def check_schemas(record: FlowRecord) -> None:
    """Derive the schema of each operator, and compare it with the columns of what it was lowered to."""
    for operator in record.written:
        had = operator.schema
        made = replace(operator).schema
        told = [(each.name, each.type) for each in had]
        if isinstance(operator, streams.Split | streams.Probed | streams.Output):
            continue  # what they are lowered to has no columns of its own
        assert [(each.name, each.type) for each in made] == told, f"{operator}: {made} is not {had}"


def check_structured(record: FlowRecord) -> None:
    """Lower the plan for rules, and compare: the same operators, each as often, but for what enters."""
    made = structured(record.written)
    builder = record.fresh()
    Lowering(roots_of(made.values()), builder=builder).lower_all()
    kept = [each for each in record.builder.plan.nodes if each.kind is not NodeKind.ENTER]
    found = [each for each in builder.plan.nodes if each.kind is not NodeKind.ENTER]
    one, other = (Counter(_base(each) for each in nodes) for nodes in (kept, found))
    assert one == other, f"missing: {one - other}; added: {other - one}"


def _base(node: Node) -> tuple[str, str]:
    """The kind of a node, and its name without the number that tells it from others."""
    name, _, number = node.name.rpartition(" ")
    return node.kind.value, name if number.isdigit() and name else node.name
