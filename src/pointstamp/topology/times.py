"""Operations on single times for the inner loops: compare, advance, locate.

Nothing else in progress tracking is done as often, so the shapes that most flows have, no loop and one loop,
are spelt out. These are functions of plain tuples: ``domain`` says which times they are, ``summary`` what an
edge does, ``levels`` which positions a port has.
"""

from collections.abc import Callable
from operator import le
from typing import Any, TypeAlias

Coordinates: TypeAlias = tuple[Any, ...]
"""A time as its coordinates: the root time, then one round for each loop."""


def less_equal_n(a: Coordinates, b: Coordinates) -> bool:
    """Return whether every coordinate of the first time is less or equal to that of the second."""
    return all(map(le, a, b))


def mover(increments: tuple[int, ...], appended: tuple[int, ...]) -> Callable[[Coordinates], Coordinates]:
    """A function that keeps the root and at most one round of a time, adds to the round, and appends."""
    if not increments:
        if not appended:
            return lambda time: (time[0],)
        if len(appended) == 1:
            first = appended[0]
            return lambda time: (time[0], first)
        return lambda time: (time[0], *appended)
    step = increments[0]
    if not appended:
        return lambda time: (time[0], time[1] + step)
    return lambda time: (time[0], time[1] + step, *appended)


def interleaver(positions: tuple[int, ...]) -> Callable[[Coordinates], Coordinates]:
    """A function that alternates the positions of a port with the coordinates of a time."""
    first = positions[0]
    if len(positions) == 1:
        return lambda time: (first, *time)
    if len(positions) == 3:
        second, third = positions[1], positions[2]
        return lambda time: (first, time[0], second, time[1], third, *time[2:])
    depth = len(positions) - 1

    def key(time: Coordinates) -> Coordinates:
        mixed = [part for pair in zip(time, positions[1:], strict=False) for part in pair]
        return (first, *mixed, *time[depth:])

    return key
