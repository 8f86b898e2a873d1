"""Computes output frontiers locally: downstream of the last exchange no other worker can send anything.

The frontier of a port holds for all workers: it does not pass a time while any of them may send there at it.
But rows that stay on their worker reach no other. The *tail* of an output is made of the ports before it from
which rows get there without an exchange, a door, or a change of their time. What comes to this worker's own
output at a time comes from what this worker has inside the tail, or enters the tail at a *border*, whose
frontier holds for all. So the worker has all its rows of a time when the frontiers of the borders have passed
it and nothing that it has inside is left at that time or before. It need not hear that the others have got as
far, which is one trip less. A reader that joins the parts of all workers waits for all of them.

Why that is safe: what is counted inside is this worker's own, and is counted when an activation ends, before
any of it is told. So what has passed a border is counted inside before the border's frontier can show it;
``pointstamp_models.spec.tails`` checks it state by state.

A change at a port is *silent* if no other worker's operator can wait for it: everything behind the port stays
on its worker, and nothing there asks for times but outputs, which are served by the rule above. A worker may
keep silent changes to itself until it has something else to tell, or for a moment. It tells everything or
nothing, so each telling is a legal ``send_upd`` of the exchange protocol (``pointstamp.progress.broadcast``),
and to keep something longer is not a step. The driver of the worker makes sure that it reports in the end
(``hold_no_longer``), and here after ``HELD_EXCHANGES_MAX`` times.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

from pointstamp.flow.plan import StayHere
from pointstamp.operators.stateless import Collect
from pointstamp.order.frontier import MutableAntichain
from pointstamp.progress.pointstamp import Change
from pointstamp.progress.tracker import Tracker
from pointstamp.topology.domain import Time
from pointstamp.topology.graph import OperatorGraph
from pointstamp.topology.ports import Location, OperatorIndex, SourcePort, Target
from pointstamp.worker.instance import Instance
from pointstamp.worker.routes import Route

HELD_EXCHANGES_MAX: Final = 64
"""So many times in a row a worker that could tell its progress keeps it, at most."""

Routes: TypeAlias = Mapping[tuple[OperatorIndex, int], Sequence[Route]]


class Tail(NamedTuple):
    """The ports inside, where a worker counts what is its own, and those at which anything else comes in."""

    inside: frozenset[Location]
    borders: tuple[Location, ...]


def tail_of(output: Location, graph: OperatorGraph, routes: Routes) -> Tail:
    """The tail of an output; where that reads from afar it is nothing but a border."""
    inside: set[Location] = set()
    borders: set[Location] = set()
    unseen = [output]
    while unseen:
        location = unseen.pop()
        if location in inside or location in borders:
            continue
        port = graph.ports[location]
        before = _senders(port, graph, routes) if isinstance(port, Target) else _readers(port, graph)
        if before is None:
            borders.add(location)
        else:
            inside.add(location)
            unseen.extend(before)
    return Tail(frozenset(inside), tuple(sorted(borders)))


def _senders(port: Target, graph: OperatorGraph, routes: Routes) -> list[Location] | None:
    """The ports that send to an input, if all that they send stays on its worker and keeps its time."""
    location = graph.location(port)
    found: list[Location] = []
    for (operator, number), ways in routes.items():
        for way in ways:
            if way.location == location:
                if not isinstance(way.pact, StayHere) or way.moves:
                    return None
                found.append(graph.location(SourcePort(operator, number)))
    return found


def _readers(port: SourcePort, graph: OperatorGraph) -> list[Location] | None:
    """The inputs that an output depends on, if what arrives there leaves at the same time."""
    operator = graph.operators[port.operator]
    found: list[Location] = []
    for (number, output), summaries in operator.summaries.items():
        if output == port.port:
            if not all(summary.is_identity(operator.inputs[number]) for summary in summaries):
                return None
            found.append(graph.location(Target(port.operator, number)))
    return found


def silent_ports(
    graph: OperatorGraph, routes: Routes, instances: Mapping[OperatorIndex, Instance]
) -> frozenset[Location]:
    """The ports downstream of which rows stay on their worker and only outputs need times."""
    loud: set[Location] = set()
    before: dict[Location, list[Location]] = {}
    for index, instance in instances.items():
        sources = [state.location for state in instance.outputs]
        for state in instance.inputs:
            asks = instance.authority.can_be_notified or instance.on_frontier is not None
            if asks and not isinstance(instance.logic, Collect):
                loud.add(state.location)
            for source in sources:
                before.setdefault(source, []).append(state.location)
        for number, source in enumerate(sources):
            for way in routes.get((index, number), ()):
                if not isinstance(way.pact, StayHere) or way.moves:
                    loud.add(source)
                before.setdefault(way.location, []).append(source)
    unseen = list(loud)
    while unseen:
        for earlier in before.get(unseen.pop(), ()):
            if earlier not in loud:
                loud.add(earlier)
                unseen.append(earlier)
    known = {*before, *(state.location for each in instances.values() for state in each.outputs)}
    return frozenset(known - loud)


class OwnTails:
    """The local counts of one worker inside the tails of its outputs.

    Outputs are delivered by the caller of ``frontier``, and not by a notification.
    """

    def __init__(
        self,
        graph: OperatorGraph,
        routes: Routes,
        instances: Mapping[OperatorIndex, Instance],
        tracker: Tracker,
        *,
        may_hold: bool,
    ) -> None:
        self._tracker = tracker
        self._domains = graph.domains
        self._tails: dict[Location, Tail] = {}
        self._counts: dict[Location, MutableAntichain] = {}
        self._tails_at: dict[Location, list[Location]] = {}
        for instance in instances.values():
            if not isinstance(instance.logic, Collect):
                continue
            output = instance.inputs[0].location
            tail = self._tails[output] = tail_of(output, graph, routes)
            counts = self._counts[output] = MutableAntichain(graph.domains[output])
            for location in tail.inside:
                self._tails_at.setdefault(location, []).append(output)
                if isinstance(graph.ports[location], SourcePort):
                    counts.update(graph.domains[location].minimum(), 1)
        self._silent = silent_ports(graph, routes, instances)
        self.may_hold = may_hold
        """Whether silent changes may be delayed; False if other ports are watched."""
        self.is_fresh = True
        """Whether the frontier of an output may have moved since it was last set to False."""
        # What a worker does at its start is told at once.
        self._must_tell = self._has_more = True
        self._held = 0

    def record(self, changes: Iterable[Change]) -> None:
        """Take in what an activation of this worker has changed."""
        self._has_more = True
        for location, time, diff in changes:
            for output in self._tails_at.get(location, ()):
                if self._counts[output].update(time, diff):
                    self.is_fresh = True
            if location not in self._silent:
                self._must_tell = True

    def frontier(self, output: Location) -> list[Time]:
        """The least times at which something may still come to this worker's own output."""
        times = list(self._counts[output].frontier)
        for border in self._tails[output].borders:
            times.extend(self._tracker.frontier(border))
        if len(times) < 2:
            return times
        less_equal = self._domains[output].less_equal
        different = dict.fromkeys(times)
        return [
            each
            for each in different
            if not any(other != each and less_equal(other, each) for other in different)
        ]

    # Telling.

    @property
    def is_holding(self) -> bool:
        """Whether something is kept from the others."""
        return self._has_more and not self._must_tell and self.may_hold

    def keeps(self) -> bool:
        """Return whether progress that could be told now is kept; asked once each time that it could be."""
        if not self.is_holding or self._held >= HELD_EXCHANGES_MAX:
            self._has_more = self._must_tell = False
            self._held = 0
            return False
        self._held += 1
        return True

    def hold_no_longer(self) -> None:
        """Let everything be told the next time."""
        self._must_tell = True
