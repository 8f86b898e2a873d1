"""The splitmix64 hash of words, and its inverse; hashes are arrays of words."""

import numpy as np
import numpy.typing as npt

from pointstamp.arrow.hashing import mix, unmixed

Hashes = npt.NDArray[np.uint64]

__all__ = ["Hashes", "mix", "unmixed"]
