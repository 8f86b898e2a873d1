"""Only holders of the secret are heard, in order, over whatever the bytes are cut into.

Families, and what only each can find:
- messages of any size and cut anywhere arrive as they were sent, also before both nonces are there;
- a byte that is altered, a message that is repeated, left out, reflected or from another connection is found;
- another secret is found, and a length that would fill the memory is rejected before anything is kept.
"""

import socket
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pointstamp.mesh.authenticated import (
    MESSAGE_BYTES_MAX,
    AuthenticatedSocket,
    UnauthorizedError,
    new_secret,
)

NONCE_BYTES = 32
SECRET = new_secret()


class Wire:
    """Two sides whose bytes a test carries from one to the other."""

    def __init__(self, secret: bytes = SECRET, other: bytes = SECRET) -> None:
        self.opened: list[socket.socket] = []
        self.server, self.from_server = self._side(secret, is_server=True)
        self.client, self.from_client = self._side(other, is_server=False)

    def _side(self, secret: bytes, *, is_server: bool) -> tuple[AuthenticatedSocket, socket.socket]:
        near, far = socket.socketpair()
        for each in (near, far):
            each.setblocking(False)
            self.opened.append(each)
        return AuthenticatedSocket(near, secret, is_server=is_server), far

    def greet(self) -> None:
        self.from_client.send(self.from_server.recv(NONCE_BYTES))
        self.from_server.send(self.from_client.recv(NONCE_BYTES))
        assert self.server.receive() == []
        assert self.client.receive() == []

    def close(self) -> None:
        for each in self.opened:
            each.close()


@contextmanager
def wire(secret: bytes = SECRET, other: bytes = SECRET) -> Iterator[Wire]:
    made = Wire(secret, other)
    try:
        yield made
    finally:
        made.close()


@given(
    messages=st.lists(st.binary(max_size=300), max_size=6),
    cut=st.integers(1, 50),
    is_early=st.booleans(),
)
def test_messages_arrive_as_they_were_sent_however_the_bytes_are_cut(
    messages: list[bytes], cut: int, is_early: bool
) -> None:
    with wire() as each:
        if not is_early:
            each.greet()
        for message in messages:
            each.client.send(message)
        if is_early:
            each.greet()
        sent = b"" if not messages else each.from_client.recv(2**20)
        received: list[bytes] = []
        for begin in range(0, len(sent), cut):
            each.from_server.send(sent[begin : begin + cut])
            received += each.server.receive() or []
        assert received == messages


@given(st.data())
def test_any_altered_byte_is_found(data: st.DataObject) -> None:
    with wire() as each:
        each.greet()
        each.client.send(b"register me")
        sent = bytearray(each.from_client.recv(2**20))
        at = data.draw(st.integers(0, len(sent) - 1))
        sent[at] ^= data.draw(st.integers(1, 255))
        each.from_server.send(bytes(sent))
        try:
            assert each.server.receive() == []  # a longer length: the rest is waited for
            each.from_server.send(bytes(MESSAGE_BYTES_MAX // 100))
            assert not each.server.receive()
        except UnauthorizedError:
            pass


def test_a_repeated_a_missing_and_a_reflected_message_are_found() -> None:
    with wire() as each:
        each.greet()
        each.client.send(b"one")
        one = each.from_client.recv(2**20)
        each.from_server.send(one)
        assert each.server.receive() == [b"one"]
        each.from_server.send(one)
        with pytest.raises(UnauthorizedError, match="not from a holder of the secret"):
            each.server.receive()
    with wire() as each:
        each.greet()
        each.client.send(b"one")
        each.from_client.recv(2**20)
        each.client.send(b"two")
        each.from_server.send(each.from_client.recv(2**20))
        with pytest.raises(UnauthorizedError, match="not from a holder of the secret"):
            each.server.receive()
    with wire() as each:
        each.greet()
        each.client.send(b"one")
        each.from_client.send(each.from_client.recv(2**20))
        with pytest.raises(UnauthorizedError, match="not from a holder of the secret"):
            each.client.receive()


def test_a_message_of_another_connection_is_found() -> None:
    with wire() as first, wire() as second:
        first.greet()
        second.greet()
        first.client.send(b"one")
        second.from_server.send(first.from_client.recv(2**20))
        with pytest.raises(UnauthorizedError, match="not from a holder of the secret"):
            second.server.receive()


def test_another_secret_is_found() -> None:
    with wire(other=new_secret()) as each:
        each.greet()
        each.client.send(b"one")
        each.from_server.send(each.from_client.recv(2**20))
        with pytest.raises(UnauthorizedError, match="not from a holder of the secret"):
            each.server.receive()


def test_a_length_beyond_the_limit_is_rejected_at_once() -> None:
    with wire() as each:
        each.greet()
        each.from_server.send((MESSAGE_BYTES_MAX + 1).to_bytes(4, "big") + bytes(32))
        with pytest.raises(UnauthorizedError, match="may have at most 16777216 bytes, got 16777217"):
            each.server.receive()


def test_the_end_of_a_connection_is_told_from_silence() -> None:
    with wire() as each:
        each.greet()
        assert each.server.receive() == []
        each.from_server.close()
        assert each.server.receive() is None
