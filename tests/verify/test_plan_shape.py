"""The judge's shape of a flow follows what was written, whatever was made of it.

Families, and what only each can find:
- *declared summaries*: a plan whose summaries were made wrongly of right declarations is found in every
  world. The flows of ``support.worlds`` declare none, so only this finds a judge that believes the plan;
- *the same edges*: for flows that were made rightly, the judge's edges are those of the runtime's graph, so
  that a judge that derives something else is found without a world.
"""

from collections.abc import Callable
from typing import Any, ClassVar

import pyarrow as pa
import pytest

import pointstamp as ps
from pointstamp.flow import custom_operator
from pointstamp.flow.plan import NodeKind
from pointstamp.simulate.seeds import cases, simulate
from pointstamp.topology.ports import SourcePort, Target
from pointstamp.topology.summary import Advance, Summary, identity
from pointstamp.verify.plan_shape import shape_of
from support.recoverables import FLOWS
from support.worlds import SCHEMA, busy_flow, nested_flow, simulator_of

Patch = pytest.MonkeyPatch


class Later:
    """Sends what comes of one input at once, and what comes of the other two epochs later."""

    outputs = SCHEMA
    summaries: ClassVar = {("late", "out"): (ps.timely.delay(2),)}

    def on_receive(self, context: ps.ports.Context, input: str, batch: pa.RecordBatch) -> None:  # noqa: A002
        context.send(batch)


def declaring() -> ps.Dataflow:
    flow = ps.Dataflow("declaring")
    late, soon = flow.stream_input("late", SCHEMA), flow.stream_input("soon", SCHEMA)
    flow.output("out", ps.operator("later", Later(), late=late, soon=soon))
    return flow


def carrying() -> ps.Dataflow:
    flow = ps.Dataflow("carrying")
    rows = flow.stream_input("rows", SCHEMA)
    carried = flow.variable(SCHEMA, ps.timely.delay(1))
    left = rows.union(carried).filter(lambda batch: [n > 3 for n in batch.column("n").to_pylist()])
    fewer = left.map_batches(
        lambda batch: batch.set_column(1, "n", pa.array([n - 1 for n in batch.column("n").to_pylist()])),
        SCHEMA,
    )
    flow.feedback(carried, fewer)
    flow.output("out", left)
    return flow


# Declared summaries.


def declarations_are_taken_for_the_identity(patch: Patch) -> None:
    numbered = custom_operator._numbered

    def still(name: str, given: Any, inputs: Any, outputs: Any, rounds: int) -> Any:  # noqa: ANN401
        found = numbered(name, given, inputs, outputs, rounds)
        return found and dict.fromkeys(found, (identity(rounds),))

    patch.setattr(custom_operator, "_numbered", still)


def declarations_go_to_the_other_input(patch: Patch) -> None:
    numbered = custom_operator._numbered

    def swapped(name: str, given: Any, inputs: Any, outputs: Any, rounds: int) -> Any:  # noqa: ANN401
        found = numbered(name, given, inputs, outputs, rounds)
        return found and {(len(inputs) - 1 - i, o): each for (i, o), each in found.items()}

    patch.setattr(custom_operator, "_numbered", swapped)


@pytest.mark.parametrize(
    ("mutant", "caught_by"),
    [
        (declarations_are_taken_for_the_identity, "DdataAbove"),
        (declarations_go_to_the_other_input, "Converged"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_summaries_that_are_made_wrongly_of_declarations_are_found(
    mutant: Callable[[Patch], None], caught_by: str, monkeypatch: Patch
) -> None:
    mutant(monkeypatch)
    report = simulate(simulator_of(declaring(), epochs=3), cases(range(10), 1, 3))
    assert report.finding is not None
    assert report.finding.verdict.property == caught_by, report.finding.reason


@pytest.mark.parametrize("flow", [declaring, carrying])
def test_declarations_that_are_kept_are_right(flow: Callable[[], ps.Dataflow]) -> None:
    report = simulate(simulator_of(flow(), epochs=3), cases(range(20), 1, 3))
    assert report.finding is None, report.finding.reason
    assert not report.unknown


# The same edges.


def edges_of_the_graph(flow: ps.Dataflow) -> set[tuple[object, ...]]:
    """What progress tracking goes by, in the judge's form."""
    plan = flow.plan
    graph = plan.graph()
    found: set[tuple[object, ...]] = set()
    for node in plan.nodes:
        if node.index in plan.chains().runs_at:
            continue
        made: Any = graph.operators[node.index].summaries
        for (i, o), summaries in made.items():
            for each in summaries:
                assert isinstance(each, Summary)
                later = each.root.epochs if isinstance(each.root, Advance) else 0
                origin = graph.location(Target(node.index, i))
                target = graph.location(SourcePort(node.index, o))
                found.add((origin, target, (later, *each.increments), each.appended))
    return found


@pytest.mark.parametrize("flow", [busy_flow, nested_flow, declaring, carrying, *FLOWS.values()])
def test_what_is_derived_is_what_was_made(flow: Callable[[], ps.Dataflow]) -> None:
    written = flow()
    shape = shape_of(written.plan)
    inside = {
        (edge.origin, edge.target, edge.add, edge.append)
        for edge in shape.edges
        if shape.ports[edge.origin].operator == shape.ports[edge.target].operator
        and not shape.ports[edge.origin].is_output
    }
    assert inside == edges_of_the_graph(written)
    assert any(node.kind is NodeKind.INPUT for node in written.plan.nodes)
