"""The tracker, judged by an oracle that recomputes.

Families:
- oracle_*: after every propagation the frontier of every port equals the implied frontier that a walk
  of the graph finds from scratch, on random graphs with nested loops; finds mistakes in propagation order,
  in compiled summaries and in incremental frontiers. Once on graphs as loops make them, once on graphs with
  any legal summaries, where rounds are reset and one cycle advances epochs or rounds by turns.
- hand cases: what an empty frontier means, when a frontier may be read, what is reported as moved.
"""

import random
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pointstamp.errors import ProgressError
from pointstamp.progress.tracker import Tracker
from pointstamp.topology.domain import EPOCHS, Domain
from pointstamp.topology.graph import GraphBuilder, OperatorGraph
from pointstamp.topology.ports import Location, SourcePort, Target
from pointstamp.topology.summary import enter, feedback, leave
from support.nets import Net, nets
from support.wild_nets import draw

ONCE_REFUSED: Final = (418, 493, 519, 593, 657, 920, 959, 1041, 1053, 1070, 2891, 2966, 5149, 5722)
"""Graphs in which a way that advances an outer coordinate was taken to stand still at an inner one."""

Points = dict[tuple[int, tuple[int, ...]], int]


def random_successor(
    net: Net, point: tuple[int, tuple[int, ...]], rng: random.Random
) -> tuple[int, tuple[int, ...]]:
    """Somewhere that could result from the point: a few hops on, then perhaps later in time."""
    where, time = point
    for _ in range(rng.randint(0, 4)):
        onward = [(target, move) for origin, target, move in net.edges if origin == where]
        if not onward:
            break
        where, move = rng.choice(onward)
        time = move(time)
    return where, tuple(part + (rng.random() < 0.2) for part in time)


def expect_implied_frontiers(net: Net, tracker: Tracker, points: Points) -> None:
    implied = net.implied_frontiers(point for point, count in points.items() if count > 0)
    for number, expected in enumerate(implied):
        assert set(tracker.frontier(Location(number))) == expected, net.graph.describe(Location(number))
    tracker.expect_consistent()


@given(nets(), st.randoms(use_true_random=False))
def test_oracle_every_frontier_is_the_implied_frontier_after_every_propagation(
    net: Net, rng: random.Random
) -> None:
    compare_with_the_oracle(net, rng)


def test_oracle_frontiers_are_implied_where_rounds_are_reset_and_cycles_advance_by_turns() -> None:
    compared = 0
    for seed in (*range(400), *ONCE_REFUSED):
        drawn = draw(random.Random(seed))
        if drawn.is_legal():
            compare_with_the_oracle(drawn.net(), random.Random(seed))
            compared += 1
    assert compared > 150


def compare_with_the_oracle(net: Net, rng: random.Random) -> None:
    """Let pointstamps come and go, in the end all of them, and compare after every propagation."""
    tracker = Tracker(net.graph)
    points: Points = {}

    def change(point: tuple[int, tuple[int, ...]], count: int) -> None:
        points[point] = points.get(point, 0) + count
        tracker.update(Location(point[0]), point[1], count)

    for number in net.outputs:
        change((number, (0,) * (1 + net.rounds[number])), 1)
    tracker.propagate()
    expect_implied_frontiers(net, tracker, points)
    for _ in range(12):
        for _ in range(rng.randint(1, 4)):
            live = [point for point, count in points.items() if count > 0]
            if not live:
                break
            taken = rng.choice(live)
            made = [random_successor(net, taken, rng) for _ in range(rng.randint(0, 2))]
            for point, count in rng.sample([(taken, -1), *((m, 1) for m in made)], 1 + len(made)):
                change(point, count)
        tracker.propagate()
        expect_implied_frontiers(net, tracker, points)
    for point, count in list(points.items()):
        change(point, -count)
    tracker.propagate()
    assert not any(tracker.frontier(Location(number)) for number in range(len(net.rounds)))
    tracker.expect_consistent()


@given(nets(), st.randoms(use_true_random=False))
def test_oracle_negative_counts_are_invisible_and_never_clamped(net: Net, rng: random.Random) -> None:
    """Counts are applied in any order, so that they are negative in between, and come out right."""
    tracker = Tracker(net.graph)
    start = rng.choice(net.outputs)
    first = (start, (0,) * (1 + net.rounds[start]))
    chain = [first]
    for _ in range(6):
        chain.append(random_successor(net, chain[-1], rng))
    changes = [(point, count) for point in chain for count in (1, -1)] + [(first, 1)]
    points: Points = {}
    for point, count in rng.sample(changes, len(changes)):
        points[point] = points.get(point, 0) + count
        tracker.update(Location(point[0]), point[1], count)
        if rng.random() < 0.5:
            tracker.propagate()
            expect_implied_frontiers(net, tracker, points)
    tracker.propagate()
    expect_implied_frontiers(net, tracker, {first: 1})
    tracker.update(Location(first[0]), first[1], -1)
    tracker.propagate()
    assert tracker.is_complete()


def line() -> OperatorGraph:
    builder = GraphBuilder()
    source = builder.add("in", outputs=[Domain(EPOCHS)])
    sink = builder.add("out", inputs=[Domain(EPOCHS)])
    builder.connect(SourcePort(source, 0), Target(sink, 0))
    return builder.build()


def test_a_frontier_is_not_shown_before_the_first_propagation() -> None:
    tracker = Tracker(line())
    with pytest.raises(ProgressError, match="input 0 of 'out'"):
        tracker.frontier(Location(1))


def test_an_empty_frontier_means_complete() -> None:
    tracker = Tracker(line())
    tracker.update(Location(0), (0,), 1)
    assert tracker.propagate() == [Location(0), Location(1)]
    assert tracker.may_come(Location(1), (7,))
    tracker.update(Location(0), (0,), -1)
    tracker.propagate()
    assert list(tracker.frontier(Location(1))) == []
    assert not tracker.may_come(Location(1), (7,))


def test_only_ports_whose_frontier_really_moved_are_reported() -> None:
    tracker = Tracker(line())
    tracker.update(Location(0), (0,), 2)
    tracker.propagate()
    tracker.update(Location(0), (0,), -1)
    tracker.update(Location(0), (3,), 1)
    assert tracker.propagate() == []
    tracker.update(Location(0), (0,), -1)
    tracker.update(Location(0), (0,), 1)
    assert tracker.propagate() == []
    tracker.update(Location(0), (0,), -1)
    assert tracker.propagate() == [Location(0), Location(1)]


def test_a_round_that_circulates_holds_the_loop_and_its_epoch_and_nothing_else() -> None:
    builder = GraphBuilder()
    outside, inside = Domain(EPOCHS), Domain(EPOCHS, 1)
    source = builder.add("in", outputs=[outside])
    entered = builder.add("enter", inputs=[outside], outputs=[inside], summaries={(0, 0): [enter()]})
    body = builder.add("body", inputs=[inside, inside], outputs=[inside])
    again = builder.add("feedback", inputs=[inside], outputs=[inside], summaries={(0, 0): [feedback()]})
    left = builder.add("leave", inputs=[inside], outputs=[outside], summaries={(0, 0): [leave()]})
    for origin, target in [
        (SourcePort(source, 0), Target(entered, 0)),
        (SourcePort(entered, 0), Target(body, 0)),
        (SourcePort(again, 0), Target(body, 1)),
        (SourcePort(body, 0), Target(again, 0)),
        (SourcePort(body, 0), Target(left, 0)),
    ]:
        builder.connect(origin, target)
    graph = builder.build()
    tracker = Tracker(graph)
    tracker.update(graph.location(Target(again, 0)), (2, 5), 1)
    tracker.update(graph.location(SourcePort(source, 0)), (3,), 1)
    tracker.propagate()
    assert set(tracker.frontier(graph.location(Target(body, 0)))) == {(3, 0)}
    assert set(tracker.frontier(graph.location(Target(body, 1)))) == {(2, 6), (3, 1)}
    assert set(tracker.frontier(graph.location(SourcePort(left, 0)))) == {(2,)}
