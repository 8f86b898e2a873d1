"""Recoveries that are broken on purpose: each function is one switch, and each breaks one condition.

The conditions are those under which snapshots at closed epochs are failure transparent (Veresov et al. 2024,
with cycles): an operator has no work of the epoch left, has seen nothing of later epochs, saves what it left
for them; all commit together, or none; recovery restarts everything, sources included. ``MUTANTS`` says for
each which flow shows it and which judge must object. ``sound_flows`` are the flows that must survive.
"""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, ClassVar, NamedTuple

import pyarrow as pa
import pytest

import pointstamp as ps
from pointstamp.journal.history import SnapshotChain, Ticked
from pointstamp.journal.ledger import Ledger
from pointstamp.progress.pointstamp import WorkerIndex
from pointstamp.query.coordinator import Coordinator
from pointstamp.query.member import Member
from pointstamp.query.recovery import Beginning
from pointstamp.simulate.case import prepared
from pointstamp.simulate.crash.crew import Life
from pointstamp.simulate.crash.seeds import CrashSimulator
from pointstamp.simulate.crash.world import CrashWorld
from pointstamp.simulate.world import DELAYS_MAX, PACES, one_of
from pointstamp.state import saved
from pointstamp.topology.domain import Time
from pointstamp.topology.ports import Location, OperatorIndex
from pointstamp.worker import snapshots
from pointstamp.worker.instance import Instance
from pointstamp.worker.protocols import DataMessage
from pointstamp.worker.snapshots import Awaited, Held, InstanceSnapshot, Snapshots, WorkerSnapshot, _Target
from support.recoverables import FLOWS, rows_of

WORKERS_MAX = 4
Patch = pytest.MonkeyPatch
Frontier = Callable[[Location], Sequence[Time]]


class Windows:
    """Holds a capability for the next epoch, and sends then what the key had in this one."""

    outputs = "k long, n long"
    state: ClassVar = {"sums": saved.mapping("long", dict[int, int])}

    def __init__(self) -> None:
        self.sums: dict[int, dict[int, int]] = {}
        self.held: dict[int, ps.timely.Capability] = {}

    def on_receive(self, context: ps.ports.Context, input: str, batch: pa.RecordBatch) -> None:  # noqa: A002
        following = context.epoch + 1
        if following not in self.held:
            self.held[following] = context.retain(at=(following,))
        for row in batch.to_pylist():
            sums = self.sums.setdefault(row["k"], {})
            sums[following] = sums.get(following, 0) + row["v"]

    def on_frontier(self, context: ps.ports.Context) -> None:
        for epoch in sorted(self.held):
            if context.is_complete((epoch,)):
                found = [(k, sums.pop(epoch)) for k, sums in sorted(self.sums.items()) if epoch in sums]
                self.sums = {k: sums for k, sums in self.sums.items() if sums}
                with context.session(self.held.pop(epoch)) as session:
                    session.send([{"k": k, "n": n} for k, n in found])

    def on_restore(self, context: ps.ports.Context) -> None:
        # What was not saved cannot be taken back; the flow itself is innocent of that.
        self.held = {capability.time[0]: capability for capability in context.regained()}


def windows() -> ps.Dataflow:
    """A window for each key, whatever the number of workers."""
    flow = ps.Dataflow("windows")
    numbers = flow.stream_input("numbers", "k long, v long")
    flow.output("out", ps.operator("windows", Windows(), numbers=numbers.exchange("k")))
    return flow


def sound_flows() -> dict[str, Callable[[], ps.Dataflow]]:
    """Flows whose output depends on the ticks alone: not on the schedule, nor on the number of workers."""
    wanted = ("running", "delayed", "carried", "reminders", "components", "uneven", "joined", "walked")
    return {**{name: FLOWS[name] for name in wanted}, "windows": windows}


def simulator_of(flow: ps.Dataflow, epochs: int = 6) -> CrashSimulator:
    """A flow with a few rows in each epoch, ready for any world with crashes."""
    data = rows_of(flow, epochs, seed=1)
    inputs = {name: [rows[name] for rows in data] for name in data[0]}
    return CrashSimulator(flow.plan, prepared(flow.plan, inputs))


class Forgetful:
    """Counts what it has seen of each key over all epochs, and declares no state."""

    outputs = "k long, n long"

    def __init__(self) -> None:
        self.seen: dict[int, int] = {}
        self.arrived: dict[int, list[int]] = {}

    def on_receive(self, context: ps.ports.Context, input: str, batch: pa.RecordBatch) -> None:  # noqa: A002
        self.arrived.setdefault(context.epoch, []).extend(batch.column("k").to_pylist())
        context.notify_at()

    def on_notify(self, context: ps.ports.Context) -> None:
        keys = self.arrived.pop(context.epoch)
        for k in keys:
            self.seen[k] = self.seen.get(k, 0) + 1
        context.send([{"k": k, "n": self.seen[k]} for k in sorted(set(keys))])


def forgetful() -> ps.Dataflow:
    """A flow that works until something crashes."""
    flow = ps.Dataflow("forgetful")
    numbers = flow.stream_input("numbers", "k long, v long")
    flow.output("out", ps.operator("tally", Forgetful(), numbers=numbers.exchange("k")))
    return flow


# C2, hold-back: an operator sees nothing of later epochs before its snapshot.


def nothing_is_held_back(patch: Patch) -> None:
    def put(self: Instance, port: int, time: Time, batch: pa.RecordBatch) -> bool:
        self.inbox.put(port, time, batch)
        return True

    patch.setattr(Instance, "put", put)


# C1 by the frontier: no round of the epoch is left, not only its first.


def only_the_first_round_is_waited_for(patch: Patch) -> None:
    def is_past(instance: Instance, epoch: int, frontier: Frontier) -> bool:
        for port in instance.inputs:
            first = (epoch, *(0,) * port.domain.rounds)
            if any(port.domain.less_equal(time, first) for time in frontier(port.location)):
                return False
        return not any(time[0] <= epoch for output in instance.outputs for time in output.held)

    patch.setattr(snapshots, "_is_past", is_past)


# C3, the residue: messages sent ahead, capabilities that are held, notifications that are awaited.


def _saved_without(patch: Patch, **nothing: tuple[()]) -> None:
    take = Snapshots._take

    def take_less(self: Snapshots, instance: Instance, target: _Target) -> None:
        take(self, instance, target)
        taken = self._taken[target.epoch]
        place = snapshots.place_of(instance.node)
        whole: InstanceSnapshot = taken[place]
        taken[place] = replace(whole, **nothing)  # type: ignore[arg-type]

    patch.setattr(Snapshots, "_take", take_less)


def what_was_sent_ahead_is_not_saved(patch: Patch) -> None:
    _saved_without(patch, ahead=())


def held_capabilities_are_not_saved(patch: Patch) -> None:
    _saved_without(patch, held=())


def awaited_notifications_are_not_saved(patch: Patch) -> None:
    _saved_without(patch, awaited=())


# C1, own work: what an operator holds or awaits of the epoch is not done yet.


def own_work_is_not_waited_for(patch: Patch) -> None:
    def is_past(instance: Instance, epoch: int, frontier: Frontier) -> bool:
        return not any(time[0] <= epoch for port in instance.inputs for time in frontier(port.location))

    def held_by(instance: Instance) -> tuple[list[Held], list[Awaited]]:
        held, awaited = whole(instance)
        at = instance.snapped
        return [each for each in held if each.time[0] > at], [each for each in awaited if each.time[0] > at]

    def look_at_once(self: Snapshots, frontier: Frontier, busy: set[OperatorIndex]) -> list[Instance]:
        return look(self, frontier, set())

    whole, look = snapshots._held_by, Snapshots.look
    patch.setattr(Snapshots, "look", look_at_once)
    patch.setattr(snapshots, "_is_past", is_past)
    patch.setattr(snapshots, "_held_by", held_by)


def a_snapshot_is_taken_while_a_capability_is_held(patch: Patch) -> None:
    """All that is held is saved, also what is of the epoch itself: no row is ever lost by it."""

    def is_past(instance: Instance, epoch: int, frontier: Frontier) -> bool:
        for port in instance.inputs:
            if any(time[0] <= epoch for time in frontier(port.location)):
                return False
        return not any(time[0] <= epoch for time in instance.authority.notifications.pending())

    patch.setattr(snapshots, "_is_past", is_past)


# C5, recovery is global: channels are emptied, inputs go back, output waits for the commit.


class ChannelsKept(CrashWorld):
    """A world whose mesh brings messages of a dead generation to the next one."""

    def carry_over(self, before: Life | None, after: Life) -> None:
        if before is None:
            return
        for receiver, queues in enumerate(before.crew.network._queues):
            for sender, queue in enumerate(queues):
                for _, message in queue:
                    if isinstance(message, DataMessage):
                        after.crew.network.send(WorkerIndex(sender), WorkerIndex(receiver), message)


def channels_are_kept(patch: Patch) -> None:
    patch.setattr(CrashSimulator, "world", ChannelsKept)


def the_input_does_not_go_back(patch: Patch) -> None:
    def ticks_after(self: Ledger, chain: SnapshotChain | None) -> list[Ticked]:
        return [self.ticks[-1]] if self.ticks and self.ticks[-1].final else []

    patch.setattr(Ledger, "ticks_after", ticks_after)


def a_new_generation_forgets_which_ticks_are_settled(patch: Patch) -> None:
    patch.setattr(Coordinator, "_settled", lambda self, saves: min(each.settled for each in saves))


def a_tick_is_settled_when_one_member_says_so(patch: Patch) -> None:
    patch.setattr(Coordinator, "_settled", lambda self, saves: max(each.settled for each in saves))


def ticks_are_settled_with_the_epoch_that_they_complete(patch: Patch) -> None:
    """Whatever rows of later epochs they have."""
    save = Member._save

    def save_early(self: Member, snapshot: WorkerSnapshot) -> None:
        self._last_epochs = deque((number, min(last, snapshot.epoch)) for number, last in self._last_epochs)
        save(self, snapshot)

    patch.setattr(Member, "_save", save_early)


def output_does_not_wait_for_the_commit(patch: Patch) -> None:
    deliver = Member._deliver

    def deliver_at_once(self: Member, output: str, time: Time, batches: list[pa.RecordBatch]) -> None:
        sink: Any = self.mission.sink
        sink.visible.setdefault((output, time), []).extend(batches)
        deliver(self, output, time, [])

    patch.setattr(Member, "_deliver", deliver_at_once)


# Hold-back by stashing: a channel that blocks instead keeps back what a loop waits for.


def early_messages_block_those_behind_them(patch: Patch) -> None:
    put = Instance.put

    def put_behind(self: Instance, port: int, time: Time, batch: pa.RecordBatch) -> bool:
        if self._stash and self.limit is not None:
            self._stash.put(port, time, batch)
            return False
        return put(self, port, time, batch)

    patch.setattr(Instance, "put", put_behind)


class Mutant(NamedTuple):
    """A switch, a flow that shows it, and the judge that must object, by this property if one is named."""

    switch: Callable[[Patch], None]
    flow: str
    judge: str
    property: str = ""


MUTANTS = (
    Mutant(nothing_is_held_back, "reminders", "explained"),
    Mutant(nothing_is_held_back, "windows", "published"),
    Mutant(nothing_is_held_back, "reminders", "conformance", "SnapshotHeldBack"),
    Mutant(only_the_first_round_is_waited_for, "components", "explained"),
    Mutant(only_the_first_round_is_waited_for, "components", "conformance", "SnapshotNothingArrives"),
    Mutant(what_was_sent_ahead_is_not_saved, "delayed", "explained"),
    Mutant(what_was_sent_ahead_is_not_saved, "carried", "published"),
    Mutant(held_capabilities_are_not_saved, "windows", "explained"),
    Mutant(held_capabilities_are_not_saved, "windows", "published"),
    Mutant(awaited_notifications_are_not_saved, "reminders", "explained"),
    Mutant(channels_are_kept, "running", "conformance"),
    Mutant(channels_are_kept, "running", "published"),
    Mutant(the_input_does_not_go_back, "running", "published"),
    Mutant(a_new_generation_forgets_which_ticks_are_settled, "running", "failed"),
    Mutant(a_tick_is_settled_when_one_member_says_so, "running", "published"),
    Mutant(ticks_are_settled_with_the_epoch_that_they_complete, "running", "published"),
    Mutant(a_snapshot_is_taken_while_a_capability_is_held, "windows", "conformance", "SnapshotOwnWorkDone"),
    Mutant(own_work_is_not_waited_for, "windows", "failed"),
    Mutant(own_work_is_not_waited_for, "reminders", "published"),
    Mutant(output_does_not_wait_for_the_commit, "running", "published"),
    Mutant(early_messages_block_those_behind_them, "components", "failed"),
)


class OfBefore(CrashWorld):
    """A world without epoch columns, savepoints and failures of power, as seeds made it before."""

    has_features = False


class Rescaled(CrashWorld):
    """A world in which each generation has a number of workers of its own."""

    def __init__(self, *given: Any, **named: Any) -> None:  # noqa: ANN401 - as the world takes it
        super().__init__(*given, **named)
        self.makeup = replace(
            self.makeup,
            paces=[one_of(self.choices, PACES) for _ in range(WORKERS_MAX)],
            delays_max=[[one_of(self.choices, DELAYS_MAX)] * WORKERS_MAX for _ in range(WORKERS_MAX)],
        )

    def _take_over(self) -> None:
        self.spec = replace(self.spec, workers=1 + self.choices.choose(WORKERS_MAX))
        super()._take_over()

    def _live(self, begun: Beginning) -> None:
        # Another driver may have taken over, with other workers, while this one slept.
        self.spec = replace(self.spec, workers=begun.mission.workers)
        super()._live(begun)
