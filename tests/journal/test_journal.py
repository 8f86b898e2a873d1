"""The journal: one history, whoever writes it, whatever the storage does.

Families, and what only each can find:
- *order*: numbers, generations and reopening, without faults;
- *fencing*: an older driver never gets an entry in after a newer one has started, also if it slept while its
  number was taken, summarized and deleted; two that start at once are told apart, however alike they are;
- *lost answers*: a write that is tried again counts once; another entry in its place is refused;
- *damage*: gaps, torn, altered, exchanged and foreign objects are named, and never passed over;
- *summaries*: a crash among the deletions changes nothing that is read; readers and starters race with them;
- *processes*: drivers that really run at the same time, over local files.

Random interleavings of several drivers are in ``test_journal_machine``.
"""

import re
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from pathlib import Path

import pytest

from pointstamp.errors import FencedError, PointstampWarning, RecoveryError, StorageError
from pointstamp.journal.entries import GenerationStarted
from pointstamp.journal.journal import Journal
from pointstamp.storage.local import LocalStorage
from pointstamp.storage.memory import MemoryStorage
from support.journals import Entry, Said, Summed, opened, said_in, started
from support.storages import Fail, Fault, FaultyStorage, Interrupt, LoseAnswer, Repeat, Tear, random_faults

# Order


def test_entries_come_back_in_order_with_their_numbers_and_generations() -> None:
    storage = MemoryStorage()
    assert opened(storage).entries() == []
    first = started(storage, at=1.0)
    assert (first.append(Said(10)), first.append(Said(11))) == (1, 2)
    second = started(storage, "host b, process 2", at=2.0)
    assert second.append(Said(12)) == 4
    expected = [
        GenerationStarted(1, "host a, process 1", 1.0),
        Said(10),
        Said(11),
        GenerationStarted(2, "host b, process 2", 2.0),
        Said(12),
    ]
    assert second.entries() == opened(storage).entries() == expected
    assert [(r.number, r.generation) for r in second.records()] == [(0, 1), (1, 1), (2, 1), (3, 2), (4, 2)]
    assert storage.list() == [f"journal/{n:012}" for n in range(5)]


def test_nothing_is_appended_before_a_generation_and_none_is_started_twice() -> None:
    journal = opened(MemoryStorage())
    with pytest.raises(RecoveryError, match="needs a started generation"):
        journal.append(Said(1))
    assert journal.start_generation("a", 0.0) == journal.generation == 1
    with pytest.raises(RecoveryError, match="has already started generation 1"):
        journal.start_generation("a", 0.0)


def test_journals_of_different_prefixes_do_not_meet() -> None:
    storage = MemoryStorage()
    one = opened(storage, prefix="one/")
    one.start_generation("a", 0.0)
    storage.create("one/notes", b"whatever has no number is no entry")
    assert one.append(Said(1)) == 1
    assert opened(storage, prefix="two/").entries() == []
    assert opened(storage, prefix="one/").entries() == one.entries()


def test_a_storage_that_cannot_tell_two_drivers_apart_is_warned_of() -> None:
    class Weak(FaultyStorage):
        is_exclusive = False

    with pytest.warns(PointstampWarning, match="cannot tell apart two drivers"):
        opened(Weak(MemoryStorage()))


# Fencing


def test_an_older_driver_is_told_who_took_over() -> None:
    storage = MemoryStorage()
    old = started(storage)
    started(storage, "host b, process 2", at=1_700_000_000.0)
    words = "entry 1 is generation 2, started by host b, process 2 at 2023-11-14 22:13:20"
    for value in (1, 2):  # and so for ever
        with pytest.raises(FencedError, match=f"generation 1 may write nothing more .*: {words}"):
            old.append(Said(value))


def test_a_driver_can_ask_whether_it_was_replaced_without_writing_anything() -> None:
    storage = MemoryStorage()
    older = started(storage)
    older.append(Said(1))
    older.check_not_fenced()
    newer = started(storage)
    newer.append(Said(2))
    newer.summarize(Summed(()))
    with pytest.raises(FencedError, match="generation 1 may write nothing more"):
        older.check_not_fenced()
    newer.check_not_fenced()


def test_a_driver_that_slept_through_a_summary_is_fenced() -> None:
    storage = MemoryStorage()
    old = started(storage)
    for _ in range(3):
        new = started(storage)
        new.append(Said(1))
        new.summarize(Summed(tuple(said_in(new.records()))))
    with pytest.raises(FencedError, match="generation 2"):
        old.append(Said(2))
    with pytest.raises(FencedError, match="generation 2"):
        old.summarize(Summed(()))


def test_entries_that_an_older_driver_slips_in_come_before_the_new_generation() -> None:
    storage = MemoryStorage()
    old = started(storage)
    faulty = FaultyStorage(storage)
    new = opened(faulty)
    # It lists, reads one entry, and is about to create.
    faulty.follow([None, None, Interrupt(lambda: [old.append(Said(v)) for v in (1, 2)].clear())])
    assert new.start_generation("b", 0.0) == 2
    assert said_in(new.records()) == [(1, 1), (2, 2)]
    assert new.append(Said(3)) == 4


@pytest.mark.parametrize("operation", range(4))
def test_two_that_start_at_once_are_told_apart_however_alike(operation: int) -> None:
    storage = MemoryStorage()
    started(storage)
    faulty = FaultyStorage(storage)
    one, two = opened(faulty), opened(storage)
    faulty.follow([None] * operation + [Interrupt(lambda: void(two.start_generation("same", 0.0)))])
    try:
        one.start_generation("same", 0.0)
    except FencedError as error:
        said = "was replaced at once in .*: entry 2 is generation 3, started by same"
        assert re.search(said, str(error))  # noqa: PT017 - either of the two may be the later one
        assert two.append(Said(1)) == 3
        return
    assert (one.generation, two.generation) == (3, 2)
    with pytest.raises(FencedError, match=r"may write nothing more to .*Stop this driver"):
        two.append(Said(1))
    one.append(Said(2))


def test_a_start_whose_number_was_summarized_away_meanwhile_is_void() -> None:
    storage = MemoryStorage()
    old = started(storage)
    faulty = FaultyStorage(storage)
    new = opened(faulty)

    def go_on() -> None:
        old.append(Said(1))
        old.append(Said(2))
        old.summarize(Summed(tuple(said_in(old.records()))))

    faulty.follow([None, None, Interrupt(go_on)])  # it wanted number 1, which is free again
    assert new.start_generation("b", 0.0) == 2
    assert new.records()[-1].number == 4
    assert said_in(new.records()) == [(1, 1), (2, 2)]
    with pytest.raises(FencedError, match=r"may write nothing more to .*Stop this driver"):
        old.append(Said(3))
    assert new.append(Said(4)) == 5


# Lost answers


@pytest.mark.parametrize("fault", [Fail(), LoseAnswer()])
def test_an_entry_that_is_appended_again_counts_once(fault: Fault) -> None:
    storage = FaultyStorage(MemoryStorage())
    journal = started(storage)
    storage.follow([fault])
    with pytest.raises(StorageError, match="connection broke"):
        journal.append(Said(1))
    with pytest.raises(RecoveryError, match="Append the same entry again"):
        journal.append(Said(2))
    assert journal.append(Said(1)) == 1
    assert journal.append(Said(2)) == 2
    assert said_in(opened(storage).records()) == [(1, 1), (2, 2)]


def test_a_request_that_the_client_repeats_counts_once() -> None:
    storage = FaultyStorage(MemoryStorage(), [None, Repeat()])
    journal = started(storage)
    storage.follow([Repeat()])
    assert journal.append(Said(1)) == 1
    assert len(opened(storage).entries()) == 2


@pytest.mark.parametrize("seed", range(20))
def test_a_patient_driver_gets_every_entry_in_once(seed: int) -> None:
    inner = MemoryStorage()
    storage = FaultyStorage(inner, random_faults(seed, one_in=3))
    journal = opened(storage)
    patiently(lambda: journal.start_generation("a", 0.0))
    for value in range(20):
        patiently(partial(journal.append, Said(value)))
    assert [value for _, value in said_in(opened(inner).records())] == list(range(20))


def patiently(act: Callable[[], object]) -> None:
    for _ in range(100):
        try:
            act()
        except StorageError:
            continue
        return
    raise AssertionError("a hundred tries were not enough")


# Processes

_DRIVER = """
import sys, msgspec
from pointstamp.errors import FencedError
from pointstamp.journal.journal import Journal
from pointstamp.storage.local import LocalStorage
class Said(msgspec.Struct, frozen=True, tag=True, array_like=True):
    value: int
journal = Journal.open(LocalStorage(sys.argv[1]), Said)
try:
    journal.start_generation("alike", 0.0)
    for value in range(int(sys.argv[2]), int(sys.argv[2]) + 15):
        print(journal.append(Said(value)), value, flush=True)
except FencedError:
    print("fenced")
"""


def test_processes_at_the_same_time_make_one_history(tmp_path: Path) -> None:
    commands = [[sys.executable, "-c", _DRIVER, str(tmp_path), str(1000 * i)] for i in range(3)]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for command in commands]
    try:
        outputs = [process.communicate(timeout=300)[0].splitlines() for process in running]
    finally:
        for process in running:
            process.kill()
            process.wait(timeout=300)
    lines = [line.split() for output in outputs for line in output if line != "fenced"]
    acknowledged = sorted((int(number), int(value)) for number, value in lines)
    records = opened(LocalStorage(tmp_path)).records()
    assert said_in(records) == acknowledged
    assert [record.number for record in records] == list(range(len(records)))
    assert all(a.generation <= b.generation for a, b in pairwise(records))
    assert sum(output[-1:] != ["fenced"] for output in outputs) >= 1


# Damage


def with_entries(count: int) -> MemoryStorage:
    storage = MemoryStorage()
    journal = started(storage)
    for value in range(1, count):
        journal.append(Said(value))
    return storage


@pytest.mark.parametrize("number", [0, 2])
def test_a_gap_is_named(number: int) -> None:
    storage = with_entries(4)
    storage.delete(f"journal/{number:012}")
    with pytest.raises(RecoveryError, match=f"has a gap: .*'journal/{number:012}'.* entries up to 3"):
        opened(storage).entries()


@pytest.mark.parametrize("number", [0, 1, 3])
def test_every_torn_or_altered_entry_is_named_also_the_last(number: int) -> None:
    storage = with_entries(4)
    name = f"journal/{number:012}"
    whole = storage.read(name)
    damaged = [whole[:keep] for keep in range(len(whole))]
    damaged += [whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :] for at in range(len(whole))]
    for content in [*damaged, b"", b"something else"]:
        storage.write(name, content)
        with pytest.raises(RecoveryError, match=f"entry {number} of the journal cannot be read.*'{name}'"):
            opened(storage).entries()
        with pytest.raises(RecoveryError, match="cannot be read, and no entry may be skipped"):
            opened(storage).start_generation("b", 0.0)


@pytest.mark.parametrize("is_told", [True, False])
def test_a_write_that_the_storage_tore_is_found(is_told: bool) -> None:
    storage = FaultyStorage(MemoryStorage())
    journal = started(storage)
    storage.follow([Tear(0.5, is_told)])
    if is_told:
        with pytest.raises(StorageError, match="the connection broke during create"):
            journal.append(Said(1))
        with pytest.raises(RecoveryError, match="entry 1 of the journal cannot be read"):
            journal.append(Said(1))
    else:
        journal.append(Said(1))
    with pytest.raises(RecoveryError, match="entry 1 of the journal cannot be read"):
        opened(storage).entries()


def test_an_entry_in_anothers_place_is_found() -> None:
    storage = with_entries(4)
    storage.write("journal/000000000002", storage.read("journal/000000000001"))
    with pytest.raises(
        RecoveryError,
        match="'journal/000000000002' contains the object that was written as 'journal/000000000001'",
    ):
        opened(storage).entries()


def test_an_entry_of_another_program_is_named() -> None:
    storage = with_entries(2)
    journal: Journal[Summed] = Journal.open(storage, Summed)
    with pytest.raises(RecoveryError, match=r"entry 1 of the journal .* unknown to this version"):
        journal.entries()


# Summaries


def test_a_summary_stands_for_all_before_it_and_only_starts_stay() -> None:
    storage = MemoryStorage()
    journal = started(storage)
    journal.append(Said(1))
    journal = started(storage)
    journal.append(Said(2))
    assert journal.summarize(Summed(((1, 1), (3, 2)))) == 4
    journal.append(Said(3))
    assert [int(name[-3:]) for name in storage.list("journal/")] == [0, 2, 4, 5]
    assert journal.entries() == opened(storage).entries() == [Summed(((1, 1), (3, 2))), Said(3)]
    after = started(storage)
    assert after.generation == 3
    after.summarize(Summed(()))
    assert [int(name[-3:]) for name in storage.list("journal/")] == [0, 2, 6, 7]


def test_a_crash_anywhere_in_a_summary_is_harmless() -> None:
    for crash_at in range(1, 7):
        storage = with_entries(5)
        faulty = FaultyStorage(storage)
        journal = started(faulty)
        said = tuple(said_in(journal.records()))
        faulty.follow([None] * crash_at + [Fail()])
        try:
            journal.summarize(Summed(said))
        except StorageError:
            pass
        else:
            assert crash_at == 6  # one create, one list and four deletions
        after = started(storage)
        assert said_in(after.records()) == list(said)
        after.summarize(Summed(said))
        assert [int(name[-3:]) for name in storage.list("journal/")] == [0, 5, 7, 8]


def test_a_reader_that_a_summary_overtakes_begins_again() -> None:
    storage = MemoryStorage()
    journal = started(storage)
    for value in range(3):
        journal.append(Said(value))
    for operation in range(5):
        said = tuple(said_in(journal.records()))
        script: list[Fault] = [*[None] * operation, Interrupt(partial(sum_up, journal, said))]
        assert said_in(opened(FaultyStorage(storage, script)).records()) == list(said)


def sum_up(journal: Journal[Entry], said: tuple[tuple[int, int], ...]) -> None:
    journal.summarize(Summed(said))


def void(_: object) -> None:
    """For acts whose answer nobody needs."""
