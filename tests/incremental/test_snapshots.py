"""What a table saves: all rows at first, then what changed, and what was saved adds up to what was there.

That crashes and other numbers of workers change nothing is in test_worlds.py; here it is how much is saved.
"""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pointstamp.arrangement.arrangement import Arrangement
from pointstamp.arrangement.consolidate import DIFF_FIELD
from pointstamp.errors import FlowError
from pointstamp.state.pieces import Piece, merged

SCHEMA = pa.schema([("k", pa.int64()), ("n", pa.int64()), DIFF_FIELD])


def rows(*given: tuple[int, int, int]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([dict(zip(SCHEMA.names, row, strict=True)) for row in given], SCHEMA)


def many(count: int) -> pa.RecordBatch:
    numbers = pa.array(np.arange(count))
    return pa.RecordBatch.from_arrays([numbers, numbers, pa.array(np.ones(count, np.int64))], schema=SCHEMA)


def test_after_a_whole_save_only_what_changed_is_saved() -> None:
    table = Arrangement(SCHEMA, ["k"])
    table.add(many(10_000))
    assert table.save(changes_only=True).is_whole, "nothing was saved before"
    table.add(rows((1, 1, -1), (2, 5, 1)))
    piece = table.save(changes_only=True)
    assert not piece.is_whole
    assert sorted(piece.table.to_pydict()["n"]) == [1, 5]
    assert table.save(changes_only=True).table.num_rows == 0


def test_what_is_asked_for_as_a_whole_is_whole() -> None:
    table = Arrangement(SCHEMA, ["k"])
    table.add(many(5_000))
    table.save(changes_only=False)
    table.add(rows((1, 1, -1)))
    piece = table.save(changes_only=False)
    assert (piece.is_whole, sum(piece.table["diff"].to_pylist())) == (True, 4_999)


def test_changes_that_outgrow_the_table_are_not_kept() -> None:
    table = Arrangement(SCHEMA, ["k"])
    table.add(many(2_000))
    table.save(changes_only=False)
    for _ in range(10):
        table.add(many(500))
    assert table.save(changes_only=True).is_whole


def test_after_a_restore_the_first_save_is_whole() -> None:
    table = Arrangement(SCHEMA, ["k"])
    table.load(pa.Table.from_batches([many(3)]))
    table.add(rows((7, 7, 1)))
    piece = table.save(changes_only=True)
    assert (piece.is_whole, piece.table.num_rows) == (True, 4)


_CHANGES = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2), st.sampled_from([-1, 1, 2])), max_size=6)


@given(st.lists(st.tuples(_CHANGES, st.sampled_from(["add", "save", "save all"])), max_size=12))
def test_what_was_saved_adds_up_to_what_was_there(
    steps: list[tuple[list[tuple[int, int, int]], str]],
) -> None:
    table = Arrangement(SCHEMA, ["k"])
    saved: list[Piece] = []
    for change, then in steps:
        table.add(rows(*change))
        if then != "add":
            saved.append(table.save(changes_only=then == "save" and bool(saved)))
    saved.append(table.save(changes_only=bool(saved)))
    restored = Arrangement(SCHEMA, ["k"])
    restored.load(merged(saved))
    assert _sorted(restored) == _sorted(table)


def _sorted(table: Arrangement) -> list[str]:
    return sorted(map(str, table.all_rows().to_pylist()))


def test_readers_of_one_table_see_what_they_have_come_to() -> None:
    one, other = Arrangement(SCHEMA, ["k"]), Arrangement(SCHEMA, ["k"])
    other.share(one)
    other.add(rows((1, 1, 1)))
    assert (len(one), len(other), one.is_borrowed, other.is_borrowed) == (0, 1, False, True)
    assert one.save(changes_only=False).table.num_rows == 0
    one.add(rows((1, 1, 1)))
    other.add(rows((2, 2, 1)))
    piece = one.save(changes_only=True)
    assert (len(one), len(other), piece.table.num_rows, piece.is_whole) == (1, 2, 1, False)
    assert one.kept_rows.rows == 2


def test_a_table_that_two_saved_apart_is_restored_once() -> None:
    one, other = Arrangement(SCHEMA, ["k"]), Arrangement(SCHEMA, ["k"])
    one.add(rows((1, 1, 1), (2, 2, 3)))
    other.add(rows((1, 1, 1), (2, 2, 3)))
    saved = [each.save(changes_only=False) for each in (one, other)]
    first, second = Arrangement(SCHEMA, ["k"]), Arrangement(SCHEMA, ["k"])
    second.share(first)
    for restored, piece in zip((second, first), saved, strict=True):
        restored.load(merged([piece]))
    assert _sorted(first) == _sorted(one)
    assert len(second) == len(other)


def test_who_finds_nothing_of_what_another_one_saved_says_so() -> None:
    table = Arrangement(SCHEMA, ["k"])
    table.expect("join 2")
    with pytest.raises(FlowError, match="operator 'join 2' resumes from a snapshot in which another"):
        table.add(rows((1, 1, 1)))


def test_rows_that_add_up_replace_none() -> None:
    with pytest.raises(AssertionError, match="rows that are summed replace none"):
        Piece(pa.table({"k": [1]}), ("k",), ("k",), adds_up=True)
