"""Sealed JSON objects, readable by other programs.

    {"format_version": 3, "name": "_pointstamp/000000000019.json", "crc32": "0a1b2c3d", "content": {...}}

It proves what ``sealed`` proves: that an object is whole and unaltered, and lies where it was written. The
checksum (CRC-32) is over the name and the bytes of the content as they stand there. What is outside of these
is compared with what would be written, so that no bit of an object is free to change.
"""

import zlib

import msgspec

from pointstamp.errors import StorageError


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
    """The JSON of an object, after a check that it is whole, of this version and of this name."""
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
