"""Routes of batches: the receivers of an output, and how times change on the way.

Doors (enter, leave, feedback, delay) do no work, so no operator runs for them: a route leads straight from
the output of an operator to the inputs that read it, through all doors between, and moves the time as their
summaries say. It does not lead to an operator that runs inside of another one (``pointstamp.flow.plan``),
but to the one that ends the chain. A message is counted where it arrives. The sender's authority at its
output covers that, because each door's summary is part of the graph that progress is tracked on.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from pointstamp.errors import LoopError
from pointstamp.flow.pact import STAY, ExchangeBy, Pact, StayHere
from pointstamp.flow.plan import Node, NodeKind, OperatorChains, Plan
from pointstamp.topology.domain import Time
from pointstamp.topology.graph import OperatorGraph
from pointstamp.topology.ports import Location, OperatorIndex, SourcePort, Target

Move: TypeAlias = Callable[[Time], Time | None]
"""What becomes of a time; None where the batch goes no further."""


@dataclass(frozen=True, slots=True)
class Route:
    """The way from an output to one input that reads it."""

    operator: OperatorIndex
    port: int
    location: Location
    pact: Pact
    moves: tuple[Move, ...]
    reader: Target
    """The input that reads it as the flow is written; the first of a chain, where the input ends one."""
    turn: int | None = None
    """Which coordinate of the arrival is the round of the loop that the way turns in, if it turns in one."""

    def arrival(self, time: Time) -> Time | None:
        """When a batch arrives that is sent at this time; None where a loop's limit ends its way."""
        for move in self.moves:
            after = move(time)
            if after is None:
                return None
            time = after
        return time


def routes_of(plan: Plan, graph: OperatorGraph) -> dict[tuple[OperatorIndex, int], tuple[Route, ...]]:
    """For each output of an operator the routes to all of its readers."""
    readers: dict[SourcePort, list[tuple[Node, int]]] = {}
    chains = plan.chains()
    for node in plan.nodes:
        for number, port in enumerate(node.inputs):
            if port.source is not None:
                readers.setdefault(port.source, []).append((node, number))
    return {
        (node.index, number): tuple(_follow(graph, readers, chains, SourcePort(node.index, number), STAY, ()))
        for node in plan.nodes
        if not node.kind.is_door and node.index not in chains.runs_at
        for number in range(len(node.outputs))
    }


def key_of(routes: Sequence[Route]) -> tuple[str, ...] | None:
    """The key by which all readers of an output exchange it first; None if there is no such key."""
    pacts = {route.pact for route in routes}
    pact = next(iter(pacts)) if len(pacts) == 1 else None
    return pact.keys if isinstance(pact, ExchangeBy) else None


def _follow(
    graph: OperatorGraph,
    readers: dict[SourcePort, list[tuple[Node, int]]],
    chains: OperatorChains,
    source: SourcePort,
    pact: Pact,
    moves: tuple[Move, ...],
    turn: int | None = None,
) -> Iterator[Route]:
    for node, number in readers.get(source, []):
        # The last pact on the way decides; copies before another pact are made by an operator of their own.
        asked = node.inputs[number].pact
        shared = pact if isinstance(asked, StayHere) else asked
        if node.kind.is_door:
            further = (*moves, _move_of(node, graph))
            turns = len(node.scope) if node.kind is NodeKind.FEEDBACK else turn
            yield from _follow(graph, readers, chains, SourcePort(node.index, 0), shared, further, turns)
        else:
            reader = Target(node.index, number)
            taker = chains.runs_at.get(node.index, reader)
            yield Route(taker.operator, taker.port, graph.location(taker), shared, moves, reader, turn)


def _move_of(node: Node, graph: OperatorGraph) -> Move:
    (summary,) = graph.operators[node.index].summaries[0, 0]
    move = summary.for_rows()
    limit = node.limit
    if node.kind is not NodeKind.FEEDBACK or limit is None:
        return move
    loop = node.scope[-1]

    def limited(time: Time) -> Time | None:
        after = move(time)
        if after is None or after[-1] < limit.rounds:
            return after
        if limit.raises:
            raise LoopError(
                f"loop '{loop}' would begin round {after[-1]} at {time}, but max_rounds is "
                f"{limit.rounds}. Raise max_rounds, find what keeps changing, or keep the present result "
                "with at_limit='stop'."
            )
        return None

    return limited
