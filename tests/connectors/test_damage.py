"""Damaged manifests: what was published is read as it was, or the damage is said; never anything else.

Families:
- bits: each bit of each manifest is flipped; only this finds a field that no check covers;
- swaps: each manifest is replaced by each other one, of this output and of another query's;
- versions: a manifest that an older pointstamp wrote is refused by its format.
"""

from typing import Any

import pyarrow as pa
import pytest

from connectors.harness import batches
from pointstamp.connectors.published.chain import FOLDER, Chain
from pointstamp.connectors.published.reader import published_now, read_changes
from pointstamp.connectors.published.sink import ParquetSink
from pointstamp.errors import StorageError
from pointstamp.storage.memory import MemoryStorage

SCHEMAS = {"counts": pa.schema([("x", pa.int64())])}
COMMITS = 12
AFTER = 5


def _output(query: str, commits: int = COMMITS) -> MemoryStorage:
    """What a query has published: an epoch with a row for each commit."""
    storage = MemoryStorage()
    sink = ParquetSink("out", lambda _: storage).for_query(query, SCHEMAS)
    publisher = sink.publisher()
    for number in range(commits):
        staged = sink.writer(0, 1).stage("counts", {number: batches(len(query) * 100 + number)})
        publisher.publish(number, number, staged)
    return storage


def _copy(storage: MemoryStorage) -> MemoryStorage:
    copy = MemoryStorage()
    for name in storage.list():
        copy.create(name, storage.read(name))
    return copy


def _read(storage: MemoryStorage) -> Any:  # noqa: ANN401
    """All that a reader may ask for."""
    found = published_now("out", open_storage=lambda _: storage)
    rows = [
        read_changes("out", "counts", after=after, open_storage=lambda _: storage).to_pylist()
        for after in (None, AFTER)
    ]
    return (found.query, found.epochs_through, found.is_complete, str(found.outputs), rows)


def test_every_flipped_bit_of_a_manifest_is_found_and_the_manifest_is_named() -> None:
    storage = _output("q")
    links = storage.list(f"{FOLDER}/")
    assert len(links) == 3
    for name in links:
        whole = storage.read(name)
        for bit in range(len(whole) * 8):
            flipped = bytearray(whole)
            flipped[bit // 8] ^= 1 << bit % 8
            storage.write(name, bytes(flipped))
            with pytest.raises(StorageError, match=name.rpartition("/")[2]):
                Chain(storage).links()
        storage.write(name, whole)


def test_a_manifest_in_the_place_of_another_is_found() -> None:
    storage, foreign = _output("q"), _output("other")
    swaps = 0
    for name in storage.list():
        for donor in (storage, foreign):
            for other in donor.list():
                if donor.read(other) == storage.read(name):
                    continue
                swapped = _copy(storage)
                swapped.write(name, donor.read(other))
                with pytest.raises(StorageError, match=name.rpartition("/")[2]):
                    _read(swapped)
                swaps += 1
    assert swaps >= len(storage.list()) * (len(storage.list()) - 1) > 0


def test_a_driver_does_not_go_on_from_the_manifest_of_another_query() -> None:
    storage, foreign = _output("q", 10), _output("other", 10)
    (name,) = storage.list(f"{FOLDER}/")
    storage.write(name, foreign.read(name))
    publisher = ParquetSink("out", lambda _: storage).for_query("q", SCHEMAS).publisher()
    with pytest.raises(StorageError, match="belongs to query 'other', and query 'q' cannot publish to it"):
        publisher.published_through()


def test_a_manifest_of_an_older_format_is_refused_with_both_formats() -> None:
    storage = MemoryStorage()
    storage.create(
        f"{FOLDER}/000000000000.json", b'{"query":"q","outputs":{},"commits":[],"format_version":2}'
    )
    with pytest.raises(StorageError, match="expected format 3, got 2"):
        Chain(storage).links()
