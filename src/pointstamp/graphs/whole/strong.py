"""Strongly connected components of a graph in arrays, from scratch.

Most of it goes in whole arrays: who has no edge to it, or none from it, is alone (*trimming*, McLendon et al.
2005), and the component of the vertex with most edges, which is often nearly everything, is what it leads to
and what leads to it (forward and backward search, Fleischer, Hendrickson and Pinar 2000). This continues as
long as it takes many edges away (Slota, Rajamanickam and Madduri 2014 have the same order of steps). What is
left, small components and long paths, goes by Tarjan's one walk (1972), vertex by vertex.
"""

from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from pointstamp.graphs.arrays.slots import Slots, order_of

Flags: TypeAlias = npt.NDArray[np.bool_]

_SHARE: Final = 8
"""Searches continue while they take away this fraction of the edges."""
_TRIMMED_SHARE: Final = 64
"""Trimming continues while it removes this fraction: the walk takes a hundred times as long for an edge."""
_FEW: Final = 2_048
_STEPS_MAX: Final = 64
"""Paths that are longer are walked vertex by vertex."""


def strong_components(count: int, src: Slots, dst: Slots) -> Slots:
    """Each vertex gets one vertex of its component, the same for all of it.

    >>> found = strong_components(5, np.array([0, 1, 2, 2, 4]), np.array([1, 2, 1, 3, 0]))
    >>> bool(found[1] == found[2]), len(set(found.tolist()))
    (True, 4)
    """
    component = np.arange(count)
    while True:
        edges = len(src)
        src, dst = _trimmed(count, src, dst)
        if len(src) > _FEW:
            found = _largest(count, src, dst)
            component[found] = found[0] if len(found) else 0
            is_left = np.ones(count, np.bool_)
            is_left[found] = False
            left = np.flatnonzero(is_left[src] & is_left[dst])
            src, dst = src[left], dst[left]
        if _SHARE * (edges - len(src)) <= edges or len(src) <= _FEW:
            break
    ends = np.flatnonzero(np.bincount(np.concatenate((src, dst)), minlength=count))
    component[ends] = ends[walked(len(ends), np.searchsorted(ends, src), np.searchsorted(ends, dst))]
    return component


def _trimmed(count: int, src: Slots, dst: Slots) -> tuple[Slots, Slots]:
    """The edges without those at vertices that no edge leads to or from, as long as there are many."""
    while len(src):
        is_left, is_led_to = np.zeros(count, np.bool_), np.zeros(count, np.bool_)
        is_left[src], is_led_to[dst] = True, True
        is_left &= is_led_to
        kept = np.flatnonzero(is_left[src] & is_left[dst])
        is_over = _TRIMMED_SHARE * (len(src) - len(kept)) <= len(src)
        src, dst = src[kept], dst[kept]
        if is_over:
            break
    return src, dst


def _largest(count: int, src: Slots, dst: Slots) -> Slots:
    """The component of the vertex with most edges, or nothing where paths are long."""
    begins, ends = np.bincount(src, minlength=count), np.bincount(dst, minlength=count)
    pivot = int(np.argmax(begins * ends))
    there = _reached(count, pivot, src, dst, begins)
    back = _reached(count, pivot, dst, src, ends) if there is not None else None
    return np.empty(0, np.intp) if there is None or back is None else np.flatnonzero(there & back)


def _reached(count: int, start: int, src: Slots, dst: Slots, sizes: Slots) -> Flags | None:
    """Whom edges lead to from a vertex, itself among them; None where that takes too many steps."""
    beyond = dst[order_of(src, count)]
    first = np.cumsum(sizes) - sizes
    is_reached = np.zeros(count, np.bool_)
    is_reached[start] = True
    going = np.array([start])
    for _ in range(_STEPS_MAX):
        lengths = sizes[going]
        at = np.arange(lengths.sum()) + np.repeat(first[going] - (np.cumsum(lengths) - lengths), lengths)
        is_next = np.zeros(count, np.bool_)
        is_next[beyond[at]] = True
        is_next &= ~is_reached
        is_reached |= is_next
        going = np.flatnonzero(is_next)
        if not len(going):
            return is_reached
    return None


def walked(count: int, src: Slots, dst: Slots) -> Slots:
    """Each vertex gets one vertex of its component, by Tarjan's walk, depth first."""
    first = np.concatenate(([0], np.cumsum(np.bincount(src, minlength=count)))).tolist()
    beyond = dst[order_of(src, max(count, 1))].tolist()
    at, ends = first[:-1], first[1:]
    # Numbers begin at 1, in the order in which vertices are met; a link is the least number that is reached.
    number, link, component = [0] * count, [0] * count, [-1] * count
    met: list[int] = []
    last = 0
    for start in range(count):
        walk = [] if number[start] else [start]
        while walk:
            vertex = walk[-1]
            if not number[vertex]:
                last += 1
                number[vertex] = link[vertex] = last
                met.append(vertex)
            if at[vertex] < ends[vertex]:
                other = beyond[at[vertex]]
                at[vertex] += 1
                if not number[other]:
                    walk.append(other)
                elif component[other] < 0:
                    link[vertex] = min(link[vertex], number[other])
                continue
            walk.pop()
            if link[vertex] == number[vertex]:
                while component[vertex] < 0:
                    component[met.pop()] = vertex
            elif walk:
                link[walk[-1]] = min(link[walk[-1]], link[vertex])
    return np.array(component, np.intp)
