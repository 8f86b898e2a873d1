"""The rules of frontier-triggered epoch snapshots: events, snapshots, failures and recovery on any flow.

A flow of Abadi & Isard 2015 runs under their abstract Clock. Node v *snapshots* epoch e when no message of
an epoch <= e can reach it any more and it holds no capability of one (C1). What is stored for e has not been
influenced by later epochs (C2): either v takes no event of a later epoch before it has snapshotted e, which
is *hold-back* (D1), or it keeps *versions* and stores the projection pi_e of its state (D1'). A node with a
projection does the second. Stored with the state is what events of epochs <= e left for later ones (C3): the
capabilities they made (H, pending notifications) and the messages they sent ahead (L). Both are read from
logs: with versions, events of later epochs may have used them up before the snapshot is taken.

After a failure, which may hit any source or node at any time, everything restarts from gce, the newest epoch
that all have snapshotted (C5). Progress information is not stored: Clock is a function of what is restored.
Dropping all older messages at recovery stands for a generation number on each of them.

A source has snapshotted an epoch by the step in which it leaves it. A held-back message stays in the inbox
and lets later ones of its receiver's epoch pass, which is what a separate stash would come to. A failed node
takes no step, but what it held still counts, because no worker retracts it.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, ClassVar, Final, NamedTuple, TypeAlias, TypeVar

from pointstamp_models.spec.model import Label, Model
from pointstamp_models.spec.snapshot_flows import (
    Effects,
    Epoch,
    Flow,
    Locations,
    Node,
    NodeIndex,
    Source,
    Time,
    Value,
    less_equal,
)

EMIT: Final = "emit"
ADVANCE: Final = "advance"
TAKE: Final = "take"
NOTIFY: Final = "notify"
SNAP: Final = "snap"
FAIL: Final = "FAIL"
RECOVER: Final = "RECOVER"

Held: TypeAlias = tuple[tuple[Time, Epoch], ...]
"""Capabilities, each with the epoch of the event that made it; sorted."""
Inbox: TypeAlias = tuple[tuple[Time, Value], ...]
Sent: TypeAlias = tuple[Time, Epoch, NodeIndex, Value]
"""A message sent ahead: its time, the epoch of the event that sent it, its receiver, its value."""
Saved: TypeAlias = tuple[Value, Held, tuple[Sent, ...]]
"""The stored data of one epoch: the state, H and L."""
Logged = TypeVar("Logged", bound=tuple[Any, ...])


class Configuration(NamedTuple):
    """The mutable state of a run, one entry for each source and node.

    The state of a source is the number of records it has emitted. ``archives[v][e]`` is what v stored for
    epoch e; epoch 0 is the beginning, so v has snapshotted all epochs below ``len(archives[v])``. ``asked``
    and ``ahead`` log what events asked for and sent beyond their epoch, until no snapshot can need it.
    """

    states: tuple[Value, ...]
    held: tuple[Held, ...]
    inboxes: tuple[Inbox, ...]
    asked: tuple[Held, ...]
    ahead: tuple[tuple[Sent, ...], ...]
    archives: tuple[tuple[Saved, ...], ...]
    failed: tuple[NodeIndex, ...]
    failures_left: int


class SnapshotRules(Model[Configuration]):
    """The rules; each condition and each part of a restored configuration is a method of its own."""

    name: ClassVar[str] = "snapshots"
    state_type: ClassVar[type[Any]] = Configuration

    def __init__(self, flow: Flow, *, failures: int) -> None:
        self.flow = flow
        self.failures = failures
        self.parts = flow.parts
        self._of_capability, self._of_message = flow.could_result_in
        self._epoch_at: dict[tuple[NodeIndex, Epoch], Locations] = {
            (v, epoch): flow.location(v, [time for time in flow.times if time[0] <= epoch])
            for v in range(len(self.parts))
            for epoch in range(1, flow.epochs_max + 1)
        }

    def initial(self) -> Iterable[Configuration]:
        """Sources may emit in epoch 1; nothing else has happened."""
        saved: list[Saved] = [
            (0, (((1, 0), 0),), ()) if isinstance(part, Source) else (part.initial, (), ())
            for part in self.parts
        ]
        empty = ((),) * len(saved)
        yield Configuration(
            states=tuple(state for state, _, _ in saved),
            held=tuple(held for _, held, _ in saved),
            inboxes=empty,
            asked=empty,
            ahead=empty,
            archives=tuple((part,) for part in saved),
            failed=(),
            failures_left=self.failures,
        )

    def steps(self, state: Configuration) -> Iterator[tuple[Label, Configuration]]:
        """The events and snapshots of what has not failed, a failure, and the recovery of all."""
        clock = self.clock(state)
        for v, part in enumerate(self.parts):
            if v in state.failed:
                continue
            if isinstance(part, Source):
                yield from self._source_steps(state, v, part)
            else:
                yield from self._node_events(state, v, part, clock)
                yield from self._snapshots(state, v, part, clock)
        if state.failures_left:
            for v, part in enumerate(self.parts):
                failed = tuple(sorted({*state.failed, v}))
                yield (FAIL, part.name), state._replace(failed=failed, failures_left=state.failures_left - 1)
        if state.failed:
            epoch = self.gce(state)
            yield (RECOVER, epoch), self.restore(state, epoch)

    # Events.

    def _source_steps(
        self, c: Configuration, v: NodeIndex, source: Source
    ) -> Iterator[tuple[Label, Configuration]]:
        """Emit the next record of this epoch, or leave the epoch when it has none left."""
        for time, _ in c.held[v]:
            emitted = c.states[v]
            if emitted < len(source.records) and source.records[emitted][0] == time[0]:
                value = source.records[emitted][1]
                sends = tuple((edge.name, value) for edge in self.flow.edges if edge.origin == source.name)
                after = self._after_event(c, v, time, c.held[v], Effects(emitted + 1, sends))
                yield (EMIT, source.name, time, value), after
            else:
                yield (ADVANCE, source.name, time), self._advanced(c, v, time[0])

    def _advanced(self, c: Configuration, v: NodeIndex, epoch: Epoch) -> Configuration:
        """The source holds the least time of the next epoch, if there is one, and has saved this one."""
        held: Held = (((epoch + 1, 0), epoch),) if epoch < self.flow.epochs_max else ()
        archive = (*c.archives[v], (c.states[v], held, self.saved_ahead(c, v, epoch)))
        return c._replace(
            held=_replaced(c.held, v, held),
            ahead=_replaced(c.ahead, v, beyond(c.ahead[v], epoch + 1)),
            archives=_replaced(c.archives, v, archive),
        )

    def _node_events(
        self, c: Configuration, v: NodeIndex, node: Node, clock: Locations
    ) -> Iterator[tuple[Label, Configuration]]:
        """Mess and Not of the paper, for what the node does not hold back."""
        inbox = c.inboxes[v]
        for place in self.deliverable(inbox):
            time, value = inbox[place]
            if self.may_execute(c, v, time):
                taken = c._replace(inboxes=_replaced(c.inboxes, v, inbox[:place] + inbox[place + 1 :]))
                effects = node.on_message(c.states[v], time, value)
                yield (TAKE, node.name, time, value), self._after_event(taken, v, time, c.held[v], effects)
        if not node.notified_by_snapshot:
            for time in sorted({time for time, _ in c.held[v]}):
                if self.may_execute(c, v, time) and not clock & self.flow.location(v, [time]):
                    yield (NOTIFY, node.name, time), self._notified(c, v, node, time)

    def _notified(self, c: Configuration, v: NodeIndex, node: Node, time: Time) -> Configuration:
        assert node.on_notify is not None, f"{node.name} asked for a notification that it does not know of"
        kept = tuple(entry for entry in c.held[v] if entry[0] != time)
        return self._after_event(c, v, time, kept, node.on_notify(c.states[v], time))

    def _after_event(
        self, c: Configuration, v: NodeIndex, time: Time, held: Held, effects: Effects
    ) -> Configuration:
        """Put sent messages in flight, hold requested times, and log messages for later epochs."""
        inboxes = list(c.inboxes)
        ahead = list(c.ahead[v])
        for edge, value in effects.sends:
            for target, arrival in self.flow.arrivals(v, time, edge):
                inboxes[target] = (*inboxes[target], (arrival, value))
                ahead.append((arrival, time[0], target, value))
        requests = {(request, time[0]) for request in effects.requests if request[0] <= self.flow.epochs_max}
        snapshot_next = len(c.archives[v])
        return c._replace(
            states=_replaced(c.states, v, effects.state),
            held=_replaced(c.held, v, tuple(sorted({*held, *requests}))),
            inboxes=tuple(inboxes),
            asked=_replaced(c.asked, v, beyond(sorted({*c.asked[v], *requests}), snapshot_next)),
            ahead=_replaced(c.ahead, v, beyond(ahead, snapshot_next)),
        )

    def deliverable(self, inbox: Inbox) -> list[int]:
        """The places of messages that may be received: one overtakes only what is not before it in time.

        This is the variant of Mess with reordering. It is needed: a message of an earlier epoch must not
        have to wait behind one of a later epoch.
        """
        return [
            place
            for place, (time, _) in enumerate(inbox)
            if not any(less_equal(earlier, time) for earlier, _ in inbox[:place])
        ]

    def may_execute(self, c: Configuration, v: NodeIndex, time: Time) -> bool:
        """C2: a node without versions takes only events of the epoch that it snapshots next."""
        return self.has_versions(v) or time[0] == len(c.archives[v])

    def has_versions(self, v: NodeIndex) -> bool:
        """Return whether the node can tell the epochs in its state apart."""
        part = self.parts[v]
        return isinstance(part, Node) and part.project is not None

    # Progress.

    def clock(self, c: Configuration) -> Locations:
        """Clock: the inboxes and times that a message in flight or a capability could result in."""
        reached = 0
        for v, time in self.capabilities(c):
            reached |= self._of_capability[v, time]
        for v, inbox in enumerate(c.inboxes):
            for time, _ in inbox:
                reached |= self._of_message[v, time]
        return reached

    def capabilities(self, c: Configuration) -> Iterator[tuple[NodeIndex, Time]]:
        """All that sources hold, and the pending notifications of nodes."""
        for v, held in enumerate(c.held):
            for time, _ in held:
                yield v, time

    def frontier_passed(self, clock: Locations, v: NodeIndex, epoch: Epoch) -> bool:
        """Return whether the input frontier of v has no element of an epoch <= this one."""
        return not clock & self._epoch_at[v, epoch]

    def own_work_done(self, c: Configuration, v: NodeIndex, epoch: Epoch) -> bool:
        """C1: v holds nothing of an epoch <= this one; what it holds back is in its inbox and so in Clock."""
        return all(time[0] > epoch for time, _ in c.held[v])

    # Snapshots.

    def _snapshots(
        self, c: Configuration, v: NodeIndex, node: Node, clock: Locations
    ) -> Iterator[tuple[Label, Configuration]]:
        """Store the next epoch, if it is complete and nothing of it is left to do."""
        epoch = len(c.archives[v])
        if epoch > self.flow.epochs_max or not self.frontier_passed(clock, v, epoch):
            return
        if node.notified_by_snapshot:
            for time in sorted({time for time, _ in c.held[v] if time[0] == epoch}):
                c = self._notified(c, v, node, time)
        if self.own_work_done(c, v, epoch):
            saved = self.saved_state(c, v, epoch), self.saved_held(c, v, epoch), self.saved_ahead(c, v, epoch)
            yield (
                (SNAP, node.name, epoch),
                c._replace(
                    archives=_replaced(c.archives, v, (*c.archives[v], saved)),
                    asked=_replaced(c.asked, v, beyond(c.asked[v], epoch + 1)),
                    ahead=_replaced(c.ahead, v, beyond(c.ahead[v], epoch + 1)),
                ),
            )

    def saved_state(self, c: Configuration, v: NodeIndex, epoch: Epoch) -> Value:
        """pi_e of the state; under hold-back that is the state itself."""
        part = self.parts[v]
        if isinstance(part, Source) or part.project is None:
            return c.states[v]
        return part.project(c.states[v], epoch)

    def saved_held(self, c: Configuration, v: NodeIndex, epoch: Epoch) -> Held:
        """H: what events of epochs <= this one asked for in later epochs.

        Under hold-back v still holds all of it. With versions an event of a later epoch may have used it up
        already, and that event is not part of the snapshot: so H is read from the log, not from ``held``.
        """
        return tuple((time, made) for time, made in c.asked[v] if made <= epoch < time[0])

    def saved_ahead(self, c: Configuration, v: NodeIndex, epoch: Epoch) -> tuple[Sent, ...]:
        """L: what events of epochs <= this one sent into later epochs."""
        return tuple(sent for sent in c.ahead[v] if sent[1] <= epoch < sent[0][0])

    def gce(self, state: Configuration) -> Epoch:
        """The greatest common epoch: the newest one that every source and node has snapshotted (C5)."""
        return min(len(archive) for archive in state.archives) - 1

    # Recovery.

    def restore(self, c: Configuration, epoch: Epoch) -> Configuration:
        """Restore the configuration in which exactly the events of epochs up to this one have happened."""
        saved = [archive[epoch] for archive in c.archives]
        return Configuration(
            states=tuple(
                self.restored_offset(c, v, epoch) if isinstance(self.parts[v], Source) else state
                for v, (state, _, _) in enumerate(saved)
            ),
            held=tuple(held for _, held, _ in saved),
            inboxes=self.restored_inboxes(c, epoch),
            asked=tuple(
                () if isinstance(self.parts[v], Source) else beyond(held, epoch + 1)
                for v, (_, held, _) in enumerate(saved)
            ),
            ahead=tuple(beyond(sent, epoch + 1) for _, _, sent in saved),
            archives=tuple(archive[: epoch + 1] for archive in c.archives),
            failed=(),
            failures_left=c.failures_left,
        )

    def restored_offset(self, c: Configuration, v: NodeIndex, epoch: Epoch) -> int:
        """A source emits again all records after the epoch."""
        offset: int = c.archives[v][epoch][0]
        return offset

    def restored_inboxes(self, c: Configuration, epoch: Epoch) -> tuple[Inbox, ...]:
        """Only what was sent ahead is in flight again.

        The order of one sender's messages is kept; that between two senders is not stored.
        """
        inboxes: list[Inbox] = [()] * len(self.parts)
        for archive in c.archives:
            for time, _, target, value in archive[epoch][2]:
                inboxes[target] = (*inboxes[target], (time, value))
        return tuple(inboxes)


def beyond(log: Sequence[Logged], epoch: Epoch) -> tuple[Logged, ...]:
    """The entries that a snapshot of this epoch or a later one may still store; each has time and maker."""
    return tuple(entry for entry in log if entry[0][0] > max(entry[1], epoch))


def _replaced(entries: tuple[Any, ...], v: NodeIndex, entry: Any) -> tuple[Any, ...]:  # noqa: ANN401 - any entry
    return (*entries[:v], entry, *entries[v + 1 :])
