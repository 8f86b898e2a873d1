"""A short text that identifies the content of a file.

A unit that is read again must give the rows that it gave before. A file with the same size and other bytes
would give other rows, so its identity is recorded with it, and checked when it is read. A small file is
hashed whole; of a large one blocks are, the first and the last, which is where Parquet and Arrow describe
everything else, and others spread evenly in between. So a change of a large file between two blocks that
keeps its size is not noticed: this finds mistakes, but is not a proof.

On object stores the mark that the store itself has for the content is taken, and nothing is read.
"""

import hashlib
from collections.abc import Callable, Mapping
from typing import Any, Final

_BLOCK_BYTES: Final = 16 * 1024
_BLOCKS: Final = 16
_MARKS: Final = ("ETag", "etag", "md5Hash", "content_md5", "crc32c", "generation", "VersionId", "checksum")


def identity_of(size_bytes: int, read_at: Callable[[int, int], bytes]) -> str:
    """The identity of content of a given size, which ``read_at(size, at)`` reads.

    >>> content = bytes(range(256)) * 4096
    >>> whole = identity_of(len(content), lambda size, at: content[at : at + size])
    >>> other = content[:-1] + b"!"
    >>> whole == identity_of(len(other), lambda size, at: other[at : at + size])
    False
    """
    digest = hashlib.blake2b(size_bytes.to_bytes(8, "little"), digest_size=12)
    if size_bytes <= _BLOCK_BYTES * _BLOCKS:
        digest.update(read_at(size_bytes, 0))
    else:
        for number in range(_BLOCKS):
            digest.update(read_at(_BLOCK_BYTES, (size_bytes - _BLOCK_BYTES) * number // (_BLOCKS - 1)))
    return digest.hexdigest()


def mark_of(details: Mapping[str, Any]) -> str | None:
    """The mark of a store for an object's content; None where it has none."""
    return next((f"{key}={details[key]}" for key in _MARKS if details.get(key)), None)
