"""Composing graphs that share edges.

- Runs: what is seen of two composed graphs is what is seen of the whole graph, in both directions. Only
  these can find a joint step that is missing or too many.
- As printed: the two ways in which the literal conjunction differs from the whole graph, each with the
  run that shows it.
- By hand: the composed graph, the interleaving constraint, and the comparison of runs itself, which would
  accept everything if it compared nothing.
"""

from collections.abc import Iterable
from typing import NamedTuple

import pytest

from pointstamp_models.catalogue.timely_facts import (
    composition_as_printed_differs,
    composition_equals_the_whole,
    missing_runs,
)
from pointstamp_models.catalogue.timely_graphs import (
    Relay,
    buffered_parts,
    chain_graph,
    chain_parts,
    loop_parts,
)
from pointstamp_models.exploring.explorer import explore
from pointstamp_models.spec.composition import Composed, Hidden, compose, missing_run, shared_edges
from pointstamp_models.spec.could_result_in import CouldResultIn
from pointstamp_models.spec.model import Label, Model
from pointstamp_models.spec.multiset import chain
from pointstamp_models.spec.node import Edge, Graph, Message, Pointstamp
from pointstamp_models.spec.timely import Timely
from pointstamp_models.spec.timely_actions import Removal

TWO: list[Message] = [(1, "m"), (3, "m")]


@pytest.mark.parametrize(
    ("parts", "content"),
    [(chain_parts(), TWO), (buffered_parts(), TWO), (loop_parts(buffers=True), [(1, "m"), (0, "m")])],
    ids=["chain", "buffered chain", "loop"],
)
def test_composed_graphs_have_the_runs_of_the_whole_and_no_others(
    parts: tuple[Graph, Graph], content: list[Message]
) -> None:
    assert missing_runs(*parts, content, environment_waits=True) == (None, None)


def test_the_order_of_the_parts_does_not_matter() -> None:
    first, second = chain_parts()
    assert missing_runs(second, first, TWO, environment_waits=True) == (None, None)


def test_the_checks_of_the_catalogue_hold() -> None:
    assert composition_equals_the_whole().holds
    assert composition_as_printed_differs().holds


def test_as_printed_the_environment_may_act_in_the_instant_of_a_node() -> None:
    extra, lost = missing_runs(*buffered_parts(), TWO, environment_waits=False)
    assert lost is None
    assert extra is not None
    # In the last step the input loses a message and so does the output.
    assert extra[-2:] == ((((3, "m"),), ((1, "m"),)), ((), ()))


def test_a_node_between_two_shared_edges_can_never_act() -> None:
    first, second = loop_parts(buffers=False)
    relation = CouldResultIn(compose(first, second))
    composed = Composed(first, second, relation, inputs={"i": [(0, "m")]})
    taken = {edge.label[1:] for edge in explore(composed, keep_edges=True).edges}
    assert taken == {(("mess", "p", "i", (0, "m")), ("idle",))}


class NoOneBelow:
    """A relation that knows of no work elsewhere: each part would be its own world."""

    def above(self, pointstamp: Pointstamp) -> Iterable[Pointstamp]:
        return [pointstamp]


def test_a_clock_that_does_not_span_both_graphs_gives_runs_that_the_whole_has_not() -> None:
    first, second = chain_parts()
    graph = chain_graph()
    whole = Timely(graph, CouldResultIn(graph), inputs=[{"i": TWO}])
    blind = Composed(first, second, NoOneBelow(), inputs={"i": TWO}, environment_waits=True)
    extra = missing_run(
        Hidden(blind, lambda state: (state.queues[0], state.queues[2])),
        Hidden(whole, lambda state: (state.queues[0], state.queues[2])),
    )
    # q is notified of 2 while 1 is still on its way.
    assert extra == ((tuple(TWO), ()), (tuple(TWO), ((2, "m"),)))


def test_the_composed_chain_reaches_the_states_of_the_whole_chain() -> None:
    first, second = chain_parts()
    relation = CouldResultIn(compose(first, second))
    composed = Composed(first, second, relation, inputs={"i": TWO}, removal=Removal.HEAD)
    assert explore(composed).states == 351


def test_shared_edges_become_internal() -> None:
    first, second = loop_parts(buffers=True)
    assert shared_edges(first, second) == {"x", "y"}
    whole = compose(first, second)
    assert whole.inputs == ("i",)
    assert whole.outputs == ("o",)
    assert Edge("x", "p", "c") in whole.edges
    assert Edge("y", "q", "b") in whole.edges


def test_a_composed_chain_is_the_chain() -> None:
    assert set(compose(*chain_parts()).edges) == set(chain_graph().edges)


def test_graphs_over_different_times_are_not_composed() -> None:
    first, _ = chain_parts()
    other = Graph(chain("01"), {"q": Relay("o")}, (Edge("e", None, "q"), Edge("o", "q", None)))
    with pytest.raises(ValueError, match="same times"):
        compose(first, other)


def test_a_graph_acts_if_it_takes_an_input_or_adds_an_output() -> None:
    first, second = chain_parts()
    composed = Composed(first, second, CouldResultIn(compose(first, second)), inputs={"i": TWO})
    state = next(composed.initial())
    before = composed._seen_by(composed.parts[0], state)
    one, three = (1, "m"), (3, "m")
    assert composed.acts(0, before, before._replace(queues=((three,), (one,))))
    assert composed.acts(0, before, before._replace(queues=((three,), ())))
    assert not composed.acts(0, before, before._replace(queues=((one, three, three), ())))
    assert not composed.acts(0, before, before)


class Count(NamedTuple):
    number: int


class Counter(Model[Count]):
    """Counts up to a limit, and may go back to zero where it is told to."""

    name = "counter"
    state_type = Count

    def __init__(self, limit: int, *, resets: bool = False) -> None:
        self.limit = limit
        self.resets = resets

    def initial(self) -> list[Count]:
        return [Count(0)]

    def steps(self, state: Count) -> list[tuple[Label, Count]]:
        up: list[tuple[Label, Count]] = [(("up",), Count(state.number + 1))]
        return (up if state.number < self.limit else []) + ([(("reset",), Count(0))] if self.resets else [])


def test_comparing_runs_finds_the_shortest_run_that_the_other_lacks() -> None:
    def seen(model: Model[Count]) -> Hidden[Count]:
        return Hidden(model, lambda state: state.number)

    assert missing_run(seen(Counter(2)), seen(Counter(3))) is None
    assert missing_run(seen(Counter(3)), seen(Counter(2))) == (0, 1, 2, 3)
    assert missing_run(seen(Counter(3, resets=True)), seen(Counter(3))) == (0, 1, 0)


def test_comparing_runs_does_not_see_what_is_hidden() -> None:
    def halves(model: Model[Count]) -> Hidden[Count]:
        return Hidden(model, lambda state: state.number // 2)

    assert missing_run(halves(Counter(3)), halves(Counter(2))) is None
    assert missing_run(halves(Counter(4)), halves(Counter(2))) == (0, 1, 2)
