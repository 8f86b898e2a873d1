"""Shortest-path keys in arrays: distance, steps and predecessor.

A key that is offered is taken if it is less than the one that a vertex has. Vertices whose keys changed are
kept twice: for the report of an epoch with the distance before, and for what is saved.

Every value of a distance is one that a vertex can have: distances may be labels, which are any ids. So no
value means "not reached" or "no start". The number of steps, of which there are never as many as STEPS_MAX,
means the one, and a flag of its own the other.
"""

from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from pointstamp.graphs.arrays.edge_runs import Lengths
from pointstamp.graphs.arrays.slots import Ids, Slots, distinct, grown
from pointstamp.graphs.arrays.vertices import VertexTable

Flags: TypeAlias = npt.NDArray[np.bool_]

STEPS_MAX: Final = np.iinfo(np.int32).max
"""The number of steps of a vertex that is not reached."""
NOBODY: Final = -1
NO_SLOTS: Final[Slots] = np.empty(0, np.intp)
_ROOM_MIN: Final = 1_024


class Offer(NamedTuple):
    """Keys that vertices could have."""

    to: Slots
    distance: Lengths
    steps: npt.NDArray[np.int32]
    by: Slots


class Told(NamedTuple):
    """Vertices with their keys; who is not reached has no distance."""

    ids: Ids
    distance: Lengths
    steps: npt.NDArray[np.int32]


class WayKeys:
    """The key of each vertex, its parent, and the distance with which it begins, if it does."""

    def __init__(self, kind: npt.DTypeLike) -> None:
        self.vertices = VertexTable()
        # No offer is greater, so that the least offer replaces it.
        self.greatest: Final[Any] = np.inf if np.dtype(kind).kind == "f" else np.iinfo(kind).max
        """The distance of a vertex that is not reached; one that is reached may have the same."""
        self.distance: Lengths = np.empty(_ROOM_MIN, kind)
        self.start: Lengths = np.empty(_ROOM_MIN, kind)
        """The distance with which a vertex begins, of those that do."""
        self.begins: Flags = np.empty(_ROOM_MIN, np.bool_)
        """Whether a vertex begins with a distance."""
        self.steps = np.empty(_ROOM_MIN, np.int32)
        self.parent: Slots = np.empty(_ROOM_MIN, np.intp)
        self._is_touched = np.empty(_ROOM_MIN, np.bool_)
        self._touched: list[tuple[Slots, Lengths, Flags]] = []
        """Vertices that changed since the last report, the distance before, and whether they were reached."""
        # Who has changed since keys were last saved, once they were.
        self._unsaved: list[Slots] | None = None

    def slots_of(self, ids: Ids) -> Slots:
        """The slots of vertices; new ones are not reached."""
        before = self.vertices.count
        slots = self.vertices.slots_of(ids)
        count = self.vertices.count
        if count > before:
            self.distance, self.start = (grown(x, before, count) for x in (self.distance, self.start))
            self.steps, self.parent = grown(self.steps, before, count), grown(self.parent, before, count)
            self.begins = grown(self.begins, before, count)
            self._is_touched = grown(self._is_touched, before, count)
            new = slice(before, count)
            self.distance[new] = self.start[new] = self.greatest
            self.steps[new], self.parent[new] = STEPS_MAX, NOBODY
            self.begins[new] = self._is_touched[new] = False
        return slots

    def are_reached(self, slots: Slots) -> Flags:
        """Whether each of these has a key."""
        return np.asarray(self.steps[slots] < STEPS_MAX)

    def take(self, offer: Offer) -> Slots:
        """Take the least of what is offered to each; return whose key became less."""
        to, distance, steps, by = offer
        less = (distance < self.distance[to]) | ((distance == self.distance[to]) & (steps < self.steps[to]))
        to, distance, steps, by = to[less], distance[less], steps[less], by[less]
        if not len(to):
            return NO_SLOTS
        self._touch(to)
        np.minimum.at(self.distance, to, distance)
        least = np.flatnonzero(distance == self.distance[to])
        to, steps, by = to[least], steps[least], by[least]
        self.steps[to] = STEPS_MAX
        np.minimum.at(self.steps, to, steps)
        first = steps == self.steps[to]
        self.parent[to[first]] = by[first]
        return distinct(self.vertices.count, to)

    def forget(self, slots: Slots) -> None:
        """These are no longer reached, and depend on no vertex."""
        self._touch(slots)
        self.distance[slots], self.steps[slots], self.parent[slots] = self.greatest, STEPS_MAX, NOBODY

    def told(self, slots: Slots) -> Told:
        """Vertices with their keys."""
        return Told(self.vertices.ids[slots], self.distance[slots], self.steps[slots])

    def take_changes(self) -> tuple[Told, Told]:
        """Whose distance has changed since this was last asked: as it was where it was, and as it is."""
        if not self._touched:
            none = self.told(NO_SLOTS)
            return none, none
        slots, before, was = (np.concatenate(parts) for parts in zip(*self._touched, strict=True))
        self._touched = []
        self._is_touched[slots] = False
        self.note(slots)
        now = self.are_reached(slots)
        differ = (was != now) | (before != self.distance[slots])
        gone, come = differ & was, differ & now
        steps = np.zeros(int(gone.sum()), np.int32)
        return Told(self.vertices.ids[slots[gone]], before[gone], steps), self.told(slots[come])

    def note(self, changed: Slots) -> None:
        """These have changed, and are to be saved."""
        if self._unsaved is not None:
            self._unsaved.append(changed)

    def to_save(self, *, changes_only: bool) -> Told:
        """The keys of all vertices, or those that changed since this was last asked."""
        count = self.vertices.count
        changed, self._unsaved = self._unsaved, []
        if changes_only and changed is not None:
            return self.told(distinct(count, NO_SLOTS, *changed))
        return self.told(np.flatnonzero(self.are_reached(np.arange(count))))

    def _touch(self, slots: Slots) -> None:
        new = distinct(self.vertices.count, slots[~self._is_touched[slots]])
        self._is_touched[new] = True
        self._touched.append((new, self.distance[new], self.are_reached(new)))
