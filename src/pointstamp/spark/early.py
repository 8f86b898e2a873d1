"""A transport before the meeting is over: messages wait, so that a worker can begin to work.

The meeting of a gang takes until the last Python has started, and on a cluster up to a second more, because
Spark looks only once a second whether everybody has come (``allGather``). A worker has better things to do:
it reads its input and does what needs nobody else. So the meeting continues in a thread of its own, which
touches nothing but Spark's socket or a folder; the mesh stays with the worker's thread, which connects it
when the addresses are known and then sends what has waited.
"""

import threading
from collections.abc import Callable, Sequence
from time import monotonic

from pointstamp.mesh.door import Address
from pointstamp.mesh.transport import ZmqTransport
from pointstamp.progress.pointstamp import WorkerIndex
from pointstamp.spark.meeting import MEETING_SECONDS_MAX
from pointstamp.worker.ports import Message


class EarlyTransport:
    """The Transport of a worker whose peers are still being met; used by that worker's thread."""

    def __init__(self, transport: ZmqTransport, ask: Callable[[], list[Address]]) -> None:
        self._transport = transport
        self._ask = ask
        self._waiting: list[tuple[WorkerIndex, Message]] = []
        self._addresses: list[Address] | None = None
        self._error: BaseException | None = None
        self._is_connected = False
        self._is_met = False
        self._deadline = 0.0
        self._thread = threading.Thread(target=self._meet, name="pointstamp-meeting", daemon=True)
        self._thread.start()

    def send(self, peer: WorkerIndex, message: Message) -> None:
        """Send a message, or keep it until the mesh is there."""
        if self._is_met:
            self._transport.send(peer, message)
        else:
            self._waiting.append((peer, message))

    def receive(self) -> Sequence[Message]:
        """What has arrived; nothing before the meeting is over."""
        return self._transport.receive() if self._is_met or self._look() else ()

    def finish(self) -> None:
        """Wait until everybody has been met."""
        self._thread.join()
        while not self._look():
            self._transport.mesh.pause()

    def _look(self) -> bool:
        """Continue with the meeting without waiting, and say whether it is over."""
        if self._error is not None:
            raise self._error
        if self._addresses is None:
            return False
        mesh = self._transport.mesh
        if not self._is_connected:
            mesh.connect(self._addresses)
            self._is_connected = True
            self._deadline = monotonic() + MEETING_SECONDS_MAX
        if not mesh.greet():
            if monotonic() > self._deadline:
                mesh.meet(0)  # says who is missing
            return False
        self._is_met = True
        waiting, self._waiting = self._waiting, []
        for peer, message in waiting:
            self._transport.send(peer, message)
        return True

    def _meet(self) -> None:
        try:
            self._addresses = self._ask()
        except BaseException as error:  # raised again in the worker's thread
            self._error = error
