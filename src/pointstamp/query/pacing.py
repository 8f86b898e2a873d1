"""When a member may read on: what was decoded and is not done is bounded, on every worker.

What lies on a disk says little of what it is in memory: a file of kilobytes may hold gigabytes of rows. So a
member counts what it has decoded. It stops reading while there is too much of it, and continues when the flow
has digested some. Nothing inside the flow ever waits: a bounded channel in a loop can deadlock.

Two things are bounded:

- the rows of ticks whose epochs the outputs have not passed, before a tick is read that comes after another
  such tick: they wait at operators that must be saved first, or at other workers that are slower;
- messages of the epochs of the tick that is read, which nobody has consumed yet, as the counts of progress
  say for all workers together; times what a message of this member holds on average.

Why it cannot deadlock. The first tick that is not done is never held up by the first bound, and its epochs
can be done without what comes after it. Of messages only those count whose epochs the tick completes, or some
tick before it: the member at the earliest tick waits for messages that every member may handle, since all
members have let these epochs in and all ticks before are read. Rows of epochs that nobody has closed yet,
which an epoch column may bring, are not counted: only more reading can bring the promise that closes them.
"""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

DECODED_BYTES_MAX: Final = 128 * 1024 * 1024
"""Right for a process of 1 GiB: operators hold a few copies of what is in flight."""


@dataclass(slots=True)
class _TickBytes:
    number: int
    complete_to: int
    size: int = 0


class Pacing:
    """What one member has decoded; changed by the member as it reads."""

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
        """Whether the next batch may be decoded.

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
