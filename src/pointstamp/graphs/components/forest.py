"""A worker's union-find forest, and the messages that keep it consistent.

A *fact* is a pair of ids (vertex, other) that lie in one component, brought to the worker that owns the
vertex. The forest joins everything that its facts connect and labels each set with its least id. Three kinds
of ids are in a set:

- *mine*: vertices that this worker owns, whose components are its to report;
- *strangers*: ids that belong to another worker, and stand here only as the label of a set;
- *followers*: one vertex of another worker for each worker that has vertices with a label of mine.

Whenever the label of a set becomes less, those that lost theirs are told: mine here and now, strangers and
followers by a fact, after which they are forgotten, for their owners know more. A vertex that gets a label
that is a stranger follows it: it sends its owner the fact (label, one of mine). So facts with ``other`` less
than ``vertex`` say that something is less, and facts with a greater one ask to be told when it becomes less.
A label that is not the last word is answered with a lesser one, by owner after owner; since all of them do
that at once, paths halve (the pointer jumping of Shiloach and Vishkin 1982; Kiveris et al. 2014 have the same
exchange as large-star and small-star, by vertices where here it is by sets).

Invariant: what is said is true of the edges so far. When no fact is under way any more, every label is the
least id of its component: a label that I do not own I follow, its owner says of it that it is least, and of
two least ones in a component an edge would tell.

What it costs follows what it is told and what changes, never what there is. It knows no times: who owns it
gives it the facts of one epoch after the other.

Between epochs, when nothing is under way, two tables say all that there is to say: the labels of mine, and
the members of labels, mine and followers. Strangers are the labels that I do not own.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from pointstamp.graphs.arrays.collapse import between
from pointstamp.graphs.arrays.slots import Slots, distinct
from pointstamp.graphs.components.labelled_sets import LabelledSets
from pointstamp.graphs.components.pairs import NO_PAIRS, Pairs


class SavedForest(NamedTuple):
    """The state of a forest, or its changes."""

    labels: Pairs
    """Mine, with their labels."""
    members: Pairs
    """Mine and followers that have another label than themselves, with it."""
    is_whole: bool


class Forest:
    """The labelled sets of one worker; changed by the operator that owns it.

    With ``owns_all`` there is no other worker, and no id is a stranger.
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
        """Take in the followers among the others: strangers to a vertex that is still a label.

        By now they are joined, so a stranger that is less than the vertex has taken the label from it.
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
