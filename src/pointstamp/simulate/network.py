"""The simulated network and clock.

Kept: what a ``Transport`` promises, and no more. Messages of one ordered pair of workers arrive in the order
in which they were sent, none is lost and none comes twice; between different pairs there is no order at all.
The clock stands still unless the world moves it.
"""

from collections import deque
from collections.abc import Sequence
from typing import Final

from pointstamp.progress.pointstamp import WorkerIndex
from pointstamp.simulate.choices import Choices
from pointstamp.worker.ports import Message

TICKS_PER_SECOND: Final = 1_000


class SimulatedClock:
    """Counts ticks; moved by the world alone."""

    def __init__(self) -> None:
        self.ticks = 0

    def now_seconds(self) -> float:
        """Seconds since the world began."""
        return self.ticks / TICKS_PER_SECOND


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
        """Whether something waits to be received."""
        now = self._clock.ticks
        return any(queue and queue[0][0] <= now for queue in self._queues[receiver])

    def receive(self, receiver: WorkerIndex) -> Sequence[Message]:
        """Everything that has arrived; which sender's message comes next is chosen each time."""
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
        """Everything that has arrived, oldest first per sender."""
        return self._network.receive(self._worker)
