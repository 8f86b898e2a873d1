"""The semantics of timely dataflow.

- Instances: every small graph keeps every property and reaches its witnesses and, where one is published,
  its count. Only these can find a guard that is too weak or too strong somewhere in the state space.
- Mutants: each is rejected by the one property it is there to break, M5.1 to M5.4 with the published trace.
  Only these can find a property that holds of everything.
- Liveness: requests are served, and a handler that asks for ever is caught. Only these can find a guard
  that blocks.
- Random graphs: Theorem 2 where nothing about the nodes was chosen by us.
- By hand: single guards, the Clock of single states, bad graphs. Only these say what was meant.
"""

from functools import partial
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pointstamp_models.catalogue.timely import (
    ENTRY,
    NotifiesByOwnQueues,
    ReceivesInAnyOrder,
    TakesAnyInput,
    asks_again_model,
    chain_model,
    domains_model,
    empty_input_model,
    input_model,
    loop_model,
    map_and_paths_model,
    two_payloads_model,
)
from pointstamp_models.catalogue.timely_graphs import (
    AsksAgain,
    Batch,
    Relay,
    chain_graph,
    domains_graph,
    loop_graph,
    random_graph,
)
from pointstamp_models.exploring import liveness
from pointstamp_models.exploring.entry import Instance, Mutant
from pointstamp_models.exploring.explorer import Violation, explore
from pointstamp_models.spec.could_result_in import (
    CouldResultIn,
    messages_into_the_past,
    requests_into_the_past,
    same_time,
)
from pointstamp_models.spec.multiset import chain
from pointstamp_models.spec.node import Buffer, Edge, Graph, LocalState, Node, Reaction, Time, local_results
from pointstamp_models.spec.timely import Timely
from pointstamp_models.spec.timely_actions import Removal, is_subsequence


def labels(violation: Violation | None) -> list[str]:
    assert violation is not None
    return [step.label for step in violation.trace[1:]]


def mutant(identifier: str) -> Mutant:
    return next(mutant for mutant in ENTRY.mutants if mutant.identifier == identifier)


@pytest.mark.parametrize("instance", ENTRY.instances, ids=lambda instance: instance.name)
def test_an_instance_keeps_its_properties_and_reaches_its_witnesses_and_counts(instance: Instance) -> None:
    found = explore(instance.build(), keep_edges=instance.liveness)
    assert found.violation is None
    assert found.complete
    assert not found.missing_witnesses
    assert instance.states in (None, found.states)
    if instance.liveness:
        assert liveness.violation(found) is None


def test_the_published_chain_has_351_states() -> None:
    assert explore(chain_model()).states == 351


def test_taking_the_output_in_any_order_reaches_more_states_of_the_same_chain() -> None:
    assert explore(chain_model(removal=Removal.ANYTHING)).states == 491


def test_every_graph_of_the_instances_satisfies_conditions_1_and_2() -> None:
    for graph in (chain_graph(), loop_graph(), loop_graph(2, 3), domains_graph()):
        assert not requests_into_the_past(graph)
        assert not messages_into_the_past(CouldResultIn(graph))


@pytest.mark.parametrize("mutant", ENTRY.mutants, ids=lambda mutant: mutant.identifier)
def test_a_mutant_is_rejected_by_the_property_it_breaks(mutant: Mutant) -> None:
    assert mutant.breaks is not None
    violation = explore(mutant.build(), properties=[mutant.breaks]).violation
    assert violation is not None
    assert violation.property == mutant.breaks


@pytest.mark.parametrize(
    ("identifier", "trace"),
    [
        ("M5.1", ["not q 2", "mess p i 1:m", "mess q e 1:m"]),
        ("M5.2", ["mess p i 1:m", "mess q e 1:m", "not p 2"]),
        ("M5.3", ["mess p i 1:m", "mess q e 1:m"]),
        ("M5.4", ["inp i 0 1:m"]),
        ("M5.5", ["mess p i 0:m", "not p 1"]),
        ("M5.6", ["mess p i 3:b"]),
    ],
)
def test_the_shortest_trace_of_a_mutant_is_the_expected_one(identifier: str, trace: list[str]) -> None:
    broken = mutant(identifier)
    assert labels(explore(broken.build(), properties=[broken.breaks or ""]).violation) == trace


def test_unconstrained_input_breaks_stickiness_as_well_as_lateness() -> None:
    model = partial(empty_input_model, TakesAnyInput)
    assert len(labels(explore(model(), properties=["ClockSticky"]).violation)) == 1
    assert len(labels(explore(model(), properties=["NoLate"]).violation)) == 1


def test_the_same_input_is_refused_when_clock_may_not_grow() -> None:
    assert not any(label[0] == "inp" for label, _ in _first_steps(empty_input_model(Timely)))


def _first_steps(model: Timely) -> list[tuple[tuple[object, ...], object]]:
    return list(model.steps(next(model.initial())))


def test_arbitrary_reordering_breaks_nothing_but_fifo() -> None:
    others = ["HistoryExists", "ClockSticky", "NoLate", "ClockAntitone", "NotifyCorrect"]
    assert explore(two_payloads_model(ReceivesInAnyOrder), properties=others).violation is None


def test_the_reordering_variant_overtakes_and_keeps_every_property() -> None:
    found = explore(two_payloads_model(reordering=True))
    assert found.violation is None
    assert "Overtaken" in found.witnessed
    assert found.states > explore(two_payloads_model()).states


def test_a_notification_of_3_may_come_before_one_of_2() -> None:
    assert "LaterNotifiedFirst" in explore(chain_model()).witnessed


def test_a_handler_may_ask_for_the_same_time_again_and_is_served_again() -> None:
    found = explore(asks_again_model())
    assert "RequestedAgain" in found.witnessed
    assert any(found.state(index).local == ((2,),) for index in range(found.states))


def test_one_program_streams_in_one_node_and_batches_in_another() -> None:
    assert {"SentOnMessage", "SentOnNotification"} <= explore(map_and_paths_model()).witnessed


def test_inputs_that_grow_within_clock_keep_every_property() -> None:
    found = explore(input_model())
    assert found.violation is None
    assert "InputGrew" in found.witnessed


def test_the_weak_guard_of_notification_also_lets_messages_come_late_in_a_loop() -> None:
    model = loop_model()
    weak = NotifiesByOwnQueues(model.graph, CouldResultIn(model.graph), inputs=model.inputs)
    assert explore(weak, properties=["NotifyCorrect"]).violation is not None


@given(st.integers(min_value=0, max_value=2**32 - 1))
def test_no_message_is_late_in_any_graph_that_keeps_conditions_1_and_2(seed: int) -> None:
    random = Random(seed)
    graph = random_graph(random)
    while requests_into_the_past(graph) or messages_into_the_past(CouldResultIn(graph)):
        graph = random_graph(random)
    content = random.choices(list(graph.messages()), k=3)
    model = Timely(graph, CouldResultIn(graph), inputs=[{"i": content}])
    safety = [*model.invariants(), *model.step_properties()]
    assert explore(model, properties=safety, limit=200).violation is None


class AsksForEver(Node):
    def initial(self) -> list[tuple[LocalState, tuple[Time, ...]]]:
        return [((), (0,))]

    def on_notification(self, state: LocalState, time: Time) -> Reaction:
        return Reaction(state, (time,))


def test_a_handler_that_asks_for_ever_breaks_liveness_and_nothing_else() -> None:
    graph = Graph(chain("0"), {"p": AsksForEver()}, (Edge("i", None, "p"),))
    found = explore(Timely(graph, CouldResultIn(graph)), keep_edges=True)
    assert found.violation is None
    violation = liveness.violation(found)
    assert violation is not None
    assert violation.property == "RequestServed(p, 0)"


def test_a_cycle_that_does_not_advance_time_is_a_deadlock() -> None:
    # p's own request could result in a message at its time on its own input, so nothing ever completes.
    nodes = {"p": Relay("e", requests=(0,)), "q": Buffer("f")}
    edges = (Edge("e", "p", "q"), Edge("f", "q", "p"))
    graph = Graph(chain("01"), nodes, edges)
    violation = explore(Timely(graph, CouldResultIn(graph))).violation
    assert violation is not None
    assert violation.property == "deadlock"


def test_three_time_domains_work_only_with_a_relation_that_knows_how_they_are_linked() -> None:
    assert explore(domains_model()).violation is None
    graph = domains_graph()
    same = CouldResultIn(graph, same_time(graph))
    assert not same.contains(CouldResultIn(graph))
    trusting = Timely(graph, same, inputs=[{"i": [(1, "m"), (0, "m")]}])
    assert explore(trusting, properties=["ClockAntitone"]).violation is not None


def test_naiads_approximation_gives_the_chain_the_same_states() -> None:
    graph = chain_graph()
    approximate = chain_model()
    exact = Timely(
        graph, CouldResultIn(graph, same_time(graph)), inputs=approximate.inputs, removal=Removal.HEAD
    )
    assert explore(exact).states == 351


def test_clock_is_everything_at_or_after_pending_work_downstream() -> None:
    model = chain_model()
    state = next(model.initial())  # 1 and 3 on i, requests for 2 at p and q
    clock = model.clock(state)
    inside = {pointstamp for pointstamp, bit in model.bit.items() if clock & bit}
    assert inside == {(x, t) for x in ("i", "p", "e", "q", "o") for t in (1, 2, 3)}


def test_a_notification_waits_for_incoming_edges_and_not_for_smaller_requests() -> None:
    model = chain_model()
    state = next(model.initial())._replace(queues=((), (), ()), requests=((), (2, 3)))
    told = [label for label, _ in model.notifications_received(state, model.clock(state))]
    assert told == [("not", "q", 2), ("not", "q", 3)]
    waiting = state._replace(requests=((2,), (1, 2, 3)))
    told = [label for label, _ in model.notifications_received(waiting, model.clock(waiting))]
    assert told == [("not", "p", 2), ("not", "q", 1)]


def test_a_message_leaves_its_queue_and_its_reaction_joins_the_queues_behind() -> None:
    model = chain_model()
    after = dict(model.messages_received(next(model.initial())))["mess", "p", "i", (1, "m")]
    assert after.queues == (((3, "m"),), ((1, "m"),), ())
    assert after.requests == ((2,), (2,))


def test_the_output_may_lose_any_message_or_only_its_head() -> None:
    for removal, places in ((Removal.NOTHING, []), (Removal.HEAD, [0]), (Removal.ANYTHING, [0, 1])):
        model = chain_model(removal=removal)
        state = next(model.initial())._replace(queues=((), (), ((1, "m"), (2, "m"))))
        assert [label[2] for label, _ in model.outputs_changed(state)] == places


def test_input_may_appear_anywhere_in_the_queue() -> None:
    model = input_model()
    state = next(model.initial())
    places = [label[2:] for label, _ in model.inputs_changed(state, model.clock(state))]
    assert places == [(place, (time, "m")) for time in (1, 2, 3) for place in (0, 1)]


def test_histories_of_a_node_include_events_that_the_graph_never_brings() -> None:
    graph = Graph(chain("012"), {"p": AsksAgain()}, (Edge("i", None, "p"),))
    results = local_results(graph, "p")
    assert ((0,), (1,)) in results
    assert ((1,), (1, 2)) in results  # notified of 2, which it never asked for
    assert ((1,), ()) not in results  # what M5.5 reaches


def test_a_batch_node_sends_everything_of_a_time_when_it_is_complete() -> None:
    node = Batch("o")
    stored = node.on_message(((2, "b"),), "e", (1, "a"))
    assert stored == Reaction(((1, "a"), (2, "b")), (1,))
    assert node.on_notification(stored.state, 1) == Reaction(((2, "b"),), sent=(("o", (1, "a")),))


def test_a_buffer_breaks_a_self_edge() -> None:
    with pytest.raises(ValueError, match="put a buffer between"):
        Graph(chain("01"), {"p": Node()}, (Edge("e", "p", "p"),))
    Graph(chain("01"), {"p": Node(), "b": Buffer("f")}, (Edge("e", "p", "b"), Edge("f", "b", "p")))


def test_a_graph_whose_names_or_ends_are_wrong_is_refused() -> None:
    with pytest.raises(ValueError, match="same name"):
        Graph(chain("01"), {"p": Node()}, (Edge("p", None, "p"),))
    with pytest.raises(ValueError, match="needs nodes"):
        Graph(chain("01"), {"p": Node()}, (Edge("e", None, "q"),))


@pytest.mark.parametrize(
    ("part", "whole", "expected"),
    [("", "", True), ("ac", "abc", True), ("ca", "abc", False), ("aa", "a", False)],
)
def test_a_subsequence_keeps_the_order_and_the_number_of_its_elements(
    part: str, whole: str, expected: bool
) -> None:
    assert is_subsequence(part, whole) is expected
