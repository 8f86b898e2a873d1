"""Optional methods of sinks, writers and publishers: defaults for classes that do not inherit them.

Families:

- *plain*: an object with the required methods only gets every default;
- *options*: an object with some of the optional methods keeps them.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager

import pyarrow as pa
import pytest

from pointstamp.connectors.published.sink import ParquetSink
from pointstamp.connectors.sink import (
    Epochs,
    PublisherBase,
    Sink,
    Staged,
    complete_publisher,
    complete_sink,
    complete_writer,
    kind_of_sink,
    prepared,
)
from pointstamp.errors import FlowError, RecoveryError, StorageError
from pointstamp.storage.memory import MemoryStorage
from pointstamp.storage.port import Storage

PIECE = Staged("out", 0, 0, "a", 1, 1, 0)


class Plain:
    """A sink, its writer and its publisher in one, with the required methods only."""

    def __init__(self) -> None:
        self.published: list[int] = []

    def for_query(self, query: str, schemas: Mapping[str, pa.Schema]) -> Sink:
        return self

    def writer(self, worker: int, generation: int) -> "Plain":
        return self

    def publisher(self) -> "Plain":
        return self

    def stage(self, output: str, epochs: Epochs) -> list[Staged]:
        return [PIECE]

    def begin(self) -> None:
        self.published.append(0)

    def publish(self, number: int, epochs_through: int, staged: Sequence[Staged]) -> None:
        self.published.append(number)

    def published_through(self) -> int | None:
        return 4

    def discard(self, generation: int, keep: Collection[Staged]) -> None:
        self.published.clear()


class WithOptions(Plain):
    """The same with all optional methods."""

    def stage_early(self, output: str, epochs: Epochs) -> list[Staged]:
        return []

    def check_outputs(self, before: Collection[str]) -> None:
        if "gone" in before:
            raise RecoveryError("an output is gone")

    @contextmanager
    def prepared(self, number: int, epochs_through: int, staged: Sequence[Staged]) -> Iterator[None]:
        self.published.append(-number)
        yield

    def compactor(self) -> None:
        self.published.append(1)

    def staging_in(self, storage: Storage) -> Sink:
        return Plain()

    def check_place(self) -> None:
        raise StorageError("no place")


def test_a_sink_without_options_has_their_defaults() -> None:
    sink = complete_sink(Plain())
    sink.check_place()
    assert sink.compactor() is None
    assert sink.staging_in(MemoryStorage()) is sink
    assert complete_sink(sink.for_query("q", {})) is not None
    assert complete_sink(sink) is sink
    assert kind_of_sink(sink) == kind_of_sink(Plain()) == "Plain"


def test_a_writer_and_a_publisher_without_options_have_their_defaults() -> None:
    plain = Plain()
    assert complete_writer(plain).stage_early("out", {}) == [PIECE]
    publisher = complete_publisher(plain)
    assert publisher.check_outputs(["out"]) is False
    with prepared(plain, 3, 3, []):
        publisher.publish(3, 3, [])
    assert (plain.published, publisher.published_through()) == ([3], 4)
    publisher.discard(1, [])
    assert plain.published == []


def test_options_of_an_object_are_kept() -> None:
    given = WithOptions()
    assert complete_writer(given).stage_early("out", {}) == []
    assert complete_publisher(given).check_outputs(["out"]) is None
    with pytest.raises(RecoveryError, match="an output is gone"):
        complete_publisher(given).check_outputs(["gone"])
    complete_publisher(given).begin()
    with prepared(given, 3, 3, []):
        complete_publisher(given).publish(3, 3, [])
    complete_sink(given).compactor()
    assert given.published == [0, -3, 3, 1]
    assert kind_of_sink(complete_sink(given).staging_in(MemoryStorage())) == "Plain"
    with pytest.raises(StorageError, match="no place"):
        complete_sink(given).check_place()


def test_a_publisher_without_a_mark_before_its_first_commit_is_rejected() -> None:
    class Unmarked:
        publish, published_through, discard = Plain.publish, Plain.published_through, Plain.discard

    said = r"Unmarked is not a publisher. It needs the methods begin, publish, published_through and disc"
    with pytest.raises(FlowError, match=said):
        complete_publisher(Unmarked())  # type: ignore[arg-type]  # which lacks begin
    with pytest.raises(TypeError, match=r"abstract method '?begin"):
        type("Inherits", (PublisherBase,), {})()


def test_sinks_of_ours_are_complete() -> None:
    sink = ParquetSink("memory://x")
    assert complete_sink(sink) is sink
