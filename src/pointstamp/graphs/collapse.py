"""Components of a small dense graph, a whole array of edges at a time.

Vertices are the numbers 0 to count - 1, and the answer gives each the least number of its component. The way
is Shiloach and Vishkin's (1982) in its linear-algebra form (Zhang, Azad and Buluc 2020): hook every root to
the least root next to it, let all pointers jump to the end, and go on with the edges that still lie between
two roots.

Why it ends soon: a root is left over only if no neighbour is less. After two rounds it has either found a
lesser one beside it, because its neighbours were hooked to that, or swallowed all of its neighbours. So every
two rounds halve the roots, and a chain of a million vertices in the worst order takes some forty. Hooking to
*any* lesser root would not do: on a star whose centre has the greatest number that can take a round for every
leaf.

It keeps nothing, and knows nothing of vertex ids or workers.
"""

import numpy as np

from pointstamp.graphs.slots import Slots


def least_of_components(count: int, left: Slots, right: Slots) -> Slots:
    """Each vertex gets the least vertex of its component.

    >>> least_of_components(6, np.array([5, 3, 1]), np.array([3, 1, 4])).tolist()
    [0, 1, 2, 1, 1, 1]
    """
    least = np.arange(count)
    while len(left):
        np.minimum.at(least, np.maximum(left, right), np.minimum(left, right))
        least = _jumped(least)
        left, right = least[left], least[right]
        apart = np.flatnonzero(left != right)
        left, right = left[apart], right[apart]
    return least


def _jumped(pointer: Slots) -> Slots:
    """Every pointer leads to the end of its path; paths halve with each pass."""
    while True:
        further = pointer[pointer]
        if np.array_equal(further, pointer):
            return pointer
        pointer = further
