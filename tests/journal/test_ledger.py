"""The ledger: what a driver knows of its query is what the next driver reads, also from a summary.

Families:
- *published*: what a commit, or the next one, says about the output before it;
- *kept*: which snapshots a summary keeps, also while later ones are known to be damaged.
"""

import pytest

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
