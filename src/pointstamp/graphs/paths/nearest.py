"""The least distance of each vertex from the sources, by arrays or a loop.

Where ids are whole numbers, and outside loops, it is the operator of ``searching``. Otherwise it is a loop of
tables (Bellman and Ford), which takes ids of every type and continues inside other loops.

In round i a vertex has its least distance by at most i steps; when a round changes nothing, it is the least
of all. The loop keeps what was known in each round, so that a step that is taken away is taken out of the
distances that were found by it, round by round, and no distance rests on itself.
"""

import pyarrow as pa

import pointstamp as ps
from pointstamp.graphs.graph import DST, ID, SRC
from pointstamp.graphs.paths.saved_ways import DISTANCE, LENGTH
from pointstamp.graphs.paths.searching import searched


def nearest(starts: ps.Table, steps: ps.Table, *, name: str, length: int | None = None) -> ps.Table:
    """``id`` and least ``distance`` of all that can be reached from ``starts`` by ``steps``.

    Starts have ``id`` and ``distance``; steps lead from ``src`` to ``dst`` and have a column ``length``, 0 or
    more, unless all have the one that is given.
    """
    if is_for_arrays(starts):
        return searched(starts, steps, name=name, length=length)
    if length is not None:
        kind = starts.schema.field(DISTANCE).type
        steps = steps.select(SRC, DST, length=ps.lit(length, kind)).named(f"{name}: lengths")
    return nearest_in_loop(starts, steps, name=name)


def nearest_in_loop(starts: ps.Table, steps: ps.Table, *beside: str, name: str) -> ps.Table:
    """The same as a loop; the columns ``beside`` the id distinguish concurrent searches."""

    def further(reached: ps.Table, starts: ps.Table, steps: ps.Table) -> ps.Table:
        distance = ps.col(DISTANCE) + ps.col(LENGTH)
        beyond = (
            reached.join(steps, {ID: SRC})
            .named(f"{name}: steps on")
            .select(*beside, id=ps.col(DST), distance=distance)
            .named(f"{name}: beyond")
        )
        both = starts.union(beyond).named(f"{name}: ways")
        return both.group_by(ID, *beside).agg(distance=ps.min(DISTANCE)).named(f"{name}: least")

    return starts.iterate(further, starts, steps, name=name)


def is_for_arrays(table: ps.Table, key: str = ID) -> bool:
    """Whether operators in arrays can take a table: its ids are longs, and it stands in no loop."""
    return table.schema.field(key).type == pa.int64() and not table.loops
