"""Shared checks of object names, and failures as messages.

A name is checked at the border, so that an object never lies outside its storage and never looks like a file
that is still being written: no part of a name begins with a dot, because such files do.
"""

import errno
from typing import Final

from pointstamp.errors import AlreadyStored, NotStored, StorageError
from pointstamp.storage.port import Content

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
