"""What a change of progress costs: microseconds per change, against recomputing from scratch in the same run.

    .venv/bin/python benchmarks/tracker.py

One JSON line per case. ``us_per_change`` is the time of the tracker for one change of one count, its part of
the propagation included; ``ports_moved`` is how many ports got another frontier per propagation;
``from_scratch_us`` is what walking the whole graph from all counted pointstamps costs per change, and
``speedup`` their ratio. Every case ends by comparing all frontiers of both.

To beat: the cost on a chain grows with the ports that move and not with the rest of the graph ("chain of 10
beside 990 others" costs what "chain of 10" costs), and 10,000 outstanding times cost what one does.
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from time import perf_counter

from pointstamp.progress.pointstamp import Change
from pointstamp.progress.tracker import Tracker
from pointstamp.topology.domain import EPOCHS, Domain, Time
from pointstamp.topology.graph import GraphBuilder, OperatorGraph
from pointstamp.topology.ports import Location, OperatorIndex, SourcePort, Target
from pointstamp.topology.summary import enter, feedback, leave

OUTSIDE, INSIDE = Domain(EPOCHS), Domain(EPOCHS, 1)
PARTS = 5
STEPS_TRACKER = 500
STEPS_SCRATCH = 10


@dataclass(frozen=True)
class Case:
    """A graph, the counts it starts with, and an endless stream of small batches of changes."""

    name: str
    graph: OperatorGraph
    start: list[Change]
    batches: Callable[[], Iterator[list[Change]]]


def chain(builder: GraphBuilder, length: int) -> OperatorIndex:
    """A source and that many operators in a row; returns the source."""
    source = previous = builder.add("source", outputs=[OUTSIDE])
    for number in range(length):
        operator = builder.add(f"operator {number}", inputs=[OUTSIDE], outputs=[OUTSIDE])
        builder.connect(SourcePort(previous, 0), Target(operator, 0))
        previous = operator
    return source


def advancing(location: Location, first: Time, following: Callable[[Time], Time]) -> Iterator[list[Change]]:
    """One capability that is downgraded again and again."""
    time = first
    while True:
        later = following(time)
        yield [Change(location, later, 1), Change(location, time, -1)]
        time = later


def next_epoch(time: Time) -> Time:
    """One epoch later."""
    return (time[0] + 1, *time[1:])


def next_round(time: Time) -> Time:
    """One round later."""
    return (*time[:-1], time[-1] + 1)


def chains(lengths: list[int], name: str) -> Case:
    """Chains side by side, of which the first advances."""
    builder = GraphBuilder()
    sources = [chain(builder, length) for length in lengths]
    graph = builder.build()
    at = [graph.location(SourcePort(source, 0)) for source in sources]
    start = [Change(location, (0,), 1) for location in at]
    return Case(name, graph, start, lambda: advancing(at[0], (0,), next_epoch))


def loop(length: int) -> Case:
    """A loop of that many operators in which one message goes round, at rising rounds."""
    builder = GraphBuilder()
    source = builder.add("source", outputs=[OUTSIDE])
    entered = builder.add("enter", inputs=[OUTSIDE], outputs=[INSIDE], summaries={(0, 0): [enter()]})
    join = builder.add("join", inputs=[INSIDE, INSIDE], outputs=[INSIDE])
    again = builder.add("feedback", inputs=[INSIDE], outputs=[INSIDE], summaries={(0, 0): [feedback()]})
    left = builder.add("leave", inputs=[INSIDE], outputs=[OUTSIDE], summaries={(0, 0): [leave()]})
    builder.connect(SourcePort(source, 0), Target(entered, 0))
    builder.connect(SourcePort(entered, 0), Target(join, 0))
    builder.connect(SourcePort(again, 0), Target(join, 1))
    previous = join
    for number in range(length - 2):
        operator = builder.add(f"body {number}", inputs=[INSIDE], outputs=[INSIDE])
        builder.connect(SourcePort(previous, 0), Target(operator, 0))
        previous = operator
    builder.connect(SourcePort(previous, 0), Target(again, 0))
    builder.connect(SourcePort(previous, 0), Target(left, 0))
    graph = builder.build()
    at = graph.location(Target(again, 0))
    start = [Change(at, (0, 0), 1), Change(graph.location(SourcePort(source, 0)), (1,), 1)]
    name = f"loop of {length} operators, rounds advancing"
    return Case(name, graph, start, lambda: advancing(at, (0, 0), next_round))


def outstanding(count: int, domain: Domain, name: str) -> Case:
    """Many distinct times at one port: the least goes, a new greatest comes."""
    builder = GraphBuilder()
    source = builder.add("source", outputs=[domain])
    sink = builder.add("sink", inputs=[domain])
    builder.connect(SourcePort(source, 0), Target(sink, 0))
    graph = builder.build()
    at = graph.location(Target(sink, 0))
    tail = (0,) * domain.rounds

    def batches() -> Iterator[list[Change]]:
        number = 0
        while True:
            yield [Change(at, (number + count, *tail), 1), Change(at, (number, *tail), -1)]
            number += 1

    return Case(name, graph, [Change(at, (number, *tail), 1) for number in range(count)], batches)


def implied_from_scratch(graph: OperatorGraph, counts: dict[tuple[Location, Time], int]) -> list[set[Time]]:
    """The minimal times that could arrive at each location, by walking the graph from every pointstamp."""
    seen: list[set[Time]] = [set() for _ in graph.ports]
    waiting = sorted(
        (point for point, count in counts.items() if count > 0), key=lambda point: point[1], reverse=True
    )
    while waiting:
        location, time = waiting.pop()
        less_equal = graph.domains[location].less_equal
        if any(less_equal(other, time) for other in seen[location]):
            continue
        seen[location] = {other for other in seen[location] if not less_equal(time, other)} | {time}
        for hop in graph.hops[location]:
            after = hop.summary.results_in(time)
            if after is not None:
                waiting.append((hop.target, after))
    return seen


def measure(case: Case) -> dict[str, object]:
    """Drive both through the same changes, compare what they end with, and keep the best of several parts."""
    tracker = Tracker(case.graph)
    tracker.update_all(case.start)
    tracker.propagate()
    counts: dict[tuple[Location, Time], int] = {}
    apply(counts, case.start)
    stream = case.batches()
    moved = 0
    each = scratch = float("inf")
    for _ in range(PARTS):
        batches = [next(stream) for _ in range(STEPS_TRACKER)]
        started = perf_counter()
        for batch in batches:
            tracker.update_all(batch)
            moved += len(tracker.propagate())
        each = min(each, (perf_counter() - started) / sum(len(batch) for batch in batches))

        for batch in batches[:-STEPS_SCRATCH]:
            apply(counts, batch)
        last = batches[-STEPS_SCRATCH:]
        started = perf_counter()
        for batch in last:
            apply(counts, batch)
            expected = implied_from_scratch(case.graph, counts)
        scratch = min(scratch, (perf_counter() - started) / sum(len(batch) for batch in last))
        for number, times in enumerate(expected):
            assert set(tracker.frontier(Location(number))) == times, (case.name, number)
    return {
        "case": case.name,
        "us_per_change": round(each * 1e6, 2),
        "ports_moved": moved / (PARTS * STEPS_TRACKER),
        "from_scratch_us": round(scratch * 1e6, 1),
        "speedup": round(scratch / each, 2),
    }


def apply(counts: dict[tuple[Location, Time], int], batch: list[Change]) -> None:
    """Keep the counts that the walk from scratch starts from."""
    for location, time, diff in batch:
        counts[location, time] = counts.get((location, time), 0) + diff
        if not counts[location, time]:
            del counts[location, time]


def main() -> None:
    """Print one JSON line per case."""
    cases = [
        chains([10], "chain of 10, one epoch advancing"),
        chains([100], "chain of 100, one epoch advancing"),
        chains([1_000], "chain of 1,000, one epoch advancing"),
        chains([10, 990], "chain of 10 beside 990 others that stand still"),
        loop(10),
        outstanding(1, OUTSIDE, "1 outstanding time at one port"),
        outstanding(10_000, OUTSIDE, "10,000 outstanding epochs at one port"),
        outstanding(10_000, INSIDE, "10,000 outstanding (epoch, round) times at one port"),
    ]
    for case in cases:
        print(json.dumps(measure(case)), flush=True)


if __name__ == "__main__":
    main()
