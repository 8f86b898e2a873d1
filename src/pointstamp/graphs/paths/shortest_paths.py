"""How far each vertex is from each of some landmarks, in edges or by weight (GraphFrames' shortestPaths).

Edges are followed from the vertex to the landmark, so the search goes from the landmarks against them, for
all landmarks side by side.
"""

from collections.abc import Iterable

import pointstamp as ps
from pointstamp.graphs.graph import ID, Graph, Key
from pointstamp.graphs.paths.nearest import nearest_in_loop
from pointstamp.graphs.paths.saved_ways import LENGTH
from pointstamp.graphs.paths.sssp import weighed_steps


def shortest_paths(
    graph: Graph, landmarks: ps.Table | Iterable[Key] | Key, *, weighted: bool = False
) -> ps.Table:
    """``id``, ``landmark`` and ``distance``: of every vertex to every landmark that it can reach.

    ``landmarks`` are several ids, one, or a table of ``id``. Distances are numbers of edges, or with
    ``weighted`` sums of weights, which must not be less than 0.
    """
    back = graph.reversed()
    if weighted:
        steps = weighed_steps(back, "shortest paths")
    else:
        steps = back.links.select("src", "dst", name="shortest paths: steps", length=ps.lit(1, "long"))
    zero = ps.lit(0, steps.schema.field(LENGTH).type)
    starts = graph.among(landmarks).select(ID, name="landmarks", landmark=ps.col(ID), distance=zero)
    return nearest_in_loop(starts, steps, "landmark", name="shortest paths").select(
        ID, "landmark", "distance"
    )
