"""When to save, how much may be on its way, and how often to start again."""

from collections import deque
from dataclasses import dataclass
from typing import Final

from pointstamp.errors import FlowError
from pointstamp.journal.parts import INLINE_BYTES_MAX

EPOCHS_IN_FLIGHT_MAX: Final = 64
BYTES_IN_FLIGHT_MAX: Final = 256 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class SnapshotPolicy:
    """How often snapshots are taken: after so many epochs or so many seconds, whichever comes first.

    If neither is given, every epoch is saved. Output is published with the snapshot of its epoch, so this is
    also the longest time that it waits. A chain of snapshots restarts from scratch after ``chain_max`` of
    them, or when what changed has become larger than the whole; ``keep`` chains are kept. A snapshot of no
    more than about ``inline_bytes_max`` bytes is in the journal with its commit, which saves writing files;
    with 0 none is.
    """

    epochs: int | None = None
    seconds: float | None = None
    chain_max: int = 256
    keep: int = 2
    inline_bytes_max: int = INLINE_BYTES_MAX

    def __post_init__(self) -> None:
        if (self.epochs is not None and self.epochs < 1) or (self.seconds or 0) < 0:
            raise FlowError(
                "snapshots need an interval of at least 1 epoch or of 0 seconds or more, but were given "
                f"epochs={self.epochs} and seconds={self.seconds}."
            )
        if self.chain_max < 1 or self.keep < 1:
            raise FlowError(
                f"snapshots were given chain_max={self.chain_max} and keep={self.keep}; both must be at "
                "least 1, or there would be no snapshot to resume from."
            )

    def is_due(self, epochs: int, seconds: float) -> bool:
        """Whether to save now, so many epochs and seconds after the last time."""
        if epochs < 1:
            return False
        every = 1 if self.epochs is None and self.seconds is None else self.epochs
        by_count = every is not None and epochs >= every
        return by_count or (self.seconds is not None and seconds >= self.seconds)

    @property
    def patience_seconds(self) -> float:
        """How long a finished epoch may wait for the next snapshot when nothing more comes."""
        return 0.05 if self.seconds is None else self.seconds


@dataclass(frozen=True, slots=True)
class RestartPolicy:
    """How often a query starts again after failures: so many within a time, with pauses that grow."""

    restarts_max: int = 10
    within_seconds: float = 600.0
    pause_seconds: float = 0.2
    pause_seconds_max: float = 30.0

    def __post_init__(self) -> None:
        if self.restarts_max < 0:
            raise FlowError(
                f"restarts_max is {self.restarts_max}, but must be 0 or more; with 0 a query never starts "
                "again."
            )


class RestartBudget:
    """The restarts that are left; changed by the supervisor that uses them up."""

    def __init__(self, policy: RestartPolicy) -> None:
        self.policy = policy
        self._failures: deque[float] = deque()

    def pause_after_failure(self, now_seconds: float) -> float | None:
        """How long to wait before the next start; None if the budget is used up."""
        policy = self.policy
        while self._failures and self._failures[0] < now_seconds - policy.within_seconds:
            self._failures.popleft()
        self._failures.append(now_seconds)
        count = len(self._failures)
        if count > policy.restarts_max:
            return None
        return min(policy.pause_seconds * 2.0 ** (count - 1), policy.pause_seconds_max)
