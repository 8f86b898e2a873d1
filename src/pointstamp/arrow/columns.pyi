from collections.abc import Sequence
from typing import Any, TypeAlias, overload

import numpy as np
import numpy.typing as npt
import pyarrow as pa

_Column: TypeAlias = npt.NDArray[Any] | pa.Array
_Words: TypeAlias = npt.NDArray[np.uint64]
_Positions: TypeAlias = npt.NDArray[np.intp]

def taken(column: _Column, at: _Positions) -> _Column | None: ...
def taken_together(
    parts: Sequence[tuple[_Column, _Positions]], kind: pa.DataType | None
) -> _Column | None: ...
@overload
def merged_columns(
    ones: Sequence[_Words], others: Sequence[_Words], at: _Positions, kinds: Sequence[pa.DataType]
) -> list[_Words]: ...
@overload
def merged_columns(
    ones: Sequence[_Column], others: Sequence[_Column], at: _Positions, kinds: Sequence[pa.DataType]
) -> list[_Column | None]: ...
def gathered(
    parts: Sequence[Sequence[_Column]], part_of: _Positions, at: _Positions, kinds: Sequence[pa.DataType]
) -> list[_Column | None]: ...
def equal_rows(
    one: _Column, these: _Positions, other: _Column, those: _Positions
) -> npt.NDArray[np.bool_] | None: ...
def prefixes(column: _Column, form: int, descends: bool, nulls_last: bool) -> npt.NDArray[np.uint64]: ...
