"""Sums of integers that come in two halves, so that no part of one can overflow before all are together."""

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pointstamp.errors import FlowError
from pointstamp.keyed.table import Slots
from pointstamp.reduce.accumulators import ExactSum, State

_HALF_BITS: Final = 32
_LOW_HALF: Final = (1 << _HALF_BITS) - 1
HALVES: Final = pa.struct([("high", pa.int64()), ("low", pa.int64())])
"""The sum of values shifted right by 32 bits, and that of the 32 bits that were shifted out."""


def halves_in_sql(value: str) -> str:
    """The sums of the halves of an integer, null where there is no value; a half that overflows is null."""
    long = f"CAST({value} AS BIGINT)"
    high, low = f"try_sum(shiftright({long}, {_HALF_BITS}))", f"try_sum({long} & {_LOW_HALF})"
    return f"CASE WHEN count({value}) > 0 THEN named_struct('high', {high}, 'low', {low}) END"


class WideSum(ExactSum):
    """The exact sum of integers from the sums of their halves; it must fit a long when it is sent."""

    def __init__(self, column: str) -> None:
        super().__init__(pa.int64())
        self.column = column

    def result_type(self, column_type: pa.DataType) -> pa.DataType:
        """A long, as of the values themselves."""
        assert column_type == HALVES, f"'{self.column}' is {column_type}"
        return pa.int64()

    def update(self, state: State, slots: Slots, values: pa.Array) -> None:
        """Bring sums of halves in."""
        high, low = (pc.struct_field(values, name) for name in ("high", "low"))
        if high.null_count or low.null_count:
            raise FlowError(
                f"'{self.column}': a sum that is computed by Spark has at most two thousand million rows "
                "per key. Run the flow with push=False."
            )
        lower = low.to_numpy()
        np.add.at(state["limb0"], slots, lower & _LOW_HALF)
        np.add.at(state["limb1"], slots, high.to_numpy() + (lower >> _HALF_BITS))
        self._carry_if_large(state, slots)
