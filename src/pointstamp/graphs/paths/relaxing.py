"""Recompute keys after a change: invalidate unsupported ones, then relax.

Doubt first: whoever has lost the step by which it was reached looks for another one that gives the same key;
if there is none it forgets its key, and those that rest on it are in doubt in turn. Then every key that is
still there is the length of a way that exists, and relaxing finds whatever is shorter: by the steps that are
new, and from the vertices that have forgotten.
"""

import numpy as np
import numpy.typing as npt

from pointstamp.errors import FlowError
from pointstamp.graphs.arrays.edge_index import EdgeIndex
from pointstamp.graphs.arrays.edge_runs import Lengths
from pointstamp.graphs.arrays.slots import Slots, distinct
from pointstamp.graphs.paths.pace import Pace
from pointstamp.graphs.paths.way_keys import NO_SLOTS, NOBODY, Flags, Offer, WayKeys


class Relaxing:
    """The steps by both ends, and how keys are passed on by them; changed by the ways that own it."""

    def __init__(self, keys: WayKeys, lengths: npt.DTypeLike, pace: Pace) -> None:
        self._keys = keys
        self._pace = pace
        self.to, self.away = EdgeIndex(lengths), EdgeIndex(lengths)
        # What relaxing begins with: who has forgotten its key, who has a new start, and what steps are new.
        self.forgotten: list[Slots] = []
        self.begun: list[Slots] = []
        self.fresh: list[tuple[Slots, Slots, Lengths]] = []

    def begin_with_nothing(self) -> None:
        """All that relaxing begins with has been seen to."""
        self.begun, self.forgotten, self.fresh = [], [], []

    def doubt(self, suspects: Slots) -> Slots:
        """Forget the keys of suspects that rest on nothing, and of all that rest on them; return these."""
        forgotten = []
        while len(suspects):
            suspects = distinct(self._keys.vertices.count, suspects[self._keys.are_reached(suspects)])
            alone = suspects[~self.rest_elsewhere(suspects)]
            self._keys.forget(alone)
            forgotten.append(alone)
            suspects = self.children(alone)
        slots = np.concatenate([NO_SLOTS, *forgotten])
        self.forgotten.append(slots)
        return slots

    def begin_again(self) -> Slots:
        """Give the best key there is to who has forgotten, or has a new start or step; return who has one."""
        count = self._keys.vertices.count
        forgotten = distinct(count, NO_SLOTS, *self.forgotten)
        starts = np.concatenate((*self.begun, forgotten))
        starts = starts[self._keys.begins[starts]]
        none = np.zeros(len(starts), np.int32), np.full(len(starts), NOBODY)
        changed = [self._keys.take(Offer(starts, self._keys.start[starts], *none))]
        there = self.to.of(forgotten)
        changed.append(self._offered(there.other, forgotten[there.which], there.length))
        changed += [self._offered(*each) for each in self.fresh]
        self.begin_with_nothing()
        return distinct(count, *changed)

    def relax(self, changed: Slots, heard: Slots = NO_SLOTS) -> Slots:
        """Relax keys until none decreases; return the vertices that changed, without remote ones."""
        going = self._pace.begun()
        waiting, improved = np.concatenate((changed, heard)), [changed]
        while len(waiting):
            now, waiting = going.choose(waiting, self._keys.distance)
            there = self.away.of(now)
            better = self._offered(now[there.which], there.other, there.length)
            improved.append(better)
            waiting = distinct(self._keys.vertices.count, waiting, better)
        return distinct(self._keys.vertices.count, *improved)

    def rest_elsewhere(self, vertices: Slots) -> Flags:
        """Whether each has a start or a step that gives it the key that it has; then it rests on that."""
        keys = self._keys
        is_own = keys.begins[vertices] & (keys.start[vertices] == keys.distance[vertices])
        rests = (keys.steps[vertices] == 0) & is_own
        keys.parent[vertices[rests]] = NOBODY
        there = self.to.of(vertices)
        to = vertices[there.which]
        gives = np.flatnonzero(keys.steps[there.other] == keys.steps[to] - 1)
        at = gives[keys.distance[there.other[gives]] + there.length[gives] == keys.distance[to[gives]]]
        keys.parent[to[at]] = there.other[at]
        rests[there.which[at]] = True
        return np.asarray(rests)

    def children(self, vertices: Slots) -> Slots:
        """Those that rest on these."""
        there = self.away.of(vertices)
        return np.asarray(there.other[self._keys.parent[there.other] == vertices[there.which]])

    def _offered(self, one: Slots, other: Slots, length: Lengths) -> Slots:
        """Pass keys on by these steps; return whose became less."""
        reached = self._keys.are_reached(one)
        if not reached.all():
            one, other, length = one[reached], other[reached], length[reached]
        before = self._keys.distance[one]
        distance, steps = before + length, self._keys.steps[one] + np.int32(1)
        if (distance < before).any():  # no length is less than 0, so the sum has wrapped around
            at = int(np.flatnonzero(distance < before)[0])
            raise FlowError(
                f"shortest paths: a distance of {before[at]} + {length[at]} does not fit long. Cast the "
                "weights to double."
            )
        return self._keys.take(Offer(other, distance, steps, one))
