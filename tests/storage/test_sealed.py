"""Seals: nothing but what was sealed is ever unsealed.

Families, and what only each can find:
- *round trip*: any content in any pieces comes back;
- *damage*: every truncation, every flipped bit and every lengthening of an object is found and named;
- *mistaken identity*: foreign files, other kinds and other versions are refused with different words.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pointstamp.errors import StorageError
from pointstamp.storage.sealed import seal, sealed_parts, unseal


@given(parts=st.lists(st.binary(max_size=50)), version=st.integers(0, 65535), kind=st.text(max_size=20))
def test_what_was_sealed_is_unsealed(parts: list[bytes], version: int, kind: str) -> None:
    sealed = seal(parts, kind, version)
    assert unseal(sealed, kind, "a", version) == b"".join(parts)
    assert b"".join(sealed_parts(parts, kind, version)) == seal(b"".join(parts), kind, version) == sealed


def test_every_truncation_is_found() -> None:
    sealed = seal(b"some content", "snapshot")
    for keep in range(len(sealed)):
        with pytest.raises(StorageError, match=f"'parts/7' is torn: {keep} bytes are there"):
            unseal(sealed[:keep], "snapshot", "parts/7")


def test_every_flipped_bit_is_found() -> None:
    sealed = seal(b"some content", "snapshot")
    for at in range(len(sealed) * 8):
        flipped = bytearray(sealed)
        flipped[at // 8] ^= 1 << at % 8
        with pytest.raises(StorageError, match="'parts/7'"):
            unseal(bytes(flipped), "snapshot", "parts/7")


@given(tail=st.binary(min_size=1, max_size=20))
def test_every_lengthening_is_found(tail: bytes) -> None:
    with pytest.raises(StorageError, match="'a' is longer than it was written"):
        unseal(seal(b"x", "k") + tail, "k", "a")


@pytest.mark.parametrize("foreign", [b"PK\3\4 a zip", b'{"json": 1}', b"\x93NUMPY"])
def test_a_foreign_file_is_refused(foreign: bytes) -> None:
    with pytest.raises(StorageError, match="'a' was not written by pointstamp: a snapshot was needed"):
        unseal(foreign, "snapshot", "a")


def test_another_kind_is_refused() -> None:
    with pytest.raises(StorageError, match="'a' is a snapshot, and a journal entry was needed"):
        unseal(seal(b"x", "snapshot"), "journal entry", "a")


@pytest.mark.parametrize(("its", "words"), [(1, "an older pointstamp"), (3, "a newer pointstamp")])
def test_another_version_is_refused(its: int, words: str) -> None:
    with pytest.raises(
        StorageError, match=f"of version {its}, .* reads version 2. It was written by {words}"
    ):
        unseal(seal(b"x", "snapshot", its), "snapshot", "a", version=2)
