"""Rows sorted, merged, added up and searched by words, beside sorted lists of Python's.

Families, and what only each can find:
- words out of few values, so that many are the same, in the first word or in all: ties that are missed, and
  blocks that are left in the wrong order by the next word;
- words that differ in their highest, middle or lowest bits alone: bits that a counting pass leaves out;
- more rows than are sorted one by one, and than are worked on with the interpreter held: the other paths;
- searches with buckets and without, of hashes that come several times, and behind the last row.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pointstamp.arrangement.run import buckets_of
from pointstamp.arrow import runs

Rows = list[tuple[int, ...]]

_word = st.one_of(
    st.integers(0, 3),
    st.integers(0, 3).map(lambda x: x << 62),
    st.integers(0, 3).map(lambda x: x << 30),
    st.integers(0, 2**64 - 1),
)


def rows_of(words: int) -> st.SearchStrategy[Rows]:
    return st.lists(st.tuples(*[_word] * words), max_size=80)


some_rows = st.integers(1, 3).flatmap(rows_of)


def words_of(rows: Sequence[tuple[int, ...]], count: int) -> tuple[npt.NDArray[np.uint64], ...]:
    return tuple(np.array([row[number] for row in rows], np.uint64) for number in range(count))


def ties_of(rows: Sequence[tuple[int, ...]]) -> list[int]:
    return [place + 1 for place, (one, next_one) in enumerate(pairwise(rows)) if one == next_one]


@given(some_rows)
def test_oracle_rows_are_sorted_and_those_with_the_same_words_stay_in_order(rows: Rows) -> None:
    order, ties = runs.in_order(words_of(rows, len(rows[0]) if rows else 1))
    wanted = sorted(range(len(rows)), key=lambda row: rows[row])
    assert order.tolist() == wanted
    assert ties.tolist() == ties_of([rows[row] for row in wanted])


@pytest.mark.parametrize("bits", [0, 3, 33, 51])
@pytest.mark.parametrize("rows", [25, 2_047, 40_000])
@pytest.mark.parametrize("different", [7, 5_000])
def test_many_rows_are_sorted_wherever_their_words_differ(rows: int, bits: int, different: int) -> None:
    random = np.random.default_rng(bits)
    first = random.integers(0, different, rows).astype(np.uint64) << np.uint64(bits)
    second = random.integers(0, 50, rows).astype(np.uint64)
    order, ties = runs.in_order((first, second))
    assert order.tolist() == np.lexsort((second, first)).tolist()
    ranked = list(zip(first[order].tolist(), second[order].tolist(), strict=True))
    assert ties.tolist() == ties_of(ranked)


@given(st.data(), st.integers(1, 3))
def test_oracle_two_sorted_parts_are_merged(data: st.DataObject, count: int) -> None:
    one, other = sorted(data.draw(rows_of(count))), sorted(data.draw(rows_of(count)))
    order, ties = runs.merge_order(words_of(one, count), words_of(other, count))
    both = [*one, *other]
    wanted = sorted(range(len(both)), key=lambda row: both[row])
    assert order.tolist() == wanted
    assert ties.tolist() == ties_of([both[row] for row in wanted])


def test_many_rows_are_merged_as_few_are() -> None:
    random = np.random.default_rng(2)
    one, other = (np.sort(random.integers(0, 90_000, rows).astype(np.uint64)) for rows in (30_000, 20_000))
    order, ties = runs.merge_order((one,), (other,))
    both = np.concatenate((one, other))
    assert order.tolist() == np.argsort(both, kind="stable").tolist()
    assert len(ties) == len(both) - len(np.unique(both))


@given(st.data())
def test_oracle_rows_that_are_the_same_are_added_up_and_nothing_is_left_out(data: st.DataObject) -> None:
    sizes = data.draw(st.lists(st.integers(1, 4), max_size=20))
    rows, count = sum(sizes), data.draw(st.integers(1, 3))
    order = data.draw(st.permutations(range(rows)))
    weights = [data.draw(st.lists(st.integers(-2, 2), min_size=rows, max_size=rows)) for _ in range(count)]
    ends = np.cumsum(sizes).tolist()
    firsts = [end - size for end, size in zip(ends, sizes, strict=True)]
    same = [place for place in range(rows) if place not in firsts]
    wanted = []
    for first, end in zip(firsts, ends, strict=True):
        sums = [sum(each[order[place]] for place in range(first, end)) for each in weights]
        if any(sums):
            wanted.append((order[first], *sums))
    given_weights = [np.array(each, np.int64) for each in weights]
    at, totals = runs.added_up(np.array(order, np.intp), np.array(same, np.intp), given_weights)
    assert list(zip(at.tolist(), *(each.tolist() for each in totals), strict=True)) == wanted
    assert at.base is None or len(at) == rows, "a part that keeps all of it"


@given(st.data())
def test_oracle_hashes_are_found_where_bisection_finds_them(data: st.DataObject) -> None:
    keys = sorted(data.draw(st.lists(_word, max_size=120)))
    asked = data.draw(st.lists(st.one_of(_word, st.sampled_from(keys)) if keys else _word, max_size=40))
    check_search(keys, sorted(asked), is_indexed=data.draw(st.booleans()) and bool(keys))


@pytest.mark.parametrize("is_indexed", [False, True])
@pytest.mark.parametrize("asked", [1, 50, 20_000])
def test_many_hashes_are_found_as_few_are(asked: int, is_indexed: bool) -> None:
    random = np.random.default_rng(asked)
    keys = np.sort(random.choice(random.integers(0, 2**64, 4_000, np.uint64), 9_000))
    unknown = random.integers(0, 2**64, asked, np.uint64)
    hashes = np.sort(np.concatenate((random.choice(keys, asked), unknown)))
    check_search(keys.tolist(), hashes.tolist(), is_indexed=is_indexed)


def check_search(keys: list[int], hashes: list[int], *, is_indexed: bool) -> None:
    """Compare a search with a dictionary."""
    have, want = np.array(keys, np.uint64), np.array(hashes, np.uint64)
    buckets: tuple[Any, int] = (None, 0)
    if is_indexed:
        index = buckets_of(have)
        buckets = index.begins, int(index.shift)
    places: dict[int, list[int]] = {}
    for place, key in enumerate(keys):
        places.setdefault(key, []).append(place)
    found = [(which, places[word]) for which, word in enumerate(hashes) if word in places]
    rows = [each.tolist() for each in runs.found_rows(have, want, *buckets)]
    assert list(zip(*rows, strict=True)) == [(which, place) for which, at in found for place in at]


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 5))))
def test_oracle_ranges_are_expanded(ranges: list[tuple[int, int]]) -> None:
    begins = np.array([begin for begin, _ in ranges], np.intp)
    ends = np.array([begin + size for begin, size in ranges], np.intp)
    which, at = runs.expanded(begins, ends)
    wanted = [(number, begin + each) for number, (begin, size) in enumerate(ranges) for each in range(size)]
    assert list(zip(which.tolist(), at.tolist(), strict=True)) == wanted


@given(st.lists(st.integers(0, 5), max_size=60))
def test_oracle_rows_are_ordered_by_number(numbers: list[int]) -> None:
    order, begins = runs.by_number(np.array(numbers, np.intp), 6)
    assert order.tolist() == sorted(range(len(numbers)), key=lambda row: numbers[row])
    assert begins.tolist() == [sum(number < each for number in numbers) for each in range(7)]


# Groups, and the first rows of keys.

_integer = st.integers(-3, 3)


def integers(values: Sequence[int]) -> npt.NDArray[np.int64]:
    return np.array(values, np.int64)


def words(values: Sequence[int]) -> npt.NDArray[np.uint64]:
    return np.array(values, np.uint64)


@given(st.lists(_word, max_size=60).map(sorted), st.data())
def test_oracle_groups_of_equal_words_and_their_sums(given_words: list[int], data: st.DataObject) -> None:
    firsts, group, same = runs.groups(words(given_words))
    different = sorted(set(given_words))
    assert firsts.tolist() == [given_words.index(word) for word in different]
    assert group.tolist() == [different.index(word) for word in given_words]
    assert sorted([*firsts.tolist(), *same.tolist()]) == list(range(len(given_words)))
    values = data.draw(st.lists(_integer, min_size=len(group), max_size=len(group)))
    wanted = [
        sum(v for v, of in zip(values, group, strict=True) if of == each) for each in range(len(firsts))
    ]
    assert runs.group_sums(integers(values), firsts).tolist() == wanted


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), max_size=40))
def test_oracle_ties_of_two_words(rows: list[tuple[int, int]]) -> None:
    found = runs.ties(words([one for one, _ in rows]), words([other for _, other in rows]))
    assert found.tolist() == ties_of(rows)


@given(st.data(), st.lists(_integer, min_size=1, max_size=9), st.lists(_integer, min_size=1, max_size=9))
def test_oracle_values_are_added_to_totals(data: st.DataObject, totals: list[int], values: list[int]) -> None:
    asked = data.draw(
        st.lists(st.tuples(st.integers(0, len(totals) - 1), st.integers(0, len(values) - 1)), max_size=20)
    )
    found = integers(totals)
    runs.add_at(found, integers([to for to, _ in asked]), integers(values), integers([at for _, at in asked]))
    for to, at in asked:
        totals[to] += values[at]
    assert found.tolist() == totals


@given(st.data(), st.lists(_integer, max_size=20), st.lists(_integer, max_size=20))
def test_oracle_weights_of_two_are_added(data: st.DataObject, ones: list[int], others: list[int]) -> None:
    both = ones + others
    order = data.draw(st.permutations(range(len(both))))
    same = sorted(data.draw(st.sets(st.integers(1, len(both) - 1)))) if len(both) > 1 else []
    at, (sums,) = runs.added_up(integers(order), integers(same), [integers(ones)], [integers(others)])
    wanted: list[tuple[int, int]] = []
    for place, row in enumerate(order):
        if place in same:
            wanted[-1] = wanted[-1][0], wanted[-1][1] + both[row]
        else:
            wanted.append((row, both[row]))
    assert list(zip(at.tolist(), sums.tolist(), strict=True)) == [each for each in wanted if each[1]]


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 5)), max_size=40).map(sorted),
    st.sets(st.integers(0, 4)).map(sorted),
    st.integers(1, 4),
    st.booleans(),
)
def test_oracle_the_first_rows_of_keys(
    rows: list[tuple[int, int]], wanted: list[int], most: int, with_buckets: bool
) -> None:
    keys, prefixes = words([key << 62 | 7 for key, _ in rows]), words([prefix for _, prefix in rows])
    hashes = words([key << 62 | 7 for key in wanted if key < 4])
    buckets, shift = None, 0
    if with_buckets and rows:
        made = buckets_of(keys)
        buckets, shift = made.begins, int(made.shift)
    bounds, is_all = np.full(len(hashes), 2**64 - 1, np.uint64), np.ones(len(hashes), np.bool_)
    which, at = runs.first_places(keys, prefixes, hashes, buckets, shift, most, bounds, is_all)
    expected = []
    for number, key in enumerate(each for each in wanted if each < 4):
        own = [row for row, (of, _) in enumerate(rows) if of == key]
        expected += [(number, row) for row in own[:most]]
        assert is_all[number] == (len(own) <= most)
        assert bounds[number] == (2**64 - 1 if len(own) <= most else rows[own[most - 1]][1])
    assert list(zip(which.tolist(), at.tolist(), strict=True)) == expected


@given(st.data(), st.integers(1, 4), st.integers(1, 4))
def test_oracle_keys_whose_first_rows_are_decided(data: st.DataObject, keys: int, wanted: int) -> None:
    row = st.tuples(st.integers(0, keys - 1), st.integers(0, 4), _integer)
    stored, changed = data.draw(st.lists(row, max_size=30)), data.draw(st.lists(row, max_size=20))
    bounds = data.draw(st.lists(st.integers(0, 5), min_size=keys, max_size=keys))
    is_all = data.draw(st.lists(st.booleans(), min_size=keys, max_size=keys))

    def columns(of: list[tuple[int, int, int]]) -> tuple[Any, Any, Any]:
        return integers([a for a, _, _ in of]), words([b for _, b, _ in of]), integers([c for _, _, c in of])

    found = runs.decided(words(bounds), np.array(is_all), wanted, *columns(stored), *columns(changed))
    known, own, left = (each.tolist() for each in found)
    sure: dict[int, bool] = {}
    for key in range(keys):
        before = sum(w for k, p, w in stored if k == key and (is_all[key] or p < bounds[key]))
        after = before + sum(w for k, p, w in changed if k == key and (is_all[key] or p < bounds[key]))
        sure[key] = is_all[key] or (before >= wanted and after >= wanted)
    assert left == [key for key in range(keys) if not sure[key]]
    for rows, kept in ((stored, known), (changed, own)):
        assert kept == [at for at, (k, p, _) in enumerate(rows) if sure[k] and (is_all[k] or p < bounds[k])]


@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2), st.integers(0, 3)), max_size=30),
    st.integers(0, 4),
    st.booleans(),
)
def test_oracle_the_first_copies_of_groups(rows: list[tuple[int, int, int]], count: int, ties: bool) -> None:
    rows.sort()
    is_new = [at == 0 or rows[at][:2] != rows[at - 1][:2] for at in range(len(rows))]
    kept, before = runs.first_of_groups(
        integers([group for group, _, _ in rows]),
        np.array(is_new, np.bool_) if ties else None,
        integers([weight for _, _, weight in rows]),
        count,
    )
    for at, (group, rank, weight) in enumerate(rows):
        earlier = [w for g, r, w in rows[:at] if g == group and (r < rank or not ties)]
        assert before[at] == sum(earlier)
        left = max(count - sum(earlier), 0)
        assert kept[at] == (weight if left else 0) if ties else kept[at] == min(left, weight)
