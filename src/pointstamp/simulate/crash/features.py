"""Optional features of simulated worlds, each present in some of them.

Rows may carry their epochs in a column; savepoints may be taken, and another query begin with one of them;
the end of all inputs may be the end of time; the power may fail; fewer snapshots may be kept. All of it is
drawn from further choices of the same seed, which are independent of the first ones, so that a world that has
none of it is what it was before there was any. Their numbers begin where those of the first never come, so
that both are shrunk alike and fit on the same command line.

    >>> plain = further_choices(seed=7, kept=frozenset())
    >>> [plain.choose(10) for _ in range(3)]
    [0, 0, 0]
"""

from dataclasses import dataclass
from typing import Final

from pointstamp.simulate.choices import Choices

FIRST_NUMBER: Final = 10_000_000
_OTHER_SEEDS: Final = 2**40
_POWER_ONE_IN: Final = (0, 2, 6)
_CHAINS_KEPT: Final = (2, 1)
_SAVEPOINTS_ONE_IN: Final = (0, 0, 20, 100)


@dataclass(frozen=True, slots=True)
class Features:
    """The enabled features; ``*_one_in`` is their frequency, 0 for never."""

    has_columns: bool = False
    savepoints_one_in: int = 0
    closes: bool = False
    power_one_in: int = 0
    chains_kept: int = 2

    @classmethod
    def of(cls, further: Choices) -> "Features":
        """As the choices say."""
        choose = further.choose
        return cls(
            has_columns=choose(3) == 2,
            savepoints_one_in=_SAVEPOINTS_ONE_IN[choose(len(_SAVEPOINTS_ONE_IN))],
            closes=choose(3) == 2,
            power_one_in=_POWER_ONE_IN[choose(len(_POWER_ONE_IN))],
            chains_kept=_CHAINS_KEPT[choose(len(_CHAINS_KEPT))],
        )


NOTHING_FURTHER: Final = Features()


def further_choices(seed: int, kept: frozenset[int] | None = None) -> Choices:
    """The further choices of the world of a seed."""
    return Choices(seed + _OTHER_SEEDS, kept, first=FIRST_NUMBER)
