"""The first rows of large keys, found without looking at the rest, are those that all rows together give.

- keys of many rows, of which the first ones are deleted again and again, so that more must be looked at;
- values that have equal prefixes, which must be compared as they are;
- keys and rows whose hashes are all alike, which must be told apart;
- rows that are nothing but their key, whose copies are equal.

Each is compared with Python's sort of the rows that are left, after every epoch.
"""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pointstamp as ps
from pointstamp.arrangement import arrangement, run
from pointstamp.arrangement.ordering import Ordered
from pointstamp.arrangement.run import prefixes_of
from pointstamp.arrow import row_hashing
from pointstamp.arrow.row_hashing import Hashes
from support.table_ends import QUERIES, judge


@pytest.mark.parametrize("query", QUERIES)
def test_the_first_rows_of_large_keys_are_those_of_all_rows(query: str) -> None:
    for seed in range(5):
        judge(query, seed)


@pytest.mark.long
@pytest.mark.parametrize("query", QUERIES)
def test_the_first_rows_of_many_large_keys_are_those_of_all_rows(query: str) -> None:
    for seed in range(20):
        judge(query, seed, 300, 1 + seed % 3)


@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.parametrize("bits", [0, 1])
def test_keys_and_rows_with_one_hash_are_told_apart(
    query: str, bits: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = row_hashing.hash_array

    def alike(array: Any) -> Hashes:  # noqa: ANN401 - as the function takes it
        return right(array) & np.uint64(bits)

    def fold(columns: Any, rows: int) -> Hashes:  # noqa: ANN401 - as the function takes it
        folded: Hashes = np.bitwise_xor.reduce(np.stack(columns), axis=0) & np.uint64(bits)
        return folded

    monkeypatch.setattr(
        run, "hash_kept", lambda columns: [each & np.uint64(bits) for each in row_hashing.hash_kept(columns)]
    )
    monkeypatch.setattr(run, "fold_columns", fold)
    monkeypatch.setattr(
        arrangement, "hash_columns", lambda batch, keys: fold([alike(batch[k]) for k in keys], 0)
    )
    monkeypatch.setattr(run, "has_exact_hashes", lambda _: False)
    for seed in range(2):
        judge(query, seed, 100)


VALUES: dict[pa.DataType, st.SearchStrategy[Any]] = {
    pa.int64(): st.integers(-(2**63), 2**63 - 1),
    pa.uint64(): st.integers(0, 2**64 - 1),
    pa.int8(): st.integers(-128, 127),
    pa.float64(): st.floats(allow_nan=False) | st.sampled_from([0.0, -0.0]),
    pa.string(): st.text(max_size=12),
    pa.large_binary(): st.binary(max_size=12),
    pa.bool_(): st.booleans(),
    pa.date32(): st.dates(),
    pa.decimal128(20, 3): st.decimals(-(10**12), 10**12, places=3),
}


@pytest.mark.parametrize("kind", VALUES, ids=str)
@given(data=st.data())
def test_a_lesser_value_has_no_greater_prefix(kind: pa.DataType, data: st.DataObject) -> None:
    values = data.draw(st.lists(VALUES[kind], min_size=2, max_size=8))
    if kind == pa.string():
        values.sort(key=lambda text: text.encode())
    else:
        values.sort()
    array = pa.concat_arrays([pa.array([None, None], kind), pa.array(values, kind)]).slice(1)
    up, down = (prefixes_of(array, array.type, Ordered("x", descends=descends)) for descends in (False, True))
    assert (up[:-1] <= up[1:]).all()
    assert (down[:-1] >= down[1:]).all()


def test_nan_is_greater_than_every_number() -> None:
    up = prefixes_of(pa.array([float("inf"), float("nan"), -float("nan")]), pa.float64(), Ordered("x"))
    assert up[0] < up[1] == up[2]


@pytest.mark.parametrize(
    ("ties", "rank", "first", "second"),
    [
        (False, None, {(None,): 1, (1,): 2, (2,): 1}, {(None,): 1, (1,): 1}),
        (True, None, {(None,): 1, (1,): 3, (2,): 1}, {(None,): 1, (1,): 1}),
        (False, "place", {(None, 1): 1, (1, 1): 1, (1, 2): 1, (2, 1): 1}, {(None, 1): 1, (1, 1): 1}),
    ],
)
def test_rows_that_are_nothing_but_their_key_have_first_rows(
    ties: bool, rank: str | None, first: dict[Any, int], second: dict[Any, int]
) -> None:
    flow = ps.Dataflow("keys")
    schema = pa.schema({"d": pa.int64(), "w": pa.int64()})
    rows = flow.table("rows", schema, weight="w")
    flow.output("first", rows.top(2, "d", by="d", ties=ties, rank=rank))
    epochs = [{"d": [1, 1, 1, 2, None], "w": [1] * 5}, {"d": [1, 1, 2], "w": [-1] * 3}]
    results = flow.run(rows=[pa.table(each, schema) for each in epochs])["first"]
    there: dict[Any, int] = {}
    for epoch, expected in enumerate((first, second)):
        for row in results[epoch].to_pylist():
            weight = row.pop("diff")
            there[tuple(row.values())] = there.get(tuple(row.values()), 0) + weight
        assert {row: count for row, count in there.items() if count} == expected
