"""Order-preserving integers for ids.

An id that comes gets a number between those of its neighbours. Where no number is left between them, ids
around it get other numbers: as few as it takes until each has room beside it again (Itai, Konheim and Rodeh
1981). It knows no times and no workers.

Invariant: of two ids the lesser has the lesser number.
"""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

Numbers: TypeAlias = npt.NDArray[np.int64]
Values: TypeAlias = npt.NDArray[np.object_]

_STEP: Final = 1 << 32
"""The distance between numbers at an end of the order."""
_ROOM_MIN: Final = 1 << 8
"""How far they lie apart at least where they were given again."""
_NUMBER_MAX: Final = 1 << 62


class NumberChanges(NamedTuple):
    """Ids with the numbers that they have no longer, and ids with numbers that are new."""

    gone: Values
    old: Numbers
    come: Values
    new: Numbers


class OrderedIds:
    """All ids and their numbers, ascending; changed by the operator that owns it.

    >>> ordered = OrderedIds()
    >>> _ = ordered.change([], ["b", "d"])
    >>> _ = ordered.change(["d"], ["a", "c"])
    >>> ordered.ids.tolist(), (np.diff(ordered.numbers) > 0).tolist()
    (['a', 'b', 'c'], [True, True])
    """

    def __init__(self) -> None:
        self.ids: Values = np.empty(0, np.object_)
        self.numbers: Numbers = np.empty(0, np.int64)

    def change(self, gone: Sequence[Any], come: Sequence[Any]) -> NumberChanges:
        """Remove and add ids; return the numbers that change."""
        places = np.searchsorted(self.ids, _values(gone))
        left, old = self.ids[places], self.numbers[places]
        ids, before = np.delete(self.ids, places), np.delete(self.numbers, places)
        added = _values(sorted(come))
        places = np.searchsorted(ids, added)
        if len(before) and max(-before[0], before[-1]) > _NUMBER_MAX - _STEP * (len(added) + 1):
            numbers = (np.arange(len(before)) - len(before) // 2) * _STEP
        else:
            numbers = before
        numbers = np.insert(numbers, places, _between(numbers, places))
        _make_room(numbers)
        is_new = np.insert(np.zeros(len(ids), np.bool_), places, True)
        moved = np.flatnonzero(numbers[~is_new] != before)
        others = ids[moved], before[moved], numbers[~is_new][moved]
        self.ids, self.numbers = np.insert(ids, places, added), numbers
        return NumberChanges(
            np.concatenate((left, others[0])),
            np.concatenate((old, others[1])),
            np.concatenate((added, others[0])),
            np.concatenate((numbers[is_new], others[2])),
        )

    def restore(self, ids: Sequence[Any], numbers: Numbers) -> None:
        """Continue with these, in any order."""
        order = np.argsort(numbers)
        self.ids, self.numbers = _values(ids)[order], numbers[order]


def _values(ids: Sequence[Any]) -> Values:
    values = np.empty(len(ids), np.object_)
    values[:] = ids
    return values


def _between(numbers: Numbers, places: npt.NDArray[np.intp]) -> Numbers:
    """Numbers for those who come to some places among others, ascending: evenly between their neighbours.

    Where there are too few, some are equal to the one below.
    """
    if not len(numbers):
        return np.arange(len(places)) * _STEP
    first = np.searchsorted(places, places)
    share = np.searchsorted(places, places, side="right") - first + 1
    nth = np.arange(len(places)) - first + 1
    is_least, is_greatest = places == 0, places == len(numbers)
    low = np.where(is_least, numbers[0] - _STEP * share, numbers[np.where(is_least, 0, places - 1)])
    high = np.where(is_greatest, numbers[-1] + _STEP * share, numbers[np.where(is_greatest, 0, places)])
    return np.asarray(low + (high - low) // share * nth)


def _make_room(numbers: Numbers) -> None:
    """Spread numbers evenly around each that is not greater than the one below, as widely as is needed."""
    count = len(numbers)
    for at in (np.flatnonzero(numbers[1:] <= numbers[:-1]) + 1).tolist():
        width = 4
        while numbers[at] <= numbers[at - 1]:
            begin, end = max(at - width, 0), min(at + width, count)
            share = end - begin + 1
            low = int(numbers[begin - 1] if begin else numbers[0] - _STEP * share)
            high = int(numbers[end] if end < count else numbers[-1] + _STEP * share)
            if high - low >= _ROOM_MIN * share:
                numbers[begin:end] = low + (high - low) // share * np.arange(1, share)
            width *= 2
