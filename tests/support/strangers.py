"""Strangers at a port, and what they say: bytes of other protocols, frames that never come, captured ones.

Used on members that a test holds in its hands, and on those of a query that runs.
"""

import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from time import monotonic
from typing import Final

from pointstamp.mesh.admission import Address
from pointstamp.mesh.mesh import FRAME_BYTES_MAX, Mesh
from pointstamp.mesh.wire import MessageKind

SECONDS_MAX: Final = 120.0
GREETING: Final = b"\xff" + b"\0" * 8 + b"\x7f\x03\x01" + b"CURVE".ljust(20, b"\0") + b"\0" * 32


def frame_of(size: int) -> bytes:
    """The beginning of a command of ZMTP 3 that says how long it is: nothing follows."""
    return GREETING + b"\x06" + struct.pack(">Q", size) + b"\x05HELLO"


RAW: Final = {
    "garbage": b"GET / HTTP/1.1\r\nHost: x\r\n\r\n" * 100,
    "zeros": b"\0" * 4_096,
    "nothing": b"",
    "an old protocol": b"\x01\x00",
    "a frame of 2 GiB": frame_of(FRAME_BYTES_MAX - 100),
    "a frame of an exabyte": frame_of(2**60),
    "a frame of all bits": frame_of(2**64 - 1),
}


def until(condition: Callable[[], object]) -> None:
    deadline = monotonic() + SECONDS_MAX
    while not condition():
        assert monotonic() < deadline


def spoken(first: Mesh, second: Mesh, count: int = 200) -> None:
    """The second member speaks and the first one hears exactly that."""
    for number in range(count):
        second.post(0, MessageKind.CONTROL, b"%d" % number)
    heard: list[bytes] = []
    until(lambda: len(hear(first, heard)) >= count)
    assert heard == [b"%d" % number for number in range(count)]


def hear(mesh: Mesh, heard: list[bytes]) -> list[bytes]:
    heard.extend(bytes(each.header) for each in mesh.collect())
    return heard


def port(mesh: Mesh) -> tuple[str, int]:
    host, _, number = mesh.address.endpoint.removeprefix("tcp://").rpartition(":")
    return host, int(number)


class Tap:
    """A man in the middle: hands on what goes to a port, and keeps it."""

    def __init__(self, target: tuple[str, int]) -> None:
        self.captured = b""
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.endpoint = f"tcp://127.0.0.1:{self._listener.getsockname()[1]}"
        self._target = target
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        near, _ = self._listener.accept()
        self.near, self.far = near, socket.create_connection(self._target)
        threading.Thread(target=self._hand_on, args=(self.far, near, False), daemon=True).start()
        self._hand_on(near, self.far, True)

    def _hand_on(self, source: socket.socket, target: socket.socket, is_kept: bool) -> None:
        try:
            while some := source.recv(65_536):
                if is_kept:
                    self.captured += some
                target.sendall(some)
        except OSError:
            return
        finally:
            with suppress(OSError):
                target.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        for each in (self._listener, self.near, self.far):
            each.close()


@contextmanager
def tapped() -> Iterator[tuple[Mesh, Mesh, Tap]]:
    """Two members; what the second says to the first goes through a tap."""
    first, second = Mesh(0, 2), Mesh(1, 2)
    tap = Tap(port(first))
    try:
        first.connect([first.address, second.address])
        second.connect([Address(tap.endpoint, first.address.public_key), second.address])
        until(lambda: first.greet() & second.greet())
        yield first, second, tap
    finally:
        first.close(linger_ms=0)
        second.close(linger_ms=0)
        tap.close()
