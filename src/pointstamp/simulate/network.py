"""The simulated network and clock.

Kept: what a ``Transport`` promises, and no more. Messages of one ordered pair of workers arrive in the order
in which they were sent, none is lost and none comes twice; between different pairs there is no order at all.
The clock stands still unless the world moves it.

The random choices of a simulated world, drawn in order from one seed.

The answer to choice i depends on the seed, on i and on how many options there are, and on nothing else: not
on the answers before it, nor on the process. An answer of 0 is always the plain one (no delay, no split, the
next worker in turn). So a schedule is a seed and a set of choices that are really made; all others answer 0.
A failing schedule gets shorter by making fewer choices, and what is left fits on a command line.

    >>> plain = Choices(seed=7, kept=frozenset())
    >>> [plain.choose(10) for _ in range(3)]
    [0, 0, 0]
"""

import random
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from pointstamp.progress.pointstamp import WorkerIndex
from pointstamp.worker.protocols import Message

TICKS_PER_SECOND: Final = 1_000


class SimulatedClock:
    """Counts ticks; moved by the world alone."""

    def __init__(self) -> None:
        self.ticks = 0

    def now_seconds(self) -> float:
        """Seconds since the world began."""
        return self.ticks / TICKS_PER_SECOND


_BITS = 32


class Choices:
    """The choices of one world, made one after the other; a ``Chooser`` for workers."""

    def __init__(self, seed: int, kept: frozenset[int] | None = None, *, first: int = 0) -> None:
        self._draw = random.Random(seed).getrandbits  # noqa: S311 - the seed must decide, not chance
        self._kept = kept
        self._drawn = first  # the number of the next choice
        self.made: list[int] = []
        """The choices whose answer was another than the plain one."""

    def choose(self, options: int) -> int:
        """A number from 0 to options - 1; 0 where this choice is not kept."""
        raw = self._draw(_BITS)
        number = self._drawn
        self._drawn = number + 1
        if options < 2 or (self._kept is not None and number not in self._kept):
            return 0
        answer = raw % options
        if answer:
            self.made.append(number)
        return answer

    def happens(self, one_in: int) -> bool:
        """Return whether something happens that happens once in so many times; never with 0."""
        return one_in > 0 and self.choose(one_in) == one_in - 1


def ranges_text(numbers: Iterable[int]) -> str:
    """Numbers for a command line, runs of them as ranges.

    >>> ranges_text([7, 1, 2, 3])
    '1-3,7'
    """
    runs: list[list[int]] = []
    for number in sorted(set(numbers)):
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)


def parse_ranges(text: str) -> Iterator[int]:
    """The numbers that ``ranges_text`` wrote; a ValueError for anything else."""
    for part in filter(None, text.split(",")):
        first, dash, last = part.partition("-")
        yield from range(int(first), int(last if dash else first) + 1)


class SimulatedNetwork:
    """A queue for each ordered pair of workers, in which messages wait until they have arrived."""

    def __init__(self, workers: int, clock: SimulatedClock, choices: Choices) -> None:
        self._clock = clock
        self._choices = choices
        # By receiver, then by sender: when each message arrives, and the message.
        self._queues: list[list[deque[tuple[int, Message]]]] = [
            [deque() for _ in range(workers)] for _ in range(workers)
        ]
        self.delays_max = [[0] * workers for _ in range(workers)]
        """By receiver, then by sender: how many ticks a message may take at most."""
        self.in_flight = 0

    def send(self, sender: WorkerIndex, receiver: WorkerIndex, message: Message) -> None:
        """Send a message; it never overtakes an earlier one of the same pair."""
        queue = self._queues[receiver][sender]
        arrival = self._clock.ticks + self._choices.choose(self.delays_max[receiver][sender] + 1)
        if queue:
            arrival = max(arrival, queue[-1][0])
        queue.append((arrival, message))
        self.in_flight += 1

    def has_arrived(self, receiver: WorkerIndex) -> bool:
        """Return whether something waits to be received."""
        now = self._clock.ticks
        return any(queue and queue[0][0] <= now for queue in self._queues[receiver])

    def receive(self, receiver: WorkerIndex) -> Sequence[Message]:
        """The messages that have arrived; the sender of the next one is chosen each time."""
        if not self.in_flight:
            return ()
        now = self._clock.ticks
        queues = [queue for queue in self._queues[receiver] if queue and queue[0][0] <= now]
        messages: list[Message] = []
        while queues:
            chosen = self._choices.choose(len(queues))
            queue = queues[chosen]
            messages.append(queue.popleft()[1])
            if not queue or queue[0][0] > now:
                del queues[chosen]
        self.in_flight -= len(messages)
        return messages


class SimulatedTransport:
    """The end of the simulated network at one worker."""

    def __init__(self, network: SimulatedNetwork, worker: WorkerIndex) -> None:
        self._network = network
        self._worker = worker

    def send(self, peer: WorkerIndex, message: Message) -> None:
        """Send a message to another worker."""
        self._network.send(self._worker, peer, message)

    def receive(self) -> Sequence[Message]:
        """The messages that have arrived, oldest first per sender."""
        return self._network.receive(self._worker)
