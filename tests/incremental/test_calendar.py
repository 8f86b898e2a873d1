"""Rows that wait for event time: what is due is taken once, and what was saved adds up to what was there."""

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from pointstamp.arrangement.consolidate import DIFF_FIELD
from pointstamp.arrangement.time_index import Calendar
from pointstamp.state.memory_budget import KeptRows
from pointstamp.state.pieces import Piece, merged

SCHEMA = pa.schema([("k", pa.int64()), DIFF_FIELD])
STEPS = st.lists(
    st.one_of(
        st.lists(st.tuples(st.integers(0, 3), st.integers(0, 20)), max_size=6),
        st.integers(0, 20),
        st.sampled_from(["save", "save all"]),
    ),
    max_size=15,
)


def rows_of(batch: pa.RecordBatch | None) -> list[int]:
    """The keys of rows, each as often as it is there."""
    rows = [] if batch is None else batch.to_pylist()
    return sorted(k for row in rows for k in [row["k"]] * row["diff"])


@given(steps=STEPS, only_grows=st.booleans())
def test_what_is_due_is_taken_once_also_after_a_restore(steps: list[object], only_grows: bool) -> None:
    calendar = Calendar(SCHEMA, only_grows=only_grows)
    waiting: list[tuple[int, int]] = []
    saved: list[Piece] = []
    for step in steps:
        if isinstance(step, list):
            keys, until = (np.array([row[at] for row in step], np.int64) for at in (0, 1))
            ones = pa.array(np.ones(len(step), np.int64))
            calendar.add(pa.RecordBatch.from_arrays([pa.array(keys), ones], schema=SCHEMA), until)
            waiting += step
        elif isinstance(step, int):
            assert rows_of(calendar.take(step)) == sorted(k for k, until in waiting if until <= step)
            waiting = [row for row in waiting if row[1] > step]
        else:
            saved.append(calendar.save(("k",), changes_only=step == "save" and bool(saved)))
    saved.append(calendar.save(("k",), changes_only=bool(saved)))
    assert len(calendar) <= len(waiting)
    again = Calendar(SCHEMA, only_grows=only_grows)
    again.load(merged(saved))
    for bound in (5, 20):
        due = sorted(k for k, until in waiting if until <= bound)
        waiting = [row for row in waiting if row[1] > bound]
        assert rows_of(calendar.take(bound)) == rows_of(again.take(bound)) == due


def test_rows_that_are_taken_back_leave_nothing() -> None:
    calendar = Calendar(SCHEMA)
    for weight in (1, -1):
        row = pa.RecordBatch.from_arrays([pa.array([7]), pa.array([weight])], schema=SCHEMA)
        calendar.add(row, np.array([3]))
    assert len(calendar) == 0
    assert calendar.take(9) is None


def test_it_says_what_it_keeps() -> None:
    calendar = Calendar(SCHEMA, only_grows=True)
    ones = pa.array(np.ones(1000, np.int64))
    calendar.add(pa.RecordBatch.from_arrays([ones, ones], schema=SCHEMA), np.arange(1000))
    assert calendar.kept_rows == KeptRows(1000, 24_000)
    calendar.take(899)
    assert calendar.kept_rows == KeptRows(100, 2_400)
