"""The ledger: what a driver knows of its query is what the next driver reads, also from a summary.

Families:
- *published*: what a commit, or the next one, says about the output before it;
- *kept*: which snapshots a summary keeps, also while later ones are known to be damaged;
- *savepoints*: which commit still has the name of a savepoint that was dropped;
- *changed*: another shape is stored with the next commit, and the same shape with none;
- *promises*: what was promised of an input, before and after a summary.
"""

from typing import Any

import pytest

from pointstamp.connectors.source import Part, Unit
from pointstamp.errors import SourceError
from pointstamp.journal.history import Entry, FlowShape
from pointstamp.journal.journal import Journal
from pointstamp.journal.ledger import Ledger
from pointstamp.storage.memory import MemoryStorage


def _ledger(storage: MemoryStorage, *, chains_kept: int = 2) -> Ledger:
    journal: Journal[Entry] = Journal.open(storage, Entry, query="q")
    journal.start_generation("test", 0.0)
    return Ledger(journal, {}, chains_kept=chains_kept)


def _begun(storage: MemoryStorage, *, chains_kept: int = 2) -> Ledger:
    ledger = _ledger(storage, chains_kept=chains_kept)
    ledger.begin(FlowShape("rows", "q", {}))
    return ledger


@pytest.mark.parametrize("is_summary", [False, True])
@pytest.mark.parametrize(("commits", "published"), [([4], -1), ([4, 6], 4), ([4, 6, 9], 6)])
def test_a_commit_says_that_the_one_before_it_is_published_and_no_more(
    commits: list[int], published: int, is_summary: bool
) -> None:
    storage = MemoryStorage()
    ledger = _begun(storage)
    for epoch in commits:
        ledger.commit(epoch, [], [], is_whole=True, settled=-1)
    assert ledger.published == published
    if is_summary:
        ledger.summarize()
    assert _ledger(storage).published == published


def test_what_was_said_to_be_published_does_not_go_back_with_the_next_commit() -> None:
    storage = MemoryStorage()
    ledger = _begun(storage)
    ledger.commit(4, [], [], is_whole=True, settled=-1)
    ledger.note_published(4)
    ledger.commit(6, [], [], is_whole=True, settled=-1)
    assert ledger.published == 4
    ledger.note_published(6)
    ledger.summarize()
    assert _ledger(storage).published == 6


@pytest.mark.parametrize("is_begun", [False, True])
@pytest.mark.parametrize("commits", [0, 1, 2])
def test_a_summary_says_whether_the_output_has_begun(commits: int, is_begun: bool) -> None:
    storage = MemoryStorage()
    ledger = _begun(storage)
    if is_begun:
        ledger.note_begun()
    for epoch in range(commits):
        ledger.commit(epoch, [], [], is_whole=True, settled=-1)
    ledger.summarize()
    assert ledger.is_output_begun == is_begun
    assert _ledger(storage).is_output_begun == is_begun


@pytest.mark.parametrize("chains_kept", [1, 2, 3])
def test_a_summary_keeps_so_many_whole_snapshots_and_what_was_added_to_them(chains_kept: int) -> None:
    ledger = _begun(MemoryStorage(), chains_kept=chains_kept)
    for epoch, is_whole in enumerate([True, False, True, True, False, True, False]):
        ledger.commit(epoch, [], [], is_whole=is_whole, settled=-1)
    ledger.summarize()
    first = {1: 5, 2: 3, 3: 2}[chains_kept]
    assert [commit.epoch for commit in ledger.commits] == list(range(first, 7))


@pytest.mark.parametrize(("in_use", "first"), [(1, 0), (2, 2), (3, 3), (4, 3)])
def test_a_snapshot_in_use_is_kept_while_all_later_ones_are_damaged(in_use: int, first: int) -> None:
    ledger = _begun(MemoryStorage(), chains_kept=1)
    for epoch, is_whole in enumerate([True, False, True, True, False, True]):
        ledger.commit(epoch, [], [], is_whole=is_whole, settled=-1)
    chain = next(chain for chain in ledger.chains() if chain.epoch == in_use)
    ledger.go_on_from(chain)
    ledger.summarize()
    assert [commit.epoch for commit in ledger.commits] == list(range(first, 6))
    ledger.commit(6, [], [], is_whole=True, settled=-1)  # by which the damage is over
    ledger.summarize()
    assert [commit.epoch for commit in ledger.commits] == [6]


@pytest.mark.parametrize("is_summary", [False, True])
def test_a_dropped_savepoint_is_gone_from_its_commit_and_from_no_other(is_summary: bool) -> None:
    storage = MemoryStorage()
    ledger = _begun(storage, chains_kept=3)
    for epoch, name in enumerate(["a", "b", None]):
        ledger.commit(epoch, [], [], is_whole=True, settled=-1, savepoint=name)
    ledger.drop("a")
    if is_summary:
        ledger.summarize()
    for each in (ledger, _ledger(storage, chains_kept=3)):
        assert [commit.savepoint for commit in each.commits] == [None, "b", None]
        assert [savepoint.name for savepoint in each.savepoints] == ["b"]


def test_another_shape_is_stored_with_the_next_commit_and_the_same_shape_with_none() -> None:
    storage = MemoryStorage()
    ledger = _begun(storage)
    ledger.change_to(FlowShape("rows", "q", {}))
    assert ledger.commit(0, [], [], is_whole=True, settled=-1).shape is None
    other = FlowShape("rows", "q", {}, version="2")
    ledger.change_to(other)
    assert _ledger(storage).shape == FlowShape("rows", "q", {})
    ledger = _ledger(storage)
    ledger.change_to(other)
    assert ledger.commit(1, [], [], is_whole=True, settled=-1).shape == other
    assert ledger.commit(2, [], [], is_whole=True, settled=-1).shape is None
    assert _ledger(storage).shape == other


class _Units:
    """As much of a source as a ledger needs: its position is the name of the last unit."""

    def after(self, position: object, unit: Unit) -> str:
        return unit.name


@pytest.mark.parametrize("is_summary", [False, True])
def test_promises_of_an_input_take_effect_as_units_are_taken_also_after_a_summary(is_summary: bool) -> None:
    units: Any = {"in": _Units(), "other": _Units()}
    storage = MemoryStorage()
    journal: Journal[Entry] = Journal.open(storage, Entry, query="q")
    journal.start_generation("test", 0.0)
    ledger = Ledger(journal, units)
    ledger.begin(FlowShape("rows", "q", {}))
    ledger.say("in", 3, ["a"])
    ledger.say("in", 5, ["a", "b"])
    ledger.tick({"in": [_unit("a")]}, complete_to=1, final=False)
    if is_summary:
        ledger.summarize()
        journal = Journal.open(storage, Entry, query="q")
        journal.start_generation("test", 0.0)
        ledger = Ledger(journal, units)
    assert (ledger.promises["in"].complete, ledger.promises["in"].last) == (3, 5)
    ledger.tick({"in": [_unit("b")], "other": [_unit("c")]}, complete_to=2, final=False)
    assert ledger.promises["in"].complete == 5
    ledger.tick(
        {"in": [_unit("d", complete_to=8)], "other": [_unit("e", complete_to=4)]}, complete_to=3, final=False
    )
    assert {name: each.complete for name, each in ledger.promises.items()} == {"in": 8, "other": 4}
    assert not ledger.promises["in"].waited_for


def _unit(name: str, complete_to: int | None = None) -> Unit:
    return Unit(name, (Part(name, 1),), complete_to=complete_to)


def test_what_the_journal_implies_is_not_stored_again() -> None:
    storage = MemoryStorage()
    ledger = _begun(storage)
    ledger.note_begun()
    ledger.commit(4, [], [], is_whole=True, settled=-1)
    ledger.note_published(4)
    stored = storage.list()
    ledger.note_begun()
    ledger.note_published(4)
    ledger.note_published(3)
    assert storage.list() == stored


class _Rewritten(_Units):
    """A source whose units have another content whenever they are asked for again."""

    def renewed(self, unit: Unit) -> Unit:
        return Unit(unit.name, tuple(Part(part.locator, part.size_bytes + 1) for part in unit.parts))


@pytest.mark.parametrize(("committed", "is_error"), [(None, False), (1, False), (2, True), (3, True)])
def test_a_unit_that_changed_is_read_again_unless_a_part_of_its_tick_is_committed(
    committed: int | None, is_error: bool
) -> None:
    units: Any = {"in": _Rewritten()}
    storage = MemoryStorage()
    journal: Journal[Entry] = Journal.open(storage, Entry, query="q")
    journal.start_generation("test", 0.0)
    ledger = Ledger(journal, units)
    ledger.begin(FlowShape("rows", "q", {}))
    ledger.tick({}, complete_to=2, final=False)
    tick = ledger.tick({"in": [_unit("a")]}, complete_to=4, final=False)
    if committed is not None:
        ledger.commit(committed, [], [], is_whole=True, settled=0)
    if is_error:
        with pytest.raises(
            SourceError, match="input 'in': 'a' was changed after a part of its rows was committed"
        ):
            ledger.renew(tick)
        return
    renewed = ledger.renew(tick)
    assert renewed is not None
    assert [part.size_bytes for part in renewed.units["in"][0].parts] == [2]
    assert ledger.ticks[-1] == renewed
