"""Inputs, outputs and variables of a flow: the nodes that stand at its ends."""

import pyarrow as pa

from pointstamp.errors import FlowError
from pointstamp.flow.builder import PlanBuilder, wired
from pointstamp.flow.event_epochs import EventTime, event_epochs
from pointstamp.flow.idle import idle_seconds
from pointstamp.flow.outlet import feed, scope_name, wiring
from pointstamp.flow.plan import InputPort, NodeKind
from pointstamp.flow.stream import Stream
from pointstamp.operators.endpoints import Collect
from pointstamp.rows.late import LATE_PORT, LatePolicy, check_policy, late_schema
from pointstamp.rows.undeclared import ExtraColumns, check_extra_columns
from pointstamp.topology.ports import SourcePort
from pointstamp.topology.summary import Summary


def add_input(
    builder: PlanBuilder,
    name: str,
    declared: pa.Schema,
    *,
    epoch: EventTime | None,
    late: LatePolicy | None,
    late_output: str | None,
    extra_columns: ExtraColumns,
) -> Stream:
    """Add an input and, if late rows have one, their output; return its rows as a stream."""
    check_extra_columns(f"input '{name}'", extra_columns)
    late = late or ("error" if epoch is None else "output")
    check_policy(name, late, late_output)
    epochs = None if epoch is None else event_epochs(builder.plan, name, declared, epoch)
    ports = {"out": declared}
    if late == "output":
        ports["late"] = late_schema(declared, name)
    node = builder.add(NodeKind.INPUT, name, (), [], ports)
    node.late = late
    node.extra_columns = extra_columns
    node.event_epochs = epochs
    if epoch is not None:
        node.idle_seconds = idle_seconds(f"input '{name}', epoch=, idle", epoch.idle)
    if late == "output":
        port = wired("in", SourcePort(node.index, LATE_PORT))
        builder.add(NodeKind.OUTPUT, late_output or f"{name}_late", (), [port], {}, logic=Collect)
    return Stream(builder, SourcePort(node.index, 0), declared, ())


def add_variable(builder: PlanBuilder, declared: pa.Schema, summary: Summary, name: str) -> Stream:
    """Add a variable outside loops, which is fed later."""
    node = builder.add(
        NodeKind.FEEDBACK,
        name,
        (),
        [InputPort("in", None)],
        {"out": declared},
        summaries={(0, 0): (summary,)},
        declared={("in", "out"): (summary,)},
    )
    return Stream(builder, SourcePort(node.index, 0), declared, ())


def feed_variable(builder: PlanBuilder, variable: Stream, stream: Stream) -> None:
    """Wire a stream to a variable outside loops."""
    at, flow = wiring(variable), f"flow '{builder.plan.name}'"
    node = builder.plan.nodes[at.source.operator]
    if at.builder is not builder or node.kind is not NodeKind.FEEDBACK or node.scope:
        raise FlowError(f"{flow}: feedback needs a variable of this flow, but was given {variable}.")
    feed(node, stream, flow)


def add_output(builder: PlanBuilder, name: str, stream: Stream) -> None:
    """Add an output that collects a stream."""
    at = wiring(stream)
    if at.builder is not builder:
        raise FlowError(f"output '{name}' of flow '{builder.plan.name}' was given {stream} of another flow.")
    if stream.loops:
        raise FlowError(
            f"output '{name}' was given {stream}, which is in {scope_name(stream.loops)}. Leave the loop "
            "first."
        )
    port = wired("in", at.source, at.pact)
    builder.add(NodeKind.OUTPUT, name, (), [port], {}, logic=Collect)
