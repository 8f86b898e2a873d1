"""The worker's ports to the outside: transport, clock and storage.

A worker never opens a socket, asks the time, draws a random number or starts a thread. It asks one of these.
Real processes, Spark tasks and the simulated world each bring their own; the code that is simulated is the
code that runs.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import pyarrow as pa

from pointstamp.progress.broadcast import ProgressBatch
from pointstamp.progress.pointstamp import WorkerIndex
from pointstamp.topology.domain import Time
from pointstamp.topology.ports import Location
from pointstamp.worker.events import Event


@dataclass(frozen=True, slots=True)
class DataMessage:
    """A batch in flight to an input of an operator on another worker."""

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
        """Send a message to another worker."""
        ...

    def receive(self) -> Sequence[Message]:
        """The messages that have arrived, oldest first per sender."""
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


class RunJudge(EventLog, Protocol):
    """Judges what happens in a run that comes to an end; InternalError where something is wrong.

    Workers of this process are given it as their log; events of others are taken as they come.
    """

    def take(self, worker: int, events: Iterable[Event]) -> None:
        """Judge the next events of a worker, and others that have waited for them."""
        ...

    def is_judged(self, worker: int, events: int) -> bool:
        """Return whether so many events of a worker were judged, its first ones."""
        ...

    def settled(self) -> None:
        """All workers have reported everything, and nothing is in flight: a waiting event has no cause."""
        ...

    def end(self) -> None:
        """The run has come to its end: everything must be complete."""
        ...

    def close(self) -> None:
        """Forget the run."""
        ...


class Clock(Protocol):
    """Tells how much time has passed."""

    def now_seconds(self) -> float:
        """Seconds since some fixed moment; never goes back."""
        ...
