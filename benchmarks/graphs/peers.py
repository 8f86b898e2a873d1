"""Each algorithm twice: ours, and igraph's or scipy's from scratch, with both answers in one form.

An answer is two arrays, vertices in ascending order and their values, or for a forest, a matching and a count
one number: what the peer finds may be another one as good.
"""

from collections.abc import Callable
from dataclasses import dataclass

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
    """What is measured: our table, its answer, and the peer from edges to answer."""

    ours: Callable[[graphs.Graph], ps.Table]
    peer: Callable[[Edges], Answer]
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


def igraph_bfs(edges: Edges) -> Answer:
    """Levels from the source."""
    found = np.array(as_igraph(edges).distances(SOURCE)[0])
    reached = np.flatnonzero(np.isfinite(found))
    return reached, found[reached]


def scipy_sssp(edges: Edges) -> Answer:
    """Distances from the source."""
    # Of parallel edges scipy would take the sum, so the lightest is chosen first.
    order = np.lexsort((edges.weight, edges.dst, edges.src))
    src, dst, weight = edges.src[order], edges.dst[order], edges.weight[order]
    first = np.r_[True, (src[1:] != src[:-1]) | (dst[1:] != dst[:-1])]
    matrix = csr_matrix((weight[first], (src[first], dst[first])), shape=(edges.vertices,) * 2)
    found = dijkstra(matrix, indices=SOURCE)
    reached = np.flatnonzero(np.isfinite(found))
    return reached, found[reached]


def igraph_reachable(edges: Edges) -> Answer:
    """All that the source leads to."""
    reached = np.sort(np.array(as_igraph(edges).subcomponent(SOURCE, mode="out")))
    return reached, np.zeros(len(reached))


def scipy_wcc(edges: Edges) -> Answer:
    """Each vertex with the least of its component."""
    matrix = coo_matrix((np.ones(len(edges), np.int8), (edges.src, edges.dst)), shape=(edges.vertices,) * 2)
    return _by_least(connected_components(matrix, directed=False)[1], edges)


def igraph_scc(edges: Edges) -> Answer:
    """Each vertex with the least of its component."""
    return _by_least(np.array(as_igraph(edges).connected_components("strong").membership), edges)


def _by_least(component: npt.NDArray[np.int64], edges: Edges) -> Answer:
    there = present(edges)
    least = np.full(component.max() + 1, np.iinfo(np.int64).max)
    np.minimum.at(least, component[there], there)
    return there, least[component[there]].astype(np.float64)


def igraph_degrees(edges: Edges) -> Answer:
    """How many edges end at each vertex."""
    there = present(edges)
    return there, np.array(as_igraph(edges).indegree())[there].astype(np.float64)


def _simple(edges: Edges) -> igraph.Graph:
    return as_igraph(edges, directed=False).simplify()


def igraph_triangles(edges: Edges) -> Answer:
    """How many triangles there are."""
    return one_number(len(_simple(edges).list_triangles()))


def igraph_k_core(edges: Edges) -> Answer:
    """Core numbers."""
    there = present(edges)
    return there, np.array(_simple(edges).coreness())[there].astype(np.float64)


def igraph_forest(edges: Edges) -> Answer:
    """The weight of the lightest forest."""
    graph = as_igraph(edges, directed=False)
    graph.es["weight"] = edges.weight
    return one_number(sum(graph.spanning_tree("weight").es["weight"]))


ALGORITHMS: dict[str, Algorithm] = {
    "degrees": Algorithm(lambda graph: graphs.degrees(graph), igraph_degrees, by_vertex),
    "bfs": Algorithm(lambda graph: graphs.bfs(graph, SOURCE), igraph_bfs, by_vertex),
    "sssp": Algorithm(lambda graph: graphs.sssp(graph, SOURCE), scipy_sssp, by_vertex),
    "reachable": Algorithm(lambda graph: graphs.reachable(graph, SOURCE), igraph_reachable, by_vertex),
    "wcc": Algorithm(lambda graph: graphs.wcc(graph), scipy_wcc, by_vertex),
    "triangles": Algorithm(
        lambda graph: graphs.triangle_count(graph), igraph_triangles, total_of("triangles")
    ),
    "k_core": Algorithm(lambda graph: graphs.k_core(graph), igraph_k_core, by_vertex),
    "scc": Algorithm(lambda graph: graphs.scc(graph), igraph_scc, by_vertex),
    "forest": Algorithm(
        lambda graph: graphs.minimum_spanning_forest(graph), igraph_forest, total_of("weight")
    ),
}
