"""What networkx, igraph and scipy say of a graph, by the names of our algorithms.

Each oracle is given the whole graph as it is after an epoch, and gives the rows that the algorithm's table
must have. Where the libraries mean something else than we do, plain sets say it: Graphalytics' directed
clustering, and the one matching that a greedy search finds.
"""

import zlib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import igraph
import networkx as nx
import numpy as np
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components as scipy_components

Rows = set[tuple[Any, ...]]


@dataclass(frozen=True)
class Whole:
    """A graph after an epoch: all its vertices, and edges with weights, as often as they are there."""

    vertices: list[Any]
    edges: list[tuple[Any, Any, Any]]
    directed: bool
    sources: list[Any]
    given: list[Any] = field(default_factory=list)
    """The vertices that were given, as often as they were."""

    @property
    def present(self) -> list[Any]:
        """The sources that are vertices."""
        return [each for each in self.sources if each in set(self.vertices)]

    def multigraph(self) -> Any:  # noqa: ANN401 - networkx has no types
        made = nx.MultiDiGraph() if self.directed else nx.MultiGraph()
        made.add_nodes_from(self.vertices)
        made.add_weighted_edges_from(self.edges)
        return made

    def simple(self) -> Any:  # noqa: ANN401 - as above
        """Without directions, loops and copies."""
        made = nx.Graph()
        made.add_nodes_from(self.vertices)
        made.add_edges_from((a, b) for a, b, _ in self.edges if a != b)
        return made

    def igraph(self) -> Any:  # noqa: ANN401 - as above
        at = {vertex: place for place, vertex in enumerate(self.vertices)}
        pairs = [(at[a], at[b]) for a, b, _ in self.edges]
        return igraph.Graph(len(at), pairs, directed=self.directed)


def degrees(whole: Whole) -> Rows:
    graph = whole.multigraph()
    into = graph.in_degree if whole.directed else graph.degree
    out = graph.out_degree if whole.directed else graph.degree
    return {(v, into[v], out[v], graph.degree[v]) for v in whole.vertices}


def _distances(whole: Whole, weights: list[Any] | None) -> Rows:
    starts = [whole.vertices.index(each) for each in whole.present]
    if not starts:
        return set()
    found = np.min(whole.igraph().distances(starts, weights=weights), axis=0)
    return {(v, d) for v, d in zip(whole.vertices, found.tolist(), strict=True) if d != np.inf}


def bfs(whole: Whole) -> Rows:
    return _distances(whole, None)


def sssp(whole: Whole) -> Rows:
    return _distances(whole, [w for *_, w in whole.edges])


def shortest_paths(whole: Whole) -> Rows:
    graph, at = whole.igraph(), {vertex: place for place, vertex in enumerate(whole.vertices)}
    rows: Rows = set()
    for landmark in whole.present:
        found = graph.distances(None, at[landmark])
        rows |= {(v, landmark, d[0]) for v, d in zip(whole.vertices, found, strict=True) if d[0] != np.inf}
    return rows


def weighted_paths(whole: Whole) -> Rows:
    graph = whole.multigraph()
    back = graph.reverse() if whole.directed else graph
    return {
        (v, landmark, d)
        for landmark in whole.present
        for v, d in nx.single_source_dijkstra_path_length(back, landmark).items()
    }


def cdlp(whole: Whole, rounds: int = 3) -> Rows:
    """Some rounds of the definition, vertex by vertex."""
    beside: dict[Any, list[Any]] = {vertex: [] for vertex in whole.vertices}
    for a, b, _ in whole.edges:
        beside[b].append(a)
        if whole.directed or a != b:
            beside[a].append(b)
    labels = {vertex: vertex for vertex in beside}
    for _ in range(rounds):
        heard = {vertex: Counter(labels[each] for each in near) for vertex, near in beside.items() if near}
        labels |= {v: min(votes, key=lambda each: (-votes[each], each)) for v, votes in heard.items()}
    return set(labels.items())


def reachable(whole: Whole) -> Rows:
    graph = whole.multigraph()
    return {(v,) for start in whole.present for v in {start} | nx.descendants(graph, start)}


def named_by_least(parts: Iterable[Iterable[Any]]) -> Rows:
    return {(v, least) for part in map(list, parts) for least in [min(part)] for v in part}


def wcc(whole: Whole) -> Rows:
    if not whole.vertices:
        return set()
    at = {vertex: place for place, vertex in enumerate(whole.vertices)}
    ends = np.array([(at[a], at[b]) for a, b, _ in whole.edges], np.int64).reshape(-1, 2)
    matrix = coo_matrix((np.ones(len(ends)), ends.T), shape=(len(at), len(at)))
    _, label = scipy_components(matrix, directed=True, connection="weak")
    parts = defaultdict(list)
    for vertex, number in zip(whole.vertices, label.tolist(), strict=True):
        parts[number].append(vertex)
    return named_by_least(parts.values())


def scc(whole: Whole) -> Rows:
    graph = whole.multigraph()
    return named_by_least(
        nx.strongly_connected_components(graph) if whole.directed else nx.connected_components(graph)
    )


def k_core(whole: Whole) -> Rows:
    return set(nx.core_number(whole.simple()).items())


def triangles(whole: Whole) -> Rows:
    return set(nx.triangles(whole.simple()).items())


def triangle_count(whole: Whole) -> Rows:
    return {(sum(nx.triangles(whole.simple()).values()) // 3,)}


def lcc(whole: Whole) -> Rows:
    if not whole.directed:
        return set(nx.clustering(whole.simple()).items())
    out = defaultdict(set)
    for a, b, _ in whole.edges:
        if a != b:
            out[a].add(b)
    beside = {v: set(near) for v, near in whole.simple().adjacency()}
    rows: Rows = set()
    for vertex, near in beside.items():
        among = sum(len(out[each] & near) for each in near)
        places = len(near) * (len(near) - 1)
        rows.add((vertex, among / places if places else 0.0))
    return rows


def minimum_spanning_forest(whole: Whole) -> Rows:
    """By networkx, with the place of an edge in our order for its weight."""
    ordered = sorted({(w, min(a, b), max(a, b)) for a, b, w in whole.edges if a != b})
    graph = nx.MultiGraph()
    for place, (_, a, b) in enumerate(ordered):
        graph.add_edge(a, b, weight=place)
    chosen = nx.minimum_spanning_edges(graph, keys=False)
    return {(a, b, w) for *_, data in chosen for w, a, b in [ordered[data["weight"]]]}


def maximal_matching(whole: Whole) -> Rows:
    """By a greedy search, one edge after the other; that it is maximal says networkx."""
    pairs = {(min(a, b), max(a, b)) for a, b, _ in whole.edges if a != b}
    taken: set[Any] = set()
    chosen: Rows = set()
    for a, b in sorted(pairs, key=lambda pair: (_turn(*pair), *pair)):
        if a not in taken and b not in taken:
            taken |= {a, b}
            chosen.add((a, b))
    assert nx.is_maximal_matching(whole.simple(), chosen)
    return chosen


def _turn(src: Any, dst: Any) -> int:  # noqa: ANN401 - ids of any type
    one, other = (each if isinstance(each, int) else zlib.crc32(each.encode()) for each in (src, dst))
    turn = _splitmix(_splitmix(one) + other)
    return turn - (1 << 64) if turn >> 63 else turn


def _splitmix(number: int) -> int:
    mixed = (number + 0x9E3779B97F4A7C15) % (1 << 64)
    mixed = (mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9 % (1 << 64)
    mixed = (mixed ^ (mixed >> 27)) * 0x94D049BB133111EB % (1 << 64)
    return mixed ^ (mixed >> 31)


def topological_levels(whole: Whole) -> Rows:
    graph = nx.DiGraph()
    graph.add_nodes_from(whole.vertices)
    for a, b, _ in whole.edges:
        graph.add_edges_from([(a, b)] if whole.directed else [(a, b), (b, a)])
    cyclic = {v for part in nx.strongly_connected_components(graph) if len(part) > 1 for v in part}
    cyclic |= {a for a, b in graph.edges if a == b}
    endless = cyclic.union(*(nx.descendants(graph, v) for v in cyclic))
    graph.remove_nodes_from(endless)
    levels = enumerate(nx.topological_generations(graph))
    return {(v, None) for v in endless} | {(v, level) for level, part in levels for v in part}


ORACLES: dict[str, Callable[[Whole], Rows]] = {
    each.__name__: each
    for each in (
        *(degrees, bfs, sssp, shortest_paths, weighted_paths, reachable, wcc, scc, k_core, triangles),
        *(cdlp, triangle_count, lcc, minimum_spanning_forest, maximal_matching, topological_levels),
    )
}
