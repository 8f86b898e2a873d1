"""What a table saves: all rows at first, then what changed, and what was saved adds up to what was there.

That crashes and other numbers of workers change nothing is in test_worlds.py; here it is how much is saved.
"""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pointstamp.state.pieces import Piece, merged
from pointstamp.tables.kept.arrangement import Arrangement
from pointstamp.tables.kept.weights import DIFF_FIELD

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


def test_rows_that_add_up_replace_none() -> None:
    with pytest.raises(AssertionError, match="rows that add up replace none"):
        Piece(pa.table({"k": [1]}), ("k",), ("k",), adds_up=True)
