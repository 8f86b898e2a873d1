"""Could-result-in, computed from what nodes do.

- By hand: the relation of a chain, of a loop and of a node that goes back in time.
- Laws: the paper's propositions and Theorem 1 on random graphs, found broken only where one of the
  definitions is wrong.
- Oracles: Definitions 1 and 2 transcribed word for word, with histories and times written out; they find
  errors in the shortcuts that the real functions take (upward closed sets, sets of local states).
"""

from itertools import product
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from pointstamp_models.catalogue.timely_facts import broken_facts, condition_2_is_needed
from pointstamp_models.catalogue.timely_graphs import (
    AsksAgain,
    Batch,
    Relay,
    Retimed,
    chain_graph,
    domains_graph,
    loop_graph,
    past_graph,
    random_graph,
)
from pointstamp_models.spec.could_result_in import (
    CouldResultIn,
    NewRequest,
    above_any,
    close_up,
    embedding,
    is_transitive,
    messages_into_the_past,
    new_requests,
    one_step,
    requests_into_the_past,
    same_time,
)
from pointstamp_models.spec.multiset import chain
from pointstamp_models.spec.node import Buffer, Edge, Graph, LocalState, Location, Message, Pointstamp, Time

seeds = st.integers(min_value=0, max_value=2**32 - 1)


@given(seeds)
def test_every_fact_holds_on_every_graph(seed: int) -> None:
    random = Random(seed)
    assert broken_facts(CouldResultIn(random_graph(random)), random) == []


@given(seeds)
def test_the_relation_is_transitive_exactly_if_condition_2_holds(seed: int) -> None:
    relation = CouldResultIn(random_graph(Random(seed)))
    assert is_transitive(relation) == (messages_into_the_past(relation) == [])


def _histories_results(graph: Graph, p: Location, length_max: int) -> set[tuple[LocalState, frozenset[Time]]]:
    """g(p) of every history of at most so many events, by its inductive definition."""
    events: list[Time | tuple[Location, Message]] = list(graph.times.points())
    events += [(edge, message) for edge in graph.incoming(p) for message in graph.messages()]
    results = set()
    for start, asked in graph.nodes[p].initial():
        for length in range(length_max + 1):
            for history in product(events, repeat=length):
                state, requests = start, frozenset(asked)
                for x in history:
                    if isinstance(x, tuple):
                        state, added, _ = graph.nodes[p].on_message(state, *x)
                    else:
                        state, added, _ = graph.nodes[p].on_notification(state, x)
                        requests -= {x}
                    requests |= set(added)
                results.add((state, requests))
    return results


def oracle_one_step(graph: Graph, length_max: int) -> set[tuple[Pointstamp, Pointstamp]]:
    """Definition 1, with every history of at most so many events."""
    pairs = set()
    for p, node in graph.nodes.items():
        for state, _ in _histories_results(graph, p, length_max):
            for time in graph.times.points():
                reactions = [node.on_notification(state, time)]
                reactions += [node.on_message(state, e, (time, "m")) for e in graph.incoming(p)]
                pairs |= {((p, time), (edge, m[0])) for reaction in reactions for edge, m in reaction.sent}
    return pairs


def oracle_could_result_in(graph: Graph, origin: Pointstamp, target: Pointstamp) -> bool:
    """Definition 2, with the sequences of locations x_i and of times t_i written out."""
    less_equal, points = graph.times.less_equal, graph.times.points()
    steps = one_step(graph)

    def from_here(path: tuple[Location, ...], time: Time) -> bool:
        x = path[-1]
        if len(path) > 1 and x == target[0] and less_equal(time, target[1]):
            return True
        for edge in graph.edges:
            if edge.name == x and edge.destination not in (None, *path):
                assert edge.destination is not None
                if from_here((*path, edge.destination), time):
                    return True
            if edge.source == x and edge.name not in path:
                for later, sent, following in product(points, points, points):
                    if (
                        less_equal(time, later)
                        and less_equal(sent, following)
                        and ((x, later), (edge.name, sent)) in steps
                        and from_here((*path, edge.name), following)
                    ):
                        return True
        return False

    (x, t), (y, s) = origin, target
    return (x == y and less_equal(t, s)) or any(
        from_here((x,), first) for first in points if less_equal(t, first)
    )


@settings(max_examples=25)
@given(seeds)
def test_one_step_agrees_with_written_out_histories(seed: int) -> None:
    graph = random_graph(Random(seed))
    # Each node has two local states, so one event reaches every state that is reachable at all.
    assert one_step(graph) == oracle_one_step(graph, 1)


@settings(max_examples=12)
@given(seeds)
def test_the_relation_agrees_with_written_out_paths(seed: int) -> None:
    random = Random(seed)
    graph = random_graph(random)
    relation = CouldResultIn(graph)
    for origin in random.sample(relation.pointstamps, 6):
        for target in relation.pointstamps:
            assert relation.holds(origin, target) == oracle_could_result_in(graph, origin, target)


def test_messages_of_a_chain_could_result_in_everything_downstream_and_later() -> None:
    relation = CouldResultIn(chain_graph())
    assert relation.above(("e", 2)) == {(x, t) for x in ("e", "q", "o") for t in (2, 3)}
    assert not relation.holds(("e", 2), ("p", 3))


def test_a_buffer_and_a_relay_look_alike_to_the_relation_except_for_notifications() -> None:
    edges = (Edge("i", None, "p"), Edge("o", "p", None))
    buffer = Graph(chain("01"), {"p": Buffer("o")}, edges)
    relay = Graph(chain("01"), {"p": Relay("o")}, edges)
    assert one_step(buffer) == one_step(relay) == same_time(relay)


def test_feedback_leads_from_a_round_to_the_next_and_never_back() -> None:
    graph = loop_graph(2, 3)
    at = {name: time for time, name in enumerate(graph.times.names)}
    relation = CouldResultIn(graph)
    assert relation.holds(("p", at["(0,0)"]), ("g", at["(0,1)"]))
    assert not relation.holds(("p", at["(0,1)"]), ("g", at["(0,1)"]))
    assert relation.holds(("p", at["(0,1)"]), ("g", at["(1,2)"]))
    assert not relation.holds(("p", at["(1,0)"]), ("g", at["(0,2)"]))
    assert relation.holds(("i", at["0"]), ("o", at["0"]))
    assert is_transitive(relation)


def test_times_of_different_domains_are_linked_by_nodes_only() -> None:
    graph = domains_graph()
    gmt9, gmt10, pst1, pst2, zero, one = graph.times.points()
    relation = CouldResultIn(graph)
    assert relation.holds(("i", gmt10), ("mail", pst2))
    assert relation.holds(("i", gmt9), ("lines", one))
    assert not relation.holds(("i", gmt10), ("mail", pst1))
    assert not relation.holds(("i", gmt9), ("mail", zero))
    assert requests_into_the_past(graph) == []


def test_a_universal_time_exists_for_three_domains() -> None:
    relation = CouldResultIn(domains_graph())
    found = embedding(relation)
    assert found is not None
    order, place = found
    assert order.less(place(("i", 0)), place(("mail", 2)))
    assert not order.less_equal(place(("mail", 2)), place(("lines", 4)))


def test_a_cycle_that_keeps_its_time_is_one_instant_of_universal_time() -> None:
    nodes = {"p": Buffer("e"), "q": Buffer("f")}
    graph = Graph(chain("01"), nodes, (Edge("e", "p", "q"), Edge("f", "q", "p")))
    found = embedding(CouldResultIn(graph))
    assert found is not None
    assert len({found.place((x, 0)) for x in ("p", "e", "q", "f")}) == 1


def test_sending_into_the_past_round_a_cycle_breaks_condition_2_and_transitivity() -> None:
    relation = CouldResultIn(past_graph())
    assert (("p", 2), ("f", 1)) in messages_into_the_past(relation)
    assert not is_transitive(relation)
    assert embedding(relation) is None
    assert above_any(relation, [("i", 2)]) < close_up(relation, [("i", 2)])


def test_sending_into_the_past_without_a_cycle_breaks_nothing_that_can_be_compared() -> None:
    nodes = {"p": Retimed({"e": {1: 0}}), "q": Buffer("o")}
    graph = Graph(chain("01"), nodes, (Edge("i", None, "p"), Edge("e", "p", "q"), Edge("o", "q", None)))
    assert messages_into_the_past(CouldResultIn(graph)) == []


def test_condition_2_is_what_makes_the_short_formula_for_clock_right() -> None:
    assert condition_2_is_needed().holds


def test_a_new_request_counts_from_every_earlier_event_to_every_later_time() -> None:
    edges = (Edge("i", None, "p"), Edge("o", "p", None))
    graph = Graph(chain("012"), {"p": Batch("o")}, edges)
    expected = {NewRequest("p", event, request) for event in range(3) for request in range(event, 3)}
    assert new_requests(graph) == expected


def test_a_request_that_is_pending_already_is_not_new() -> None:
    graph = Graph(chain("012"), {"p": AsksAgain()}, (Edge("i", None, "p"),))
    # Notified of 1, it asks for 1 again: pending until the event, so not new by Definition 3.
    assert NewRequest("p", 1, 1) not in new_requests(graph)


def test_naiads_approximation_contains_the_relation_of_ordinary_nodes_only() -> None:
    ordinary, loop = chain_graph(), loop_graph()
    assert CouldResultIn(ordinary, same_time(ordinary)).contains(CouldResultIn(ordinary))
    assert not CouldResultIn(loop, same_time(loop)).contains(CouldResultIn(loop))
