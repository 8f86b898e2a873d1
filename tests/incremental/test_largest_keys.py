"""The largest keys of an arrangement, against counting all rows.

Families: *large keys*, which must be named whatever the rest is; *bounded work*, which is counted, not timed.
"""

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pointstamp.arrangement.arrangement import PLACES_MAX, Arrangement, largest_keys
from pointstamp.arrow.row_hashing import Hashes
from pointstamp.state.memory_budget import KeyRows, largest_keys_by

SCHEMA = pa.schema([("key", pa.string()), ("row", pa.int64()), ("diff", pa.int64())])


def arranged(keys: list[str], parts: int = 3) -> Arrangement:
    """Rows of these keys, all different, that came in so many changes."""
    kept = Arrangement(SCHEMA, ["key"], ["diff"])
    for part in range(parts):
        rows = [(key, number, 1) for number, key in enumerate(keys) if number % parts == part]
        columns = [[row[at] for row in rows] for at in range(3)]
        arrays = [pa.array(column, field.type) for column, field in zip(columns, SCHEMA, strict=True)]
        kept.add(pa.RecordBatch.from_arrays(arrays, schema=SCHEMA))
    return kept


@given(st.lists(st.sampled_from("abcdefg"), max_size=200), st.integers(1, 4))
def test_where_all_rows_are_looked_at_the_counts_are_those_of_all_rows(keys: list[str], parts: int) -> None:
    counted = Counter(keys)
    found = arranged(keys, parts).largest_keys(3)
    assert [each.rows for each in found] == sorted((n for n in counted.values() if n > 1), reverse=True)[:3]
    assert all(counted[each.key] == each.rows for each in found)


@pytest.mark.parametrize("parts", [1, 5])
def test_a_key_with_a_hundredth_of_many_rows_is_named(parts: int) -> None:
    chosen = np.random.default_rng(7).permutation(60_000)
    keys = [f"large {n % 3}" if n < 1_800 else f"small {n}" for n in chosen]
    found = arranged(keys, parts).largest_keys(5)
    assert sorted(found) == [KeyRows(f"large {each}", 600) for each in range(3)]


def test_the_work_does_not_grow_with_what_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    unique = np.unique

    def counting(hashes: Hashes) -> Hashes:
        asked.append(len(hashes))
        return unique(hashes)

    monkeypatch.setattr(np, "unique", counting)
    for many in (100, 10_000, 40_000):
        largest_keys(arranged([str(n) for n in range(many)], 1)._runs, 5)
    assert asked[0] == 100
    assert max(asked) <= 2 * PLACES_MAX


def test_an_operator_names_the_keys_of_what_it_keeps_itself() -> None:
    class Operator:
        def __init__(self) -> None:
            self._rows = arranged([])
            self._read = Arrangement(SCHEMA, ["key"], ["diff"])
            self._read.share(self._rows)
            rows = [pa.array(["a", "a", "b"]), pa.array([1, 2, 3]), pa.array([1, 1, 1])]
            self._rows.add(pa.RecordBatch.from_arrays(rows, schema=SCHEMA))

    assert largest_keys_by(Operator(), 5) == {"rows": [KeyRows("a", 2)]}
