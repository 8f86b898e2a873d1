"""A member's part of a snapshot, as a commit names it."""

import msgspec


class PartSaved(msgspec.Struct, frozen=True, array_like=True):
    """A member's part of a snapshot, as it lies in storage; the checksum is its seal's."""

    name: str
    size_bytes: int
    crc32: int
