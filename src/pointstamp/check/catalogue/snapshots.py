"""Snapshots of cyclic dataflow before the judge: flows, published counts, broken variants, explanations.

Every flow is a source S, a node V with a loop, and a sink K; two epochs with one record each, and one turn of
the loop. V remembers everything in the order in which it came and sends that on, so whatever it sees too
early, twice or never shows in the output.

Published are 270 configurations for hold-back with one failure, 275 for the window with H saved, and 2,405 for
messages sent ahead with L saved. The first two are reached exactly; they fix the conventions: a source
snapshots by leaving an epoch, a held-back message stays in its inbox, K keeps versions, the window fires in
the step that snapshots its epoch, each of the three may fail, and the failures still allowed are part of the
state (so every count is 5 times that without failures: 54 and 55). The flow of the third is not described,
and under these conventions no flow that sends ahead was found with 481 configurations without failures: ours,
in which every record of epoch 1 sends a second one around in epoch 2, has 190. So no count is claimed for it.

Every mutant overrides one method. The failure-free runs against which Explain compares are always those of
the published rules, so a mutant cannot bend its own specification.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Final

from pointstamp.check.catalogue.entry import Check, Entry, Instance, Mutant, Outcome
from pointstamp.check.explorer import DEADLOCK, explore
from pointstamp.check.transparency import (
    Execution,
    every_execution,
    first_unexplained,
    random_executions,
    side_by_side,
)
from pointstamp.spec.snapshot_flows import (
    Edge,
    Effects,
    Epoch,
    Flow,
    Locations,
    Node,
    NodeIndex,
    Source,
    Time,
    Value,
)
from pointstamp.spec.snapshot_rules import RECOVER, Configuration, Held, Inbox, Sent
from pointstamp.spec.snapshots import EpochSnapshots

LAST_ROUND: Final = 1


# What nodes do. Their states are logs whose entries begin with an epoch, so that a log has versions.


def upto(log: Value, epoch: Epoch) -> Value:
    """pi_e of a log: its entries of epochs up to e, in the order in which they came."""
    return tuple(entry for entry in log if entry[0] <= epoch)


def collect(log: Value, time: Time, value: Value) -> Effects:
    """A sink keeps what came, epoch by epoch."""
    return Effects(tuple(sorted((*log, (time[0], value)), key=lambda entry: entry[0])))


def remember(log: Value, time: Time, value: Value) -> Effects:
    """Go round the loop, then send on everything seen so far, in the order in which it came."""
    seen = (*log, (*time, value))
    return Effects(seen, (("again", value) if time[1] < LAST_ROUND else ("out", seen),))


def send_ahead(log: Value, time: Time, value: Value) -> Effects:
    """As remember, and what enters the loop sends a message into the next epoch."""
    effects = remember(log, time, value)
    ahead = (("ahead", value + "'"),) if time[1] == 0 else ()
    return effects._replace(sends=effects.sends + ahead)


def open_window(log: Value, time: Time, value: Value) -> Effects:
    """As remember, and what enters the loop opens a window that closes with the next epoch."""
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
ONE_EPOCH: Final = flow(Node("V", remember), records=((1, "a"), (1, "b")))
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


# Broken variants.


class EagerWithoutVersions(EpochSnapshots):
    """M7.1: nodes that cannot tell epochs apart take events of later epochs before their snapshot."""

    def may_execute(self, c: Configuration, v: NodeIndex, time: Time) -> bool:
        """Nothing is held back."""
        return True


class OnlyFirstRoundTested(EpochSnapshots):
    """M7.2: an epoch counts as complete when its first round is; in the product order (e, 1) is beside (e, 0)."""

    def frontier_passed(self, clock: Locations, v: NodeIndex, epoch: Epoch) -> bool:
        """``not frontier.less_equal((e, 0))``."""
        return not clock & self.flow.location(v, [(epoch, 0)])


class AheadNotSaved(EpochSnapshots):
    """M7.3: messages sent into later epochs are not stored."""

    def saved_ahead(self, c: Configuration, v: NodeIndex, epoch: Epoch) -> tuple[Sent, ...]:
        """L is forgotten."""
        return ()


class HeldNotSaved(EpochSnapshots):
    """M7.4: capabilities held for later epochs, the pending notifications, are not stored."""

    def saved_held(self, c: Configuration, v: NodeIndex, epoch: Epoch) -> Held:
        """H is forgotten."""
        return ()


class HeldNowSaved(EpochSnapshots):
    """H is read from what the node holds at the moment of the snapshot, as the published text has it.

    Under hold-back this changes nothing. With versions, a notification of a later epoch that was served
    before the snapshot is lost: its request belongs to the snapshot, its service does not.
    """

    def saved_held(self, c: Configuration, v: NodeIndex, epoch: Epoch) -> Held:
        """What is still held for later epochs."""
        return tuple((time, made) for time, made in c.held[v] if made <= epoch < time[0])


class ChannelsKept(EpochSnapshots):
    """M7.5: messages in flight survive the recovery."""

    def restored_inboxes(self, c: Configuration, epoch: Epoch) -> tuple[Inbox, ...]:
        """Everything that was under way stays under way."""
        restored = super().restored_inboxes(c, epoch)
        return tuple(old + new for old, new in zip(c.inboxes, restored, strict=True))


class OffsetKept(EpochSnapshots):
    """M7.6: a source goes on where it was."""

    def restored_offset(self, c: Configuration, v: NodeIndex, epoch: Epoch) -> int:
        """Nothing is read again."""
        offset: int = c.states[v]
        return offset


class OwedWorkNotCounted(EpochSnapshots):
    """M7.7: what a node still owes does not hold back the frontiers behind it."""

    def capabilities(self, c: Configuration) -> Iterator[tuple[NodeIndex, Time]]:
        """Only those of sources."""
        for v, time in super().capabilities(c):
            if isinstance(self.parts[v], Source):
                yield v, time


class OwnWorkIgnored(EpochSnapshots):
    """M7.7 at the node itself: it snapshots an epoch for which a notification is still pending."""

    def own_work_done(self, c: Configuration, v: NodeIndex, epoch: Epoch) -> bool:
        """Nobody asks."""
        return True


class HeadBlocks(EpochSnapshots):
    """M7.8: hold-back by blocking: what waits behind a held-back message waits too."""

    def deliverable(self, inbox: Inbox) -> list[int]:
        """Only the first message."""
        return [0] if inbox else []


class SinkCommitsAlone(EpochSnapshots):
    """C5 dropped: output is shown when the sink has saved its epoch, without waiting for all others."""

    def observe(self, state: Configuration) -> tuple[tuple[Epoch, str, Value], ...]:
        """What the least advanced sink has saved."""
        saved = [len(state.archives[self.flow.index_of[name]]) - 1 for name in self.flow.sinks]
        return self.output(state, min(saved))


# Explanations of whole executions.


def _recoveries(model: EpochSnapshots) -> Iterator[Execution[Configuration]]:
    """For every recovery that can happen at all, a shortest execution that ends with it."""
    found = explore(model, properties=[], keep_edges=True)
    for edge in found.edges:
        if edge.label[0] == RECOVER:
            yield [*found.trace_to(edge.origin), (edge.label, found.state(edge.target))]


def _outcome(model: EpochSnapshots, executions: Iterator[Execution[Configuration]]) -> Outcome:
    explained, unexplained = first_unexplained(model, executions)
    if unexplained is None:
        return Outcome(True, explained, f"{explained} executions have a failure-free explanation")
    return Outcome(False, explained + 1, side_by_side(model, unexplained))


def explain_every(flow: Flow, failures: int) -> Outcome:
    """Every execution of the flow has a failure-free explanation."""
    model = EpochSnapshots(flow, failures=failures)
    return _outcome(model, every_execution(model))


def explain_recoveries(flow: Flow, failures: int) -> Outcome:
    """Every reachable recovery has a failure-free explanation."""
    model = EpochSnapshots(flow, failures=failures)
    return _outcome(model, _recoveries(model))


def explain_random(flow: Flow, failures: int, number: int) -> Outcome:
    """Random executions of the flow have failure-free explanations."""
    model = EpochSnapshots(flow, failures=failures)
    return _outcome(model, random_executions(model, seed=number, number=number))


def _model(flow: Flow, failures: int) -> partial[EpochSnapshots]:
    return partial(EpochSnapshots, flow, failures=failures)


def _instance(
    name: str, flow: Flow, failures: int, states: int | None = None, transitions: int | None = None
) -> Instance:
    counted = f"{name}, {failures} failure{'s' * (failures != 1)}"
    return Instance(counted, _model(flow, failures), states=states, transitions=transitions, liveness=True)


ENTRY: Final = Entry(
    name="snapshots",
    title="Frontier-triggered epoch snapshots of cyclic dataflow (Abadi & Isard 2015, Veresov et al. 2024)",
    instances=(
        _instance("hold-back", LOOP, 0),
        _instance("hold-back", LOOP, 1, states=270),
        _instance("hold-back", LOOP, 2),
        _instance("versions", VERSIONS, 1),
        _instance("versions", VERSIONS, 2),
        # M7.3', of which another flow is published with 2,405 configurations.
        _instance("sent ahead, L saved", AHEAD, 1),
        _instance("sent ahead, L saved, versions", AHEAD_VERSIONS, 1),
        # M7.4'.
        _instance("window, H saved", WINDOW, 1, states=275),
        _instance("window, H saved, notified apart", WINDOW_NOTIFIED, 1),
        _instance("window, H saved, versions", WINDOW_VERSIONS, 1),
        _instance("output at the end of an epoch", OWING, 1),
        _instance("output at the end of an epoch, notified apart", OWING_NOTIFIED, 1),
    ),
    mutants=(
        Mutant("M7.1", "eager without versions", partial(EagerWithoutVersions, LOOP, failures=0), "Explain"),
        Mutant("M7.2", "only round 0 tested", partial(OnlyFirstRoundTested, LOOP, failures=0), DEADLOCK),
        Mutant(
            "M7.2 with versions",
            "only round 0 tested",
            partial(OnlyFirstRoundTested, VERSIONS, failures=1),
            "Explain",
        ),
        Mutant("M7.3", "L not saved", partial(AheadNotSaved, AHEAD, failures=1), "Explain"),
        Mutant("M7.4", "H not saved", partial(HeldNotSaved, WINDOW, failures=1), "Explain"),
        Mutant(
            "M7.4 under hold-back",
            "H is what is still held",
            partial(HeldNowSaved, WINDOW_NOTIFIED, failures=1),
            None,
            same_as="window, H saved, notified apart, 1 failure",
        ),
        Mutant(
            "M7.4 with versions",
            "H is what is still held",
            partial(HeldNowSaved, WINDOW_VERSIONS, failures=1),
            "Explain",
        ),
        Mutant("M7.5", "channels kept", partial(ChannelsKept, LOOP, failures=1), "Explain"),
        Mutant("M7.6", "input offset not reset", partial(OffsetKept, LOOP, failures=1), "Explain"),
        Mutant("M7.7", "owed work not counted", partial(OwedWorkNotCounted, OWING, failures=0), "CommitOnly"),
        Mutant(
            "M7.7 at the node",
            "own work ignored",
            partial(OwnWorkIgnored, OWING_NOTIFIED, failures=0),
            DEADLOCK,
        ),
        Mutant("M7.8", "head of channel blocks", partial(HeadBlocks, LOOP, failures=0), DEADLOCK),
        Mutant("C5", "sink commits alone", partial(SinkCommitsAlone, LOOP, failures=1), "OutMono"),
    ),
    checks=(
        Check("explained: every execution of one epoch, 1 failure", partial(explain_every, ONE_EPOCH, 1)),
        Check("explained: every recovery, hold-back, 2 failures", partial(explain_recoveries, LOOP, 2)),
        Check("explained: every recovery, versions, 2 failures", partial(explain_recoveries, VERSIONS, 2)),
        Check("explained: every recovery, L saved, 2 failures", partial(explain_recoveries, AHEAD, 2)),
        Check("explained: every recovery, H saved, 2 failures", partial(explain_recoveries, WINDOW, 2)),
        Check(
            "explained: every recovery, H saved, versions, 2 failures",
            partial(explain_recoveries, WINDOW_VERSIONS, 2),
        ),
        Check(
            "explained: random executions, L saved, versions, 3 failures",
            partial(explain_random, AHEAD_VERSIONS, 3, 500),
        ),
    ),
)
