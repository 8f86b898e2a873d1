"""Small cyclic flows that make a broken snapshot visible.

Most are a source S, a node V with a loop, and a sink K; two epochs with one record each, and one turn of the
loop. V remembers everything in the order in which it came and sends that on, so whatever it sees too early,
twice or never shows in the output. V comes in kinds: it may send into the next epoch (AHEAD), hold a
capability for the next epoch (WINDOW), or keep its output until its epoch is complete (OWING); and each kind
under hold-back or with versions.

Nothing here is broken: the broken variants are of the rules, in ``catalogue.snapshots``.
"""

from collections.abc import Callable
from functools import partial
from typing import Final

from pointstamp_models.spec.snapshot_flows import Edge, Effects, Epoch, Flow, Node, Source, Time, Value

LAST_ROUND: Final = 1


# What nodes do. Their states are logs whose entries begin with an epoch, so that a log has versions.


def upto(log: Value, epoch: Epoch) -> Value:
    """pi_e of a log: its entries of epochs up to e, in the order in which they came."""
    return tuple(entry for entry in log if entry[0] <= epoch)


def collect(log: Value, time: Time, value: Value) -> Effects:
    """A sink keeps what arrived, epoch by epoch."""
    return Effects(tuple(sorted((*log, (time[0], value)), key=lambda entry: entry[0])))


def remember(log: Value, time: Time, value: Value) -> Effects:
    """Go round the loop, then send on everything seen so far, in the order in which it came."""
    seen = (*log, (*time, value))
    return Effects(seen, (("again", value) if time[1] < LAST_ROUND else ("out", seen),))


def send_ahead(log: Value, time: Time, value: Value) -> Effects:
    """Like remember, but a message that enters the loop sends a message into the next epoch."""
    effects = remember(log, time, value)
    ahead = (("ahead", value + "'"),) if time[1] == 0 else ()
    return effects._replace(sends=effects.sends + ahead)


def open_window(log: Value, time: Time, value: Value) -> Effects:
    """Like remember, but a message that enters the loop opens a window that closes with the next epoch."""
    return remember(log, time, value)._replace(requests=((time[0] + 1, LAST_ROUND),) if time[1] == 0 else ())


def close_window(log: Value, time: Time) -> Effects:
    """The window fires: it is remembered and sent."""
    seen = (*log, (*time, "window"))
    return Effects(seen, (("out", seen),))


def owe(log: Value, time: Time, value: Value) -> Effects:
    """Go round the loop, and keep what was seen until the epoch is complete."""
    again = (("again", value),) if time[1] < LAST_ROUND else ()
    return Effects((*log, (*time, value)), again, ((time[0], LAST_ROUND),))


def pay(log: Value, time: Time) -> Effects:
    """The epoch is complete: everything seen so far is sent."""
    return Effects(log, (("out", log),))


def versioned(act: Callable[..., Effects], log: Value, time: Time, *value: Value) -> Effects:
    """Act on pi_e alone, and put behind the log what that adds: NI1 and NI2 hold by construction."""
    own = upto(log, time[0])
    effects = act(own, time, *value)
    return effects._replace(state=log + effects.state[len(own) :])


# Flows.

_K: Final = Node("K", collect, project=upto)
_EDGES: Final = (
    Edge("in", "S", "V"),
    Edge("again", "V", "V", rounds=1),
    Edge("out", "V", "K", leaves=True),
)
_AHEAD: Final = Edge("ahead", "V", "V", epochs=1, leaves=True)


def flow(v: Node, *more: Edge, records: tuple[tuple[Epoch, Value], ...] = ((1, "a"), (2, "b"))) -> Flow:
    """S -> V with a feedback loop -> K."""
    return Flow((Source("S", records),), (v, _K), (*_EDGES, *more), ("K",), records[-1][0], LAST_ROUND)


LOOP: Final = flow(Node("V", remember))
ONE_EPOCH: Final = flow(Node("V", remember), records=((1, "a"),))
VERSIONS: Final = flow(Node("V", partial(versioned, remember), project=upto))
AHEAD: Final = flow(Node("V", send_ahead), _AHEAD)
AHEAD_VERSIONS: Final = flow(Node("V", partial(versioned, send_ahead), project=upto), _AHEAD)
WINDOW: Final = flow(Node("V", open_window, close_window, notified_by_snapshot=True))
WINDOW_NOTIFIED: Final = flow(Node("V", open_window, close_window))
WINDOW_VERSIONS: Final = flow(
    Node("V", partial(versioned, open_window), partial(versioned, close_window), project=upto)
)
OWING: Final = flow(Node("V", owe, pay, notified_by_snapshot=True))
OWING_NOTIFIED: Final = flow(Node("V", owe, pay))


# A flow of another shape: two sources, and a loop through two nodes.


def forth(log: Value, time: Time, value: Value) -> Effects:
    """Send round the loop, then send on everything seen so far."""
    seen = (*log, (*time, value))
    return Effects(seen, (("forth", value) if time[1] < LAST_ROUND else ("out", seen),))


def back(log: Value, time: Time, value: Value) -> Effects:
    """Send back with the number of what came before, so that the order shows."""
    return Effects((*log, (*time, value)), (("again", f"{value}{len(log)}"),))


def loop_of_two(v: Node, w: Node) -> Flow:
    """S and T -> V -> W -> V again, and V -> K; T has records in the first epoch only."""
    edges = (
        Edge("left", "S", "V"),
        Edge("right", "T", "V"),
        Edge("forth", "V", "W"),
        Edge("again", "W", "V", rounds=1),
        Edge("out", "V", "K", leaves=True),
    )
    sources = (Source("S", ((1, "a"), (2, "b"))), Source("T", ((1, "c"),)))
    return Flow(sources, (v, w, _K), edges, ("K",), 2, LAST_ROUND)


LOOP_OF_TWO: Final = loop_of_two(Node("V", forth), Node("W", back))
LOOP_OF_TWO_VERSIONS: Final = loop_of_two(
    Node("V", partial(versioned, forth), project=upto), Node("W", partial(versioned, back), project=upto)
)
