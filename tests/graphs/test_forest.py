"""What one worker keeps of a graph: slots, lists of members, the components of dense graphs, the forest.

Families:
- *model*: each table against the plainest Python thing that does the same. Only these see a table that
  changes its way of working (direct addresses to hashing and back, compaction) in the middle.
- *oracle*: components against merging Python sets, which shares nothing with labels or pointers.
- *gossip*: several forests that exchange facts in any order and any cut, without a dataflow around them. Only
  these find a protocol that is right because messages happen to come in good order.
- *cost*: how much is touched, counted and not timed.
"""

import random
from collections import defaultdict
from collections.abc import Iterable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pointstamp.graphs.arrays.slot_arrays import distinct, order_of
from pointstamp.graphs.arrays.vertices import VertexTable
from pointstamp.graphs.union_find import Forest, MemberLists, Pairs, least_of_components

Edge = tuple[int, int]

ends_of_the_range = st.sampled_from([-(1 << 63), -(1 << 63) + 1, (1 << 63) - 2, (1 << 63) - 1])
dense_ids = st.integers(-20, 200)
wide_ids = st.integers(-(1 << 62), 1 << 62)
ids = st.one_of(dense_ids, dense_ids, wide_ids, ends_of_the_range)


def least_labels(edges: Iterable[Edge]) -> dict[int, int]:
    """Each vertex's least reachable vertex, by merging sets."""
    sets: dict[int, set[int]] = {}
    for one, other in edges:
        merged = sets.get(one, {one}) | sets.get(other, {other})
        for vertex in merged:
            sets[vertex] = merged
    return {vertex: min(members) for vertex, members in sets.items()}


def pairs(edges: Iterable[Edge]) -> Pairs:
    """Edges as facts, the greater end first."""
    rows = np.array([(max(edge), min(edge)) for edge in edges], np.int64).reshape(-1, 2)
    return Pairs(rows[:, 0].copy(), rows[:, 1].copy())


# Slots.


@given(st.lists(st.lists(ids, max_size=40), max_size=8))
def test_equal_ids_have_equal_slots_and_slots_have_no_gaps(batches: list[list[int]]) -> None:
    table = VertexTable()
    known: dict[int, int] = {}
    for batch in batches:
        slots = table.slots_of(np.array(batch, np.int64)).tolist()
        for each, slot in zip(batch, slots, strict=True):
            assert known.setdefault(each, slot) == slot
        assert sorted(known.values()) == list(range(table.count))
        assert {slot: each for each, slot in known.items()} == dict(enumerate(table.ids.tolist()))


def is_direct(table: VertexTable) -> bool:
    return table._is_direct


def test_the_table_finds_everything_again_when_sparse_ids_become_dense() -> None:
    table = VertexTable()
    sparse = np.arange(0, 400_000, 4_001)
    before = table.slots_of(sparse)
    assert not is_direct(table)
    rest = np.random.default_rng(0).permutation(400_000)
    slots = table.slots_of(rest)
    assert is_direct(table)
    assert np.array_equal(table.slots_of(sparse), before)
    assert np.array_equal(table.ids[slots], rest)
    assert np.array_equal(table.slots_of(rest[:1000]), slots[:1000])


def test_the_table_finds_everything_again_when_dense_ids_become_sparse() -> None:
    table = VertexTable()
    dense = np.arange(100_000)
    assert np.array_equal(table.slots_of(dense), dense)
    assert table.is_ascending
    sparse = np.random.default_rng(0).integers(-(1 << 62), 1 << 62, 200_000)
    slots = table.slots_of(sparse)
    assert not is_direct(table)
    assert np.array_equal(table.ids[slots], sparse)
    assert np.array_equal(table.slots_of(dense), dense)
    assert not table.is_ascending


@given(st.lists(st.integers(0, 300), max_size=80), st.lists(st.integers(0, 300), max_size=5))
def test_distinct_is_what_a_sorted_set_is(first: list[int], second: list[int]) -> None:
    found = distinct(301, np.array(first, np.intp), np.array(second, np.intp))
    assert found.tolist() == sorted({*first, *second})


@pytest.mark.parametrize("length", [0, 1, 100, 10_000])
@pytest.mark.parametrize("bound", [1, 1 << 16, (1 << 16) + 1, 1 << 40])
def test_order_brings_values_into_order(length: int, bound: int) -> None:
    values = np.random.default_rng(length).integers(0, bound, length)
    assert np.array_equal(values[order_of(values, bound)], np.sort(values))


# Members.


@given(st.integers(0, 1 << 32), st.integers(1, 12), st.integers(1, 20))
def test_members_are_taken_as_they_were_added(seed: int, roots: int, steps: int) -> None:
    chance = np.random.default_rng(seed)
    lists = MemberLists()
    lists.grow(roots)
    model: dict[int, list[int]] = defaultdict(list)
    for _ in range(steps):
        # Steps of several hundred make the lists compact themselves.
        added, into = chance.integers(0, [[1000], [roots]], (2, chance.integers(400)))
        had_none = {root for root in into.tolist() if not model[root]}
        fresh, one_each = lists.add(added, into)
        for member, root in zip(added.tolist(), into.tolist(), strict=True):
            model[root].append(member)
        assert set(fresh.tolist()) == had_none
        assert all(one in model[root] for root, one in zip(fresh.tolist(), one_each.tolist(), strict=True))
        taken = chance.permutation(roots)[: chance.integers(roots + 1)]
        members, which = lists.take(taken)
        for index, root in enumerate(taken.tolist()):
            assert sorted(members[which == index].tolist()) == sorted(model.pop(root, []))


def test_what_was_taken_does_not_stay_for_ever() -> None:
    lists = MemberLists()
    lists.grow(10)
    members = np.arange(500)
    for _ in range(200):
        lists.add(members, members % 10)
        lists.take(np.arange(10))
    assert len(lists._members) < 8 * len(members)


# The components of a dense graph.


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)), max_size=60))
def test_each_vertex_gets_the_least_of_its_component(edges: list[Edge]) -> None:
    left, right = np.array(edges, np.intp).reshape(-1, 2).T.copy()
    expected = {vertex: vertex for vertex in range(31)} | least_labels(edges)
    assert dict(enumerate(least_of_components(31, left, right).tolist())) == expected


def test_blocks_of_edges_are_one_graph() -> None:
    chain = np.random.default_rng(0).permutation(300_000)
    assert not least_of_components(len(chain), chain[:-1], chain[1:]).any()


def test_a_star_around_its_greatest_vertex_takes_three_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    rounds = 0

    def counted(pointer: np.ndarray, left: np.ndarray, right: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        nonlocal rounds
        rounds += 1
        left, right = pointer[left], pointer[right]
        return left[left != right], right[left != right]

    monkeypatch.setattr("pointstamp.graphs.union_find.between", counted)
    least_of_components(1000, np.full(999, 999), np.arange(999))
    assert rounds <= 3


# The forest, alone.


@given(st.lists(st.lists(st.tuples(ids, ids), max_size=12), max_size=8))
def test_a_forest_reports_exactly_what_each_batch_changes(batches: list[list[Edge]]) -> None:
    forest = Forest(owns_all=True)
    before: dict[int, int] = {}
    edges: list[Edge] = []
    for batch in batches:
        edges += batch
        assert not len(forest.absorb(pairs(batch)).vertex)
        vertex, component = forest.take_changes()
        after = least_labels(edges)
        assert len(set(vertex.tolist())) == len(vertex)
        reported = dict(zip(vertex.tolist(), component.tolist(), strict=True))
        assert reported == {each: label for each, label in after.items() if before.get(each) != label}
        before = after


def test_a_large_set_is_not_touched_when_it_takes_in_a_small_one() -> None:
    forest = Forest(owns_all=True)
    large = np.arange(100_000)
    forest.absorb(Pairs(large[1:], large[:-1]))
    forest.take_changes()
    for new in range(100):
        used = forest._sets.members._used
        forest.absorb(pairs([(100_000 + new, 50_000)]))
        assert forest.take_changes().vertex.tolist() == [100_000 + new]
        assert forest._sets.members._used == used + 1


def test_a_large_set_is_told_when_something_less_takes_it_in() -> None:
    forest = Forest(owns_all=True)
    large = np.arange(100_000)
    forest.absorb(Pairs(large[1:], large[:-1]))
    forest.take_changes()
    forest.absorb(pairs([(50_000, -7)]))
    vertex, component = forest.take_changes()
    assert vertex.tolist() == [*range(100_000), -7]
    assert not (component + 7).any()


# Several forests.


def owner(vertex: int, forests: int) -> int:
    return vertex * 7_919 % forests


@given(
    st.lists(st.lists(st.tuples(dense_ids, dense_ids), max_size=25), min_size=1, max_size=4),
    st.integers(1, 5),
    st.randoms(use_true_random=False),
)
def test_forests_agree_on_the_least_labels_however_their_facts_are_delayed(
    epochs: list[list[Edge]], number: int, chance: random.Random
) -> None:
    forests = [Forest(owns_all=False) for _ in range(number)]
    kept: dict[int, int] = {}
    edges: list[Edge] = []
    for epoch in epochs:
        edges += epoch
        under_way = [(max(edge), min(edge)) for edge in epoch]
        for _ in range(10_000):
            if not under_way:
                break
            to = owner(chance.choice(under_way)[0], number)
            chosen = {i for i, fact in enumerate(under_way) if owner(fact[0], number) == to}
            chosen = set(chance.sample(sorted(chosen), chance.randint(1, len(chosen))))
            now = [fact for i, fact in enumerate(under_way) if i in chosen]
            told = forests[to].absorb(Pairs(*np.array(now, np.int64).T.copy()))
            under_way = [fact for i, fact in enumerate(under_way) if i not in chosen]
            under_way += zip(told.vertex.tolist(), told.other.tolist(), strict=True)
        assert not under_way, "facts go round for ever"
        for index, forest in enumerate(forests):
            vertex, component = forest.take_changes()
            assert all(owner(each, number) == index for each in vertex.tolist())
            for each, label in zip(vertex.tolist(), component.tolist(), strict=True):
                assert kept.get(each) != label
                kept[each] = label
        assert kept == least_labels(edges)
