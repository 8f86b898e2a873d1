"""What stands above an operator in a plan: all of which something comes to it."""

from collections.abc import Iterator

from pointstamp.flow.builder import PlanBuilder
from pointstamp.topology.ports import OperatorIndex


def above(builder: PlanBuilder, start: OperatorIndex) -> set[OperatorIndex]:
    """An operator, and all of which something comes to it."""
    seen, waiting = {start}, [start]
    while waiting:
        new = [each for each in next_above(builder, waiting.pop()) if each not in seen]
        seen.update(new)
        waiting.extend(new)
    return seen


def next_above(builder: PlanBuilder, index: OperatorIndex) -> Iterator[OperatorIndex]:
    """The operators whose outputs an operator reads."""
    for port in builder.plan.nodes[index].inputs:
        if port.source is not None:
            yield port.source.operator
