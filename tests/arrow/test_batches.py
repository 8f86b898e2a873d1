"""Batches taken apart and put together again, beside Arrow's own columns.

Families, and what only each can find:
- columns of every kind, with nulls, as slices of longer batches, through Arrow's messages: an offset that is
  left out, a column that is numpy's though a value is null;
- nested and dictionary columns among them: memory that is freed twice, or while it is still used;
- parts that outlive what they were made of: memory that nothing holds;
- what does not fit the schema: memory that an error leaves behind.
"""

import gc
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pointstamp.arrangement.column_arrays import as_batch, kept_column, kept_columns, width_of, widths_of
from pointstamp.arrow import batches
from pointstamp.arrow.row_hashing import OTHER, hash_array, hash_kept

VALUES: dict[pa.DataType, st.SearchStrategy[Any]] = {
    pa.int8(): st.integers(-(2**7), 2**7 - 1),
    pa.uint8(): st.integers(0, 2**8 - 1),
    pa.int16(): st.integers(-(2**15), 2**15 - 1),
    pa.uint16(): st.integers(0, 2**16 - 1),
    pa.int32(): st.integers(-(2**31), 2**31 - 1),
    pa.uint32(): st.integers(0, 2**32 - 1),
    pa.int64(): st.integers(-(2**63), 2**63 - 1),
    pa.uint64(): st.integers(0, 2**64 - 1),
    pa.float16(): st.floats(width=16).map(np.float16),
    pa.float32(): st.floats(width=32),
    pa.float64(): st.floats(),
    pa.bool_(): st.booleans(),
    pa.date32(): st.dates(),
    pa.timestamp("us"): st.datetimes(),
    pa.decimal128(12, 2): st.decimals("-9999", "9999", places=2),
    pa.decimal256(50, 1): st.decimals("-9999", "9999", places=1),
    pa.string(): st.text(st.characters(codec="utf-8"), max_size=9),
    pa.list_(pa.int64()): st.lists(st.integers(0, 9), max_size=3),
    pa.struct({"a": pa.int32()}): st.fixed_dictionaries({"a": st.integers(0, 9)}),
    pa.dictionary(pa.int32(), pa.string()): st.sampled_from(["a", "b"]),
}


@st.composite
def some_batch(draw: st.DrawFn) -> pa.RecordBatch:
    rows = draw(st.integers(0, 30))
    columns = []
    for kind in draw(st.lists(st.sampled_from(list(VALUES)), min_size=1, max_size=5)):
        value = st.one_of(st.none(), VALUES[kind]) if draw(st.booleans()) else VALUES[kind]
        columns.append(pa.array(draw(st.lists(value, min_size=rows, max_size=rows)), kind))
    batch = pa.RecordBatch.from_arrays(columns, names=[f"c{at}" for at in range(len(columns))])
    begin = draw(st.integers(0, rows))
    batch = batch.slice(begin, draw(st.integers(0, rows - begin)))
    if not draw(st.booleans()):
        return batch
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return pa.ipc.open_stream(sink.getvalue()).read_next_batch()


@given(some_batch())
def test_oracle_a_batch_is_its_columns(batch: pa.RecordBatch) -> None:
    found = kept_columns(batch, widths_of(batch.schema))
    for column, own in zip(found, batch.columns, strict=True):
        is_numpy = width_of(own.type) is not None and not own.null_count
        assert isinstance(column, np.ndarray) == is_numpy
        wanted = kept_column(own)
        if isinstance(column, np.ndarray):
            assert column.dtype == wanted.dtype
            assert column.tobytes() == wanted.tobytes()
            assert not len(column) or not column.flags.writeable
        else:
            assert column.equals(wanted)
    made = as_batch(found, batch.schema)
    made.validate(full=True)
    assert made.schema == batch.schema
    assert made.to_pylist().__repr__() == batch.to_pylist().__repr__()  # NaN is itself, and -0.0 not 0.0


@given(some_batch(), st.sampled_from([None, OTHER]))
def test_oracle_columns_of_numpy_have_the_hashes_of_arrows(batch: pa.RecordBatch, base: int | None) -> None:
    given_base = () if base is None else (base,)
    found = hash_kept(kept_columns(batch, widths_of(batch.schema)), *given_base)
    for hashes, column in zip(found, batch.columns, strict=True):
        assert hashes.tolist() == hash_array(column, *given_base).tolist()


def test_parts_outlive_what_they_were_made_of() -> None:
    numbers, texts = np.arange(1_000), pa.array(list(map(str, range(1_000))))
    schema = pa.schema({"n": pa.int64(), "t": pa.string()})
    column = as_batch([numbers.copy(), texts], schema).column(0)
    (kept, _) = kept_columns(as_batch([numbers.copy(), texts], schema), widths_of(schema))
    gc.collect()
    others = [np.full(1_000, 7) for _ in range(50)]  # takes the memory if it is free
    assert column.to_pylist() == kept.tolist() == list(range(1_000))
    assert len(others) == 50


def test_memory_is_free_again() -> None:
    schema = pa.schema({"n": pa.int64(), "t": pa.string()})
    numbers, texts = np.arange(10), pa.array(list("0123456789"))
    before = pa.total_allocated_bytes()
    batch = as_batch([numbers, texts], schema)
    held = [ref for ref in gc.get_referrers(numbers) if isinstance(ref, tuple)]
    assert len(held) == 1
    held.clear()
    kept = kept_columns(batch, widths_of(schema))
    del batch, kept
    gc.collect()
    assert not [ref for ref in gc.get_referrers(numbers) if isinstance(ref, tuple)]
    assert pa.total_allocated_bytes() == before


@pytest.mark.parametrize(
    ("columns", "error", "text"),
    [
        ([np.arange(3), np.arange(2)], ValueError, "column 1 has 2 rows, and the first 3"),
        ([np.arange(6)[::2], np.arange(3)], TypeError, "a column in one piece is needed"),
        ([np.arange(3)], pa.ArrowInvalid, "has 1 children, expected 2"),
        ([np.arange(3), pa.array(["a", "b", "c"])], pa.ArrowInvalid, "Expected 2 buffers"),
        ([pa.array([1, 2, 3]), 17], AttributeError, "no attribute '_export_to_c'"),
    ],
)
def test_what_does_not_fit_is_refused_and_leaves_nothing_behind(
    columns: list[Any], error: type, text: str
) -> None:
    schema = pa.schema({"a": pa.int64(), "b": pa.int64()})
    with pytest.raises(error, match=text):
        batches.batch_of(columns, schema)
    gc.collect()
    assert not [ref for ref in gc.get_referrers(columns[0]) if isinstance(ref, tuple)]


def test_a_batch_without_columns_or_rows() -> None:
    assert batches.batch_of([], pa.schema([])).num_columns == 0
    empty = as_batch([np.empty(0, np.int64)], pa.schema({"a": pa.int64()}))
    assert empty.num_rows == 0
    assert kept_columns(empty, widths_of(empty.schema))[0].tolist() == []
