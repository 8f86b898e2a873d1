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
    """Compare both searches with a dictionary."""
    have, want = np.array(keys, np.uint64), np.array(hashes, np.uint64)
    buckets: tuple[Any, int] = (None, 0)
    if is_indexed:
        index = buckets_of(have)
        buckets = index.begins, int(index.shift)
    places: dict[int, list[int]] = {}
    for place, key in enumerate(keys):
        places.setdefault(key, []).append(place)
    found = [(which, places[word]) for which, word in enumerate(hashes) if word in places]
    ranges = [each.tolist() for each in runs.ranges(have, want, *buckets)]
    assert list(zip(*ranges, strict=True)) == [(which, at[0], at[-1] + 1) for which, at in found]
    rows = [each.tolist() for each in runs.found_rows(have, want, *buckets)]
    assert list(zip(*rows, strict=True)) == [(which, place) for which, at in found for place in at]


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 5))))
def test_oracle_ranges_are_expanded(ranges: list[tuple[int, int]]) -> None:
    begins = np.array([begin for begin, _ in ranges], np.intp)
    ends = np.array([begin + size for begin, size in ranges], np.intp)
    which, at = runs.expanded(begins, ends)
    wanted = [(number, begin + each) for number, (begin, size) in enumerate(ranges) for each in range(size)]
    assert list(zip(which.tolist(), at.tolist(), strict=True)) == wanted
