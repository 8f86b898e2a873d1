"""Components of a small dense graph, a whole array of edges at a time.

Vertices are the numbers 0 to count - 1, and the answer gives each the least number of its component. The way
is Shiloach and Vishkin's (1982) in its linear-algebra form (Zhang, Azad and Buluc 2020): hook every root to
the least root next to it, let all pointers jump to the end, and continue with the edges that still lie
between two roots.

Why it ends soon: a root is left over only if no neighbour is less. After two rounds it has either found a
lesser one beside it, because its neighbours were hooked to that, or swallowed all of its neighbours. So every
two rounds halve the roots, and a chain of a million vertices in the worst order takes some forty. Hooking to
*any* lesser root would not do: on a star whose centre has the greatest number that can take a round for every
leaf.

It keeps nothing, and knows nothing of vertex ids or workers.
"""

from typing import Final

import numpy as np

from pointstamp.graphs.arrays.slots import Slots

_BLOCK: Final = 65_536


def least_of_components(count: int, left: Slots, right: Slots) -> Slots:
    """Each vertex gets the least vertex of its component.

    >>> least_of_components(6, np.array([5, 3, 1]), np.array([3, 1, 4])).tolist()
    [0, 1, 2, 1, 1, 1]
    """
    least = np.arange(count)
    while len(left):
        _hook(least, left, right)
        least = jumped(least)
        left, right = between(least, left, right)
    return least


def between(label: Slots, left: Slots, right: Slots) -> tuple[Slots, Slots]:
    """The labels of both ends of each edge, where they differ.

    >>> left, right = between(np.array([0, 0, 2, 2]), np.array([1, 1]), np.array([0, 3]))
    >>> left.tolist(), right.tolist()
    ([0], [2])
    """
    lefts, rights = [], []
    for block in _blocks(len(left)):
        one, other = label[left[block]], label[right[block]]
        apart = np.flatnonzero(one != other)
        lefts.append(one[apart])
        rights.append(other[apart])
    return (lefts[0], rights[0]) if len(lefts) == 1 else (np.concatenate(lefts), np.concatenate(rights))


def _hook(least: Slots, left: Slots, right: Slots) -> None:
    """Point each vertex to the least one beside it that is less than itself."""
    for block in _blocks(len(left)):
        one, other = left[block], right[block]
        np.minimum.at(least, np.maximum(one, other), np.minimum(one, other))


def jumped(pointer: Slots) -> Slots:
    """Every pointer leads to the end of its path; paths halve with each pass."""
    while True:
        further = pointer[pointer]
        if np.array_equal(further, pointer):
            return pointer
        pointer = further


def _blocks(length: int) -> list[slice]:
    """Block by block, what lies between two passes stays in the nearest caches: half the time in all."""
    return [slice(start, start + _BLOCK) for start in range(0, max(length, 1), _BLOCK)]
