"""What is known of the shortest ways to all vertices, and how it changes with the graph.

The *key* of a vertex is its least distance from a start, and the least number of steps in which that distance
is reached. Every step makes the key greater, also one of length 0. So a vertex that rests on another one, its
*parent*, has a greater key than that, and nothing rests on itself (Ramalingam and Reps 1996).

A change of the graph is taken in two phases. First *doubt*: whoever has lost the step by which it was reached
looks for another one that gives the same key; if there is none it forgets its key, and those that rest on it
are in doubt in turn. Then every key that is still there is the length of a way that exists, and *relaxing*
finds whatever is shorter: by the steps that are new, and from the vertices that have forgotten.

Vertices whose edges lead to them from elsewhere are known with their keys only; they are told. It keeps all
vertices, and the steps that lead to its own. It knows no times and no workers.
"""

from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from pointstamp.graphs.arrays.edge_index import EdgeIndex
from pointstamp.graphs.arrays.edge_runs import Counts, Lengths
from pointstamp.graphs.arrays.slots import Ids, Slots, distinct, grown
from pointstamp.graphs.arrays.vertices import VertexTable
from pointstamp.graphs.paths.pace import Pace

Flags: TypeAlias = npt.NDArray[np.bool_]

_STEPS_MAX: Final = np.iinfo(np.int32).max
"""As many steps has who is not reached."""
_NOBODY: Final = -1
_ROOM_MIN: Final = 1_024
_NO_SLOTS: Final[Slots] = np.empty(0, np.intp)


class Offer(NamedTuple):
    """Keys that vertices could have."""

    to: Slots
    distance: Lengths
    steps: npt.NDArray[np.int32]
    by: Slots


class StepChanges(NamedTuple):
    """Steps and how often they are there, or are to be there more; none twice."""

    src: Ids
    dst: Ids
    length: Lengths
    by: Counts


class StartChanges(NamedTuple):
    """Vertices that have a distance from the start on, added or taken away; of a vertex one of each."""

    ids: Ids
    distance: Lengths
    by: Counts


class Told(NamedTuple):
    """Vertices with their keys; who is not reached has no distance."""

    ids: Ids
    distance: Lengths
    steps: npt.NDArray[np.int32]


class Ways:
    """The keys of all vertices, and the steps and starts from which those of some follow."""

    def __init__(self, kind: npt.DTypeLike, lengths: npt.DTypeLike, pace: Pace) -> None:
        self._vertices = VertexTable()
        self._pace = pace
        self._to, self._from = EdgeIndex(lengths), EdgeIndex(lengths)
        self._never: Any = np.inf if np.dtype(kind).kind == "f" else np.iinfo(np.int64).max
        self._distance: Lengths = np.empty(_ROOM_MIN, kind)
        self._start: Lengths = np.empty(_ROOM_MIN, kind)
        """The distance with which a vertex begins, of those that do."""
        self._steps = np.empty(_ROOM_MIN, np.int32)
        self._parent: Slots = np.empty(_ROOM_MIN, np.intp)
        self._is_touched = np.empty(_ROOM_MIN, np.bool_)
        self._touched: list[tuple[Slots, Lengths]] = []
        """Who has changed since this was last asked, and the distance before."""
        # Who has changed since keys were last saved, once they were.
        self._unsaved: list[Slots] | None = None
        # What relaxing begins with: who has forgotten its key, who has a new start, and what steps are new.
        self._forgotten: list[Slots] = []
        self._begun: list[Slots] = []
        self._fresh: list[tuple[Slots, Slots, Lengths]] = []

    def lead_both_ways(self) -> None:
        """Every step comes and goes with the one back, and both are here, so one index has them all."""
        self._from = self._to

    # What comes.

    def change_steps(self, steps: StepChanges, *, passes_on: bool = True) -> Slots:
        """Add and take away steps; return who has lost the one on which it rests.

        Keys are least ones only if all new steps pass them on; if not, they are still those of some way.
        """
        src, dst, length, by = steps
        slots = self._slots_of(np.concatenate((src, dst)))
        one, other = slots[: len(src)], slots[len(src) :]
        if self._from is not self._to:
            self._from.change(one, other, length, by)
        before, after = self._to.change(other, one, length, by)
        new = np.flatnonzero((before == 0) & (after > 0) & passes_on)
        self._fresh.append((one[new], other[new], length[new]))
        gone = np.flatnonzero((before > 0) & (after == 0))
        return np.asarray(other[gone][self._parent[other[gone]] == one[gone]])

    def change_starts(self, starts: StartChanges) -> Slots:
        """Add and take away starts; return who has lost its own."""
        ids, distance, by = starts
        slots = self._slots_of(ids)
        gone, new = np.flatnonzero(by < 0), np.flatnonzero(by > 0)
        self._start[slots[gone]] = self._never
        self._start[slots[new]] = distance[new]
        self._begun.append(slots[new])
        lost = slots[gone]
        return np.asarray(lost[(self._steps[lost] == 0) & (self._start[lost] != self._distance[lost])])

    def hear_forgotten(self, ids: Ids) -> Slots:
        """Others have forgotten the keys of their vertices; return who of mine rests on one of these."""
        slots = self._slots_of(ids)
        self._distance[slots], self._steps[slots] = self._never, _STEPS_MAX
        self._note(slots)
        return self._children(slots)

    def hear(self, told: Told) -> Slots:
        """Others have found keys of their vertices; return their slots, from which to relax."""
        slots = self._slots_of(told.ids)
        self._distance[slots], self._steps[slots] = told.distance, told.steps
        self._note(slots)
        return slots

    # What follows.

    def doubt(self, suspects: Slots) -> Told:
        """Forget the keys of suspects that rest on nothing, and of all that rest on them; return these."""
        forgotten = []
        while len(suspects):
            suspects = distinct(self._vertices.count, suspects[self._steps[suspects] < _STEPS_MAX])
            alone = suspects[~self._rest_elsewhere(suspects)]
            self._touch(alone)
            self._distance[alone], self._steps[alone], self._parent[alone] = self._never, _STEPS_MAX, _NOBODY
            forgotten.append(alone)
            suspects = self._children(alone)
        slots = np.concatenate([_NO_SLOTS, *forgotten])
        self._forgotten.append(slots)
        return self._told(slots)

    def begin_again(self) -> Slots:
        """Give the best key there is to who has forgotten, or has a new start or step; return who has one."""
        count = self._vertices.count
        forgotten = distinct(count, _NO_SLOTS, *self._forgotten)
        starts = np.concatenate((*self._begun, forgotten))
        starts = starts[self._start[starts] != self._never]
        none = np.zeros(len(starts), np.int32), np.full(len(starts), _NOBODY)
        changed = [self._taken(Offer(starts, self._start[starts], *none))]
        there = self._to.of(forgotten)
        changed.append(self._offered(there.other, forgotten[there.which], there.length))
        changed += [self._offered(*each) for each in self._fresh]
        self._begun, self._forgotten, self._fresh = [], [], []
        return distinct(count, *changed)

    def relax(self, changed: Slots, heard: Slots = _NO_SLOTS) -> Told:
        """Pass keys on until nobody's becomes less; return who has changed, but not who was heard of."""
        going = self._pace.begun()
        waiting, improved = np.concatenate((changed, heard)), [changed]
        while len(waiting):
            now, waiting = going.choose(waiting, self._distance)
            there = self._from.of(now)
            better = self._offered(now[there.which], there.other, there.length)
            improved.append(better)
            waiting = distinct(self._vertices.count, waiting, better)
        return self._told(distinct(self._vertices.count, *improved))

    def take_changes(self) -> tuple[Told, Told]:
        """Whose distance has changed since this was last asked: as it was where it was, and as it is."""
        if not self._touched:
            none = self._told(_NO_SLOTS)
            return none, none
        slots, before = (np.concatenate(parts) for parts in zip(*self._touched, strict=True))
        self._touched = []
        self._is_touched[slots] = False
        self._note(slots)
        differ = before != self._distance[slots]
        slots, before = slots[differ], before[differ]
        was = before != self._never
        steps = np.zeros(int(was.sum()), np.int32)
        now = slots[self._distance[slots] != self._never]
        return Told(self._vertices.ids[slots[was]], before[was], steps), self._told(now)

    def _rest_elsewhere(self, vertices: Slots) -> Flags:
        """Whether each has a start or a step that gives it the key that it has; then it rests on that."""
        rests = (self._steps[vertices] == 0) & (self._start[vertices] == self._distance[vertices])
        self._parent[vertices[rests]] = _NOBODY
        there = self._to.of(vertices)
        to = vertices[there.which]
        gives = np.flatnonzero(self._steps[there.other] == self._steps[to] - 1)
        at = gives[self._distance[there.other[gives]] + there.length[gives] == self._distance[to[gives]]]
        self._parent[to[at]] = there.other[at]
        rests[there.which[at]] = True
        return np.asarray(rests)

    def _children(self, vertices: Slots) -> Slots:
        """Those that rest on these."""
        there = self._from.of(vertices)
        return np.asarray(there.other[self._parent[there.other] == vertices[there.which]])

    def _offered(self, one: Slots, other: Slots, length: Lengths) -> Slots:
        """Pass keys on by these steps; return whose became less."""
        reached = self._steps[one] < _STEPS_MAX
        if not reached.all():
            one, other, length = one[reached], other[reached], length[reached]
        return self._taken(Offer(other, self._distance[one] + length, self._steps[one] + np.int32(1), one))

    def _taken(self, offer: Offer) -> Slots:
        """Take the least of what is offered to each; return whose key became less."""
        to, distance, steps, by = offer
        less = (distance < self._distance[to]) | (
            (distance == self._distance[to]) & (steps < self._steps[to])
        )
        to, distance, steps, by = to[less], distance[less], steps[less], by[less]
        if not len(to):
            return _NO_SLOTS
        self._touch(to)
        np.minimum.at(self._distance, to, distance)
        least = np.flatnonzero(distance == self._distance[to])
        to, steps, by = to[least], steps[least], by[least]
        self._steps[to] = _STEPS_MAX
        np.minimum.at(self._steps, to, steps)
        first = steps == self._steps[to]
        self._parent[to[first]] = by[first]
        return distinct(self._vertices.count, to)

    def _note(self, changed: Slots) -> None:
        if self._unsaved is not None:
            self._unsaved.append(changed)

    def _touch(self, slots: Slots) -> None:
        new = distinct(self._vertices.count, slots[~self._is_touched[slots]])
        self._is_touched[new] = True
        self._touched.append((new, self._distance[new]))

    def _told(self, slots: Slots) -> Told:
        return Told(self._vertices.ids[slots], self._distance[slots], self._steps[slots])

    def _slots_of(self, ids: Ids) -> Slots:
        """The slots of vertices; new ones are not reached."""
        before = self._vertices.count
        slots = self._vertices.slots_of(ids)
        count = self._vertices.count
        if count > before:
            self._distance, self._start = (grown(x, before, count) for x in (self._distance, self._start))
            self._steps, self._parent = grown(self._steps, before, count), grown(self._parent, before, count)
            self._is_touched = grown(self._is_touched, before, count)
            new = slice(before, count)
            self._distance[new] = self._start[new] = self._never
            self._steps[new], self._parent[new] = _STEPS_MAX, _NOBODY
            self._is_touched[new] = False
        return slots

    def steps_from(self, ids: Ids) -> tuple[Ids, Ids]:
        """The ends of all steps that lead away from these vertices."""
        away = self._from.of(self._slots_of(ids))
        return ids[away.which], self._vertices.ids[away.other]

    # What is saved.

    def all_steps(self) -> StepChanges:
        """All steps that lead here."""
        dst, src, length, count = self._to.rows()
        return StepChanges(self._vertices.ids[src], self._vertices.ids[dst], length, count)

    def all_starts(self) -> StartChanges:
        """All starts that are here."""
        slots = np.flatnonzero(self._start[: self._vertices.count] != self._never)
        return StartChanges(self._vertices.ids[slots], self._start[slots], np.ones(len(slots), np.int64))

    def keys(self, *, changes_only: bool) -> Told:
        """The keys of all vertices, or those that changed since this was last asked."""
        count = self._vertices.count
        changed, self._unsaved = self._unsaved, []
        if changes_only and changed is not None:
            return self._told(distinct(count, _NO_SLOTS, *changed))
        return self._told(np.flatnonzero(self._steps[:count] < _STEPS_MAX))

    def restore(self, steps: StepChanges, starts: StartChanges, told: Told, is_own: Flags) -> None:
        """Begin with steps, starts and the keys of all vertices, from which follows who rests on whom."""
        self.change_steps(steps)
        self.change_starts(starts)
        slots = self.hear(told)
        own = slots[is_own & (told.steps < _STEPS_MAX)]
        assert self._rest_elsewhere(own).all(), "a key was saved that rests on nothing"
        self._begun, self._forgotten, self._fresh = [], [], []
