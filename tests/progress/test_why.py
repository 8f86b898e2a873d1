"""Why a frontier stands where it stands: the holders that are named are all of them, and only them.

Families:
- removal: take away what is named, and the frontier moves; take away anything else, and it does not
  (random graphs, implied frontiers walked from scratch);
- hand cases: the path, the summary and the sentence that a person reads.
"""

import random

from hypothesis import given
from hypothesis import strategies as st

from pointstamp.progress.tracker import Tracker
from pointstamp.progress.why import holders
from pointstamp.topology.domain import EPOCHS, Domain
from pointstamp.topology.graph import GraphBuilder
from pointstamp.topology.ports import Location, SourcePort, Target
from pointstamp.topology.summary import Summary, enter, feedback, leave
from support.nets import Net, nets


@given(nets(), st.randoms(use_true_random=False), st.data())
def test_exactly_the_pointstamps_that_hold_the_frontier_are_named(
    net: Net, rng: random.Random, data: st.DataObject
) -> None:
    numbers = range(len(net.rounds))
    points = {
        (number, tuple(rng.randrange(3) for _ in range(1 + net.rounds[number])))
        for number in (rng.choice(numbers) for _ in range(rng.randint(0, 6)))
    }
    tracker = Tracker(net.graph)
    for number, time in points:
        tracker.update(Location(number), time, 1)
    tracker.update(Location(0), (9,) * (1 + net.rounds[0]), -1)  # a negative count holds nothing
    tracker.propagate()
    asked = data.draw(st.sampled_from(list(numbers)))
    frontier = net.implied_frontiers(points)[asked]

    found = holders(tracker, net.graph.ports[asked])

    assert {holder.arrival for holder in found} == frontier
    for holder in found:
        here, time = holder.pointstamp
        assert (here, time) in points
        assert holder.count == 1
        assert holder.arrival in net.implied_frontiers([(here, time)])[asked]
        assert holder.summary.results_in(time) == holder.arrival
        assert net.graph.location(holder.path[0]) == here
        assert net.graph.location(holder.path[-1]) == asked
    named = {(int(holder.pointstamp.location), holder.pointstamp.time) for holder in found}
    holding = {point for point in points if net.implied_frontiers([point])[asked] & frontier}
    assert named == holding


def test_the_answer_names_operator_time_path_and_summary() -> None:
    outside, inside = Domain(EPOCHS), Domain(EPOCHS, 1)
    builder = GraphBuilder()
    source = builder.add("edges", outputs=[outside])
    entered = builder.add("enter", inputs=[outside], outputs=[inside], summaries={(0, 0): [enter()]})
    body = builder.add("labels", inputs=[inside, inside], outputs=[inside])
    again = builder.add("again", inputs=[inside], outputs=[inside], summaries={(0, 0): [feedback()]})
    left = builder.add("leave", inputs=[inside], outputs=[outside], summaries={(0, 0): [leave()]})
    sink = builder.add("result", inputs=[outside])
    for origin, target in [
        (SourcePort(source, 0), Target(entered, 0)),
        (SourcePort(entered, 0), Target(body, 0)),
        (SourcePort(again, 0), Target(body, 1)),
        (SourcePort(body, 0), Target(again, 0)),
        (SourcePort(body, 0), Target(left, 0)),
        (SourcePort(left, 0), Target(sink, 0)),
    ]:
        builder.connect(origin, target)
    graph = builder.build()
    tracker = Tracker(graph)
    tracker.update(graph.location(SourcePort(source, 0)), (4,), 2)
    tracker.update(graph.location(Target(again, 0)), (3, 7), 3)
    tracker.propagate()

    [holder] = holders(tracker, Target(sink, 0))

    assert holder.path == (
        Target(again, 0),
        SourcePort(again, 0),
        Target(body, 1),
        SourcePort(body, 0),
        Target(left, 0),
        SourcePort(left, 0),
        Target(sink, 0),
    )
    assert holder.summary == Summary()
    assert str(holder) == (
        "time (3, 7) is outstanding 3 times at input 0 of 'again' and could result in (3,) at input 0 of "
        "'result', by input 0 of 'again' -> output 0 of 'again' -> input 1 of 'labels' -> output 0 of "
        "'labels' -> input 0 of 'leave' -> output 0 of 'leave' -> input 0 of 'result'"
    )
    [at_source] = holders(tracker, SourcePort(source, 0))
    assert str(at_source) == "time (4,) is outstanding 2 times at output 0 of 'edges'"


def test_nothing_holds_back_a_complete_port() -> None:
    builder = GraphBuilder()
    source = builder.add("in", outputs=[Domain(EPOCHS)])
    tracker = Tracker(builder.build())
    tracker.propagate()
    assert holders(tracker, SourcePort(source, 0)) == []
