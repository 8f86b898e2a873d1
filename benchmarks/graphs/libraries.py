"""The algorithms of Graphalytics as igraph, scipy and numpy have them, from arrays of edges to an answer.

All go in one thread. Which library has an algorithm is what these two tables say: igraph's label propagation
is another one, by chance, and scipy has no triangles.
"""

from collections.abc import Callable
from functools import partial

import numpy as np
from benchmarks.graphs.generators import Edges
from benchmarks.graphs.pagerank import TOLERANCE, by_scipy
from benchmarks.graphs.peers import (
    ALGORITHMS,
    SOURCE,
    Answer,
    as_igraph,
    as_pattern,
    by_least,
    reached,
    scaled,
)
from scipy.sparse.csgraph import dijkstra

Way = Callable[[Edges], Answer]


def as_table_says(name: str, edges: Edges) -> Answer:
    """The peer's answer in the table of algorithms."""
    algorithm = ALGORITHMS[name]
    return algorithm.peer(algorithm.prepared(edges), edges)


def igraph_sssp(edges: Edges) -> Answer:
    """Distances from the source."""
    return reached(np.array(as_igraph(edges).distances(SOURCE, weights=edges.weight)[0]))


def igraph_wcc(edges: Edges) -> Answer:
    """Each vertex with the least of its component."""
    return by_least(np.array(as_igraph(edges).connected_components("weak").membership), edges)


def scipy_bfs(edges: Edges) -> Answer:
    """Levels from the source."""
    return reached(dijkstra(as_pattern(edges), indices=SOURCE, unweighted=True))


def scipy_pagerank(edges: Edges) -> Answer:
    """Ranks by power iterations, as near as ours."""
    return scaled(by_scipy(edges.vertices, edges.src, edges.dst, TOLERANCE), edges)


IGRAPH: dict[str, Way] = {
    "bfs": partial(as_table_says, "bfs"),
    "pagerank": partial(as_table_says, "pagerank"),
    "wcc": igraph_wcc,
    "lcc": partial(as_table_says, "lcc"),
    "sssp": igraph_sssp,
}
SCIPY: dict[str, Way] = {
    "bfs": scipy_bfs,
    "pagerank": scipy_pagerank,
    "wcc": partial(as_table_says, "wcc"),
    "cdlp": partial(as_table_says, "cdlp"),
    "sssp": partial(as_table_says, "sssp"),
}
ORACLES: dict[str, Way] = {name: partial(as_table_says, name) for name in IGRAPH | SCIPY}
"""By whom an answer is checked: of the library that comes to it without a tolerance."""
