"""A worker's union-find forest, and the messages that keep it consistent.

A *fact* is a pair of ids (vertex, other) that lie in one component, brought to the worker that owns the
vertex. The forest joins everything that its facts connect and labels each set with its least id. Three kinds
of ids are in a set:

- *mine*: vertices that this worker owns, whose components are its to report;
- *foreign ids*: ids that belong to another worker, and stand here only as the label of a set;
- *followers*: one vertex of another worker for each worker that has vertices with a label of mine.

Whenever the label of a set becomes less, those that lost theirs are told: mine at once, foreign ids and
followers by a fact, after which they are forgotten, for their owners know more. A vertex that gets a label
that is a foreign id follows it: it sends its owner the fact (label, one of mine). So facts with ``other``
less than ``vertex`` say that something is less, and facts with a greater one ask to be told when it becomes
less. A label that is not the last word is answered with a lesser one, by owner after owner; since all of them
do that at once, paths halve (the pointer jumping of Shiloach and Vishkin 1982; Kiveris et al. 2014 have the
same exchange as large-star and small-star, by vertices where here it is by sets).

Invariant: what is said is true of the edges so far. When no fact is in flight any more, every label is the
least id of its component: a label that I do not own I follow, its owner says of it that it is least, and of
two least ones in a component an edge would tell.

What it costs follows what it is told and what changes, never what there is. It knows no times: who owns it
gives it the facts of one epoch after the other.

Between epochs, when nothing is in flight, two tables say all that there is to say: the labels of mine, and
the members of labels, mine and followers. Strangers are the labels that I do not own.
"""

from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from pointstamp.graphs.arrays.slot_arrays import Ids, Slots, distinct, grown, order_of
from pointstamp.graphs.arrays.vertices import VertexTable

# Pairs of ids as columns: messages between workers, and saved state.


class Pairs(NamedTuple):
    """Two columns of ids: facts as (vertex, other), or labels as (vertex, component)."""

    vertex: Ids
    other: Ids


NO_PAIRS: Final = Pairs(np.empty(0, np.int64), np.empty(0, np.int64))


class SavedForest(NamedTuple):
    """The state of a forest, or its changes."""

    labels: Pairs
    """Mine, with their labels."""
    members: Pairs
    """Mine and followers that have another label than themselves, with it."""
    is_whole: bool


class Forest:
    """The labelled sets of one worker; changed by the operator that owns it.

    With ``owns_all`` there is no other worker, and no id is foreign.
    """

    def __init__(self, *, owns_all: bool) -> None:
        self._owns_all = owns_all
        self._sets = LabelledSets(owns_all=owns_all)
        # Which of mine and of the followers have changed since they were last saved, once they were.
        self._is_unsaved: npt.NDArray[np.bool_] | None = None

    def absorb(self, facts: Pairs) -> Pairs:
        """Take in facts whose vertices are mine; return the facts that others need to know."""
        vertex, other = self._slots_of(facts)
        if not self._owns_all:
            self._sets.own(vertex)
        joined = self._sets.join(*between(self._sets.label, vertex, other))
        if self._owns_all:
            return NO_PAIRS
        self._admit(vertex, other)
        # Who has just asked to be told of a label knows it.
        untold = np.flatnonzero(self._sets.label[joined.forgotten] == joined.forgotten)
        to = np.concatenate((joined.forgotten[untold], joined.followed))
        about = np.concatenate((joined.label[untold], joined.mine))
        return Pairs(self._sets.vertices.ids[to], self._sets.vertices.ids[about])

    def take_changes(self) -> Pairs:
        """Mine that are new or have another label since this was last asked, with their labels."""
        parts, self._sets.changed = self._sets.changed, []
        if not parts:
            return NO_PAIRS
        changed = distinct(self._sets.vertices.count, *parts)
        self._mark(changed)
        return self._labelled(changed)

    def save(self, *, changes_only: bool) -> SavedForest:
        """All labels and members, or those that changed since they were last saved."""
        assert not self._sets.changed, "an epoch has not been reported"
        count = self._sets.vertices.count
        marks = self._is_unsaved if changes_only else None
        slots = np.arange(count) if marks is None else np.flatnonzero(marks)
        self._is_unsaved = _flags(None, count)
        labels, members = slots[self._sets.is_mine[slots]], slots[self._sets.label[slots] != slots]
        return SavedForest(self._labelled(labels), self._labelled(members), marks is None)

    def restore(self, labels: Pairs, followers: Pairs) -> None:
        """Begin with mine and their labels, and with followers, each with a label of mine."""
        both = (np.concatenate(columns) for columns in zip(labels, followers, strict=True))
        vertex, label = self._slots_of(Pairs(*both))
        self._sets.label[vertex] = label
        self._sets.is_mine[vertex[: len(labels.vertex)]] = True
        are_members = np.flatnonzero(vertex != label)
        self._sets.members.add(vertex[are_members], label[are_members])
        self._sets.changed = []

    def _mark(self, changed: Slots) -> None:
        if self._is_unsaved is not None:
            self._is_unsaved = _flags(self._is_unsaved, self._sets.vertices.count)
            self._is_unsaved[changed] = True

    def _labelled(self, slots: Slots) -> Pairs:
        ids = self._sets.vertices.ids
        return Pairs(ids[slots], ids[self._sets.label[slots]])

    def _admit(self, vertex: Slots, other: Slots) -> None:
        """Take in the followers among the others: foreign ids of a vertex that is still a label.

        By now they are joined, so a foreign id that is less than the vertex is its label now.
        """
        sets = self._sets
        asks = (sets.label[vertex] == vertex) & (sets.label[other] == other) & ~sets.is_mine[other]
        rows = np.flatnonzero(asks)
        sets.label[other[rows]] = vertex[rows]
        followers = distinct(sets.vertices.count, other[rows])
        sets.members.add(followers, sets.label[followers])
        self._mark(followers)

    def _slots_of(self, facts: Pairs) -> tuple[Slots, Slots]:
        """The slots of both columns."""
        slots = self._sets.slots_of(np.concatenate(facts))
        return slots[: len(facts.vertex)], slots[len(facts.vertex) :]


def _flags(old: npt.NDArray[np.bool_] | None, size: int) -> npt.NDArray[np.bool_]:
    """Flags for at least so many slots: the old ones, and the rest not set."""
    if old is not None and len(old) >= size:
        return old
    flags = np.zeros(size + size // 2, np.bool_)
    if old is not None:
        flags[: len(old)] = old
    return flags


# Labelled disjoint sets in slots, and their union.
#
# Each set is labelled with its least id. Mine are the vertices that this worker owns; strangers and followers
# belong to others, and leave their set when their label becomes less
# (this module says why).

_ROOM_MIN: Final = 1_024
_NO_SLOTS: Final[Slots] = np.empty(0, np.intp)


class JoinedSets(NamedTuple):
    """The result of a union of sets, in slots."""

    forgotten: Slots
    """Strangers and followers that lost their label and are no longer in a set,"""
    label: Slots
    """and the label that each has now."""
    followed: Slots
    """Strangers that have become the label of something of mine,"""
    mine: Slots
    """and one of mine for each."""


_NOTHING: Final = JoinedSets(_NO_SLOTS, _NO_SLOTS, _NO_SLOTS, _NO_SLOTS)


class LabelledSets:
    """The label of each slot, and the members of each label; changed by the forest that owns it.

    With ``owns_all`` there is no other worker, and no id is foreign.
    """

    def __init__(self, *, owns_all: bool) -> None:
        self._owns_all = owns_all
        self.vertices = VertexTable()
        self.members = MemberLists()
        self.label: Slots = np.empty(_ROOM_MIN, np.intp)
        self.is_mine: npt.NDArray[np.bool_] = np.empty(_ROOM_MIN, np.bool_)
        # Where a root stands among those that are being joined; says nothing between calls.
        self._rank: Slots = np.empty(_ROOM_MIN, np.intp)
        self.changed: list[Slots] = []
        """Mine that are new or have another label, since this was last taken away."""

    def slots_of(self, ids: Ids) -> Slots:
        """Return the slots of ids; new ids become singleton sets."""
        before = self.vertices.count
        slots = self.vertices.slots_of(ids)
        count = self.vertices.count
        if count > before:
            new = np.arange(before, count)
            self.label = grown(self.label, before, count)
            self.is_mine = grown(self.is_mine, before, count)
            self._rank = grown(self._rank, 0, count)
            self.label[before:count] = new
            self.is_mine[before:count] = self._owns_all
            self.members.grow(count)
            if self._owns_all:
                self.changed.append(new)
        return slots

    def own(self, vertices: Slots) -> None:
        """These are mine."""
        new = vertices[~self.is_mine[vertices]]
        self.is_mine[new] = True
        self.changed.append(new)

    def join(self, left: Slots, right: Slots) -> JoinedSets:
        """Make one set of two for each row; they are given by their labels, which differ."""
        roots, left, right = self._ranked(left, right)
        least = least_of_components(len(roots), left, right)
        ended = np.flatnonzero(least != np.arange(len(roots)))
        losers, winners = roots[ended], roots[least[ended]]
        members, which = self.members.take(losers)
        moved = np.concatenate((losers, members))
        label = np.concatenate((winners, winners[which]))
        if self._owns_all:
            self._move(moved, label)
            return _NOTHING
        is_mine = self.is_mine[moved]
        followed, mine = self._move(moved[is_mine], label[is_mine])
        forgotten = moved[~is_mine]
        self.label[forgotten] = forgotten
        are_strangers = ~self.is_mine[followed]
        return JoinedSets(forgotten, label[~is_mine], followed[are_strangers], mine[are_strangers])

    def _ranked(self, left: Slots, right: Slots) -> tuple[Slots, Slots, Slots]:
        """The labels that are to be joined, by ascending id, and both columns as places among them."""
        count = self.vertices.count
        roots = distinct(count, left, right)
        if self.vertices.is_ascending:
            if len(roots) == count:
                return roots, left, right
        else:
            roots = roots[np.argsort(self.vertices.ids[roots])]
        self._rank[roots] = np.arange(len(roots))
        return roots, self._rank[left], self._rank[right]

    def _move(self, moved: Slots, label: Slots) -> tuple[Slots, Slots]:
        """Give mine their new labels; return the labels that had no members before, and a member of each."""
        self.label[moved] = label
        self.changed.append(moved)
        return self.members.add(moved, label)


# The members of each root, in chained segments of one array.
#
# Joining two sets must not touch the members of the one that keeps its root, or a large component would be
# copied for every small one that it swallows. So a root has a chain of segments, and what joins it becomes
# one segment more. When a root ends, its members are taken out whole; they are about to be told their new
# root, so that reading them costs nothing extra. What was taken out stays behind as garbage until it
# outweighs the rest.
#
# Invariant: a root's chain holds what was added to it since it was last taken, each as often as it was added.
# The root itself is not in its chain.

_NONE: Final = -1


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


# Components of a small dense graph, a whole array of edges at a time.
#
# Vertices are the numbers 0 to count - 1, and the answer gives each the least number of its component. The
# way is Shiloach and Vishkin's (1982) in its linear-algebra form (Zhang, Azad and Buluc 2020): hook every
# root to the least root next to it, let all pointers jump to the end, and continue with the edges that still
# lie between two roots.
#
# Why it ends soon: a root is left over only if no neighbour is less. After two rounds it has either found a
# lesser one beside it, because its neighbours were hooked to that, or swallowed all of its neighbours. So
# every two rounds halve the roots, and a chain of a million vertices in the worst order takes some forty.
# Hooking to *any* lesser root would not do: on a star whose centre has the greatest number that can take a
# round for every leaf.
#
# It keeps nothing, and knows nothing of vertex ids or workers.

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
