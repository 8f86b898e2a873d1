"""The splitmix64 hash of words, and its inverse; hashes are arrays of words."""

import numpy as np
import numpy.typing as npt

from pointstamp.arrow import hashing

Hashes = npt.NDArray[np.uint64]
mix = hashing.mix
unmixed = hashing.unmixed
