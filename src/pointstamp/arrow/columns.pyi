from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

_Column: TypeAlias = npt.NDArray[Any] | pa.Array
_Positions: TypeAlias = npt.NDArray[np.intp]

def taken(column: _Column, at: _Positions) -> _Column | None: ...
def taken_together(
    parts: Sequence[tuple[_Column, _Positions]], kind: pa.DataType | None
) -> _Column | None: ...
def taken_of_both(one: _Column, other: _Column, at: _Positions, kind: pa.DataType) -> _Column | None: ...
def equal_rows(
    one: _Column, these: _Positions, other: _Column, those: _Positions
) -> npt.NDArray[np.bool_] | None: ...
def prefixes(column: _Column, form: int, descends: bool, nulls_last: bool) -> npt.NDArray[np.uint64]: ...
