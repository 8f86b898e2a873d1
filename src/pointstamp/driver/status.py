"""The status of a run as plain data.

A status is made of a plan and of a tracker, that is of counted pointstamps and nothing else of a worker, so
it can be made of a run in this process as well as of counts that came from elsewhere. A display shows it; a
program may read it, keep it and compare it.

``describe_interruption`` is for a run that was stopped in the middle of anything, even of a propagation: it
reads counts and queues only, and never a frontier.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from pointstamp.driver.local_run import LocalRun, workers_of
from pointstamp.errors import FlowError
from pointstamp.flow.plan import Node, NodeKind, Plan
from pointstamp.order.multiset import SignedMultiset
from pointstamp.progress.pointstamp import Pointstamp
from pointstamp.progress.tracker import Tracker
from pointstamp.progress.why import holders
from pointstamp.state.memory_budget import KeptRows
from pointstamp.topology.domain import EPOCHS, Time
from pointstamp.topology.graph import OperatorGraph
from pointstamp.topology.ports import Location, SourcePort, Target

HOLDERS_MAX: Final = 3
PLACES_MAX: Final = 5
"""The maximum number of holders and places that are named; the rest is counted."""

Scope: TypeAlias = tuple[str, ...]


@dataclass(slots=True)
class RowCounts:
    """The rows that entered and left a run, by name; changed by the counter.

    ``late`` are those that came to an input after it had promised that there would be none. ``kept`` is what
    operators keep, by the operator and what it is that they keep.
    """

    sent: dict[str, int] = field(default_factory=dict)
    finished: dict[str, int] = field(default_factory=dict)
    late: dict[str, int] = field(default_factory=dict)
    kept: Mapping[str, KeptRows] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class InputStatus:
    """The status of an input: the rows sent, the frontier (empty if it is closed), and the late rows."""

    name: str
    rows: int
    frontier: tuple[Time, ...]
    rows_late: int = 0


@dataclass(frozen=True, slots=True)
class OutputStatus:
    """The status of an output: rows of complete times, the frontier, and its holders as text.

    ``epochs_complete`` is None if the output is complete, or the flow has custom times. The holders that are
    farthest upstream are first, because the others often wait for them; ``held_by_more`` is the number of
    holders that are not listed.
    """

    name: str
    rows: int
    epochs_complete: int | None
    frontier: tuple[Time, ...]
    held_by: tuple[str, ...]
    held_by_more: int


@dataclass(frozen=True, slots=True)
class LoopStatus:
    """The status of a loop in one epoch: outstanding rounds and waiting messages.

    ``scope`` is the path of loops to it; ``epoch`` the root time, whatever the flow's root times are.
    """

    scope: Scope
    epoch: Any
    first_round: int
    last_round: int
    messages: int


@dataclass(frozen=True, slots=True)
class KeptStatus:
    """The state of an operator on all workers, and its size: ``join: left``.

    ``spilled_bytes`` is the part of ``size_bytes`` that is in files, because memory is limited.
    """

    name: str
    rows: int
    size_bytes: int
    spilled_bytes: int = 0


@dataclass(frozen=True, slots=True)
class RunStatus:
    """The status of a run at one moment."""

    flow: str
    inputs: tuple[InputStatus, ...]
    outputs: tuple[OutputStatus, ...]
    loops: tuple[LoopStatus, ...]
    is_complete: bool
    kept: tuple[KeptStatus, ...] = ()
    memory_bytes: Mapping[int, int] = field(default_factory=dict)
    """The memory that the process of each worker of a query held when it last told."""

    @property
    def size_bytes(self) -> int:
        """The bytes of all state that is measured, in memory and in files."""
        return sum(each.size_bytes for each in self.kept)

    @property
    def spilled_bytes(self) -> int:
        """The bytes that are spilled to files."""
        return sum(each.spilled_bytes for each in self.kept)

    @property
    def rows_in(self) -> int:
        """The number of rows sent."""
        return sum(each.rows for each in self.inputs)

    @property
    def rows_late(self) -> int:
        """The number of late rows."""
        return sum(each.rows_late for each in self.inputs)

    @property
    def rows_out(self) -> int:
        """The number of rows of complete times."""
        return sum(each.rows for each in self.outputs)

    @property
    def epochs_complete(self) -> int | None:
        """The epochs that are complete at every output; None if all are, or without epochs."""
        return min((n for each in self.outputs if (n := each.epochs_complete) is not None), default=None)


def status_of(run: LocalRun, rows: RowCounts | None = None) -> RunStatus:
    """The status of a run between two steps, as its first worker knows it."""
    rows = rows or RowCounts()
    rows.kept = kept_of(run)
    return status_from(run.plan, workers_of(run)[0].view.tracker, rows)


def kept_of(run: LocalRun) -> dict[str, KeptRows]:
    """Return the state sizes of all workers, by operator and name."""
    found: dict[str, KeptRows] = {}
    for worker in workers_of(run):
        for name, kept in worker.kept().items():
            found[name] = found.get(name, KeptRows(0, 0)).plus(kept)
    return found


def status_from(plan: Plan, tracker: Tracker, rows: RowCounts, *, says_why: bool = True) -> RunStatus:
    """The status that a tracker knows, between two propagations; to say why costs a search of the graph."""
    inputs = tuple(
        InputStatus(
            name,
            rows.sent.get(name, 0),
            _frontier(tracker, SourcePort(node.index, 0)),
            rows.late.get(name, 0),
        )
        for name, node in plan.named(NodeKind.INPUT).items()
    )
    outputs = tuple(
        _output(plan, tracker, node, rows.finished.get(name, 0), says_why=says_why)
        for name, node in plan.named(NodeKind.OUTPUT).items()
    )
    loops = _loops(plan, tracker.graph, counted_by(tracker).items())
    kept = tuple(KeptStatus(name, *each) for name, each in rows.kept.items())
    return RunStatus(plan.name, inputs, outputs, tuple(loops), tracker.is_complete(), kept)


def _frontier(tracker: Tracker, port: SourcePort | Target) -> tuple[Time, ...]:
    return tuple(tracker.frontier(tracker.graph.location(port)))


def _output(plan: Plan, tracker: Tracker, node: Node, rows: int, *, says_why: bool) -> OutputStatus:
    port = Target(node.index, 0)
    frontier = _frontier(tracker, port)
    epochs = min(time[0] for time in frontier) if frontier and plan.root == EPOCHS else None
    found = holders(tracker, port) if says_why else []
    upstream = sorted(found, key=lambda holder: -len(holder.path))
    places = places_of(tracker.graph, ((holder.pointstamp, holder.count) for holder in upstream))
    # An input with several ports is one holder.
    words = list(dict.fromkeys(place_words(plan, tracker.graph, place) for place in places))
    named = tuple(words[:HOLDERS_MAX])
    return OutputStatus(node.name, rows, epochs, frontier, named, len(words) - len(named))


def _loops(
    plan: Plan, graph: OperatorGraph, counted: Iterable[tuple[Pointstamp, int]]
) -> Iterator[LoopStatus]:
    """Every loop that something is counted in, by root time; outer loops have the rounds of inner ones."""
    rounds: dict[tuple[Scope, Any], list[int]] = {}
    messages: dict[tuple[Scope, Any], int] = {}
    for (location, time), count in counted:
        port = graph.ports[location]
        scope = plan.nodes[port.operator].scope
        for depth in range(1, len(scope) + 1):
            key = (scope[:depth], time[0])
            rounds.setdefault(key, []).append(time[depth])
            messages[key] = messages.get(key, 0) + (count if isinstance(port, Target) else 0)
    for key in sorted(rounds, key=lambda key: (key[0], plan.root.sort_key(key[1]))):
        yield LoopStatus(*key, min(rounds[key]), max(rounds[key]), messages[key])


# When a run is interrupted.


def describe_interruption(run: LocalRun) -> str:
    """Describe an interrupted run: the round of each loop, and circulating rows."""
    plan, graph = run.plan, workers_of(run)[0].graph
    counted = _counted_everywhere(run)
    rows = _rows_waiting(run)
    said = [f"flow '{plan.name}' was interrupted", *_rounds_reached(run, counted)]
    places = sorted(places_of(graph, counted.items()), key=lambda place: _circulating_first(graph, place))
    words = [place_words(plan, graph, place, rows) for place in places]
    if len(words) > PLACES_MAX:
        words[PLACES_MAX:] = [f"and {len(words) - PLACES_MAX} more"]
    return "; ".join([*said, *(words or ["nothing was in flight"])])


# Pointstamps as text: one phrase per port.
#
# A loop that has gone far may have thousands of times counted at one input; they are told together, as how
# many messages there are and from which time to which.


@dataclass(frozen=True, slots=True)
class Place:
    """All that is counted at one port: how much, and the first and last time in the order of sorting."""

    location: Location
    count: int
    first: Time
    last: Time


def counted_by(tracker: Tracker) -> dict[Pointstamp, int]:
    """Every pointstamp that a tracker counts, without those that are negative for a while."""
    return {
        Pointstamp(location, time): count
        for location in map(Location, range(len(tracker.graph.ports)))
        for time, count in tracker.occurrences(location).items()
        if count > 0
    }


def places_of(graph: OperatorGraph, counted: Iterable[tuple[Pointstamp, int]]) -> list[Place]:
    """The counted pointstamps by port, in the order in which their ports come first."""
    times: dict[Location, list[Time]] = {}
    counts: dict[Location, int] = {}
    for (location, time), count in counted:
        times.setdefault(location, []).append(time)
        counts[location] = counts.get(location, 0) + count
    places = []
    for location, here in times.items():
        sort_key = graph.domains[location].sort_key
        places.append(Place(location, counts[location], min(here, key=sort_key), max(here, key=sort_key)))
    return places


def place_words(
    plan: Plan, graph: OperatorGraph, place: Place, rows: Mapping[Location, int] | None = None
) -> str:
    """Describe a pointstamp: waiting messages at an input, or an output that may still send."""
    first, last = time_words(plan, place.first), time_words(plan, place.last)
    port = graph.ports[place.location]
    if isinstance(port, Target):
        waiting = (rows or {}).get(place.location, 0)
        content = f" with {number_words(waiting, 'row')}" if waiting else ""
        when = f"at {first}" if first == last else f"from {first} to {last}"
        messages = number_words(place.count, "message")
        return f"{messages} {when}{content} for {graph.describe(place.location)}"
    node = plan.nodes[port.operator]
    who = f"input '{node.name}'" if node.kind is NodeKind.INPUT else graph.describe(place.location)
    return f"{who} may still send at {first}" + ("" if first == last else " and later")


def time_words(plan: Plan, time: Time) -> str:
    """A time as text: ``epoch 3`` outside loops, ``(3, 7)`` within."""
    if len(time) > 1:
        return f"({', '.join(map(str, time))})"
    return f"epoch {time[0]}" if plan.root == EPOCHS else str(time[0])


def number_words(count: int, noun: str) -> str:
    """A number of things: ``1 row``, ``1,204 rows``."""
    return f"1 {noun}" if count == 1 else f"{count:,} {noun}s"


def _circulating_first(graph: OperatorGraph, place: Place) -> tuple[bool, bool, int]:
    """Messages before senders, and what goes round in a loop before what does not."""
    is_sender = isinstance(graph.ports[place.location], SourcePort)
    return is_sender, graph.domains[place.location].rounds == 0, place.location


def _rounds_reached(run: LocalRun, counted: Mapping[Pointstamp, int]) -> Iterator[str]:
    """For each loop that is not done the last round that anything there has come to."""
    plan, reached = run.plan, _last_active(run)
    for loop in _loops(plan, workers_of(run)[0].graph, counted.items()):
        last = max(loop.last_round, reached.get((loop.scope, loop.epoch), 0))
        where = "' in loop '".join(reversed(loop.scope))
        yield f"loop '{where}' is in round {last} of {time_words(plan, (loop.epoch,))}"


def _counted_everywhere(run: LocalRun) -> dict[Pointstamp, int]:
    """The view of the first worker, and the unreported changes: workers report at intervals only."""
    total = SignedMultiset(counted_by(workers_of(run)[0].view.tracker))
    for worker in workers_of(run):
        total.extend((Pointstamp(at, time), diff) for at, time, diff in worker.view.unsent())
    return {point: count for point, count in total.items() if count > 0}


def _rows_waiting(run: LocalRun) -> dict[Location, int]:
    """The rows in the queues of each input on all workers."""
    found: dict[Location, int] = {}
    for worker in workers_of(run):
        for instance in worker.instances.values():
            for port, _, batch in instance.inbox:
                location = instance.inputs[port].location
                found[location] = found.get(location, 0) + batch.num_rows
    return found


def _last_active(run: LocalRun) -> dict[tuple[Scope, Any], int]:
    """The highest round of each loop and root time that an operator was last active in."""
    found: dict[tuple[Scope, Any], int] = {}
    for worker in workers_of(run):
        for instance in worker.instances.values():
            try:
                time = instance.context.time
            except FlowError:  # it has not been active, or not for a time
                continue
            for depth in range(1, len(instance.node.scope) + 1):
                key = (instance.node.scope[:depth], time[0])
                found[key] = max(found.get(key, 0), time[depth])
    return found
