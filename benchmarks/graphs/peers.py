"""Each algorithm twice: ours, and igraph's or scipy's from scratch, with both answers in one form.

An answer is two arrays, vertices in ascending order and their values, or for a forest, a matching and a count
one number: what the peer finds may be another one as good.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import igraph
import numpy as np
import numpy.typing as npt
import pyarrow as pa
from benchmarks.graphs.generators import Edges
from scipy.sparse import coo_matrix, csr_matrix
from scipy.sparse.csgraph import connected_components, dijkstra

import pointstamp as ps
from pointstamp import graphs

Answer = tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]
SOURCE = 0
ROUNDS = 10
"""How often labels are passed on."""


@dataclass(frozen=True)
class Algorithm:
    """What is measured: our table, what its answer is, and the peer, first its graph and then its answer."""

    ours: Callable[[graphs.Graph], ps.Table]
    prepared: Callable[[Edges], Any]
    peer: Callable[[Any, Edges], Answer]
    answer: Callable[[pa.Table], Answer]
    tolerance: float = 1e-9
    """How far apart two values may be, of themselves."""

    def off(self, found: Answer, wanted: Answer) -> float:
        """How far the worst value is off, of itself; infinitely, if other vertices have one."""
        if not np.array_equal(found[0], wanted[0]):
            return float("inf")
        away = np.abs(found[1] - wanted[1]) / np.maximum(np.abs(wanted[1]), 1e-300)
        return float(away.max(initial=0.0, where=found[1] != wanted[1]))


def by_vertex(table: pa.Table) -> Answer:
    """Vertices in order with the value beside them, 0 where a table has vertices only."""
    ids = table.column(0).to_numpy()
    order = np.argsort(ids)
    values = table.column(1).to_numpy() if table.num_columns > 1 else np.zeros(len(ids))
    return ids[order], values[order].astype(np.float64)


def total_of(column: str) -> Callable[[pa.Table], Answer]:
    """The sum of a column."""
    return lambda table: one_number(table.column(column).to_numpy().sum())


def one_number(number: float) -> Answer:
    """A number in the form of an answer."""
    return np.zeros(1, np.int64), np.array([float(number)])


def as_igraph(edges: Edges, *, directed: bool = True) -> igraph.Graph:
    """The edges as a graph of igraph's."""
    return igraph.Graph(edges.vertices, np.stack((edges.src, edges.dst), axis=1), directed=directed)


def present(edges: Edges) -> npt.NDArray[np.int64]:
    """The vertices that are ends of edges."""
    is_there = np.zeros(edges.vertices, np.bool_)
    is_there[edges.src] = is_there[edges.dst] = True
    return np.flatnonzero(is_there)


def igraph_bfs(graph: Any, edges: Edges) -> Answer:  # noqa: ANN401 - a peer's graph
    """Levels from the source."""
    return reached(np.array(graph.distances(SOURCE)[0]))


def scipy_sssp(graph: Any, edges: Edges) -> Answer:  # noqa: ANN401 - a peer's graph
    """Distances from the source."""
    return reached(dijkstra(graph, indices=SOURCE))


def reached(distances: npt.NDArray[np.float64]) -> Answer:
    """The distances that are not infinite."""
    there = np.flatnonzero(np.isfinite(distances))
    return there, distances[there]


def as_matrix(edges: Edges) -> csr_matrix:
    """The lightest edges between any two vertices, as scipy has them."""
    order = np.lexsort((edges.weight, edges.dst, edges.src))
    src, dst, weight = edges.src[order], edges.dst[order], edges.weight[order]
    first = np.r_[True, (src[1:] != src[:-1]) | (dst[1:] != dst[:-1])]
    return csr_matrix((weight[first], (src[first], dst[first])), shape=(edges.vertices,) * 2)


def igraph_reachable(graph: Any, edges: Edges) -> Answer:  # noqa: ANN401 - a peer's graph
    """All that the source leads to."""
    there = np.sort(np.array(graph.subcomponent(SOURCE, mode="out")))
    return there, np.zeros(len(there))


def scipy_wcc(graph: Any, edges: Edges) -> Answer:  # noqa: ANN401 - a peer's graph
    """Each vertex with the least of its component."""
    return by_least(connected_components(graph, directed=False)[1], edges)


def as_pattern(edges: Edges) -> csr_matrix:
    """Which vertices are connected, as scipy has it."""
    ones = np.ones(len(edges), np.int8)
    return coo_matrix((ones, (edges.src, edges.dst)), shape=(edges.vertices,) * 2).tocsr()


def igraph_scc(graph: Any, edges: Edges) -> Answer:  # noqa: ANN401 - a peer's graph
    """Each vertex with the least of its component."""
    return by_least(np.array(graph.connected_components("strong").membership), edges)


def by_least(component: npt.NDArray[np.int64], edges: Edges) -> Answer:
    """Each vertex with the least of its component, which has any number."""
    there = present(edges)
    least = np.full(component.max() + 1, np.iinfo(np.int64).max)
    np.minimum.at(least, component[there], there)
    return there, least[component[there]].astype(np.float64)


def igraph_degrees(graph: Any, edges: Edges) -> Answer:  # noqa: ANN401 - a peer's graph
    """How many edges end at each vertex."""
    there = present(edges)
    return there, np.array(graph.indegree())[there].astype(np.float64)


def as_simple(edges: Edges) -> igraph.Graph:
    """Without directions, loops and copies."""
    return as_igraph(edges, directed=False).simplify()


def igraph_triangles(graph: Any, edges: Edges) -> Answer:  # noqa: ANN401 - a peer's graph
    """How many triangles there are."""
    return one_number(len(graph.list_triangles()))


def igraph_k_core(graph: Any, edges: Edges) -> Answer:  # noqa: ANN401 - a peer's graph
    """Core numbers."""
    there = present(edges)
    return there, np.array(graph.coreness())[there].astype(np.float64)


def igraph_forest(graph: Any, edges: Edges) -> Answer:  # noqa: ANN401 - a peer's graph
    """The weight of the lightest forest."""
    return one_number(sum(graph.spanning_tree("weight").es["weight"]))


def as_weighed(edges: Edges) -> igraph.Graph:
    """Without directions, with weights."""
    graph = as_igraph(edges, directed=False)
    graph.es["weight"] = edges.weight
    return graph


def igraph_pagerank(graph: Any, edges: Edges) -> Answer:  # noqa: ANN401 - a peer's graph
    """Ranks that add up to one among the vertices that have edges."""
    return scaled(np.array(graph.pagerank()), edges)


def scaled(ranks: npt.NDArray[np.float64], edges: Edges) -> Answer:
    """Ranks of the vertices that have edges, which add up to one: others have a share with some peers."""
    there = present(edges)
    return there, ranks[there] / ranks[there].sum()


def igraph_lcc(graph: Any, edges: Edges) -> Answer:  # noqa: ANN401 - a peer's graph
    """Local clustering coefficients, 0 of vertices with fewer than two neighbours."""
    there = present(edges)
    return there, np.array(graph.transitivity_local_undirected(mode="zero"))[there]


def as_heard(edges: Edges) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Who hears whose label: the edges in both directions."""
    return np.concatenate((edges.src, edges.dst)), np.concatenate((edges.dst, edges.src))


def numpy_cdlp(graph: Any, edges: Edges) -> Answer:  # noqa: ANN401 - a peer's graph
    """Labels after ten rounds: each time the most frequent among neighbours, and of several the least."""
    said, heard = graph
    labels = np.arange(edges.vertices)
    for _ in range(ROUNDS):
        votes, counts = np.unique(heard * edges.vertices + labels[said], return_counts=True)
        voters, voted = np.divmod(votes, edges.vertices)
        order = np.lexsort((voted, -counts, voters))
        first = order[np.flatnonzero(np.r_[True, np.diff(voters[order]) > 0])]
        labels = labels.copy()
        labels[voters[first]] = voted[first]
    there = present(edges)
    return there, labels[there].astype(np.float64)


ALGORITHMS: dict[str, Algorithm] = {
    "degrees": Algorithm(lambda graph: graphs.degrees(graph), as_igraph, igraph_degrees, by_vertex),
    "bfs": Algorithm(lambda graph: graphs.bfs(graph, SOURCE), as_igraph, igraph_bfs, by_vertex),
    "sssp": Algorithm(lambda graph: graphs.sssp(graph, SOURCE), as_matrix, scipy_sssp, by_vertex),
    "reachable": Algorithm(
        lambda graph: graphs.reachable(graph, SOURCE), as_igraph, igraph_reachable, by_vertex
    ),
    "wcc": Algorithm(lambda graph: graphs.wcc(graph), as_pattern, scipy_wcc, by_vertex),
    "pagerank": Algorithm(
        lambda graph: graphs.pagerank(graph), as_igraph, igraph_pagerank, by_vertex, tolerance=2.2e-4
    ),
    "cdlp": Algorithm(lambda graph: graphs.cdlp(graph, rounds=ROUNDS), as_heard, numpy_cdlp, by_vertex),
    "lcc": Algorithm(lambda graph: graphs.lcc(graph.undirected()), as_simple, igraph_lcc, by_vertex),
    "triangles": Algorithm(
        lambda graph: graphs.triangle_count(graph), as_simple, igraph_triangles, total_of("triangles")
    ),
    "k_core": Algorithm(lambda graph: graphs.k_core(graph), as_simple, igraph_k_core, by_vertex),
    "scc": Algorithm(lambda graph: graphs.scc(graph), as_igraph, igraph_scc, by_vertex),
    "forest": Algorithm(
        lambda graph: graphs.minimum_spanning_forest(graph), as_weighed, igraph_forest, total_of("weight")
    ),
}
