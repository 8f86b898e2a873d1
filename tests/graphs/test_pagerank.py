"""PageRank of graphs that change, after every epoch.

Families, and what only each can find:
- *oracle*: networkx, igraph and a direct solution by scipy of all edges so far. Each rank must be within the
  tolerance that the docstring promises, relative to the exact one, at every vertex.
- *same*: on any number of workers, with numbers or texts as ids, the very same bits. Only these find a sum
  that depends on the order in which its parts come.
- *journey*: saved after some epochs, taken up by other workers, and the same again.
- *cost*: a change is told where it matters, and not everywhere.
- *refusal*: what must not be asked, and what is said about it.
"""

from typing import Any

import igraph
import networkx as nx
import numpy as np
import pyarrow as pa
import pytest
from scipy.sparse import coo_matrix, identity
from scipy.sparse.linalg import spsolve

import pointstamp as ps
from pointstamp.errors import FlowError
from pointstamp.graphs import Graph, pagerank, personalised_pagerank
from support.changing_graphs import (
    Edge,
    changing_edges,
    edge_tables,
    edges_after,
    graph_input,
    values_of,
)
from support.journeys import Journey

EPOCHS = 6


def exact(edges: list[Edge], damping: float, sources: set[int] | None = None) -> dict[int, float]:
    """(1 - d) + d * (what comes in), by a direct solution; with sources, resets at these only."""
    ids = sorted({end for edge in edges for end in edge})
    place = {vertex: number for number, vertex in enumerate(ids)}
    src, dst = (np.array([place[edge[end]] for edge in edges]) for end in (0, 1))
    out = np.bincount(src, minlength=len(ids))
    shares = coo_matrix((damping / out[src], (dst, src)), shape=(len(ids), len(ids)))
    resets = np.array([(1 - damping) * (sources is None or vertex in sources) for vertex in ids])
    ranks = spsolve((identity(len(ids)) - shares).tocsc(), resets)
    return dict(zip(ids, np.atleast_1d(ranks).tolist(), strict=True))


def ranks_of(seed: int, workers: int, key: str = "long", **options: Any) -> ps.Results:  # noqa: ANN401
    flow = ps.Dataflow("ranks")
    flow.output("ranks", pagerank(graph_input(flow, key), **options))
    tables = edge_tables(changing_edges(seed, EPOCHS), "{}" if key == "long" else "v{:03}")
    return flow.run(edges=tables, workers=workers)


def check_near(found: dict[Any, float], wanted: dict[Any, float], tolerance: float) -> None:
    assert found.keys() == wanted.keys()
    for vertex, rank in wanted.items():
        assert abs(found[vertex] - rank) <= tolerance * rank, (vertex, found[vertex], rank)


@pytest.mark.parametrize(
    ("seed", "workers", "damping"), [(0, 1, 0.85), (1, 2, 0.85), (2, 3, 0.5), (3, 1, 0.99)]
)
def test_every_rank_is_within_the_relative_tolerance_after_every_epoch(
    seed: int, workers: int, damping: float
) -> None:
    results = ranks_of(seed, workers, damping=damping, tolerance=1e-4, sums_to=None)
    changes = changing_edges(seed, EPOCHS)
    for epoch in range(EPOCHS):
        found = values_of(results.table("ranks", as_of=epoch), "rank")
        edges = edges_after(changes, epoch)
        check_near(dict(found), exact(edges, damping) if edges else {}, 1.01e-4)


@pytest.mark.parametrize("sums_to", ["one", "vertices"])
def test_scaled_ranks_are_those_of_networkx_and_of_igraph(sums_to: Any) -> None:  # noqa: ANN401
    results = ranks_of(5, 2, tolerance=1e-8, sums_to=sums_to)
    changes = changing_edges(5, EPOCHS)
    compared = 0
    for epoch in range(EPOCHS):
        edges = edges_after(changes, epoch)
        found = dict(values_of(results.table("ranks", as_of=epoch), "rank"))
        if not edges:
            assert not found
            continue
        graph = nx.MultiDiGraph(edges)
        factor = len(graph) if sums_to == "vertices" else 1
        by_networkx = nx.pagerank(graph, tol=1e-15, max_iter=1000)
        check_near(found, {vertex: rank * factor for vertex, rank in by_networkx.items()}, 1e-6)
        named = igraph.Graph.TupleList(edges, directed=True)
        by_igraph = dict(zip(named.vs["name"], named.pagerank(), strict=True))
        check_near(found, {vertex: rank * factor for vertex, rank in by_igraph.items()}, 1e-6)
        compared += 1
    assert compared == EPOCHS - 1


@pytest.mark.parametrize("workers", [1, 3])
def test_ranks_seen_from_some_vertices_are_those_of_networkx(workers: int) -> None:
    flow = ps.Dataflow("ranks")
    sources = flow.table("sources", "id long, w long", weight="w")
    ranks = personalised_pagerank(graph_input(flow), sources, tolerance=1e-8)
    flow.output("ranks", ranks)
    changes = changing_edges(8, EPOCHS)
    chosen = [{0, 3, 77}, {0, 3, 77}, {3}, {3}, {3}, {3, 1}]
    moves = [[(0, 1), (3, 1), (77, 1)], [], [(0, -1), (77, -1)], [], [], [(1, 1)]]
    tables = [
        pa.table(
            {"id": pa.array([i for i, _ in m], pa.int64()), "w": pa.array([w for _, w in m], pa.int64())}
        )
        for m in moves
    ]
    results = flow.run(edges=edge_tables(changes), sources=tables, workers=workers)
    compared = 0
    for epoch in range(EPOCHS):
        edges = edges_after(changes, epoch)
        found = dict(values_of(results.table("ranks", as_of=epoch), "rank"))
        graph = nx.MultiDiGraph(edges)
        known = {vertex: 1 for vertex in chosen[epoch] if vertex in graph}
        assert found.keys() == set(graph)
        if known:
            wanted = nx.pagerank(graph, personalization=known, tol=1e-15, max_iter=1000)
            assert max(abs(found[v] - rank) for v, rank in wanted.items()) < 1e-6
            compared += 1
    assert compared >= 4


def test_ranks_are_the_same_to_the_last_bit_on_any_number_of_workers() -> None:
    results = [ranks_of(seed=4, workers=workers) for workers in (1, 2, 3)]
    texts = [ranks_of(seed=4, workers=workers, key="string") for workers in (1, 2)]
    for epoch in range(EPOCHS):
        one, *others = (values_of(each.table("ranks", as_of=epoch), "rank") for each in results)
        assert all(other == one for other in others)
        for each in texts:
            named = values_of(each.table("ranks", as_of=epoch), "rank")
            assert named == {f"v{vertex:03}": rank for vertex, rank in one.items()}


@pytest.mark.parametrize("route", [(1, 3, 2), (3, 2, 1), (2, 2, 2)])
def test_ranks_go_on_from_what_was_saved_on_any_workers(route: tuple[int, int, int]) -> None:
    # With a large tolerance much comes in that is not pushed, and must be saved all the same.
    flow = ps.Dataflow("ranks")
    flow.output("ranks", pagerank(graph_input(flow), sums_to=None, tolerance=0.05))
    tables = edge_tables(changing_edges(11, 9, vertices=30, most=40))
    wanted = flow.run(edges=tables)
    with Journey(flow.plan, route[0]) as run:
        for epoch, table in enumerate(tables):
            run.next_epoch({"edges": table.to_batches()})
            run.save(changes_only=epoch % 4 != 0)
            if epoch % 3 == 2 and epoch < 8:
                run.go_on(route[epoch // 3 + 1])
        run.finish()
        assert {epoch for _, epoch in run.results} == set(wanted["ranks"])
        for (_, epoch), table in run.results.items():
            assert _rows(table) == _rows(wanted["ranks"][epoch])


def _rows(table: pa.Table) -> list[tuple[Any, ...]]:
    return sorted(tuple(row.values()) for row in table.to_pylist())


def test_what_is_saved_of_a_small_change_is_small() -> None:
    flow = ps.Dataflow("ranks")
    flow.output("ranks", pagerank(graph_input(flow), sums_to=None))
    ring = [((number, (number + 1) % 500), 1) for number in range(500)]
    with Journey(flow.plan, 2) as run:
        for changes in (ring, [((600, 601), 1)]):
            run.next_epoch({"edges": edge_tables([changes])[0].to_batches()})
            run.save(changes_only=True)
        rows = {
            name: [sum(chain[number].table.num_rows for chain in chains) for number in range(2)]
            for (_, name), chains in run.saved.items()
            if name in ("vertices", "links")
        }
        assert rows == {"vertices": [500, 2], "links": [500, 1]}
        run.finish()


def test_a_change_is_told_where_it_matters() -> None:
    flow = ps.Dataflow("ranks")
    flow.output("ranks", pagerank(graph_input(flow), sums_to=None, tolerance=1e-3))
    chains = [((10 * chain + at, 10 * chain + at + 1), 1) for chain in range(200) for at in range(9)]
    results = flow.run(edges=edge_tables([chains, [((0, 1), -1)]]), workers=2)["ranks"]
    assert results[0].num_rows == 2000
    # The chain behind 1 has less, and 0 is gone.
    assert {row["id"] for row in results[1].to_pylist()} == set(range(10))


def test_a_vertex_that_was_given_has_a_rank_without_edges() -> None:
    flow = ps.Dataflow("ranks")
    vertices = flow.table("vertices", "id long")
    flow.output("ranks", pagerank(graph_input(flow, vertices=vertices)))
    results = flow.run(edges=edge_tables([[]]), vertices=[pa.table({"id": [1, 2, 3, 4]})])
    assert values_of(results.table("ranks"), "rank") == dict.fromkeys([1, 2, 3, 4], 0.25)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"damping": 1.0}, "damping must be from 0 to 0.99, got 1.0"),
        ({"tolerance": 0}, "tolerance must be from 1e-9 to 0.1, got 0"),
        ({"sums_to": "two"}, "sums_to must be 'one', 'vertices' or None, got 'two'"),
    ],
)
def test_what_cannot_be_is_refused_when_the_flow_is_written(options: dict[str, Any], said: str) -> None:
    with pytest.raises(FlowError, match=said):
        pagerank(graph_input(ps.Dataflow("ranks")), **options)


def test_ranks_in_a_loop_are_refused() -> None:
    flow = ps.Dataflow("ranks")
    graph = graph_input(flow)
    with graph.edges.loop("outer") as loop:
        inside = Graph(loop.enter(graph.edges))
        with pytest.raises(FlowError, match="must be outside of loops, got one in loop 'outer'"):
            pagerank(inside)
        loop.leave(inside.edges)


def test_a_rank_that_cannot_be_counted_is_refused() -> None:
    flow = ps.Dataflow("ranks")
    flow.output("ranks", pagerank(graph_input(flow), tolerance=1e-9))
    star = [((number, 0), 1) for number in range(1, 6000)]
    with pytest.raises(
        ps.errors.PointstampError, match=r"exceeds 4096 times the reset.*Give a larger tolerance"
    ):
        flow.run(edges=edge_tables([star]))
