"""A member's part of a snapshot, as a commit names it."""

import msgspec


class PartSaved(msgspec.Struct, frozen=True, array_like=True):
    """A member's part of a snapshot, as it lies in storage; the checksum is its seal's.

    ``content`` is the part itself where it is small: then it is durable with the commit that names it, and
    nothing lies under its name.
    """

    name: str
    size_bytes: int
    crc32: int
    content: bytes = b""
