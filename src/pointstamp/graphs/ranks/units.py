"""The integer units of ranks, and the largest rank that they express."""

import math
from typing import Any, Final

import numpy.typing as npt

from pointstamp.errors import FlowError

UNITS_PER_TOLERANCE: Final = 1 << 20
RANK_MAX: Final = 1 << 62


def units(tolerance: float) -> int:
    """In how many units a reset of 1 is counted: a power of two, so that the tolerance is many of them."""
    return 1 << math.ceil(math.log2(UNITS_PER_TOLERANCE / tolerance))


def check_range(ranks: npt.NDArray[Any], one: int) -> None:
    """Reject ranks in units that are too large; ``one`` is a reset of 1."""
    assert ranks.min(initial=0) >= 0, "shares are never below zero"
    if ranks.max(initial=0) > RANK_MAX:
        raise FlowError(
            f"pagerank: a rank exceeds {RANK_MAX / one:.0f} times the reset, the maximum in units of this "
            "tolerance. Give a larger tolerance."
        )
