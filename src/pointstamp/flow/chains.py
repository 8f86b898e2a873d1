"""Chains: operators that run as one with the operator that reads them.

An operator can run inside of another one's activation if it acts when a batch comes and at no other time,
sends at the time of that batch and on its only output, and holds nothing afterwards. Its class says so:
``runs_in_chain = True``. If one operator alone reads what it sends, without an exchange or a door between,
nothing could happen between the two. So no message is counted there: the operators before an input of
another one are a chain, a batch that arrives goes through all of them, and the operator that ends the chain
gets what is left. For progress there is one port, the input of the first of them.

Nothing else of such an operator is lost: it stays in the plan, has its own number, name, rows and errors, and
whoever asks for the frontier of one of its ports is told that of the chain's port, which is the same.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pointstamp.flow.pact import StayHere
from pointstamp.operators.spec import spec_of
from pointstamp.topology.ports import OperatorIndex, Port, SourcePort, Target

if TYPE_CHECKING:
    from pointstamp.flow.plan import Node

_NEVER: Final = ("on_start", "on_notify", "on_frontier", "on_restore", "save", "restore", "state")
"""What an operator has that does more than to pass on what comes."""


@dataclass(frozen=True, slots=True)
class OperatorChains:
    """The chains of a plan."""

    before: Mapping[Target, tuple[OperatorIndex, ...]]
    """By the input of the operator that ends a chain: those that run before it, in order."""
    runs_at: Mapping[OperatorIndex, Target]
    """Of each operator that runs inside of another one, that input."""
    inner: frozenset[Target]
    """The inputs at which no message arrives, because what is read there is sent inside of a chain."""

    def merged(self) -> dict[Port, Port]:
        """Of each port that has no place of its own in the graph of progress, the port that stands for it."""
        found: dict[Port, Port] = {}
        for end, chain in self.before.items():
            first = Target(chain[0], 0)
            found[end] = first
            for index in chain:
                found[SourcePort(index, 0)] = first
                found[Target(index, 0)] = first
            del found[first]
        return found


NO_CHAINS: Final = OperatorChains({}, {}, frozenset())


def chains_of(nodes: "Sequence[Node]") -> OperatorChains:
    """The longest chains of these nodes, of which each is at its number."""
    readers: dict[SourcePort, list[Target]] = {}
    for node in nodes:
        for number, port in enumerate(node.inputs):
            if port.source is not None:
                readers.setdefault(port.source, []).append(Target(node.index, number))
    inside = {node.index for node in nodes if _may_run_inside(nodes, node, readers)}
    before: dict[Target, tuple[OperatorIndex, ...]] = {}
    for node in nodes:
        if node.index in inside:
            continue
        for number, port in enumerate(node.inputs):
            chain: list[OperatorIndex] = []
            source = port.source
            while source is not None and source.operator in inside:
                chain.append(source.operator)
                source = nodes[source.operator].inputs[0].source
            if chain:
                before[Target(node.index, number)] = tuple(reversed(chain))
    runs_at = {index: at for at, chain in before.items() for index in chain}
    later = [Target(index, 0) for chain in before.values() for index in chain[1:]]
    return OperatorChains(before, runs_at, frozenset([*before, *later]))


def _may_run_inside(
    nodes: "Sequence[Node]", node: "Node", readers: Mapping[SourcePort, list[Target]]
) -> bool:
    kind = spec_of(node.logic).kind
    if not getattr(kind, "runs_in_chain", False) or any(hasattr(kind, each) for each in _NEVER):
        return False
    if len(node.inputs) != 1 or len(node.outputs) != 1 or node.summaries is not None:
        return False
    read_by = readers.get(SourcePort(node.index, 0), [])
    if len(read_by) != 1 or node.inputs[0].source is None:
        return False
    reader = nodes[read_by[0].operator]
    return not reader.kind.is_door and isinstance(reader.inputs[read_by[0].port].pact, StayHere)
