"""How large runs may grow before they are merged, and changes before all is saved again."""

from typing import Final

GROWTH: Final = 2
"""A newer run is merged into an older one that is less than so many times as large."""

_WORTH_IT: Final = 2
_FEW: Final = 1_000


def is_worth_saving_apart(changes: int, rows: int) -> bool:
    """Whether changes since the last save are so much fewer than all rows, or so few, that they are kept.

    >>> is_worth_saving_apart(600, 1_000), is_worth_saving_apart(600, 2_000)
    (False, True)
    """
    return _WORTH_IT * changes <= max(rows, _FEW)
