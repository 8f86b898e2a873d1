"""Sealed content: what is stored can prove that it is whole, unaltered, and what it is taken for.

A seal stands before the content: a mark, the seal's own format, the version and the kind of the content, its
length and a checksum (CRC-32) over all of it. So an object that is torn, altered, cut, lengthened or not ours
is named in a StorageError where it is read, and never becomes state. CRC-32 is for accidents: it finds any
error within 32 bits and misses one in four thousand million of the others; it is no proof against malice.

What the seal does not know is the object's name: who needs that one object is not in another's place writes
it into the content, as the journal does.
"""

import struct
import zlib
from typing import Final

from pointstamp.errors import StorageError
from pointstamp.storage.port import Content

_MARK: Final = b"\x93pst"  # the first byte is no text, so that a text file is never taken for ours
_FORMAT: Final = 1
# mark, format, version of the content, length of the kind's name, length of the content, checksum
_HEAD: Final = struct.Struct("<4sBHBQI")
_CHECKED: Final = _HEAD.size - 4  # all of the head but the checksum itself


def seal(content: Content, kind: str, version: int = 1) -> bytes:
    """What was sealed is what is unsealed.

    >>> unseal(seal(b"ranks", "snapshot"), "snapshot", "parts/7")
    b'ranks'
    """
    return b"".join(sealed_parts(content, kind, version))


def sealed_parts(content: Content, kind: str, version: int = 1) -> tuple[bytes, ...]:
    """The same bytes in pieces, for large content: nothing is copied."""
    parts = (content,) if isinstance(content, bytes) else tuple(content)
    name = kind.encode()
    length = sum(map(len, parts))
    head = _HEAD.pack(_MARK, _FORMAT, version, len(name), length, 0)
    check = _checksum(head[:_CHECKED], name, *parts)
    return (head[:_CHECKED] + struct.pack("<I", check) + name, *parts)


def unseal(stored: bytes, kind: str, name: str, version: int = 1) -> bytes:
    """The content of an object of this name, once it has proved to be whole, of this kind and version."""
    whole = memoryview(stored)
    if not stored.startswith(_MARK[: len(stored)]):
        raise StorageError(
            f"'{name}' was not written by pointstamp: a {kind} was needed. Something else writes there."
        )
    if len(stored) < _HEAD.size:
        raise StorageError(f"'{name}' is torn: {len(stored)} bytes are there, and a {kind} has more.")
    _, form, its_version, name_length, length, check = _HEAD.unpack_from(stored)
    if form != _FORMAT:
        raise StorageError(
            f"'{name}' is sealed in format {form}, and this version of pointstamp reads format {_FORMAT}. "
            "It was altered, or written by another version: use that one."
        )
    needed = _HEAD.size + name_length + length
    if len(stored) != needed:
        what = "torn" if len(stored) < needed else "longer than it was written"
        raise StorageError(f"'{name}' is {what}: {len(stored)} bytes are there, and {needed} were written.")
    if _checksum(whole[:_CHECKED], whole[_HEAD.size :]) != check:
        raise StorageError(f"'{name}' was altered after it was written: its checksum does not fit.")
    its_kind = str(whole[_HEAD.size : _HEAD.size + name_length], "utf-8")
    if its_kind != kind:
        raise StorageError(f"'{name}' is a {its_kind}, and a {kind} was needed: it lies in a wrong place.")
    if its_version != version:
        age = "an older" if its_version < version else "a newer"
        raise StorageError(
            f"'{name}' is a {kind} of version {its_version}, and this version of pointstamp reads version "
            f"{version}. It was written by {age} pointstamp: use that one, or begin in a new place."
        )
    return bytes(whole[_HEAD.size + name_length :])


def _checksum(*parts: bytes | memoryview) -> int:
    check = 0
    for part in parts:
        check = zlib.crc32(part, check)
    return check
