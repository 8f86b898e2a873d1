"""Small dataflow graphs on which the semantics of timely dataflow is judged, and the nodes in them.

Nodes in streaming mode react to each message, nodes in batch mode wait for the notification; a loop adds a
coordinate to its times and takes it away again; one graph has three time domains. Random graphs are drawn
from a seed, with nodes that do anything, also send into the past.
"""

from collections.abc import Callable, Iterable, Mapping
from random import Random
from typing import Final

from pointstamp_models.spec.multiset import Poset, chain, vee
from pointstamp_models.spec.node import (
    Buffer,
    Edge,
    Graph,
    LocalState,
    Location,
    Message,
    Node,
    Reaction,
    Time,
)


class Relay(Node):
    """Sends every message on, and a message of its own when it is notified: streaming mode."""

    def __init__(self, out: Location, *, requests: tuple[Time, ...] = (), asks: bool = False) -> None:
        self.out = out
        self.requests = requests
        self.asks = asks

    def initial(self) -> list[tuple[LocalState, tuple[Time, ...]]]:
        """No state, and the requests it was given."""
        return [((), self.requests)]

    def on_message(self, state: LocalState, edge: Location, message: Message) -> Reaction:
        """The same message, and perhaps a request for its time."""
        return Reaction(state, self.asked(message[0]) if self.asks else (), ((self.out, message),))

    def on_notification(self, state: LocalState, time: Time) -> Reaction:
        """A message that says so."""
        return Reaction(state, sent=((self.out, (self.answer_time(time), "m")),))

    def asked(self, time: Time) -> tuple[Time, ...]:
        """The requests that a message causes."""
        return (time,)

    def answer_time(self, time: Time) -> Time:
        """The time at which a notification is answered."""
        return time


class Batch(Node):
    """Keeps messages until their time is complete, then sends them on all its edges: batch mode."""

    def __init__(self, *outs: Location) -> None:
        self.outs = outs

    def on_message(self, state: LocalState, edge: Location, message: Message) -> Reaction:
        """Keep it, once if it comes twice, and ask for its time."""
        return Reaction(tuple(sorted({*state, message})), (message[0],))

    def on_notification(self, state: LocalState, time: Time) -> Reaction:
        """All messages that were kept for this time."""
        done = [message for message in state if message[0] == time]
        kept = tuple(message for message in state if message[0] != time)
        return Reaction(kept, sent=tuple((out, message) for out in self.outs for message in done))


class Retimed(Node):
    """Sends every message on at another time, and drops those whose time it does not know.

    Loop ingress, egress and feedback are of this kind, and so is a change of time domain.
    """

    def __init__(self, times: Mapping[Location, Mapping[Time, Time]]) -> None:
        self.times = times

    def on_message(self, state: LocalState, edge: Location, message: Message) -> Reaction:
        """The message at the time that each outgoing edge gives it."""
        time, payload = message
        sent = [(out, (table[time], payload)) for out, table in self.times.items() if time in table]
        return Reaction(state, sent=tuple(sent))


class AsksAgain(Node):
    """Asks once more for the first time of which it is notified, and remembers how often it was notified."""

    def initial(self) -> list[tuple[LocalState, tuple[Time, ...]]]:
        """Not yet notified, and waiting for time 1."""
        return [((0,), (1,))]

    def on_notification(self, state: LocalState, time: Time) -> Reaction:
        """The same request again, the first time."""
        return Reaction((min(2, state[0] + 1),), (time,) if state == (0,) else ())


CHAIN_EDGES: Final = (Edge("i", None, "p"), Edge("e", "p", "q"), Edge("o", "q", None))


def chain_graph(
    p: Callable[..., Node] = Relay, q: Callable[..., Node] = Relay, payloads: tuple[str, ...] = ("m",)
) -> Graph:
    """The chain i, p, e, q, o over the times 0 < 1 < 2 < 3; both ask for 2, q for each message's time."""
    nodes = {"p": p("e", requests=(2,)), "q": q("o", requests=(2,), asks=True)}
    return Graph(chain("0123"), nodes, CHAIN_EDGES, payloads)


def loop_times(epochs: int, rounds: int) -> Poset:
    """The epochs, and beside them, in a domain of their own, the pairs of epoch and round."""
    pairs = [(epoch, step) for epoch in range(epochs) for step in range(rounds)]
    names = [f"{epoch}" for epoch in range(epochs)] + [f"({epoch},{step})" for epoch, step in pairs]
    below = [(f"{a}", f"{b}") for a in range(epochs) for b in range(a + 1, epochs)]
    below += [
        (f"({a},{i})", f"({b},{j})")
        for a, i in pairs
        for b, j in pairs
        if (a, i) != (b, j) and a <= b and i <= j
    ]
    return Poset(names, below)


def loop_graph(epochs: int = 2, rounds: int = 2) -> Graph:
    """A loop: enter adds a round to the time, feedback counts it up, leave takes it away again.

    q works in batch mode and sends every completed round both round the loop and out of it.
    """
    times = loop_times(epochs, rounds)
    at = {name: point for point, name in enumerate(times.names)}
    inside = [(epoch, step) for epoch in range(epochs) for step in range(rounds)]
    entered = {at[f"{epoch}"]: at[f"({epoch},0)"] for epoch in range(epochs)}
    counted = {at[f"({e},{r})"]: at[f"({e},{r + 1})"] for e, r in inside if r + 1 < rounds}
    left = {at[f"({e},{r})"]: at[f"{e}"] for e, r in inside}
    nodes = {
        "enter": Retimed({"a": entered}),
        "p": Buffer("e"),
        "q": Batch("f", "l"),
        "feedback": Retimed({"g": counted}),
        "leave": Retimed({"o": left}),
    }
    edges = (
        Edge("i", None, "enter"),
        Edge("a", "enter", "p"),
        Edge("e", "p", "q"),
        Edge("f", "q", "feedback"),
        Edge("g", "feedback", "p"),
        Edge("l", "q", "leave"),
        Edge("o", "leave", None),
    )
    return Graph(times, nodes, edges)


def domains_graph() -> Graph:
    """One input in GMT, two outputs, in PST and in sequence numbers, and a node that waits in each domain."""
    names = ["gmt9", "gmt10", "pst1", "pst2", "#0", "#1"]
    times = Poset(names, [("gmt9", "gmt10"), ("pst1", "pst2"), ("#0", "#1")])
    gmt9, gmt10, pst1, pst2, zero, one = times.points()
    nodes = {
        "clock": Retimed({"west": {gmt9: pst1, gmt10: pst2}, "count": {gmt9: zero, gmt10: one}}),
        "office": Batch("mail"),
        "log": Batch("lines"),
    }
    edges = (
        Edge("i", None, "clock"),
        Edge("west", "clock", "office"),
        Edge("count", "clock", "log"),
        Edge("mail", "office", None),
        Edge("lines", "log", None),
    )
    return Graph(times, nodes, edges)


def past_graph() -> Graph:
    """A cycle on which p sends every message on at a smaller time, which breaks Condition 2."""
    nodes = {"p": Retimed({"e": {0: 0, 1: 0, 2: 1}}), "q": Buffer("f")}
    edges = (Edge("i", None, "p"), Edge("e", "p", "q"), Edge("f", "q", "p"))
    return Graph(chain("012"), nodes, edges)


def chain_parts() -> tuple[Graph, Graph]:
    """The chain cut at e, which p sends on and q receives from."""
    whole = chain_graph()
    first = Graph(whole.times, {"p": whole.nodes["p"]}, (Edge("i", None, "p"), Edge("e", "p", None)))
    second = Graph(whole.times, {"q": whole.nodes["q"]}, (Edge("e", None, "q"), Edge("o", "q", None)))
    return first, second


def buffered_parts() -> tuple[Graph, Graph]:
    """A chain whose first part has an internal edge, so that it can act unseen by the second."""
    times = chain("0123")
    nodes = {"b": Buffer("e"), "p": Relay("x")}
    first = Graph(times, nodes, (Edge("i", None, "b"), Edge("e", "b", "p"), Edge("x", "p", None)))
    second = Graph(times, {"q": Relay("o", requests=(2,))}, (Edge("x", None, "q"), Edge("o", "q", None)))
    return first, second


def loop_parts(*, buffers: bool) -> tuple[Graph, Graph]:
    """A loop cut at both its edges x and y, with a buffer behind each of them or without."""
    times = chain("012")
    turn = Retimed({"y": {0: 1, 1: 2}, "o": {0: 0, 1: 1, 2: 2}})
    first_edges = [Edge("i", None, "p"), Edge("x", "p", None)]
    second_edges = [Edge("y", "q", None), Edge("o", "q", None)]
    if not buffers:
        first = Graph(times, {"p": Buffer("x")}, (*first_edges, Edge("y", None, "p")))
        return first, Graph(times, {"q": turn}, (*second_edges, Edge("x", None, "q")))
    first_edges += [Edge("y", None, "b"), Edge("e", "b", "p")]
    second_edges += [Edge("x", None, "c"), Edge("f", "c", "q")]
    first = Graph(times, {"b": Buffer("e"), "p": Buffer("x")}, tuple(first_edges))
    return first, Graph(times, {"c": Buffer("f"), "q": turn}, tuple(second_edges))


class Table(Node):
    """A node that does what a table says, for every local state and every event."""

    def __init__(self, starts: Iterable[tuple[LocalState, tuple[Time, ...]]]) -> None:
        self.starts = tuple(starts)
        self.reactions: dict[tuple[LocalState, Location | None, Time], Reaction] = {}

    def initial(self) -> tuple[tuple[LocalState, tuple[Time, ...]], ...]:
        """The given pairs."""
        return self.starts

    def on_message(self, state: LocalState, edge: Location, message: Message) -> Reaction:
        """The entry for the state, the edge and the time."""
        return self.reactions.get((state, edge, message[0]), Reaction(state))

    def on_notification(self, state: LocalState, time: Time) -> Reaction:
        """The entry for the state and the time."""
        return self.reactions.get((state, None, time), Reaction(state))


def random_graph(random: Random) -> Graph:
    """A graph of two or three nodes with two local states each, which react to some events and in any way."""
    times = random.choice([chain("ab"), chain("abc"), vee(), Poset("abcd", [("a", "b"), ("c", "d")])])
    names = ["p", "q", "r"][: random.choice([2, 3])]
    ends = [(a, b) for a in names for b in names if a != b]
    chosen = random.sample(ends, random.randint(1, len(ends)))
    edges = [Edge(f"{a}{b}", a, b) for a, b in chosen]
    edges += [Edge("i", None, random.choice(names)), Edge("o", random.choice(names), None)]
    starts: list[LocalState] = [(0,), (1,)]
    graph = Graph(times, {name: Table([(random.choice(starts), ())]) for name in names}, tuple(edges))
    reactive = random.choice([0.1, 0.3, 0.6])
    for name, node in graph.nodes.items():
        assert isinstance(node, Table)
        for state in starts:
            for edge in (None, *graph.incoming(name)):
                for time in times.points():
                    if random.random() < reactive:
                        node.reactions[state, edge, time] = _random_reaction(random, graph, name, starts)
    return graph


def _random_reaction(random: Random, graph: Graph, name: Location, states: list[LocalState]) -> Reaction:
    times = graph.times.points()
    outgoing = graph.outgoing(name)
    count = random.randint(0, 2) if outgoing else 0
    sent = tuple((random.choice(outgoing), (random.choice(times), "m")) for _ in range(count))
    requests = (random.choice(times),) if random.random() < 0.5 else ()
    return Reaction(random.choice(states), requests, sent)
