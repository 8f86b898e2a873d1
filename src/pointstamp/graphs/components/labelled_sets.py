"""Labelled disjoint sets in slots, and their union.

Each set is labelled with its least id. Mine are the vertices that this worker owns; strangers and followers
belong to others, and leave their set when their label becomes less (``forest`` says why).
"""

from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from pointstamp.graphs.arrays.collapse import least_of_components
from pointstamp.graphs.arrays.slots import Ids, Slots, distinct, grown
from pointstamp.graphs.arrays.vertices import VertexTable
from pointstamp.graphs.components.members import MemberLists

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

    With ``owns_all`` there is no other worker, and no id is a stranger.
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
