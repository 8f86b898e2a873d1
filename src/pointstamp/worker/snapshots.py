"""Snapshots of a running worker at closed epochs (Veresov et al. 2024, also for cycles).

The snapshot of epoch e is taken operator by operator, each when it can neither receive nor send anything of
an epoch up to e any more: no time of such an epoch is in the frontier of its inputs, and it holds no
capability and awaits no notification for one. Progress tracking says so out of band, so loops need no
markers: the rounds of an epoch lie below the next epoch.

Until an operator has taken its snapshot it must see nothing of later epochs: messages that come early are
stashed (a channel that blocked instead would deadlock a loop), and the frontiers that it is shown stop short
after e, so that nothing it does up to e can depend on what comes later. What events up to e have left for
later epochs is part of the snapshot: capabilities that are held, notifications that are awaited, messages
that were sent ahead. Progress is not: it is a function of these.

Which epochs are to be snapshotted is announced, in order, before anything beyond them is let in.
"""

import warnings
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, TypeAlias

import pyarrow as pa

from pointstamp.errors import OperatorError, PointstampWarning, RecoveryError
from pointstamp.flow.plan import Node, NodeKind
from pointstamp.operators.capability import Capability, hold
from pointstamp.operators.interface import IsRestored
from pointstamp.optional import conforms
from pointstamp.state.declared import stateful_of
from pointstamp.state.memory_budget import attributes_of
from pointstamp.state.pieces import Piece
from pointstamp.topology.domain import Time
from pointstamp.topology.ports import Location, OperatorIndex
from pointstamp.worker.instance import Instance


class SentAhead(NamedTuple):
    """A batch sent to an input for an epoch beyond the snapshot; ``target`` is the place of its reader."""

    output: int
    target: str
    port: int
    time: Time
    batch: pa.RecordBatch
    sent: int = -1
    """The epoch of the rows of an input. Rows beyond a snapshot are read again, not saved."""


class Held(NamedTuple):
    """A capability: the number of the output and the time."""

    output: int
    time: Time


class Awaited(NamedTuple):
    """A notification that was asked for while something of an input was handled; -1 for none."""

    port: int
    time: Time


@dataclass(frozen=True, slots=True)
class InstanceSnapshot:
    """The state of one operator on one worker after an epoch."""

    pieces: Mapping[str, Piece] = field(default_factory=dict)
    held: Sequence[Held] = ()
    awaited: Sequence[Awaited] = ()
    ahead: Sequence[SentAhead] = ()


@dataclass(frozen=True, slots=True)
class WorkerSnapshot:
    """The state of one worker after an epoch, by operator."""

    epoch: int
    is_whole: bool
    instances: Mapping[str, InstanceSnapshot]


@dataclass(frozen=True, slots=True)
class RestoredInstance:
    """The saved state of one operator that belongs to this worker.

    ``must_regain`` is False where another number of workers saved it: then some capabilities are spare, and
    some notifications are for what another worker has now. ``was_saved`` is False for an operator that was
    not there when the flow was saved, and starts.
    """

    tables: Mapping[str, pa.Table] = field(default_factory=dict)
    held: Sequence[Held] = ()
    awaited: Sequence[Awaited] = ()
    ahead: Sequence[SentAhead] = ()
    must_regain: bool = True
    was_saved: bool = False


@dataclass(frozen=True, slots=True)
class Restored:
    """The saved state that one worker resumes from, by operator."""

    epoch: int
    instances: Mapping[str, RestoredInstance]


OnSnapshot: TypeAlias = Callable[[WorkerSnapshot], None]
OnTaken: TypeAlias = Callable[[OperatorIndex, int], None]


def place_of(node: Node) -> str:
    """Return what an operator's state is saved under and found by: its identity, or else its name."""
    return f"{node.kind.value} {node.identity or node.name}"


class _Target(NamedTuple):
    epoch: int
    is_whole: bool


class Snapshots:
    """Takes the snapshots of one worker's operators; changed by that worker alone."""

    def __init__(
        self,
        instances: Mapping[OperatorIndex, Instance],
        on_snapshot: OnSnapshot,
        *,
        epoch: int = -1,
        on_taken: OnTaken | None = None,
    ) -> None:
        self._instances = instances
        self._on_snapshot = on_snapshot
        self._on_taken = on_taken
        self._stateful = {index: stateful_of(each.logic, each.name) for index, each in instances.items()}
        self._undeclared = {
            index: Undeclared(each.logic, each.name)
            for index, each in instances.items()
            if self._stateful[index] is None
        }
        self._targets: deque[_Target] = deque()
        self._taken: dict[int, dict[str, InstanceSnapshot]] = {}
        self._horizon: int | None = epoch
        for instance in instances.values():
            instance.snapped = epoch
            # An input handles nothing.
            instance.limit = None if instance.node.kind is NodeKind.INPUT else epoch

    def restore(self, instance: Instance, saved: RestoredInstance, epoch: int) -> None:
        """Let a fresh operator resume from what was saved of it, with what it held and awaited."""
        context, authority = instance.context, instance.authority
        least = (epoch + 1, *(0,) * instance.inputs[0].domain.rounds)
        if not saved.was_saved:
            instance.start(least)
            return
        authority.act_for(None, least)
        authority.regained = [hold(instance.outputs[number], time) for number, time in saved.held]
        stateful = self._stateful[instance.index]
        if stateful is not None:
            try:
                instance.call(lambda _: stateful.restore(context, saved.tables), "when it was restored")
            except OperatorError as error:
                raise RecoveryError(_unreadable(error, saved.tables)) from error.__cause__
        if conforms(instance.logic, IsRestored):
            instance.call(instance.logic.on_restore, "when it was restored")
        for number, time in saved.awaited:
            authority.act_for(None if number < 0 else instance.inputs[number], time)
            context.notify_at(time)
        authority.take_away(must_regain=saved.must_regain)

    def is_ahead(self, instance: Instance, time: Time, arrival: Time) -> bool:
        """Whether what is sent now at a time may have to be in a snapshot, because it arrives beyond one.

        What an input sends for later epochs is read again, unless it arrives later than it was sent.
        """
        if instance.node.kind is NodeKind.INPUT:
            return bool(arrival[0] > time[0])
        return instance.limit is not None and bool(arrival[0] > instance.limit)

    def keeps_state(self, index: OperatorIndex) -> bool:
        """Return whether an operator has state that is saved."""
        return self._stateful[index] is not None

    def open_to(self, epoch: int | None) -> list[Instance]:
        """Let epochs in, up to this one, or all; return who has something to do now.

        What was let in stays so: a tick that is read again may end before what is saved.
        """
        assert self._horizon is not None, "everything was let in before"
        self._horizon = None if epoch is None else max(epoch, self._horizon)
        return [each for each in self._instances.values() if self._release(each)]

    def save(self, *, is_whole: bool) -> None:
        """Snapshot the last epoch that was let in, complete or what changed since the one before."""
        assert self._horizon is not None, "a snapshot was asked for after the end"
        assert not self._targets or self._targets[-1].epoch < self._horizon, "an epoch is saved once"
        self._targets.append(_Target(self._horizon, is_whole))

    def look(
        self, frontier: Callable[[Location], Sequence[Time]], busy: set[OperatorIndex]
    ) -> list[Instance]:
        """Take every snapshot that can be taken; return who has something to do because of it."""
        woken: list[Instance] = []
        for target in list(self._targets):
            waiting = [each for each in self._instances.values() if each.snapped < target.epoch]
            for instance in waiting:
                if instance.index not in busy and _is_past(instance, target.epoch, frontier):
                    self._take(instance, target)
                    if self._release(instance):
                        woken.append(instance)
            if any(each.snapped < target.epoch for each in waiting):
                break
            self._targets.popleft()
            self._on_snapshot(WorkerSnapshot(*target, self._taken.pop(target.epoch, {})))
        return woken

    def _take(self, instance: Instance, target: _Target) -> None:
        instance.ahead = [each for each in instance.ahead if each.time[0] > target.epoch]
        ahead = tuple(each for each in instance.ahead if each.sent <= target.epoch)
        stateful = self._stateful[instance.index]
        if stateful is None:
            self._undeclared[instance.index].look()
        pieces = {} if stateful is None else dict(stateful.save(changes_only=not target.is_whole))
        held, awaited = _held_by(instance)
        snapshot = InstanceSnapshot(pieces, held, awaited, ahead)
        self._taken.setdefault(target.epoch, {})[place_of(instance.node)] = snapshot
        instance.snapped = target.epoch
        if self._on_taken is not None:
            self._on_taken(instance.index, target.epoch)

    def _release(self, instance: Instance) -> bool:
        """Let an operator see what it may see now; whether there is anything."""
        if instance.node.kind is NodeKind.INPUT:
            return False
        following = (target.epoch for target in self._targets if target.epoch > instance.snapped)
        limit = next(following, self._horizon)
        if limit == instance.limit:
            return False
        instance.limit = limit
        instance.frontier_moved = instance.wants_frontiers
        return instance.unstash() or instance.frontier_moved


def _is_past(instance: Instance, epoch: int, frontier: Callable[[Location], Sequence[Time]]) -> bool:
    """Return whether an operator can neither receive nor send anything up to an epoch any more."""
    for port in instance.inputs:
        if any(time[0] <= epoch for time in frontier(port.location)):
            return False
    if any(time[0] <= epoch for output in instance.outputs for time in output.held):
        return False
    if any(time[0] <= epoch for time in instance.authority.notifications.pending()):
        return False
    assert not any(time[0] <= epoch for _, time, _ in instance.inbox), "a message up to here is uncounted"
    return True


def _held_by(instance: Instance) -> tuple[list[Held], list[Awaited]]:
    """The capabilities that an operator holds itself, and the notifications that it awaits."""
    requests = instance.authority.notifications.requests()
    for_requests: dict[tuple[int, Time], int] = {}
    for request in requests:
        for capability in request.held:
            key = (instance.output_number(capability.output), capability.time)
            for_requests[key] = for_requests.get(key, 0) + 1
    held = [
        Held(number, time)
        for number, output in enumerate(instance.outputs)
        for time, count in output.held.items()
        for _ in range(count - for_requests.get((number, time), 0))
    ]
    # The capability of an input is its position, which the ticks say.
    if instance.node.kind is NodeKind.INPUT:
        held = []
    awaited = [
        Awaited(-1 if request.port is None else instance.inputs.index(request.port), request.time)
        for request in requests
    ]
    return held, awaited


def _unreadable(error: OperatorError, tables: Mapping[str, pa.Table]) -> str:
    """The reason why an operator cannot resume from its saved state, and the fix."""
    found = "; ".join(f"'{name}' with {', '.join(table.column_names)}" for name, table in tables.items())
    return (
        f"{error}. What was saved of it is {found or 'nothing'}. If this is not what it keeps, another "
        "version of the flow or of pointstamp has saved it: continue with that version, or begin with a new "
        "checkpoint and a new output."
    )


# What an operator keeps without declaring it: noticed when its state is saved, and said once.
#
# A custom operator is opaque, but what changed since its creation is visible: an attribute that was bound
# again, or a collection that has grown or shrunk. An operator that declares no state and has such an
# attribute will have forgotten it after a restart. It is a warning and not an error, because it may be a
# cache. What is changed deep inside an object goes unnoticed.

_PLAIN: Final = (bool, int, float, str, bytes, tuple, type(None))


class Undeclared:
    """Detects undeclared state of one operator."""

    def __init__(self, logic: Any, name: str) -> None:  # noqa: ANN401 - a plain object
        self._logic = logic
        self._name = name
        self._before = {key: (value, _length(value)) for key, value in attributes_of(logic).items()}
        self.is_silent = logic is None or type(logic).__module__.partition(".")[0] == "pointstamp"

    def look(self) -> None:
        """Warn, once, if the operator keeps something."""
        if self.is_silent:
            return
        kept = [key for key, value in attributes_of(self._logic).items() if self._has_changed(key, value)]
        if not kept:
            return
        self.is_silent = True
        warnings.warn(
            f"operator '{self._name}' keeps {', '.join(kept)} and declares no state; after a restart it will "
            f"begin without it. Declare it, state = {{'{kept[0]}': saved.values(...)}}, or write save() and "
            "restore().",
            PointstampWarning,
            stacklevel=2,
        )

    def _has_changed(self, key: str, value: Any) -> bool:  # noqa: ANN401
        if _holds_capabilities(value):
            return False  # these are saved for it
        if key not in self._before:
            return True
        before, length = self._before[key]
        if value is before:
            return _length(value) != length
        return not (isinstance(value, _PLAIN) and type(value) is type(before) and value == before)


def _length(value: Any) -> int | None:  # noqa: ANN401
    return len(value) if isinstance(value, Collection) else None


def _holds_capabilities(value: Any) -> bool:  # noqa: ANN401
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, Capability):
        return True
    is_collection = isinstance(value, Collection) and not isinstance(value, (str, bytes))
    return is_collection and len(value) > 0 and all(isinstance(each, Capability) for each in value)
