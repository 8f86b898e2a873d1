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


@dataclass(frozen=True)
class Algorithm:
    """What is measured: our table, what its answer is, and the peer, first its graph and then its answer."""

    ours: Callable[[graphs.Graph], ps.Table]
    prepared: Callable[[Edges], Any]
    peer: Callable[[Any, Edges], Answer]
    answer: Callable[[pa.Table], Answer]


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
    found = np.array(graph.distances(SOURCE)[0])
    reached = np.flatnonzero(np.isfinite(found))
    return reached, found[reached]


def scipy_sssp(graph: Any, edges: Edges) -> Answer:  # noqa: ANN401 - a peer's graph
    """Distances from the source."""
    found = dijkstra(graph, indices=SOURCE)
    reached = np.flatnonzero(np.isfinite(found))
    return reached, found[reached]


def as_matrix(edges: Edges) -> csr_matrix:
    """The lightest edges between any two vertices, as scipy has them."""
    order = np.lexsort((edges.weight, edges.dst, edges.src))
    src, dst, weight = edges.src[order], edges.dst[order], edges.weight[order]
    first = np.r_[True, (src[1:] != src[:-1]) | (dst[1:] != dst[:-1])]
    return csr_matrix((weight[first], (src[first], dst[first])), shape=(edges.vertices,) * 2)


def igraph_reachable(graph: Any, edges: Edges) -> Answer:  # noqa: ANN401 - a peer's graph
    """All that the source leads to."""
    reached = np.sort(np.array(graph.subcomponent(SOURCE, mode="out")))
    return reached, np.zeros(len(reached))


def scipy_wcc(graph: Any, edges: Edges) -> Answer:  # noqa: ANN401 - a peer's graph
    """Each vertex with the least of its component."""
    return _by_least(connected_components(graph, directed=False)[1], edges)


def as_pattern(edges: Edges) -> csr_matrix:
    """Which vertices are connected, as scipy has it."""
    ones = np.ones(len(edges), np.int8)
    return coo_matrix((ones, (edges.src, edges.dst)), shape=(edges.vertices,) * 2).tocsr()


def igraph_scc(graph: Any, edges: Edges) -> Answer:  # noqa: ANN401 - a peer's graph
    """Each vertex with the least of its component."""
    return _by_least(np.array(graph.connected_components("strong").membership), edges)


def _by_least(component: npt.NDArray[np.int64], edges: Edges) -> Answer:
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


ALGORITHMS: dict[str, Algorithm] = {
    "degrees": Algorithm(lambda graph: graphs.degrees(graph), as_igraph, igraph_degrees, by_vertex),
    "bfs": Algorithm(lambda graph: graphs.bfs(graph, SOURCE), as_igraph, igraph_bfs, by_vertex),
    "sssp": Algorithm(lambda graph: graphs.sssp(graph, SOURCE), as_matrix, scipy_sssp, by_vertex),
    "reachable": Algorithm(
        lambda graph: graphs.reachable(graph, SOURCE), as_igraph, igraph_reachable, by_vertex
    ),
    "wcc": Algorithm(lambda graph: graphs.wcc(graph), as_pattern, scipy_wcc, by_vertex),
    "triangles": Algorithm(
        lambda graph: graphs.triangle_count(graph), as_simple, igraph_triangles, total_of("triangles")
    ),
    "k_core": Algorithm(lambda graph: graphs.k_core(graph), as_simple, igraph_k_core, by_vertex),
    "scc": Algorithm(lambda graph: graphs.scc(graph), as_igraph, igraph_scc, by_vertex),
    "forest": Algorithm(
        lambda graph: graphs.minimum_spanning_forest(graph), as_weighed, igraph_forest, total_of("weight")
    ),
}
