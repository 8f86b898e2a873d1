"""Sums from the sums of halves are those of Python's integers; one family, on random integers of 64 bits."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pointstamp.errors import FlowError
from pointstamp.pushdown.prefix import HALVES, WideSum
from pointstamp.reduce.accumulators import SumTooLarge

LONGS = st.integers(-(2**63), 2**63 - 1) | st.integers(-5, 5)


def halves(values: list[int]) -> dict[str, int]:
    return {"high": sum(each >> 32 for each in values), "low": sum(each & 0xFFFFFFFF for each in values)}


@given(st.lists(st.lists(LONGS, min_size=1, max_size=5), min_size=1, max_size=6))
def test_sums_from_halves_are_exact_or_said_to_be_too_large(parts: list[list[int]]) -> None:
    total, together = WideSum("total"), sum(map(sum, parts))
    state = {name: np.zeros(1, np.int64) for name in total.empty()}
    for part in parts:
        total.update(state, np.zeros(1, np.intp), pa.array([halves(part)], HALVES))
    if -(2**63) <= together < 2**63:
        assert total.result(state).to_pylist() == [together]
    else:
        with pytest.raises(SumTooLarge):
            total.result(state)


def test_a_half_that_spark_could_not_hold_is_refused() -> None:
    state = {name: np.zeros(1, np.int64) for name in WideSum("total").empty()}
    with pytest.raises(FlowError, match="push=False"):
        WideSum("total").update(state, np.zeros(1, np.intp), pa.array([{"high": None, "low": 1}], HALVES))
