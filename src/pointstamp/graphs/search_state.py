"""Shortest-path state of a worker, updated as the graph changes.

The *key* of a vertex is its least distance from a start, and the least number of steps in which that distance
is reached. Every step makes the key greater, also one of length 0. So a vertex that rests on another one, its
*parent*, has a greater key than that, and nothing rests on itself (Ramalingam and Reps 1996).

A change of the graph is taken in two phases, *doubt* and *relaxing* (this module), which leave every vertex
with the least key that it can have (this module).

Vertices whose edges lead to them from elsewhere are known with their keys only; they are told. It keeps all
vertices, and the steps that lead to its own. It knows no times and no workers.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

import pointstamp as ps
from pointstamp.errors import FlowError
from pointstamp.graphs.arrays.edges import Counts, EdgeIndex, Lengths
from pointstamp.graphs.arrays.slot_arrays import (
    DIFF,
    Ids,
    Slots,
    added_up,
    arrays_of,
    batch_of,
    distinct,
    grown,
    table_of,
)
from pointstamp.graphs.arrays.vertices import VertexTable
from pointstamp.graphs.edge_tables import DST, ID, SRC

# Changes of steps and starts as columns.


class StepChanges(NamedTuple):
    """Distinct steps with their multiplicities, or changes of them."""

    src: Ids
    dst: Ids
    length: Lengths
    by: Counts


class StartChanges(NamedTuple):
    """Vertices that have a distance from the start on, added or taken away; of a vertex one of each."""

    ids: Ids
    distance: Lengths
    by: Counts


# The order in which keys are relaxed: small distances first.
#
# By distance the nearer half is taken at a time, and all where they are few. With steps that are all equally
# long that is breadth-first search, with others it is near to the delta-stepping of Meyer and Sanders (2003).
#
# By rank the least distance is taken first, with all that comes of it, then the next two, then the next four.
# That is for labels, of which every vertex has one of its own at the start: passed on all at once, each
# vertex would change its label again and again, and a chain would take the square of its length (the order in
# which differential dataflow introduces labels).

_FEW: Final = 1_024


class Going(Protocol):
    """The pace of one run."""

    def choose(self, waiting: Slots, distance: Lengths) -> tuple[Slots, Slots]:
        """Return the waiting vertices that relax now, and those that keep waiting."""
        ...


class Pace(Protocol):
    """The progress of a run."""

    def begun(self) -> Going:
        """A run that begins."""
        ...


@dataclass(frozen=True, slots=True)
class ByDistance:
    """The nearer half, and all where they are few."""

    def begun(self) -> Going:
        """It remembers nothing from one choice to the next."""
        return self

    def choose(self, waiting: Slots, distance: Lengths) -> tuple[Slots, Slots]:
        """All that are not farther than the one in the middle."""
        if len(waiting) <= _FEW:
            return waiting, waiting[:0]
        distances = distance[waiting]
        is_near = distances <= np.partition(distances, len(waiting) // 2)[len(waiting) // 2]
        return waiting[is_near], waiting[~is_near]


@dataclass(frozen=True, slots=True)
class ByRank:
    """The least, then the next two, then the next four."""

    def begun(self) -> Going:
        """Begin with the least."""
        return _Ranked()


class _Ranked:
    def __init__(self) -> None:
        self._count = 1
        self._limit: object = None

    def choose(self, waiting: Slots, distance: Lengths) -> tuple[Slots, Slots]:
        distances = distance[waiting]
        is_near = None if self._limit is None else distances <= self._limit
        if is_near is None or not is_near.any():
            place = min(self._count, len(waiting)) - 1
            self._count *= 2
            self._limit = np.partition(distances, place)[place]
            is_near = distances <= self._limit
        return waiting[is_near], waiting[~is_near]


# Shortest-path keys in arrays: distance, steps and predecessor.
#
# A key that is offered is taken if it is less than the one that a vertex has. Vertices whose keys changed are
# kept twice: for the report of an epoch with the distance before, and for what is saved.
#
# Every value of a distance is one that a vertex can have: distances may be labels, which are any ids. So no
# value means "not reached" or "no start". The number of steps, of which there are never as many as STEPS_MAX,
# means the one, and a flag of its own the other.

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
        """Return whether each of these has a key."""
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
        """The vertices whose distance changed after the last call, with old and new distance."""
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
        """The vertices whose distance changed after the last call, with old and new distance."""
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


# Save and restore shortest-path state: steps, starts and keys.
#
# What is saved is the steps and starts by the vertex to which they lead, and by every worker the keys of all
# vertices, for where as many workers continue, each gets back what it has saved itself.

DISTANCE: Final = "distance"
LENGTH: Final = "length"


class SavedWays:
    """The changes since the last save; changed by the operator that owns it.

    Distances are of a type, and so are lengths, unless all steps have the one that is given.
    """

    def __init__(self, kind: pa.DataType, length: int | None) -> None:
        ends, counted = [(ID, pa.int64()), (DISTANCE, kind)], (DIFF, pa.int64())
        lengths = [(LENGTH, kind)] if length is None else []
        self._kept = {
            "steps": pa.schema([(SRC, pa.int64()), (DST, pa.int64()), *lengths, counted]),
            "starts": pa.schema([*ends, counted]),
            "keys": pa.schema([*ends, ("steps", pa.int32())]),
        }
        self._length = length
        # What has changed since it was last saved, once it was.
        self._unsaved: dict[str, list[pa.RecordBatch]] | None = None

    def steps_of(self, table: pa.Table) -> StepChanges:
        """The steps of a table, with their lengths."""
        columns = arrays_of(table)
        if self._length is not None:
            columns.insert(2, np.full(len(columns[0]), self._length, np.int8))
        return StepChanges(*columns)

    def note(self, come: Mapping[str, pa.Table]) -> None:
        """These steps and starts have come and gone."""
        if self._unsaved is not None:
            for name, changes in self._unsaved.items():
                changes += come[name].to_batches() if name in come else []

    def save(self, ways: Ways, *, changes_only: bool) -> Mapping[str, ps.ports.Piece]:
        """Steps and starts by the vertex to which they lead, and the keys of all vertices."""
        changes, self._unsaved = self._unsaved, {"steps": [], "starts": []}
        is_whole = not changes_only or changes is None
        rows = self._all(ways) if is_whole or changes is None else changes
        steps, starts = (table_of(self._kept[name], rows[name]) for name in ("steps", "starts"))
        keys = batch_of(self._kept["keys"], *ways.keys(changes_only=not is_whole))
        return {
            "steps": ps.ports.Piece(steps, (DST,), is_whole=is_whole, adds_up=True),
            "starts": ps.ports.Piece(starts, (ID,), is_whole=is_whole, adds_up=True),
            "keys": ps.ports.Piece(pa.Table.from_batches([keys]), (), (ID,), is_whole=is_whole),
        }

    def _all(self, ways: Ways) -> dict[str, list[pa.RecordBatch]]:
        src, dst, length, count = ways.all_steps()
        lengths = [length] if self._length is None else []
        steps = batch_of(self._kept["steps"], src, dst, *lengths, count)
        return {"steps": [steps], "starts": [batch_of(self._kept["starts"], *ways.all_starts())]}

    def restore(self, ways: Ways, pieces: Mapping[str, pa.Table], worker: int, workers: int) -> None:
        """Let ways continue with the steps and starts of a worker's vertices, and with the keys of all."""
        steps, starts = (added_up(pieces[name]) for name in ("steps", "starts"))
        is_own = ps.ports.saved.owners(pieces["keys"], (ID,), workers) == worker
        ways.restore(self.steps_of(steps), StartChanges(*arrays_of(starts)), told_of(pieces["keys"]), is_own)


def told_of(table: pa.Table) -> Told:
    """The keys of a table."""
    return Told(*arrays_of(table)[:3])


# Recompute keys after a change: invalidate unsupported ones, then relax.
#
# Doubt first: whoever has lost the step by which it was reached looks for another one that gives the same
# key; if there is none it forgets its key, and those that rest on it are in doubt in turn. Then every key
# that is still there is the length of a way that exists, and relaxing finds whatever is shorter: by the steps
# that are new, and from the vertices that have forgotten.


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
