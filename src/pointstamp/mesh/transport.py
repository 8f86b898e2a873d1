"""The Transport of workers over a mesh: messages as frames."""

from collections import deque
from collections.abc import Sequence
from time import monotonic
from typing import Final

from pointstamp.mesh.mesh import Mesh, Parcel
from pointstamp.mesh.wire import MessageCodec, MessageKind
from pointstamp.progress.pointstamp import WorkerIndex
from pointstamp.worker.protocols import Message

LOOK_SECONDS: Final = 50e-6
"""A worker that steps on and on looks for messages so often; one that has nothing to do looks at once."""


class ZmqTransport:
    """The Transport of a worker that is a member of a mesh; messages that steer the worker are put aside."""

    def __init__(self, mesh: Mesh, codec: MessageCodec) -> None:
        self.mesh = mesh
        self.sent = 0
        self.received = 0
        self.control: deque[Parcel] = deque()
        self._codec = codec
        self._next_look = 0.0

    def send(self, peer: WorkerIndex, message: Message) -> None:
        """Send a message to another worker."""
        kind, header, bodies = self._codec.encode(message)
        self.mesh.post(peer, kind, header, bodies)
        self.sent += 1

    def receive(self) -> Sequence[Message]:
        """Return the received messages without waiting, oldest first per sender."""
        now = monotonic()
        if now < self._next_look:
            return ()
        self._next_look = now + LOOK_SECONDS
        messages = []
        for parcel in self.mesh.collect():
            if parcel.kind == MessageKind.CONTROL:
                self.control.append(parcel)
            else:
                messages.append(self._codec.decode(*parcel))
        self.received += len(messages)
        return messages

    def wait(self, timeout_seconds: float) -> bool:
        """Sleep until something arrives, at most so long; False where nothing did."""
        self._next_look = 0.0
        return self.mesh.wait(timeout_seconds)

    def gather(self, *, is_on: bool) -> None:
        """Let small messages of this thread wait until it flushes or sleeps."""
        self.mesh.gather(is_on=is_on)

    def flush(self) -> None:
        """Send what was gathered."""
        self.mesh.flush()

    def close(self) -> None:
        """Say goodbye to all peers and close."""
        self.mesh.close()
