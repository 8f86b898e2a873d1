"""The storage port: durable objects under names, written complete or not at all.

This is all that journals, snapshots and published output ask of a disk or an object store: no rename, no
append, no lock. The one strong promise is ``create``, which never replaces an object: of several writers one
wins, and the others are told. Fencing rests on it alone.

Names are relative, with ``/`` between their parts: ``journal/000000000042``.
"""

import errno
from collections.abc import Sequence
from typing import Final, Protocol, TypeAlias

from pointstamp.errors import AlreadyStored, NotStored, StorageError

Content: TypeAlias = bytes | Sequence[bytes | memoryview]
"""The content of an object: bytes, or several pieces in sequence, some possibly views of shared memory."""


class Storage(Protocol):
    """Durable objects under names; every method raises StorageError with the object's name if it cannot."""

    @property
    def address(self) -> str:
        """The address of the storage for messages, without secrets."""
        ...

    def create(self, name: str, content: Content) -> None:
        """Create an object durably and atomically; AlreadyStored if it exists.

        The object that was there is durable, too, when AlreadyStored is raised.
        """
        ...

    def write(self, name: str, content: Content) -> None:
        """Write an object durably and atomically, replacing an existing one."""
        ...

    def sync(self, name: str) -> None:
        """Make an existing object durable; NotStored if it does not exist.

        What a call has stored is durable when the call returns. An object of another writer may be seen
        before it is durable; a process that resumes from such an object calls this first.
        """
        ...

    def read(self, name: str) -> bytes:
        """Return the content of an object; NotStored if it does not exist."""
        ...

    def size(self, name: str) -> int | None:
        """Return the size of an object in bytes; None if it does not exist."""
        ...

    def list(self, prefix: str = "") -> "list[str]":
        """Return the sorted names that begin with a prefix, without objects in progress."""
        ...

    def delete(self, name: str) -> None:
        """Delete an object; do nothing if it does not exist."""
        ...


# What a storage may say besides, each with a default.


class SaysIfExclusive(Protocol):
    """A storage that says whether of several writers of a new object one wins; default: so it is."""

    @property
    def is_exclusive(self) -> bool:
        """Whether that is so."""
        ...


class SaysIfTried(Protocol):
    """A storage that says whether exclusive creation must be tried before it is relied on; default: no."""

    @property
    def needs_trial(self) -> bool:
        """Whether it must."""
        ...


class HasUrl(Protocol):
    """A storage that another address opens than the one for messages; default: it is the same."""

    @property
    def url(self) -> str:
        """The address, which may contain a password."""
        ...


class SizesAtOnce(Protocol):
    """A storage that can be asked for many sizes at once; default: one after the other."""

    def sizes(self, names: Sequence[str], /) -> "list[int | None]":
        """Return the sizes of several objects, like ``size``."""
        ...


# Shared checks of object names, and failures as messages.
#
# A name is checked at the border, so that an object never lies outside its storage and never looks like a
# file that is still being written: no part of a name begins with a dot, because such files do.

_ADVICE: Final = {
    errno.ENOSPC: "the disk is full. Free some space, or choose another place",
    errno.EDQUOT: "the quota is used up. Free some space, ask for more, or choose another place",
    errno.EACCES: "this user has no permission. Grant it, or choose another place",
    errno.EPERM: "this user has no permission. Grant it, or choose another place",
    errno.EROFS: "the file system is read-only. Choose another place",
}


def check_name(name: str) -> str:
    """A name is relative, and none of its parts is empty or begins with a dot.

    >>> check_name("journal/000000000042")
    'journal/000000000042'
    """
    if any(not part or part.startswith(".") for part in name.split("/")) or "\0" in name:
        raise StorageError(
            f"'{name}' is not a valid object name. Use a relative name with '/' between its parts, none "
            "of which is empty or begins with a dot, such as 'journal/000000000042'."
        )
    return name


def check_prefix(prefix: str) -> str:
    """A prefix is how a name may begin, and nothing else: it never leads out of the storage."""
    if prefix:
        check_name(prefix.removesuffix("/"))
    return prefix


def joined(content: Content) -> bytes:
    """Return the content of an object as one piece."""
    return content if isinstance(content, bytes) else b"".join(content)


def nothing_stored(name: str, address: str) -> NotStored:
    """The error for a read of an object that is not there."""
    return NotStored(f"there is no object '{name}' in {address}.")


def already_stored(name: str, address: str) -> AlreadyStored:
    """The error for the second writer of an object."""
    return AlreadyStored(
        f"there is already an object '{name}' in {address}, and it is never replaced. Another writer was "
        "faster, or this one had stored it before."
    )


def failed(act: str, name: str, address: str, error: BaseException) -> StorageError:
    """A failure of the file system below: what was attempted, where, and what may help."""
    advice = _ADVICE.get(error.errno or 0) if isinstance(error, OSError) else None
    # Some libraries say hundreds of lines; the first holds the reason, the rest is in the cause.
    said = (str(error).splitlines() or [""])[0]
    reason = advice or said or type(error).__name__
    return StorageError(f"'{name}' in {address} could not be {act}: {reason.rstrip('.')}.")
