"""Numbers in the order of ids: beside a sorted list, however ids come and go, and where no room is left."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from pointstamp.graphs.arrays.numbering import OrderedIds


def check(ordered: OrderedIds, told: dict[str, int], there: set[str]) -> None:
    """What was told of numbers is what is known of them, and they ascend with the ids."""
    assert ordered.ids.tolist() == sorted(there)
    numbers = ordered.numbers.tolist()
    assert all(one < other for one, other in pairwise(numbers))
    assert told == dict(zip(ordered.ids.tolist(), numbers, strict=True))


def follow(ordered: OrderedIds, told: dict[str, int], gone: list[str], come: list[str]) -> int:
    """Take in a change as those do who are told of it; return how many numbers it has changed."""
    changes = ordered.change(gone, come)
    for name, number in zip(changes.gone.tolist(), changes.old.tolist(), strict=True):
        assert told.pop(name) == number
    for name, number in zip(changes.come.tolist(), changes.new.tolist(), strict=True):
        assert told.setdefault(name, number) == number
    return len(changes.old) + len(changes.new)


@given(st.lists(st.sets(st.text("abc", max_size=4), max_size=12), max_size=12))
def test_the_lesser_id_has_the_lesser_number_after_every_change(changes: list[set[str]]) -> None:
    ordered, told, there = OrderedIds(), dict[str, int](), set[str]()
    for names in changes:
        gone, come = there & names, names - there
        follow(ordered, told, sorted(gone), list(come))
        there = there ^ names
        check(ordered, told, there)


def test_ids_that_all_come_to_one_place_move_few_others() -> None:
    ordered, told = OrderedIds(), dict[str, int]()
    names = [f"m{'a' * length}" for length in range(300)]  # each comes right after the one before
    around = [f"{side}{number:03}" for side in "az" for number in range(500)]
    follow(ordered, told, [], around)
    moved = sum(follow(ordered, told, [], [name]) for name in names)
    check(ordered, told, {*names, *around})
    assert moved < 12 * len(names)


def test_many_ids_that_come_at_once_where_there_is_no_room_have_numbers() -> None:
    ordered, told = OrderedIds(), dict[str, int]()
    follow(ordered, told, [], ["a", "c"])
    while ordered.numbers[-1] - ordered.numbers[-2] > 1:
        last = ordered.ids[-2]
        follow(ordered, told, [], [f"{last}b"])
    names = [f"{ordered.ids[-2]}c{number:03}" for number in range(200)]
    follow(ordered, told, [], names)
    check(ordered, told, set(told))
    again = OrderedIds()
    again.restore(ordered.ids[::-1].tolist(), ordered.numbers[::-1])
    check(again, told, set(told))
