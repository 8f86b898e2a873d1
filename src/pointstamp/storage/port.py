"""The storage port: durable objects under names, written whole or not at all.

This is all that journals, snapshots and published output ask of a disk or an object store: no rename, no
append, no lock. The one strong promise is ``create``, which never replaces an object: of several writers one
wins, and the others are told. Fencing rests on it alone.

Names are relative, with ``/`` between their parts: ``journal/000000000042``.
"""

from collections.abc import Sequence
from typing import Protocol, TypeAlias

Content: TypeAlias = bytes | Sequence[bytes | memoryview]
"""What an object holds: bytes, or several that follow one another, some perhaps in the memory of others."""


class Storage(Protocol):
    """Durable objects under names; every method raises StorageError with the object's name if it cannot."""

    @property
    def address(self) -> str:
        """The address of this storage, for messages: without secrets."""
        ...

    def create(self, name: str, content: Content) -> None:
        """Store a new object durably, visible whole or not at all; AlreadyStored where there is one.

        The object that was there is durable, too, when AlreadyStored is raised.
        """
        ...

    def write(self, name: str, content: Content) -> None:
        """Store an object durably, in place of one that may be there; readers see the old or the new."""
        ...

    def sync(self, name: str) -> None:
        """Make sure that an object that is seen survives a power failure; NotStored if there is none.

        What a call has stored is durable when the call returns. An object of another writer may be seen
        before it is durable; a process that resumes from such an object calls this first.
        """
        ...

    def read(self, name: str) -> bytes:
        """Return the content of an object; NotStored if it does not exist."""
        ...

    def size(self, name: str) -> int | None:
        """The size of an object in bytes; None where there is none."""
        ...

    def list(self, prefix: str = "") -> "list[str]":
        """The names that begin with a prefix, sorted; objects that are being written are not among them."""
        ...

    def delete(self, name: str) -> None:
        """Remove an object; nothing happens where there is none."""
        ...
