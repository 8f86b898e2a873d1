"""Which cycles may stand: what is accepted, against the definition, on thousands of random graphs.

A graph is legal if no way round a cycle leads from a time to itself or to something before it. The oracle
(``support.wild_nets``) looks for such a way by walking; it composes no summaries and knows no levels.

Families:
- oracle_*: random graphs with several summaries between two ports, rounds that are reset in one hop, and
  cycles that advance epochs and rounds by turns: accepted if and only if legal, and never for a wrong reason;
- linear extension: on what is accepted the sort key grows along every hop, which propagation needs to end;
- hand cases: the smallest graphs that were once refused or accepted wrongly.
"""

import itertools
import random
from typing import Final

import pytest

from pointstamp.errors import TopologyError
from pointstamp.topology.domain import EPOCHS, Domain
from pointstamp.topology.graph import GraphBuilder, OperatorGraph
from pointstamp.topology.levels import Hop, Hops, levels_of, point_key
from pointstamp.topology.ports import Location, SourcePort, Target
from pointstamp.topology.summary import Advance, Summary, delay, enter, feedback, identity, leave
from support.nets import Net
from support.wild_nets import End, Way, WildNet, draw, draw_bare

GRAPHS: Final = 3_000
OUTSIDE, INSIDE = Domain(EPOCHS), Domain(EPOCHS, 1)


def is_accepted(net: WildNet, *, bare: bool) -> bool:
    """Whether it is accepted; what is refused for another reason is an error of this test."""
    try:
        if bare:
            levels_of(net.bare())
        else:
            net.build()
    except TopologyError as refusal:
        if "does not strictly advance time" in str(refusal):
            return False
        raise
    return True


@pytest.mark.parametrize("bare", [False, True], ids=["graphs of operators", "ports alone"])
def test_oracle_a_graph_is_accepted_if_and_only_if_no_cycle_leads_back_in_time(bare: bool) -> None:
    wrong: dict[str, list[int]] = {"refused": [], "accepted": []}
    legal = 0
    for seed in range(GRAPHS):
        net = (draw_bare if bare else draw)(random.Random(seed))
        may_stand = net.is_legal()
        legal += may_stand
        accepted = is_accepted(net, bare=bare)
        if accepted != may_stand:
            wrong["accepted" if accepted else "refused"].append(seed)
    assert wrong == {"refused": [], "accepted": []}, {what: len(seeds) for what, seeds in wrong.items()}
    assert GRAPHS // 5 < legal < GRAPHS * 4 // 5  # both kinds are there to be told apart


def test_the_sort_key_grows_along_every_hop_of_what_is_accepted() -> None:
    for seed in range(0, GRAPHS, 5):
        net = draw(random.Random(seed))
        if not is_accepted(net, bare=False):
            continue
        plain = net.net()
        keys = [point_key(*each) for each in zip(plain.graph.domains, plain.graph.levels, strict=True)]
        for origin, target, move in plain.edges:
            for time in itertools.product((0, 2), repeat=1 + plain.rounds[origin]):
                assert keys[origin](time) < keys[target](move(time)), seed


def loop_with_way_back(*summaries: Summary) -> OperatorGraph:
    """A loop of two operators; the way back has these summaries."""
    builder = GraphBuilder()
    source = builder.add("in", outputs=[OUTSIDE])
    entered = builder.add("enter", inputs=[OUTSIDE], outputs=[INSIDE], summaries={(0, 0): [enter()]})
    join = builder.add("join", inputs=[INSIDE, INSIDE], outputs=[INSIDE])
    back = builder.add("back", inputs=[INSIDE], outputs=[INSIDE], summaries={(0, 0): summaries})
    left = builder.add("leave", inputs=[INSIDE], outputs=[OUTSIDE], summaries={(0, 0): [leave()]})
    builder.connect(SourcePort(source, 0), Target(entered, 0))
    builder.connect(SourcePort(entered, 0), Target(join, 0))
    builder.connect(SourcePort(join, 0), Target(back, 0))
    builder.connect(SourcePort(back, 0), Target(join, 1))
    builder.connect(SourcePort(join, 0), Target(left, 0))
    return builder.build()


def test_a_way_back_into_the_next_round_or_the_next_epoch_is_accepted() -> None:
    """The way that advances the epoch was taken to stand still when the rounds were looked at."""
    assert isinstance(loop_with_way_back(feedback(), delay(1, 1)), OperatorGraph)
    assert isinstance(loop_with_way_back(feedback(), Summary((), (0,), Advance(1))), OperatorGraph)


def test_a_round_that_is_reset_on_a_way_back_needs_a_later_epoch() -> None:
    with pytest.raises(TopologyError, match=r"the cycle (join -> back|back -> join) -> .* does not"):
        loop_with_way_back(Summary((), (0,)))
    with pytest.raises(TopologyError, match="does not strictly advance time"):
        loop_with_way_back(Summary((), (0,)), Summary((1,)))
    assert isinstance(loop_with_way_back(Summary((), (0,), Advance(1))), OperatorGraph)


@pytest.mark.parametrize("summary", [Summary((), (0,)), identity(1)], ids=["reset", "identity"])
def test_a_hop_from_a_port_to_itself_is_a_cycle_of_one_port(summary: Summary) -> None:
    here = Location(0)
    with pytest.raises(TopologyError, match="the cycle again -> again does not strictly advance time"):
        levels_of(Hops(["again"], [INSIDE], [[Hop(here, here, summary)]]))
    assert levels_of(Hops(["again"], [INSIDE], [[Hop(here, here, feedback())]]))


def two_loops_in_an_epoch_cycle() -> Net:
    """join, loop 1, loop 2, and from there into the next epoch: two loops that one cycle of epochs holds."""
    net = WildNet()
    names = ("start", "join", "enter 1", "loop 1", "leave 1", "enter 2", "loop 2", "leave 2", "delay")
    start, join, enter_1, loop_1, leave_1, enter_2, loop_2, leave_2, later = range(len(names))
    back_1, back_2 = len(names), len(names) + 1
    still, in_loop = Way(0, (), ()), Way(0, (0,), ())

    def add(number: int, inputs: list[int], output: int, way: Way) -> None:
        for port, rounds in enumerate(inputs):
            net.rounds[End(number, False, port)] = rounds
            net.ways[End(number, False, port), End(number, True, 0)] = [way]
        net.rounds[End(number, True, 0)] = output

    add(start, [], 0, still)
    add(join, [0, 0], 0, still)
    for entered, looped, left in ((enter_1, loop_1, leave_1), (enter_2, loop_2, leave_2)):
        add(entered, [0], 1, Way(0, (), (0,)))
        add(looped, [1, 1], 1, in_loop)
        add(left, [1], 0, still)
    add(later, [0], 0, Way(1, (), ()))
    for back in (back_1, back_2):
        add(back, [1], 1, Way(0, (1,), ()))
    way_through = (start, join, enter_1, loop_1, leave_1, enter_2, loop_2, leave_2, later)
    net.wires = [(End(a, True, 0), End(b, False, 0)) for a, b in itertools.pairwise(way_through)]
    for origin, target in ((later, join), (back_1, loop_1), (back_2, loop_2)):
        net.wires.append((End(origin, True, 0), End(target, False, 1)))
    for looped, back in ((loop_1, back_1), (loop_2, back_2)):
        net.wires.append((End(looped, True, 0), End(back, False, 0)))
    assert net.is_legal()
    return net.net()


def test_of_two_loops_in_an_epoch_cycle_the_first_comes_first_in_every_round() -> None:
    """Round 9 of the first leads to round 0 of the second: where they stand decides before their rounds."""
    net = two_loops_in_an_epoch_cycle()
    keys = [point_key(*each) for each in zip(net.graph.domains, net.graph.levels, strict=True)]
    for origin, target, move in net.edges:
        for time in itertools.product((0, 1, 9), repeat=1 + net.rounds[origin]):
            assert keys[origin](time) < keys[target](move(time)), (origin, target, time)
