"""Seals: nothing but what was sealed is ever unsealed.

Families, and what only each can find:
- *round trip*: any content in any pieces comes back;
- *damage*: every truncation, every flipped bit and every lengthening of an object is found and named;
- *mistaken identity*: foreign files, other kinds, names, owners and versions are refused, each in its words.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pointstamp.errors import StorageError
from pointstamp.storage.sealed import checksum_of, seal, sealed_parts, unseal


@given(parts=st.lists(st.binary(max_size=50)), version=st.integers(0, 65535), kind=st.text(max_size=20))
def test_what_was_sealed_is_unsealed(parts: list[bytes], version: int, kind: str) -> None:
    sealed = seal(parts, kind, "a", owner=kind, version=version)
    assert unseal(sealed, kind, "a", owner=kind, version=version) == b"".join(parts)
    pieces = sealed_parts(parts, kind, "a", owner=kind, version=version)
    assert b"".join(pieces) == sealed
    assert checksum_of(pieces) == checksum_of(sealed)
    assert seal(b"".join(parts), kind, "a", owner=kind, version=version) == sealed


def test_every_truncation_is_found() -> None:
    sealed = seal(b"some content", "snapshot", "parts/7", owner="q")
    for keep in range(len(sealed)):
        with pytest.raises(StorageError, match=rf"'parts/7' is torn: .* got {keep}\b"):
            unseal(sealed[:keep], "snapshot", "parts/7", owner="q")


def test_every_flipped_bit_is_found() -> None:
    sealed = seal(b"some content", "snapshot", "parts/7", owner="q")
    for at in range(len(sealed) * 8):
        flipped = bytearray(sealed)
        flipped[at // 8] ^= 1 << at % 8
        with pytest.raises(StorageError, match="'parts/7'"):
            unseal(bytes(flipped), "snapshot", "parts/7", owner="q")


@given(tail=st.binary(min_size=1, max_size=20))
def test_every_lengthening_is_found(tail: bytes) -> None:
    with pytest.raises(StorageError, match="'a' is longer than it was written"):
        unseal(seal(b"x", "k", "a") + tail, "k", "a")


@pytest.mark.parametrize("foreign", [b"PK\3\4 a zip", b'{"json": 1}', b"\x93NUMPY"])
def test_a_foreign_file_is_refused(foreign: bytes) -> None:
    with pytest.raises(StorageError, match="'a' was not written by pointstamp: expected a snapshot"):
        unseal(foreign, "snapshot", "a")


def test_another_kind_is_refused() -> None:
    with pytest.raises(StorageError, match="'a': expected a journal entry, got a snapshot"):
        unseal(seal(b"x", "snapshot", "a"), "journal entry", "a")


@pytest.mark.parametrize(("its", "words"), [(1, "an older pointstamp"), (3, "a newer pointstamp")])
def test_another_version_is_refused(its: int, words: str) -> None:
    with pytest.raises(StorageError, match=f"of version 2, got version {its}. It was written by {words}"):
        unseal(seal(b"x", "snapshot", "a", version=its), "snapshot", "a", version=2)


def test_an_object_in_the_place_of_another_is_refused_with_both() -> None:
    sealed = seal(b"x", "snapshot", "parts/7", owner="q")
    with pytest.raises(StorageError, match="'parts/8' contains the object that was written as 'parts/7'"):
        unseal(sealed, "snapshot", "parts/8", owner="q")
    with pytest.raises(StorageError, match="'parts/7': expected an object of 'other', got one of 'q'"):
        unseal(sealed, "snapshot", "parts/7", owner="other")


def test_where_a_name_ends_and_another_begins_is_part_of_the_seal() -> None:
    with pytest.raises(StorageError, match="'cd': expected an object of 'ab', got one of 'a'"):
        unseal(seal(b"x", "k", "bcd", owner="a"), "k", "cd", owner="ab")
