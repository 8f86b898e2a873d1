from typing import Any

import numpy as np
import numpy.typing as npt

_Integers = npt.NDArray[np.int64]

def limbs_of(values: npt.NDArray[Any], weights: _Integers, count: int) -> list[_Integers]: ...
def whole_numbers(sums: list[_Integers]) -> tuple[_Integers, int]: ...
def extent(values: _Integers) -> tuple[int, int]: ...
