"""The semantics of timely dataflow before the judge: small graphs, and variants with one change each.

The one published count, 351 states, is of the chain i -> p -> e -> q -> o with two messages and requests at
p and q. The text does not say more, and several conventions reach that number. The one used here also
gives the published traces of M5.1 to M5.3 and the published remark that time 3 may be notified before time
2: messages at 1 and 3, p and q ask for 2 at the start, q asks for the time of each message, a notification
sends one message at its time, and the environment takes the output from its head. Where it takes any
subsequence, as the semantics allows, the same graph has its own instance.

Every graph but the mutants' is judged with its own could-result-in relation, computed from its nodes. M5.2
and M5.3 are judged with the relation of the graph they replace, as a system would that trusts its nodes.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

from pointstamp_models.catalogue.timely_facts import CHECKS
from pointstamp_models.catalogue.timely_graphs import (
    AsksAgain,
    Batch,
    Relay,
    chain_graph,
    domains_graph,
    loop_graph,
)
from pointstamp_models.exploring.entry import Entry, Instance, Mutant
from pointstamp_models.spec.could_result_in import CouldResultIn
from pointstamp_models.spec.multiset import chain
from pointstamp_models.spec.node import Edge, Graph, Location, Message, Node, Time
from pointstamp_models.spec.timely import Timely
from pointstamp_models.spec.timely_actions import Removal, TimelyState


class AnswersInThePast(Relay):
    """M5.2: a notification is answered at a smaller time."""

    def answer_time(self, time: Time) -> Time:
        """One step before."""
        return max(0, time - 1)


class AsksForThePast(Relay):
    """M5.3: a message causes a request for a smaller time."""

    def asked(self, time: Time) -> tuple[Time, ...]:
        """One step before."""
        return (max(0, time - 1),)


class NotifiesByOwnQueues(Timely):
    """M5.1: the guard of Not looks at the queues of the node and not at what could still arrive there."""

    def may_notify(self, state: TimelyState, clock: int, p: Location, time: Time) -> bool:
        """Return whether no queued message of p has this time or a smaller one."""
        queued = [m for edge in self.graph.incoming(p) for m in state.queues[self.edge_index[edge]]]
        return not any(self.graph.times.less_equal(other, time) for other, _ in queued)


class TakesAnyInput(Timely):
    """M5.4: Inp as printed, without the constraint that Clock' be within Clock."""

    def may_input(self, clock: int, clock_after: int) -> bool:
        """Always."""
        return True


class DropsRequestLast(Timely):
    """M5.5: the served request is taken away after the new ones are added."""

    def requests_after(
        self, requests: tuple[Time, ...], time: Time, added: tuple[Time, ...]
    ) -> tuple[Time, ...]:
        """(N U N') - {t}."""
        return tuple(sorted((set(requests) | set(added)) - {time}))


class ReceivesInAnyOrder(Timely):
    """M5.6: a node may take any message of a queue."""

    def may_receive(self, ahead: tuple[Message, ...], message: Message) -> bool:
        """Always."""
        return True


CHAIN_INPUT: Final[Mapping[str, Any]] = {
    "inputs": [{"i": [(1, "m"), (3, "m")]}],
    "removal": Removal.HEAD,
    "expects": ["LaterNotifiedFirst", "SentOnMessage", "SentOnNotification", "Finished"],
}


def chain_model(kind: type[Timely] = Timely, **settings: Any) -> Timely:  # noqa: ANN401 - passed on
    """The chain, with its own could-result-in relation."""
    graph = chain_graph()
    return kind(graph, CouldResultIn(graph), **{**CHAIN_INPUT, **settings})


def chain_model_trusting(p: Callable[..., Node] = Relay, q: Callable[..., Node] = Relay) -> Timely:
    """The chain with another node in it, judged with the relation of the chain as it should be."""
    return Timely(chain_graph(p, q), CouldResultIn(chain_graph()), **CHAIN_INPUT)


def any_input_model(length_max: int = 2) -> Timely:
    """The chain from every input of at most so many messages, because Init leaves the inputs open."""
    graph = chain_graph()
    contents: list[tuple[Message, ...]] = [()]
    shorter = contents
    for _ in range(length_max):
        shorter = [(*content, message) for content in shorter for message in graph.messages()]
        contents = contents + shorter
    return Timely(graph, CouldResultIn(graph), inputs=[{"i": content} for content in contents])


def two_payloads_model(kind: type[Timely] = Timely, *, reordering: bool = False) -> Timely:
    """The chain with two messages of equal time, and one of a smaller time behind them."""
    graph = chain_graph(payloads=("a", "b", "m"))
    expects = ["Overtaken", "Finished"] if reordering else ["Finished"]
    return kind(
        graph,
        CouldResultIn(graph),
        inputs=[{"i": [(3, "a"), (3, "b"), (1, "a")]}],
        removal=Removal.NOTHING,
        reordering=reordering,
        expects=expects,
    )


def input_model(kind: type[Timely] = Timely) -> Timely:
    """The chain while inputs still arrive, at most two: only at times that Clock still contains."""
    graph = chain_graph()
    supply = [("i", message) for message in graph.messages()]
    return kind(
        graph,
        CouldResultIn(graph),
        inputs=[{"i": [(1, "m")]}],
        supply=supply,
        supply_max=2,
        removal=Removal.HEAD,
        expects=["InputGrew", "Finished"],
    )


def empty_input_model(kind: type[Timely]) -> Timely:
    """The chain with nothing in it, where an input may appear."""
    graph = chain_graph()
    return kind(graph, CouldResultIn(graph), supply=[("i", (1, "m"))], supply_max=1)


def asks_again_model(kind: type[Timely] = Timely) -> Timely:
    """One node that asks for the same time twice while messages arrive."""
    graph = Graph(chain("012"), {"p": AsksAgain()}, (Edge("i", None, "p"),))
    inputs: list[dict[str, list[Message]]] = [{"i": [(0, "m"), (2, "m")]}]
    return kind(graph, CouldResultIn(graph), inputs=inputs, expects=["RequestedAgain", "Finished"])


def map_and_paths_model() -> Timely:
    """Streaming and batch in one program: a map is updated at once, paths are found when a time is over."""
    nodes = {"map": Relay("e"), "paths": Batch("o")}
    edges = (Edge("readings", None, "map"), Edge("e", "map", "paths"), Edge("o", "paths", None))
    graph = Graph(chain("012"), nodes, edges, ("a", "b"))
    readings: list[Message] = [(0, "a"), (1, "b"), (0, "b"), (1, "a")]
    expects = ["SentOnMessage", "SentOnNotification", "LaterNotifiedFirst", "Finished"]
    return Timely(graph, CouldResultIn(graph), inputs=[{"readings": readings}], expects=expects)


def loop_model(epochs: int = 2, rounds: int = 2, *, reordering: bool = False) -> Timely:
    """The loop with one message in each epoch, the later epoch first."""
    graph = loop_graph(epochs, rounds)
    inputs = [{"i": [(epoch, "m") for epoch in reversed(range(epochs))]}]
    expects = ["SentOnNotification", "LaterNotifiedFirst", "Finished"]
    return Timely(
        graph,
        CouldResultIn(graph),
        inputs=inputs,
        removal=Removal.HEAD,
        reordering=reordering,
        expects=expects,
    )


def domains_model() -> Timely:
    """Three time domains in one graph, two messages."""
    graph = domains_graph()
    expects = ["SentOnNotification", "LaterNotifiedFirst", "Finished"]
    inputs: list[dict[str, list[Message]]] = [{"i": [(1, "m"), (0, "m")]}]
    return Timely(graph, CouldResultIn(graph), inputs=inputs, removal=Removal.NOTHING, expects=expects)


ENTRY: Final = Entry(
    name="timely",
    title="semantics of timely dataflow (Abadi & Isard 2015)",
    instances=(
        Instance("chain of two nodes, messages at 1 and 3", chain_model, states=351, liveness=True),
        Instance("chain, output taken in any order", partial(chain_model, removal=Removal.ANYTHING)),
        Instance("chain, every input of at most two messages", any_input_model),
        Instance("chain, two inputs still to come", input_model, liveness=True),
        Instance("chain, two messages of equal time", two_payloads_model),
        Instance("chain, messages reordered", partial(two_payloads_model, reordering=True), liveness=True),
        Instance("streaming and batch in one program", map_and_paths_model, liveness=True),
        Instance("a handler that asks again", asks_again_model, liveness=True),
        Instance("three time domains", domains_model, liveness=True),
        Instance("loop, two epochs, three rounds", partial(loop_model, 2, 3), liveness=True),
        Instance("loop, messages reordered", partial(loop_model, 2, 2, reordering=True)),
    ),
    mutants=(
        Mutant(
            "M5.1",
            "the guard of Not looks at the node's own queues only",
            partial(chain_model, NotifiesByOwnQueues),
            breaks="NotifyCorrect",
        ),
        Mutant(
            "M5.2",
            "a node sends into the past",
            partial(chain_model_trusting, p=AnswersInThePast),
            breaks="ClockAntitone",
        ),
        Mutant(
            "M5.3",
            "a node requests into the past",
            partial(chain_model_trusting, q=AsksForThePast),
            breaks="ClockAntitone",
        ),
        Mutant("M5.4", "Inp is not constrained", partial(empty_input_model, TakesAnyInput), breaks="NoLate"),
        Mutant(
            "M5.5",
            "the served request is taken away after new ones are added",
            partial(asks_again_model, DropsRequestLast),
            breaks="HistoryExists",
        ),
        Mutant(
            "M5.6",
            "messages are received in any order",
            partial(two_payloads_model, ReceivesInAnyOrder),
            breaks="FIFO",
        ),
    ),
    checks=CHECKS,
)
