"""The ports to the outside: what a worker asks of the world, so that the world can be replaced.

A worker never opens a socket, asks the time, draws a random number or starts a thread. It asks one of these.
Real processes, Spark tasks and the simulated world each bring their own; the code that is simulated is the
code that runs.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import pyarrow as pa

from pointstamp.progress.broadcast import ProgressBatch
from pointstamp.progress.pointstamp import WorkerIndex
from pointstamp.runtime.events import Event
from pointstamp.topology.domain import Time
from pointstamp.topology.ports import Location


@dataclass(frozen=True, slots=True)
class DataMessage:
    """A batch on its way to an input of an operator on another worker."""

    sender: WorkerIndex
    location: Location
    time: Time
    batch: pa.RecordBatch


Message: TypeAlias = DataMessage | ProgressBatch


class Transport(Protocol):
    """Carries messages between workers: reliable, in order per pair, never blocking the sender.

    A queue towards a peer may grow; what comes in is bounded at the inputs of a flow, because a bounded
    channel inside a loop can deadlock.
    """

    def send(self, peer: WorkerIndex, message: Message) -> None:
        """Put a message on its way to another worker."""
        ...

    def receive(self) -> Sequence[Message]:
        """Everything that has arrived, oldest first per sender; empty where nothing has."""
        ...


class Chooser(Protocol):
    """Makes the choices that a schedule is free to make."""

    def choose(self, options: int) -> int:
        """A number from 0 to options - 1."""
        ...


class EventLog(Protocol):
    """Takes down what happens, for a trace, a judge or a display."""

    def record(self, event: Event) -> None:
        """Take down one event."""
        ...


class Clock(Protocol):
    """Tells how much time has passed."""

    def now_seconds(self) -> float:
        """Seconds since some fixed moment; never goes back."""
        ...
