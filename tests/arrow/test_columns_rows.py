"""Columns that are made from buffers are the columns that pyarrow makes, for whatever values.

Families:
- laws over random values, against pyarrow: a wrong offset or width shows only beside another maker's column;
- what cannot be held is refused, not cut.
"""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pointstamp.arrow.arrays import binaries, integers
from pointstamp.errors import SchemaError


@given(st.lists(st.integers(-(1 << 31), (1 << 31) - 1)))
def test_integers_are_what_pyarrow_makes_of_them(values: list[int]) -> None:
    for kind in (pa.int32(), pa.int64()):
        made = integers(values, kind)
        made.validate(full=True)
        assert made.equals(pa.array(values, kind))


@given(st.lists(st.binary()))
def test_binaries_are_what_pyarrow_makes_of_them(values: list[bytes]) -> None:
    made = binaries(values)
    made.validate(full=True)
    assert made.equals(pa.array(values, pa.binary()))


def test_integers_of_every_other_number_are_copied_and_not_misread() -> None:
    assert integers(np.arange(6)[::2], pa.int64()).to_pylist() == [0, 2, 4]


def test_an_integer_that_the_type_cannot_hold_is_refused() -> None:
    with pytest.raises(OverflowError, match="out of bounds for int32"):
        integers([1 << 31], pa.int32())


def test_more_bytes_than_offsets_can_count_are_refused() -> None:
    piece = bytes(1 << 20)
    with pytest.raises(SchemaError, match="maxRecordsPerBatch"):
        binaries([piece] * (1 << 11))
