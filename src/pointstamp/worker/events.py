"""Events of a worker, complete enough to rebuild the models' state.

They follow the actions of the models: a message pulled is ``recv_cap``, the end of an activation is one
``perf_op``, and so on. The simulator's trace, the judge and displays read the same events.

There are many of them, and none is ever part of a cycle: so the garbage collector does not look at them.
"""

from typing import NamedTuple, TypeAlias

import msgspec

from pointstamp.progress.pointstamp import Change, WorkerIndex
from pointstamp.topology.domain import Time
from pointstamp.topology.ports import Location, OperatorIndex


class Counted(NamedTuple):
    """A pointstamp's count in one worker's view; temporarily negative counts are legal."""

    location: Location
    time: Time
    number: int


class WorkerStarted(msgspec.Struct, frozen=True, tag=True, gc=False):
    """A worker holds the first capability of each output."""

    worker: WorkerIndex
    workers: int


class MessagePulled(msgspec.Struct, frozen=True, tag=True, gc=False):
    """A message was taken from its queue and given to the operator."""

    worker: WorkerIndex
    location: Location
    time: Time


class MessageSent(msgspec.Struct, frozen=True, tag=True, gc=False):
    """A message was sent to a worker's input, from an output at a time; rows for a reader."""

    worker: WorkerIndex
    source: Location
    source_time: Time
    target: Location
    time: Time
    receiver: WorkerIndex
    rows: int


class CapabilityChanged(msgspec.Struct, frozen=True, tag=True, gc=False):
    """Capabilities at an output were added (+) or dropped (-)."""

    worker: WorkerIndex
    location: Location
    time: Time
    diff: int


class ActivationEnded(msgspec.Struct, frozen=True, tag=True, gc=False):
    """An operator gave control back; what it consumed, held and sent is one change."""

    worker: WorkerIndex
    operator: OperatorIndex
    changes: tuple[Change, ...]


class ProgressSent(msgspec.Struct, frozen=True, tag=True, gc=False):
    """A batch of progress was sent to all workers."""

    worker: WorkerIndex
    sequence: int
    changes: tuple[Change, ...]


class ProgressReceived(msgspec.Struct, frozen=True, tag=True, gc=False):
    """A batch of progress was applied to the counts, which for its pointstamps are now these."""

    worker: WorkerIndex
    sender: WorkerIndex
    sequence: int
    counts: tuple[Counted, ...]


class ProgressSummed(msgspec.Struct, frozen=True, tag=True, gc=False):
    """A root summed batches of workers and, at the top, sums of other roots, by sender and number."""

    worker: WorkerIndex
    sequence: int
    batches: tuple[tuple[WorkerIndex, int], ...]
    sums: tuple[tuple[WorkerIndex, int], ...]


class SumReceived(msgspec.Struct, frozen=True, tag=True, gc=False):
    """A sum of the top was applied to the counts, which for its pointstamps are now these."""

    worker: WorkerIndex
    sequence: int
    counts: tuple[Counted, ...]


class FrontiersMoved(msgspec.Struct, frozen=True, tag=True, gc=False):
    """Propagation ended; these locations, maybe none, have another frontier than before."""

    worker: WorkerIndex
    frontiers: dict[Location, tuple[Time, ...]]


class NotificationAsked(msgspec.Struct, frozen=True, tag=True, gc=False):
    """An operator requested a notification for a time; a repeated request is not an event."""

    worker: WorkerIndex
    operator: OperatorIndex
    time: Time


class Notified(msgspec.Struct, frozen=True, tag=True, gc=False):
    """An operator was told that a time is complete."""

    worker: WorkerIndex
    operator: OperatorIndex
    time: Time


class FrontiersShown(msgspec.Struct, frozen=True, tag=True, gc=False):
    """An operator that watches frontiers was called, and can read these at its inputs."""

    worker: WorkerIndex
    operator: OperatorIndex
    frontiers: dict[Location, tuple[Time, ...]]


class SnapshotTaken(msgspec.Struct, frozen=True, tag=True, gc=False):
    """An operator's state after an epoch was captured; it may now see the next epoch."""

    worker: WorkerIndex
    operator: OperatorIndex
    epoch: int


Event: TypeAlias = (
    WorkerStarted
    | MessagePulled
    | MessageSent
    | CapabilityChanged
    | ActivationEnded
    | ProgressSent
    | ProgressReceived
    | ProgressSummed
    | SumReceived
    | FrontiersMoved
    | NotificationAsked
    | Notified
    | FrontiersShown
    | SnapshotTaken
)
