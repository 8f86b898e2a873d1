"""Policies: snapshots, data in flight, and restarts."""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from pointstamp.errors import FlowError
from pointstamp.journal.snapshot_parts import INLINE_BYTES_MAX

EPOCHS_IN_FLIGHT_MAX: Final = 64
BYTES_IN_FLIGHT_MAX: Final = 256 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class SnapshotPolicy:
    """Policy for snapshots: after a number of epochs or of seconds, whichever is first.

    Output is published with the snapshot of its epoch, so this is also the longest time that it waits.

    Attributes:
        epochs (int, default None): Epochs between snapshots. Without ``epochs`` and ``seconds``, each epoch
            is saved.
        seconds (float, default None): Seconds between snapshots.
        chain_max (int, default 256): Snapshots after which a new chain starts with a full snapshot. A chain
            also ends when its changes are larger than the full state.
        keep (int, default 2): Chains of snapshots that are kept.
        inline_bytes_max (int, default 4096): A snapshot up to about this size is stored in the journal with
            its commit, which saves writing files; with 0 none is.

    Examples:
        >>> options = ps.QueryOptions(snapshots=ps.SnapshotPolicy(seconds=10))

    """

    epochs: int | None = None
    seconds: float | None = None
    chain_max: int = 256
    keep: int = 2
    inline_bytes_max: int = INLINE_BYTES_MAX

    def __post_init__(self) -> None:
        if (self.epochs is not None and self.epochs < 1) or (self.seconds or 0) < 0:
            raise FlowError(
                "SnapshotPolicy: epochs must be at least 1 and seconds 0 or more, got epochs={self.epochs} "
                "and seconds={self.seconds}. Give larger values."
            )
        if self.chain_max < 1 or self.keep < 1:
            raise FlowError(
                f"SnapshotPolicy: chain_max and keep must be at least 1, got chain_max={self.chain_max} "
                f"and keep={self.keep}. Give larger values."
            )

    def is_due(self, epochs: int, seconds: float) -> bool:
        """Return whether to take a snapshot, these epochs and seconds after the last one.

        Examples:
            >>> ps.SnapshotPolicy(epochs=10).is_due(epochs=9, seconds=1.0)
            False

        """
        if epochs < 1:
            return False
        every = 1 if self.epochs is None and self.seconds is None else self.epochs
        by_count = every is not None and epochs >= every
        return by_count or (self.seconds is not None and seconds >= self.seconds)

    @property
    def patience_seconds(self) -> float:
        """The seconds that a complete epoch may wait for the next snapshot when no more rows arrive."""
        return 0.05 if self.seconds is None else self.seconds


@dataclass(frozen=True, slots=True)
class RestartPolicy:
    """Policy for restarts after failures.

    Attributes:
        restarts_max (int, default 10): Restarts within the time below; one more failure ends the query.
        within_seconds (float, default 600): The time in which restarts are counted.
        pause_seconds (float, default 0.2): The pause before the first restart; it doubles for each further
            one.
        pause_seconds_max (float, default 30): The longest pause.

    Examples:
        >>> options = ps.QueryOptions(restarts=ps.RestartPolicy(restarts_max=3))

    """

    restarts_max: int = 10
    within_seconds: float = 600.0
    pause_seconds: float = 0.2
    pause_seconds_max: float = 30.0

    def __post_init__(self) -> None:
        if self.restarts_max < 0:
            raise FlowError(
                f"RestartPolicy: restarts_max must be 0 or more, got {self.restarts_max}. Give 0 to never "
                "restart."
            )


class RestartBudget:
    """The restarts that are left; changed by the supervisor that uses them up."""

    def __init__(self, policy: RestartPolicy) -> None:
        self.policy = policy
        self._failures: deque[float] = deque()

    def pause_after_failure(self, now_seconds: float) -> float | None:
        """The seconds to wait before the next start; None if the budget is used up."""
        policy = self.policy
        while self._failures and self._failures[0] < now_seconds - policy.within_seconds:
            self._failures.popleft()
        self._failures.append(now_seconds)
        count = len(self._failures)
        if count > policy.restarts_max:
            return None
        return min(policy.pause_seconds * 2.0 ** (count - 1), policy.pause_seconds_max)


# When a member may read on: what was decoded and is not done is bounded, on every worker.
#
# What lies on a disk says little of what it is in memory: a file of kilobytes may hold gigabytes of rows. So
# a member counts what it has decoded. It stops reading while there is too much of it, and continues when the
# flow has digested some. Nothing inside the flow ever waits: a bounded channel in a loop can deadlock.
#
# Two things are bounded:
#
# - the rows of ticks whose epochs the outputs have not passed, before a tick is read that comes after another
#   such tick: they wait at operators that must be saved first, or at other workers that are slower;
# - messages of the epochs of the tick that is read, which nobody has consumed yet, as the counts of progress
#   say for all workers together; times what a message of this member holds on average.
#
# Why it cannot deadlock. The first tick that is not done is never held up by the first bound, and its epochs
# can be done without what comes after it. Of messages only those count whose epochs the tick completes, or
# some tick before it: the member at the earliest tick waits for messages that every member may handle, since
# all members have let these epochs in and all ticks before are read. Rows of epochs that nobody has closed
# yet, which an epoch column may bring, are not counted: only more reading can bring the promise that closes
# them.

DECODED_BYTES_MAX: Final = 128 * 1024 * 1024
"""Right for a process of 1 GiB: operators hold a few copies of what is in flight."""


@dataclass(slots=True)
class _TickBytes:
    number: int
    complete_to: int
    size: int = 0


class Pacing:
    """The decoded bytes of one member; changed by the member as it reads."""

    def __init__(self, bytes_max: int = DECODED_BYTES_MAX) -> None:
        self._bytes_max = bytes_max
        self._ticks: deque[_TickBytes] = deque()
        self._messages = 0

    def begin(self, number: int, complete_to: int) -> None:
        """A tick is read from now on."""
        self._ticks.append(_TickBytes(number, complete_to))
        self._messages = 0

    def decoded(self, size_bytes: int, messages: int) -> None:
        """A batch of the tick was decoded, and was sent as so many messages."""
        self._ticks[-1].size += size_bytes
        self._messages += messages

    def may_read(self, done_before: int, waiting: Iterable[tuple[int, int]]) -> bool:
        """Return whether the next batch may be decoded.

        The outputs are past every epoch before ``done_before``; ``waiting`` are the epochs of messages that
        were sent and not consumed, and how many there are.
        """
        tick = self._ticks[-1]
        while len(self._ticks) > 1 and self._ticks[0].complete_to <= done_before:
            self._ticks.popleft()
        if len(self._ticks) > 1 and sum(each.size for each in self._ticks) >= self._bytes_max:
            return False
        if not self._messages:
            return True
        messages = sum(count for epoch, count in waiting if count > 0 and epoch < tick.complete_to)
        return messages * tick.size // self._messages < self._bytes_max
