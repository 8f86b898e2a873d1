"""Authenticated messages over a stream socket, by a shared secret.

A rendezvous (``pointstamp.spark.rendezvous``) has to be reachable by tasks whose addresses the driver does
not know yet. The driver gives its tasks a secret through Spark. Each side begins with a random nonce; the
key of a connection is derived from the secret and both nonces, and each message carries a code over its
direction, its number and its content. So a message cannot be forged, altered, repeated, reflected or moved
to another connection. Contents are readable: public keys and addresses are not secrets.

Invariant: ``receive`` returns the messages of a holder of the secret, in order, without gap. Anything else
raises ``UnauthorizedError`` and returns nothing.
"""

import hmac
import secrets
import socket
from hashlib import blake2b
from typing import Final

from pointstamp.errors import TransportError

_NONCE_BYTES: Final = 32
_CODE_BYTES: Final = 32
_LENGTH_BYTES: Final = 4
MESSAGE_BYTES_MAX: Final = 16 * 2**20
"""The most bytes of one message: a roster of ten thousand workers has two million."""


class UnauthorizedError(TransportError):
    """The other side does not hold the secret, or does not follow this protocol."""


def new_secret() -> bytes:
    """Return a secret for the connections of one rendezvous."""
    return secrets.token_bytes(32)


class AuthenticatedSocket:
    """One side of a connection; used by one thread.

    ``receive`` reads what the socket has without waiting, if the socket does not block.
    """

    def __init__(self, stream: socket.socket, secret: bytes, *, is_server: bool) -> None:
        self.stream = stream
        self._secret = secret
        self._is_server = is_server
        self._nonce = secrets.token_bytes(_NONCE_BYTES)
        self._key: bytes | None = None
        self._unread = bytearray()
        self._unsent = bytearray(self._nonce)
        self._queued: list[bytes] = []
        self._sent = self._received = 0
        self.flush()

    def fileno(self) -> int:
        """The file to wait for."""
        return self.stream.fileno()

    @property
    def has_unsent(self) -> bool:
        """Whether something waits until the socket can be written."""
        return bool(self._unsent)

    def send(self, message: bytes) -> None:
        """Send a message, now or, where the other side's nonce is not here yet, as soon as it is."""
        if self._key is None:
            self._queued.append(message)
            return
        code = self._code(self._key, self._is_server, self._sent, message)
        self._sent += 1
        self._unsent += len(message).to_bytes(_LENGTH_BYTES, "big") + code + message
        self.flush()

    def flush(self) -> None:
        """Write what can be written without waiting."""
        while self._unsent:
            try:
                written = self.stream.send(self._unsent)
            except (BlockingIOError, InterruptedError):
                return
            del self._unsent[:written]

    def receive(self) -> list[bytes] | None:
        """The messages that have arrived; None when the other side has closed the connection."""
        try:
            data = self.stream.recv(2**16)
        except (BlockingIOError, InterruptedError):
            return []
        except OSError:
            return None
        if not data:
            return None
        self._unread += data
        if self._key is None and not self._agree():
            return []
        return self._messages()

    def close(self) -> None:
        """Close the connection."""
        self.stream.close()

    def _agree(self) -> bool:
        """Derive the key once the other side's nonce is here; then send what waits for it."""
        if len(self._unread) < _NONCE_BYTES:
            return False
        theirs = bytes(self._unread[:_NONCE_BYTES])
        del self._unread[:_NONCE_BYTES]
        server, client = (self._nonce, theirs) if self._is_server else (theirs, self._nonce)
        self._key = blake2b(server + client, key=self._secret, digest_size=32).digest()
        queued, self._queued = self._queued, []
        for message in queued:
            self.send(message)
        return True

    def _messages(self) -> list[bytes]:
        assert self._key is not None
        messages: list[bytes] = []
        head = _LENGTH_BYTES + _CODE_BYTES
        while len(self._unread) >= head:
            size = int.from_bytes(self._unread[:_LENGTH_BYTES], "big")
            if size > MESSAGE_BYTES_MAX:
                raise UnauthorizedError(f"a message may have at most {MESSAGE_BYTES_MAX} bytes, got {size}.")
            if len(self._unread) < head + size:
                break
            code = bytes(self._unread[_LENGTH_BYTES:head])
            message = bytes(self._unread[head : head + size])
            if not hmac.compare_digest(
                code, self._code(self._key, not self._is_server, self._received, message)
            ):
                raise UnauthorizedError("a message is not from a holder of the secret of this rendezvous.")
            self._received += 1
            del self._unread[: head + size]
            messages.append(message)
        return messages

    @staticmethod
    def _code(key: bytes, from_server: bool, number: int, message: bytes) -> bytes:
        signed = bytes([from_server]) + number.to_bytes(8, "big") + message
        return blake2b(signed, key=key, digest_size=_CODE_BYTES).digest()
