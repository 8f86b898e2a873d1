"""Slots of keys, and the words that numbers are looked up by."""

from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

Slots: TypeAlias = npt.NDArray[np.intp]
Words: TypeAlias = npt.NDArray[np.int64]

UNKNOWN: Final = -1
