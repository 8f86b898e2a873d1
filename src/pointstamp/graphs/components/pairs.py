"""Pairs of ids as columns: messages between workers, and saved state."""

from typing import Final, NamedTuple

import numpy as np

from pointstamp.graphs.arrays.slots import Ids


class Pairs(NamedTuple):
    """Two columns of ids: facts as (vertex, other), or labels as (vertex, component)."""

    vertex: Ids
    other: Ids


NO_PAIRS: Final = Pairs(np.empty(0, np.int64), np.empty(0, np.int64))
