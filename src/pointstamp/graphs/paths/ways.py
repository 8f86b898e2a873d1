"""Shortest-path state of a worker, updated as the graph changes.

The *key* of a vertex is its least distance from a start, and the least number of steps in which that distance
is reached. Every step makes the key greater, also one of length 0. So a vertex that rests on another one, its
*parent*, has a greater key than that, and nothing rests on itself (Ramalingam and Reps 1996).

A change of the graph is taken in two phases, *doubt* and *relaxing* (``relaxing``), which leave every vertex
with the least key that it can have (``way_keys``).

Vertices whose edges lead to them from elsewhere are known with their keys only; they are told. It keeps all
vertices, and the steps that lead to its own. It knows no times and no workers.
"""

import numpy as np
import numpy.typing as npt

from pointstamp.graphs.arrays.slots import Ids, Slots
from pointstamp.graphs.paths.pace import Pace
from pointstamp.graphs.paths.relaxing import Relaxing
from pointstamp.graphs.paths.step_changes import StartChanges, StepChanges
from pointstamp.graphs.paths.way_keys import NO_SLOTS, STEPS_MAX, Flags, Told, WayKeys


class Ways:
    """The keys of all vertices, and the steps and starts from which those of some follow."""

    def __init__(self, kind: npt.DTypeLike, lengths: npt.DTypeLike, pace: Pace) -> None:
        self._keys = WayKeys(kind)
        self._relaxing = Relaxing(self._keys, lengths, pace)

    def lead_both_ways(self) -> None:
        """Every step comes and goes with the one back, and both are here, so one index has them all."""
        self._relaxing.away = self._relaxing.to

    # What comes.

    def change_steps(self, steps: StepChanges, *, passes_on: bool = True) -> Slots:
        """Add and take away steps; return who has lost the one on which it rests.

        Keys are least ones only if all new steps pass them on; if not, they are still those of some way.
        """
        src, dst, length, by = steps
        slots = self._keys.slots_of(np.concatenate((src, dst)))
        one, other = slots[: len(src)], slots[len(src) :]
        if self._relaxing.away is not self._relaxing.to:
            self._relaxing.away.change(one, other, length, by)
        before, after = self._relaxing.to.change(other, one, length, by)
        new = np.flatnonzero((before == 0) & (after > 0) & passes_on)
        self._relaxing.fresh.append((one[new], other[new], length[new]))
        gone = np.flatnonzero((before > 0) & (after == 0))
        return np.asarray(other[gone][self._keys.parent[other[gone]] == one[gone]])

    def change_starts(self, starts: StartChanges) -> Slots:
        """Add and take away starts; return who has lost its own."""
        ids, distance, by = starts
        slots = self._keys.slots_of(ids)
        gone, new = np.flatnonzero(by < 0), np.flatnonzero(by > 0)
        self._keys.begins[slots[gone]] = False
        self._keys.begins[slots[new]] = True
        self._keys.start[slots[new]] = distance[new]
        self._relaxing.begun.append(slots[new])
        lost = slots[gone]
        is_other = ~self._keys.begins[lost] | (self._keys.start[lost] != self._keys.distance[lost])
        return np.asarray(lost[(self._keys.steps[lost] == 0) & is_other])

    def hear_forgotten(self, ids: Ids) -> Slots:
        """Others have forgotten the keys of their vertices; return who of mine rests on one of these."""
        slots = self._keys.slots_of(ids)
        self._keys.distance[slots], self._keys.steps[slots] = self._keys.greatest, STEPS_MAX
        self._keys.note(slots)
        return self._relaxing.children(slots)

    def hear(self, told: Told) -> Slots:
        """Others have found keys of their vertices; return their slots, from which to relax."""
        slots = self._keys.slots_of(told.ids)
        self._keys.distance[slots], self._keys.steps[slots] = told.distance, told.steps
        self._keys.note(slots)
        return slots

    # What follows.

    def doubt(self, suspects: Slots) -> Told:
        """Forget the keys of suspects that rest on nothing, and of all that rest on them; return these."""
        return self._keys.told(self._relaxing.doubt(suspects))

    def begin_again(self) -> Slots:
        """Give the best key there is to who has forgotten, or has a new start or step; return who has one."""
        return self._relaxing.begin_again()

    def relax(self, changed: Slots, heard: Slots = NO_SLOTS) -> Told:
        """Relax keys until none decreases; return the vertices that changed, without remote ones."""
        return self._keys.told(self._relaxing.relax(changed, heard))

    def take_changes(self) -> tuple[Told, Told]:
        """Whose distance has changed since this was last asked: as it was where it was, and as it is."""
        return self._keys.take_changes()

    def steps_from(self, ids: Ids) -> tuple[Ids, Ids]:
        """The ends of all steps that lead away from these vertices."""
        away = self._relaxing.away.of(self._keys.slots_of(ids))
        return ids[away.which], self._keys.vertices.ids[away.other]

    # What is saved.

    def all_steps(self) -> StepChanges:
        """All steps that lead here."""
        dst, src, length, count = self._relaxing.to.rows()
        return StepChanges(self._keys.vertices.ids[src], self._keys.vertices.ids[dst], length, count)

    def all_starts(self) -> StartChanges:
        """All starts that are here."""
        slots = np.flatnonzero(self._keys.begins[: self._keys.vertices.count])
        ids = self._keys.vertices.ids[slots]
        return StartChanges(ids, self._keys.start[slots], np.ones(len(slots), np.int64))

    def keys(self, *, changes_only: bool) -> Told:
        """The keys of all vertices, or those that changed since this was last asked."""
        return self._keys.to_save(changes_only=changes_only)

    def restore(self, steps: StepChanges, starts: StartChanges, told: Told, is_own: Flags) -> None:
        """Begin with steps, starts and the keys of all vertices, from which follows who rests on whom."""
        self.change_steps(steps)
        self.change_starts(starts)
        slots = self.hear(told)
        own = slots[is_own & (told.steps < STEPS_MAX)]
        assert self._relaxing.rest_elsewhere(own).all(), "a key was saved that rests on nothing"
        self._relaxing.begin_with_nothing()
