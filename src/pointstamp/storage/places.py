"""Absolute addresses of folders and objects, as they may be recorded.

A relative path means another folder in another working directory, and a process may change its own at any
time. So every place that a user gives is made absolute where it is given.
"""

import os
import re
from typing import Final

from pointstamp.errors import StorageError
from pointstamp.redaction import identity, redact

_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+)://")
_ADDRESS: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")

_BUCKET_WITH_USER: Final = re.compile(r"(?:s3[an]?|gc?s|oss)://[^/]*@")
"""Names of buckets contain no @, and their stores ask for no user in an address."""


def absolute_place(path: str | os.PathLike[str]) -> str:
    """Return an address that means the same in every working directory.

    >>> absolute_place("s3://bucket/in/"), absolute_place("file:/in"), absolute_place("/data/../in")
    ('s3://bucket/in/', 'file:/in', '/in')
    """
    place = os.fspath(path)
    if _BUCKET_WITH_USER.match(place):
        # The store would take it for a part of the name, and libraries quote that name in their errors.
        raise StorageError(
            f"the address '{redact(place)}' has a user before the name of its bucket, and a bucket has none. "
            "Give credentials with storage_options=, or in the environment or configuration of the store."
        )
    return place if _ADDRESS.match(place) else os.path.abspath(place)


def recorded_place(address: str) -> str:
    """Return an address as it may be recorded: without credentials and options, and without a last slash.

    >>> recorded_place("sftp://me:secret@host/in/"), recorded_place("abfss://box@store/in")
    ('sftp://host/in', 'abfss://box@store/in')
    """
    if address.startswith("file:/"):
        return os.path.abspath("/" + address.removeprefix("file:").lstrip("/"))
    if _SCHEME.match(address) is None:
        return os.path.abspath(address)
    place = identity(address.rstrip("/")).replace("://***@", "://", 1)
    return place.partition("?")[0].rstrip("/")
