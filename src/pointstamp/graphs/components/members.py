"""The members of each root, in chained segments of one array.

Joining two sets must not touch the members of the one that keeps its root, or a large component would be
copied for every small one that it swallows. So a root has a chain of segments, and what joins it becomes one
segment more. When a root ends, its members are taken out whole; they are about to be told their new root, so
that reading them costs nothing extra. What was taken out stays behind as garbage until it outweighs the rest.

Invariant: a root's chain holds what was added to it since it was last taken, each as often as it was added.
The root itself is not in its chain.
"""

from typing import Final

import numpy as np

from pointstamp.graphs.arrays.slots import Slots, grown, order_of

_NONE: Final = -1
_ROOM_MIN: Final = 1_024


class MemberLists:
    """The members of each root, by slot; changed by the forest that owns it."""

    def __init__(self) -> None:
        self._roots = 0
        self._head: Slots = _room()
        self._tail: Slots = _room()
        # One long array of members, of which some are still in a chain; and its segments.
        self._live = self._used = self._segments = 0
        self._members: Slots = _room()
        self._start: Slots = _room()
        self._length: Slots = _room()
        self._next: Slots = _room()

    def grow(self, roots: int) -> None:
        """Know slots up to this one; the new ones have no members."""
        self._head = grown(self._head, self._roots, roots)
        self._tail = grown(self._tail, self._roots, roots)
        self._head[self._roots : roots] = _NONE
        self._roots = max(self._roots, roots)

    def add(self, members: Slots, roots: Slots) -> tuple[Slots, Slots]:
        """Add each member to its root; return the roots that had none before, with one new member each."""
        if self._used + len(members) > len(self._members) and 2 * self._live < self._used:
            self._compact()
        return self._add(members, roots)

    def take(self, roots: Slots) -> tuple[Slots, Slots]:
        """All members of distinct roots, and for each which of these roots it had; they have none then."""
        which = np.flatnonzero(self._head[roots] >= 0)
        segment = self._head[roots[which]]
        self._head[roots[which]] = _NONE
        segments, owners = [segment], [which]
        while len(segment):
            following = self._next[segment]
            goes_on = np.flatnonzero(following >= 0)
            segment, which = following[goes_on], which[goes_on]
            segments.append(segment)
            owners.append(which)
        chained, owner = np.concatenate(segments), np.concatenate(owners)
        lengths = self._length[chained]
        ends = np.cumsum(lengths)
        total = int(ends[-1]) if len(ends) else 0
        self._live -= total
        at = np.arange(total) + np.repeat(self._start[chained] - (ends - lengths), lengths)
        return self._members[at], np.repeat(owner, lengths)

    def _add(self, members: Slots, roots: Slots) -> tuple[Slots, Slots]:
        order = order_of(roots, self._roots)
        members, roots = members[order], roots[order]
        starts = np.flatnonzero(np.concatenate(([True], roots[1:] != roots[:-1]))[: len(roots)])
        heirs = roots[starts]
        had_none = self._chain(heirs, self._used + starts, np.diff(starts, append=len(roots)))
        stop = self._used + len(members)
        self._members = grown(self._members, self._used, stop)
        self._members[self._used : stop] = members
        self._used = stop
        self._live += len(members)
        return heirs[had_none], members[starts[had_none]]

    def _chain(self, heirs: Slots, starts: Slots, lengths: Slots) -> Slots:
        """Hang one segment onto the chain of each of these distinct roots; say which are the first there."""
        first, stop = self._segments, self._segments + len(heirs)
        self._start = grown(self._start, first, stop)
        self._length = grown(self._length, first, stop)
        self._next = grown(self._next, first, stop)
        self._start[first:stop] = starts
        self._length[first:stop] = lengths
        self._next[first:stop] = _NONE
        segment = np.arange(first, stop)
        is_first = self._head[heirs] < 0
        self._head[heirs[is_first]] = segment[is_first]
        self._next[self._tail[heirs[~is_first]]] = segment[~is_first]
        self._tail[heirs] = segment
        self._segments = stop
        return np.flatnonzero(is_first)

    def _compact(self) -> None:
        """Lay all chains again, one segment each."""
        roots = np.flatnonzero(self._head[: self._roots] >= 0)
        members, which = self.take(roots)
        self._live = self._used = self._segments = 0
        self._add(members, roots[which])


def _room() -> Slots:
    return np.empty(_ROOM_MIN, np.intp)
