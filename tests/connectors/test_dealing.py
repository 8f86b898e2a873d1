"""Which worker reads which part: shares and hands as pure functions, by laws that hold for all of them."""

from hypothesis import given
from hypothesis import strategies as st

from pointstamp.connectors.source import Part, deal, shared

PARTS = st.lists(
    st.builds(Part, st.text("abc", max_size=3), st.integers(0, 1000), st.sampled_from([None, (0, 1)])),
    max_size=12,
)
WORKERS = st.integers(1, 6)


@given(parts=PARTS, workers=WORKERS, turn=st.integers(0, 20))
def test_every_part_is_in_one_hand(parts: list[Part], workers: int, turn: int) -> None:
    hands = deal(parts, workers, turn)
    assert len(hands) == workers
    assert sorted(repr(part) for hand in hands for part in hand) == sorted(map(repr, parts))


@given(parts=PARTS, workers=WORKERS, turn=st.integers(0, 20))
def test_no_hand_exceeds_another_by_more_than_its_smallest_part(
    parts: list[Part], workers: int, turn: int
) -> None:
    hands = deal(parts, workers, turn)
    least = min(sum(part.load_bytes for part in hand) for hand in hands)
    for hand in hands:
        loads = [part.load_bytes for part in hand]
        assert sum(loads) - min(loads, default=0) <= least


@given(workers=WORKERS, turn=st.integers(0, 20), size=st.sampled_from([0, 7]))
def test_single_files_go_around_the_workers(workers: int, turn: int, size: int) -> None:
    readers = [
        next(worker for worker, hand in enumerate(deal([Part("a", size)], workers, turn + step)) if hand)
        for step in range(workers)
    ]
    assert sorted(readers) == list(range(workers))


def test_parts_of_no_size_are_spread_too() -> None:
    assert [len(hand) for hand in deal([Part(name, 0) for name in "abcdef"], 3, 0)] == [2, 2, 2]


@given(parts=PARTS, workers=WORKERS, share_bytes_min=st.integers(1, 2000))
def test_shares_of_a_part_are_numbered_without_gap_and_not_too_small(
    parts: list[Part], workers: int, share_bytes_min: int
) -> None:
    for part in parts:
        cut = shared([part], workers, share_bytes_min)
        assert len(cut) <= workers
        if len(cut) > 1:
            assert [each.share for each in cut] == [(number, len(cut)) for number in range(len(cut))]
            assert all(each.load_bytes >= share_bytes_min for each in cut)
            assert part.share is not None
        else:
            assert cut == (part,)


def test_a_large_part_that_may_be_shared_is_cut_for_every_worker_and_one_that_may_not_is_not() -> None:
    assert len(shared([Part("a", 100, (0, 1))], 4, 10)) == 4
    assert len(shared([Part("a", 100)], 4, 10)) == 1
