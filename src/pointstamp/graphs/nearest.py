"""The least distance of every vertex from where a search begins, as a loop of tables (Bellman and Ford).

In round i a vertex has its least distance by at most i steps; when a round changes nothing, it is the least
of all. The loop keeps what was known in each round, so that a step that is taken away is taken out of the
distances that were found by it, round by round, and no distance rests on itself.
"""

from typing import Final

import pointstamp as ps
from pointstamp.graphs.graph import DST, ID, SRC

DISTANCE: Final = "distance"
LENGTH: Final = "length"


def nearest(starts: ps.Table, steps: ps.Table, *, name: str, beside: tuple[str, ...] = ()) -> ps.Table:
    """``id`` and least ``distance`` of all that can be reached from ``starts`` by ``steps``.

    Starts have ``id`` and ``distance``; steps lead from ``src`` to ``dst`` and have a ``length``, 0 or more.
    Searches that are told apart by the columns ``beside`` go on side by side.
    """

    def further(reached: ps.Table, starts: ps.Table, steps: ps.Table) -> ps.Table:
        length = ps.col(DISTANCE) + ps.col(LENGTH)
        beyond = reached.join(steps, {ID: SRC}, name=f"{name}: steps on").select(
            *beside, name=f"{name}: beyond", id=ps.col(DST), distance=length
        )
        both = starts.union(beyond, name=f"{name}: ways")
        return both.reduce(ID, *beside, distance=ps.min(DISTANCE), name=f"{name}: least")

    return starts.iterate(further, starts, steps, name=name)
