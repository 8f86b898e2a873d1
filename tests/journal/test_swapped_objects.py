"""Stored objects in the place of others: a query continues with the right rows, or says what is wrong.

Whoever restores a file from a copy may take the wrong copy. Families:
- swaps: every object of a checkpoint is replaced by every other one, of the same checkpoint and of another
  query's, which has the same flow, other rows and the same names; only this finds what no seal ties down;
- a copy that continued: two checkpoints with one identity, whose snapshots have the same names;
- bits: flipped in every object;
- other versions: what an older pointstamp wrote is refused by its format.
"""

import struct
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from pointstamp.errors import PointstampError, RecoveryError, StorageError
from pointstamp.query.crew import InProcessLauncher
from pointstamp.query.mission import QuerySpec
from pointstamp.query.policy import SnapshotPolicy
from pointstamp.query.start_checks import QUERY, query_id_at
from pointstamp.query.supervisor import Supervisor
from pointstamp.storage.memory import MemoryStorage
from support.recoverables import FLOWS, Published, Rows, expected, rows_of
from support.recovering import Died, MemorySink, Shelf, copied, spec_of
from support.storages import Through

EPOCHS = 7
STOPPED = 4
SNAPSHOTS = SnapshotPolicy(epochs=1, chain_max=2, keep=2)
FLOW = FLOWS["running"]()


@dataclass(frozen=True)
class DyingSink(MemorySink):
    """The driver dies when this commit is to be published."""

    def publish(self, number: int, epochs_through: int, staged: object) -> None:
        super().publish(number, epochs_through, staged)  # type: ignore[arg-type]
        if number == STOPPED:
            raise Died


@dataclass
class Stopped:
    """A query that has died: what it has stored and published."""

    storage: MemoryStorage
    shelf: Shelf
    data: list[Rows]

    def spec(self, storage: MemoryStorage, shelf: Shelf) -> QuerySpec:
        sink = MemorySink(shelf)
        query = query_id_at(storage)
        return spec_of(FLOW, self.data, storage, sink, snapshots=SNAPSHOTS, query_id=query)

    def goes_on(self, storage: MemoryStorage) -> Published | None:
        """What is published after a restart from other objects; None where that is rejected with an error."""
        shelf = self.shelf.copy()
        try:
            Supervisor(self.spec(storage, shelf), InProcessLauncher()).run()
        except (RecoveryError, StorageError):
            return None
        except PointstampError as error:
            return {(str(error), -1): []}  # found late, and as text that nobody understands
        return MemorySink(shelf).rows()


def _stopped(seed: int, *, is_summarized: bool) -> Stopped:
    storage, sink = MemoryStorage(), DyingSink()
    data = rows_of(FLOW, EPOCHS, seed=seed)
    spec = spec_of(FLOW, data, storage, sink, snapshots=SNAPSHOTS, query_id=query_id_at(storage))
    supervisor = Supervisor(spec, InProcessLauncher())
    with pytest.raises(Died):
        supervisor.run()
    if is_summarized:
        assert supervisor._ledger is not None
        supervisor._ledger.summarize()
    return Stopped(storage, sink.shelf, data)


def _others(storage: MemoryStorage, *donors: MemoryStorage) -> Iterator[tuple[str, str, MemoryStorage]]:
    """The checkpoint with each object replaced by each other one."""
    for name in storage.list():
        for donor in (storage, *donors):
            for other in donor.list():
                if donor.read(other) != storage.read(name):
                    swapped = copied(storage)
                    swapped.write(name, donor.read(other))
                    yield name, other, swapped


@pytest.mark.parametrize(
    "is_summarized",
    [pytest.param(False, id="entries", marks=pytest.mark.long), pytest.param(True, id="summary")],
)
def test_an_object_in_the_place_of_another_gives_the_right_rows_or_a_refusal(is_summarized: bool) -> None:
    ours, foreign = (_stopped(seed, is_summarized=is_summarized) for seed in (6, 7))
    wanted = expected(FLOW, ours.data)
    assert ours.goes_on(copied(ours.storage)) == wanted
    assert ours.storage.list() == foreign.storage.list()
    wrong, right, refused = [], 0, 0
    for name, other, swapped in _others(ours.storage, foreign.storage):
        found = ours.goes_on(swapped)
        if found is None:
            refused += 1
        elif found == wanted:
            right += 1
        else:
            wrong.append((name, other))
    assert not wrong, f"{len(wrong)} of {len(wrong) + right + refused} swaps gave wrong rows: {wrong[:5]}"
    assert right > 10, "an older snapshot was resumed from"
    assert refused > 10


def test_a_part_of_a_copy_of_the_checkpoint_that_went_on_by_itself_is_not_taken() -> None:
    ours = _stopped(6, is_summarized=False)
    # As if the same folder had been copied before its first epoch, and had got other rows.
    fork = _stopped(7, is_summarized=False)
    resealed = MemoryStorage()
    resealed.create(QUERY, ours.storage.read(QUERY))
    spec = spec_of(
        FLOW, fork.data, resealed, DyingSink(), snapshots=SNAPSHOTS, query_id=query_id_at(ours.storage)
    )
    with pytest.raises(Died):
        Supervisor(spec, InProcessLauncher()).run()
    wanted = expected(FLOW, ours.data)
    names = [name for name in ours.storage.list("snapshots/") if resealed.size(name) is not None]
    assert names
    for name in names:
        swapped = copied(ours.storage)
        swapped.write(name, resealed.read(name))
        assert ours.goes_on(swapped) in (wanted, None), name


@pytest.mark.parametrize(
    "is_summarized",
    [pytest.param(False, id="entries"), pytest.param(True, id="summary", marks=pytest.mark.long)],
)
def test_a_flipped_bit_of_any_object_gives_the_right_rows_or_a_refusal(is_summarized: bool) -> None:
    ours = _stopped(6, is_summarized=is_summarized)
    wanted = expected(FLOW, ours.data)
    names = ours.storage.list()
    assert names
    for name in names:
        whole = ours.storage.read(name)
        assert whole, name
        # All of the seal's bits are flipped in the tests of seals; here a few of each object.
        for bit in range(0, len(whole) * 8, max(1, len(whole) // 2 | 1)):
            flipped = bytearray(whole)
            flipped[bit // 8] ^= 1 << bit % 8
            damaged = copied(ours.storage)
            damaged.write(name, bytes(flipped))
            assert ours.goes_on(damaged) in (wanted, None), (name, bit)


def test_a_part_that_is_right_only_when_the_driver_looks_is_refused_by_the_worker() -> None:
    ours, foreign = (_stopped(seed, is_summarized=False) for seed in (6, 7))
    late = _Late(copied(ours.storage), foreign.storage)
    with pytest.raises(RecoveryError, match=r"'snapshots/.*': expected an object of '"):
        Supervisor(ours.spec(late, ours.shelf.copy()), InProcessLauncher()).run()  # type: ignore[arg-type]


@dataclass
class _Late(Through):
    """Every other time that they are read parts are right, and else those of another query.

    A worker reads first, then the driver, because of what the worker has found, and then a worker again.
    """

    foreign: MemoryStorage

    def __post_init__(self) -> None:
        self._reads: Counter[str] = Counter()

    def read(self, name: str) -> bytes:
        self._reads[name] += 1
        is_part = name.startswith("snapshots/") and self.foreign.size(name) is not None
        return self.foreign.read(name) if is_part and self._reads[name] % 2 else super().read(name)


def test_a_checkpoint_of_an_older_format_is_refused_with_both_formats() -> None:
    ours = _stopped(6, is_summarized=False)
    # mark, format 1, version of the content, length of the kind's name, of the content, checksum
    before = struct.pack("<4sBHBQI", b"\x93pst", 1, 1, 5, 4, 0) + b"query" + b"1234"
    ours.storage.write(QUERY, before)
    with pytest.raises(StorageError, match=r"'query': expected seal format 2, got 1"):
        query_id_at(ours.storage)


def test_a_checkpoint_without_its_identity_is_refused_in_words() -> None:
    ours = _stopped(6, is_summarized=False)
    ours.storage.delete(QUERY)
    with pytest.raises(RecoveryError, match=r"has a journal, but no object 'query', which names the query"):
        query_id_at(ours.storage)
