"""The graph of a flow: operators, ports, edges and path summaries.

One flat graph holds all loops; each port has its own time domain (``pointstamp.topology.domain``). An
output may feed many inputs, an input has exactly one source. Inside an operator, each pair of input and
output has an antichain of summaries; none at all says that what arrives at that input never reaches that
output (the timely book's diagnostics port).

``GraphBuilder.build`` refuses what could not run, with the operators named: a cycle that does not
strictly advance time, an operator wired to itself, an input with two sources or with none, and a summary
that moves time back. The finished graph never changes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from pointstamp.errors import TopologyError
from pointstamp.topology.domain import Domain, RootSummary
from pointstamp.topology.levels import Hop, Hops, Levels, levels_of
from pointstamp.topology.ports import Location, OperatorIndex, Port, SourcePort, Target
from pointstamp.topology.summary import Advance, Stay, Summary, identity, minimal

InternalSummaries: TypeAlias = Mapping[tuple[int, int], tuple[Summary, ...]]
"""From (input, output) to the minimal summaries between them; an absent pair has no path."""


@dataclass(frozen=True, slots=True)
class Operator:
    """An operator as progress tracking sees it: name, port domains and summaries."""

    name: str
    inputs: tuple[Domain, ...]
    outputs: tuple[Domain, ...]
    summaries: InternalSummaries


class OperatorGraph:
    """Operators and connections, with every port numbered as a ``Location``. Never changes.

    A port that is ``merged`` with another one has no number of its own: its location is that of the other.
    Between the two nothing is counted, so what connects them is left out.
    """

    def __init__(
        self,
        operators: Sequence[Operator],
        connections: Sequence[tuple[SourcePort, Target]],
        merged: Mapping[Port, Port] | None = None,
    ) -> None:
        self.operators = tuple(operators)
        self.connections = tuple(connections)
        ports: list[Port] = []
        for number, operator in enumerate(operators):
            index = OperatorIndex(number)
            ports.extend(Target(index, i) for i in range(len(operator.inputs)))
            ports.extend(SourcePort(index, o) for o in range(len(operator.outputs)))
        others = {} if merged is None else merged
        self.ports = tuple([port for port in ports if port not in others])
        self._locations = {port: Location(number) for number, port in enumerate(self.ports)}
        self._locations.update({port: self._locations[other] for port, other in others.items()})
        self.domains: tuple[Domain, ...] = tuple(self._domain(port) for port in self.ports)
        self.hops: tuple[tuple[Hop, ...], ...] = self._hops()
        names = [self.operators[port.operator].name for port in self.ports]
        self.levels: Levels = levels_of(Hops(names, self.domains, self.hops))

    def location(self, port: Port) -> Location:
        """The number of a port; a port that the graph does not have is an error."""
        found = self._locations.get(port)
        if found is None:
            raise TopologyError(f"{port} is not in this graph, which has {len(self.operators)} operators")
        return found

    def describe(self, location: Location) -> str:
        """A port as text: ``output 0 of 'map'``."""
        port = self.ports[location]
        kind = "output" if isinstance(port, SourcePort) else "input"
        return f"{kind} {port.port} of '{self.operators[port.operator].name}'"

    def _domain(self, port: Port) -> Domain:
        operator = self.operators[port.operator]
        return (operator.outputs if isinstance(port, SourcePort) else operator.inputs)[port.port]

    def _hops(self) -> tuple[tuple[Hop, ...], ...]:
        hops: list[list[Hop]] = [[] for _ in self.ports]
        for source, target in self.connections:
            origin, end = self.location(source), self.location(target)
            if origin != end:
                hops[origin].append(Hop(origin, end, identity(self.domains[origin].rounds)))
        for number, operator in enumerate(self.operators):
            index = OperatorIndex(number)
            for (i, o), summaries in operator.summaries.items():
                origin, end = self.location(Target(index, i)), self.location(SourcePort(index, o))
                if origin != end:
                    hops[origin].extend(Hop(origin, end, summary) for summary in summaries)
        return tuple(tuple(each) for each in hops)


class GraphBuilder:
    """Collects operators and connections; ``build`` checks them and returns the graph."""

    def __init__(self) -> None:
        self._operators: list[Operator] = []
        self._sources: dict[Target, SourcePort] = {}

    def add(
        self,
        name: str,
        *,
        inputs: Sequence[Domain] = (),
        outputs: Sequence[Domain] = (),
        summaries: Mapping[tuple[int, int], Sequence[Summary]] | None = None,
    ) -> OperatorIndex:
        """Add an operator; without summaries, every input may reach every output at the same time."""
        if summaries is None:
            summaries = {
                (i, o): (identity(domain.rounds),)
                for i, domain in enumerate(inputs)
                for o in range(len(outputs))
            }
        kept = {pair: minimal(given) for pair, given in summaries.items() if given}
        operator = Operator(name, tuple(inputs), tuple(outputs), kept)
        check_summaries(operator.name, operator.inputs, operator.outputs, operator.summaries)
        self._operators.append(operator)
        return OperatorIndex(len(self._operators) - 1)

    def connect(self, source: SourcePort, target: Target) -> None:
        """Let an output feed an input of another operator."""
        origin, end = self._named(source), self._named(target)
        domain, wanted = self._outputs(source), self._inputs(target)
        if source.operator == target.operator:
            raise TopologyError(
                f"operator '{origin}' feeds itself: output {source.port} is wired to its own input "
                f"{target.port}. Put another operator between them, for example a feedback."
            )
        if target in self._sources:
            other = self._sources[target]
            raise TopologyError(
                f"input {target.port} of '{end}' has two sources, output {other.port} of "
                f"'{self._named(other)}' and output {source.port} of '{origin}'. "
                "Join the streams first, with a concat."
            )
        if domain != wanted:
            raise TopologyError(
                f"output {source.port} of '{origin}' has times {domain}, but input {target.port} of '{end}' "
                f"needs {wanted}. Enter or leave the loop between them."
            )
        self._sources[target] = source

    def build(self, merged: Mapping[Port, Port] | None = None) -> OperatorGraph:
        """Check the whole and return it as a graph that never changes, with some ports merged into others."""
        for index, operator in enumerate(self._operators):
            for i in range(len(operator.inputs)):
                if Target(OperatorIndex(index), i) not in self._sources:
                    raise TopologyError(
                        f"input {i} of '{operator.name}' has no source. Connect an output to it."
                    )
        connections = [(source, target) for target, source in self._sources.items()]
        return OperatorGraph(self._operators, connections, merged)

    def _named(self, port: Port) -> str:
        if not 0 <= port.operator < len(self._operators):
            raise TopologyError(f"{port} names an operator that is not in this graph; add it first.")
        return self._operators[port.operator].name

    def _outputs(self, source: SourcePort) -> Domain:
        operator = self._operators[source.operator]
        return _port_of("output", operator.name, operator.outputs, source.port)

    def _inputs(self, target: Target) -> Domain:
        operator = self._operators[target.operator]
        return _port_of("input", operator.name, operator.inputs, target.port)


def _port_of(kind: str, name: str, domains: tuple[Domain, ...], port: int) -> Domain:
    if not 0 <= port < len(domains):
        raise TopologyError(
            f"operator '{name}' has {len(domains)} {kind}s, got {kind} {port}. Ports are numbered from 0."
        )
    return domains[port]


# Reject invalid summaries when an operator is added.
#
# A summary leads from the domain of its input to the domain of its output, and never takes time back: in the
# normal form that means no negative increment and no negative constant. What a user's own root summary does
# can only be tried: it is applied to the least time and to what comes of that, some dozens of times.

TRIED_TIMES_MAX: Final = 32


def check_summaries(
    name: str,
    inputs: Sequence[Domain],
    outputs: Sequence[Domain],
    summaries: Mapping[tuple[int, int], Sequence[Summary]],
) -> None:
    """Raise TopologyError if a summary of this operator does not fit its ports or moves time back."""
    for (i, o), given in summaries.items():
        if not (0 <= i < len(inputs) and 0 <= o < len(outputs)):
            raise TopologyError(
                f"operator '{name}' has a summary from input {i} to output {o}, but only "
                f"{len(inputs)} inputs and {len(outputs)} outputs."
            )
        for summary in given:
            where = f"operator '{name}' has the summary {summary} from input {i} to output {o}"
            if not summary.fits(inputs[i], outputs[o]):
                raise TopologyError(
                    f"{where}, which does not lead from times {inputs[i]} to times {outputs[o]}. "
                    "Declare what enters, leaves or is appended."
                )
            _check_never_back(where, summary, inputs[i], outputs[o])


def _check_never_back(where: str, summary: Summary, origin: Domain, target: Domain) -> None:
    root = summary.root
    lowers_epoch = isinstance(root, Advance) and root.epochs < 0
    if lowers_epoch or any(number < 0 for number in summary.increments + summary.appended):
        raise TopologyError(f"{where}, which moves time back. Increments and constants must be 0 or more.")
    if not isinstance(root, Stay | Advance):
        _try_root_summary(where, root, origin, target)


def _try_root_summary(where: str, root: RootSummary, origin: Domain, target: Domain) -> None:
    same_order = origin.root == target.root
    for time in _tried_times(root, origin):
        after = root.results_in(time)
        if after is None:
            continue
        back = same_order and not origin.root.less_equal(time, after)
        key_before, key_after = origin.root.sort_key(time), target.root.sort_key(after)
        if back or key_after < key_before or (root.advances() and not key_before < key_after):
            raise TopologyError(
                f"{where}, which moves time back: it leads from {time} to {after}. A summary must lead to "
                "times that are greater or equal, also by sort_key, and strictly so if it advances."
            )


def _tried_times(root: RootSummary, origin: Domain) -> list[Any]:
    tried = [origin.root.minimum()]
    for time in tried:
        after = root.results_in(time)
        if after is not None and after not in tried and len(tried) < TRIED_TIMES_MAX:
            tried.append(after)
    return tried
