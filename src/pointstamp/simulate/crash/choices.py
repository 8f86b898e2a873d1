"""Further choices of a world with crashes, from a stream of their own.

What a world could decide before there was something new to decide stays as it was: the old choices are drawn
from one stream (``pointstamp.simulate.choices``), the new ones from this. Their numbers begin where the
others never come, so that both kinds are shrunk alike and fit on the same command line.

    >>> plain = FurtherChoices(seed=7, kept=frozenset())
    >>> [plain.choose(10) for _ in range(3)]
    [0, 0, 0]
"""

from typing import Final

from pointstamp.simulate.choices import Choices

FIRST_NUMBER: Final = 10_000_000
_OTHER_SEEDS: Final = 2**40


class FurtherChoices(Choices):
    """The choices of one world that came later; of the same seed, and independent of the first ones."""

    def __init__(self, seed: int, kept: frozenset[int] | None = None) -> None:
        super().__init__(seed + _OTHER_SEEDS, kept)
        self._drawn = FIRST_NUMBER
