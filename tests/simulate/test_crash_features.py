"""Worlds with crashes have epoch columns, savepoints, failures of power, and a storage that keeps its word.

Families, and what only each can find:
- the storage: what is acknowledged survives the power, and what is not may not; were it stronger than its
  port, worlds would be valid that are not;
- choices: the further ones leave the first ones as they were, so that an old seed is an old world;
- the worlds: each feature happens, in some worlds and not in others, and together; without these the worlds
  that must survive could be valid because nothing of it happens;
- columns: the rows of an input are the same whatever the units in which they come.
"""

from collections import Counter
from collections.abc import Callable

import pyarrow as pa
import pytest

from pointstamp.errors import NotStored
from pointstamp.simulate.case import Case
from pointstamp.simulate.crash.durability import DiedError, Durability, SimulatedStorage, UnansweredError
from pointstamp.simulate.crash.events import Crashed, SavepointTaken, UserSaid
from pointstamp.simulate.crash.feed import COLUMN, by_epoch, complete_after, with_columns
from pointstamp.simulate.crash.setting import (
    FIRST_NUMBER,
    NOTHING_FURTHER,
    CrashRun,
    Features,
    further_choices,
)
from pointstamp.simulate.feed import FedItem
from pointstamp.simulate.network import Choices
from pointstamp.simulate.seeds import cases
from pointstamp.simulate.world import Ended
from support.broken_recovery import simulator_of, sound_flows

# The storage.


def undone(options: int) -> int:
    """Whatever may be undone is."""
    return options - 1


@pytest.fixture
def storage() -> SimulatedStorage:
    durability = Durability()
    durability.draw = undone
    return SimulatedStorage(durability)


def dies(storage: SimulatedStorage, act: Callable[[], None], *, late: bool) -> None:
    """Do something that its writer does not survive."""
    durability = storage._durability
    durability.dies_after, durability.dies_late = 0, late
    with pytest.raises(DiedError, match="create 'a/1'"):
        act()
    durability.dies_after = None


def test_what_is_acknowledged_survives_the_power(storage: SimulatedStorage) -> None:
    storage.create("a/1", b"one")
    storage.write("a/2", b"old")
    storage.write("a/2", b"new")
    assert storage.lose_power() == 0
    assert (storage.read("a/1"), storage.read("a/2")) == (b"one", b"new")


def test_what_is_deleted_may_be_there_again(storage: SimulatedStorage) -> None:
    storage.create("a/1", b"one")
    storage.delete("a/1")
    assert storage.list() == []
    storage.lose_power()
    assert storage.read("a/1") == b"one"


def test_a_name_that_is_used_again_never_holds_what_it_held_before(storage: SimulatedStorage) -> None:
    storage.create("a/1", b"one")
    storage.delete("a/1")
    storage.create("a/1", b"another")
    storage.lose_power()
    assert storage.read("a/1") == b"another"


def test_a_writer_that_dies_early_leaves_nothing_under_the_name(storage: SimulatedStorage) -> None:
    dies(storage, lambda: storage.create("a/1", b"one"), late=False)
    assert storage.begun == 1
    assert storage.list() == []
    storage.create("a/1", b"another")


def test_what_is_seen_and_not_acknowledged_may_be_gone_with_the_power(storage: SimulatedStorage) -> None:
    dies(storage, lambda: storage.create("a/1", b"one"), late=True)
    assert storage.read("a/1") == b"one"
    storage.lose_power()
    with pytest.raises(NotStored, match="there is no object 'a/1'"):
        storage.read("a/1")


def test_a_later_object_of_the_same_folder_makes_it_sure(storage: SimulatedStorage) -> None:
    storage._durability.fails = "no answer"
    with pytest.raises(UnansweredError, match="the storage does not answer"):
        storage.create("a/1", b"one")
    storage.create("a/2", b"two")
    storage.lose_power()
    assert storage.list() == ["a/1", "a/2"]


# Choices.


def test_further_choices_have_numbers_of_their_own_and_are_plain_where_they_are_not_kept() -> None:
    first, further = Choices(7), further_choices(7)
    drawn = [(first.choose(10), further.choose(10)) for _ in range(50)]
    assert any(a != b for a, b in drawn), "they are two streams"
    assert min(further.made) >= FIRST_NUMBER > max(first.made)
    again = further_choices(7, frozenset(further.made[:1]))
    assert [again.choose(10) for _ in range(50)].count(0) == 49


def test_a_world_without_further_choices_has_no_features() -> None:
    assert Features.of(further_choices(7, frozenset())) == NOTHING_FURTHER
    run = simulator_of(sound_flows()["running"]()).crash_run(Case(7, 2, crashes=3, choices=frozenset()))
    assert run.ended is Ended.COMPLETE
    assert run.successor is None


# The worlds.


def test_every_feature_happens_and_none_happens_everywhere() -> None:
    simulator = simulator_of(sound_flows()["running"]())
    worlds: Counter[str] = Counter()
    for case in cases(range(60), 1, 3, (1, 4)):
        run = simulator.crash_run(case)
        assert run.ended is Ended.COMPLETE, (case, run.reason)
        worlds.update(_features(run))
    assert all(3 <= count <= 57 for count in worlds.values()), worlds
    assert set(worlds) == {
        "said",
        "savepoint",
        "power",
        "successor",
        "successor crashed",
        "rows across ticks",
        "closed",
    }


def _features(run: CrashRun) -> set[str]:
    events = [event for _, event in run.happened]
    after = run.successor
    ticks = list(run.ticks.values())
    last = max(each.open_from for each in ticks)
    found = {
        "said": any(isinstance(event, UserSaid) for event in events),
        "savepoint": any(isinstance(event, SavepointTaken) for event in events),
        "power": any(isinstance(event, Crashed) and "the power failed" in event.what for event in events),
        "successor": after is not None,
        "successor crashed": after is not None and after.crashes > 0,
        "rows across ticks": any(each.units and each.complete_to == each.open_from for each in ticks),
        "closed": run.complete_to > last + 2,
    }
    return {name for name, is_there in found.items() if is_there}


# Columns.


def test_rows_with_columns_are_the_same_rows_of_the_same_epochs() -> None:
    items = [FedItem(pa.record_batch({"k": [10 * epoch + row for row in range(3)]})) for epoch in range(5)]
    moved = with_columns({"a": items}, Choices(3))["a"]
    assert [item.batch.num_rows for item in moved] != [3] * 5, "some came in other units"
    found: dict[int, list[int]] = {}
    for item in moved:
        for epoch, rows in by_epoch(item.batch):
            found.setdefault(epoch, []).extend(rows.column("k").to_pylist())
    assert {epoch: sorted(rows) for epoch, rows in found.items()} == {
        epoch: item.batch.column("k").to_pylist() for epoch, item in enumerate(items)
    }


def test_what_is_complete_after_some_units_never_comes_later() -> None:
    items = [FedItem(pa.record_batch({"k": list(range(3))})) for _ in range(6)]
    for seed in range(20):
        moved = with_columns({"a": items}, Choices(seed))["a"]
        complete = complete_after(moved)
        assert len(complete) == 7
        assert complete == sorted(complete)
        assert complete[-1] == 6
        for number, item in enumerate(moved):
            assert all(epoch >= complete[number] for epoch in item.batch.column(COLUMN).to_pylist())
