"""Sealed objects: content that proves its integrity, name and owner.

A seal stands before the content: a mark, the seal's own format, the version and the kind of the content, the
name under which it is stored, its owner, its length and a checksum (CRC-32) over all of it. So an object that
is torn, altered, cut, lengthened or not ours is named in a StorageError when it is read, and never becomes
state; and neither does an intact object in the place of another: under another name, or with another owner.
Somebody who restores a file from a copy may take the wrong copy.

CRC-32 is for accidents: it finds any error within 32 bits and misses one in four thousand million of the
others; it does not protect against malice. ``checksum_of`` is for callers that record elsewhere what they
stored.
"""

import struct
import zlib
from typing import Final

import msgspec

from pointstamp.errors import StorageError
from pointstamp.storage.port import Content

_MARK: Final = b"\x93pst"  # the first byte is no text, so that a text file is never taken for ours
_FORMAT: Final = 2
# mark, format, version of the content, lengths of kind, owner and name, length of the content, checksum
_HEAD: Final = struct.Struct("<4sBHBHHQI")
_CHECKED: Final = _HEAD.size - 4  # all of the head but the checksum itself


def seal(content: Content, kind: str, name: str, *, owner: str = "", version: int = 1) -> bytes:
    """Return the bytes of a sealed object, which ``unseal`` verifies.

    >>> unseal(seal(b"ranks", "snapshot", "parts/7"), "snapshot", "parts/7")
    b'ranks'
    """
    return b"".join(sealed_parts(content, kind, name, owner=owner, version=version))


def sealed_parts(
    content: Content, kind: str, name: str, *, owner: str = "", version: int = 1
) -> tuple[bytes | memoryview, ...]:
    """The same bytes in pieces, for large content: nothing is copied."""
    parts = (content,) if isinstance(content, bytes) else tuple(content)
    words = [word.encode() for word in (kind, owner, name)]
    length = sum(map(len, parts))
    head = _HEAD.pack(_MARK, _FORMAT, version, *map(len, words), length, 0)
    check = _checksum(head[:_CHECKED], *words, *parts)
    return (b"".join((head[:_CHECKED], struct.pack("<I", check), *words)), *parts)


def checksum_of(sealed: Content) -> int:
    """The checksum that a seal holds; of something that was sealed here, or has been unsealed."""
    head = sealed if isinstance(sealed, bytes) else sealed[0]
    check: int = _HEAD.unpack_from(head)[-1]
    return check


def unseal(stored: bytes, kind: str, name: str, *, owner: str = "", version: int = 1) -> bytes:
    """Return the content of an object, after a check of its completeness, kind, name, owner and version."""
    whole = memoryview(stored)
    if not stored.startswith(_MARK[: len(stored)]):
        raise StorageError(
            f"'{name}' was not written by pointstamp: expected a {kind}. Stop other programs that write "
            "to this folder."
        )
    if len(stored) < _HEAD.size:
        _check_format(stored, name)
        raise StorageError(
            f"'{name}' is torn: expected a {kind}, got {len(stored)} bytes. Restore it from a copy."
        )
    _check_format(stored, name)
    _, _, its_version, *lengths, length, check = _HEAD.unpack_from(stored)
    begin = _HEAD.size + sum(lengths)
    needed = begin + length
    if len(stored) != needed:
        what = "torn" if len(stored) < needed else "longer than it was written"
        raise StorageError(
            f"'{name}' is {what}: {needed} bytes were written, got {len(stored)}. Restore it from a copy."
        )
    if _checksum(whole[:_CHECKED], whole[_HEAD.size :]) != check:
        raise StorageError(
            f"'{name}' was altered after it was written: its checksum does not match. Restore it from a copy."
        )
    its_kind, its_owner, its_name = _words(stored, lengths)
    if its_kind != kind:
        raise StorageError(
            f"'{name}': expected a {kind}, got a {its_kind}. The file was moved or copied; restore it."
        )
    if its_version != version:
        age = "an older" if its_version < version else "a newer"
        raise StorageError(
            f"'{name}': expected a {kind} of version {version}, got version {its_version}. It was written "
            f"by {age} pointstamp: use that one, or start in a new folder."
        )
    if its_owner != owner:
        raise StorageError(
            f"'{name}': expected an object of '{owner}', got one of '{its_owner}'. The file was moved or "
            "copied; restore it."
        )
    if its_name != name:
        raise StorageError(
            f"'{name}' contains the object that was written as '{its_name}'. The file was "
            "moved or copied; restore it."
        )
    return bytes(whole[begin:])


def _check_format(stored: bytes, name: str) -> None:
    form = stored[len(_MARK)] if len(stored) > len(_MARK) else _FORMAT
    if form != _FORMAT:
        raise StorageError(
            f"'{name}': expected seal format {_FORMAT}, got {form}. It was altered, or written by another "
            "version: use that one, or start in a new folder."
        )


def _words(stored: bytes, lengths: list[int]) -> list[str]:
    words, begin = [], _HEAD.size
    for length in lengths:
        words.append(stored[begin : begin + length].decode())
        begin += length
    return words


def _checksum(*parts: bytes | memoryview) -> int:
    check = 0
    for part in parts:
        check = zlib.crc32(part, check)
    return check


# Sealed JSON objects, readable by other programs.
#
#     {"format_version": 3, "name": "_pointstamp/000000000019.json", "crc32": "0a1b2c3d", "content": {...}}
#
# It proves what ``sealed`` proves: that an object is whole and unaltered, and lies where it was written. The
# checksum (CRC-32) is over the name and the bytes of the content as they stand there. What is outside of
# these is compared with what would be written, so that no bit of an object is free to change.


class _Version(msgspec.Struct):
    format_version: int


class _Sealed(msgspec.Struct):
    format_version: int
    name: str
    crc32: str
    content: msgspec.Raw


def seal_json(content: bytes, name: str, version: int) -> bytes:
    """JSON for an object of this name, sealed.

    >>> sealed = seal_json(b'{"epochs": 3}', "out/1.json", 3)
    >>> unseal_json(sealed, "out/1.json", 3)
    b'{"epochs": 3}'
    """
    check = f"{zlib.crc32(content, zlib.crc32(name.encode())):08x}"
    return msgspec.json.encode(_Sealed(version, name, check, msgspec.Raw(content)))


def unseal_json(stored: bytes, name: str, version: int) -> bytes:
    """The JSON of an object, after a check that it is complete, of this version and of this name."""
    try:
        its_version = msgspec.json.decode(stored, type=_Version).format_version
        if its_version != version:
            raise StorageError(
                f"'{name}': expected format {version}, got {its_version}. Read it with the pointstamp "
                "that wrote it"
            )
        sealed = msgspec.json.decode(stored, type=_Sealed)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise StorageError(f"'{name}' cannot be read as a manifest: {error}") from error
    content = bytes(sealed.content)
    if seal_json(content, sealed.name, version) != stored:
        raise StorageError(
            f"'{name}' was altered after it was written: its checksum does not match. Restore it from a copy"
        )
    if sealed.name != name:
        raise StorageError(
            f"'{name}' contains the object that was written as '{sealed.name}'. The file "
            "was moved or copied; restore it"
        )
    return content
