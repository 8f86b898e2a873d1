"""Every algorithm on a graph that changes: the oracle's answer after every epoch, on any number of workers.

Families, and what only each can find:
- *oracle*: networkx, igraph and scipy on the whole graph after every epoch, on small graphs full of what is
  hard: loops at vertices, edges that are there several times, vertices without edges, everything deleted.
- *large*: the same on graphs of some thousand edges, where changes meet what lies in merged runs and searches
  continue for many rounds; by Graphalytics' own rules.
- *refusal*: what must not be taken in, and what is said about it.
"""

import random
from collections import Counter
from typing import Any

import pytest

import pointstamp as ps
from pointstamp import graphs
from pointstamp.errors import FlowError, SchemaError
from support.graph_checks import check_epsilon, check_equivalent, check_exact
from support.graph_flows import (
    ALGORITHMS,
    Epoch,
    graph_flow,
    inputs_of,
    judge_history,
    random_history,
    wholes,
)
from support.graph_oracles import ORACLES


@pytest.mark.parametrize("name", ALGORITHMS)
def test_every_epoch_of_a_small_graph_is_as_the_oracle_says(name: str) -> None:
    for seed in range(1, 3):
        judge_history([name], random_history(seed), directed=seed != 1, workers=seed % 3 + 1)


@pytest.mark.parametrize("workers", [1, 3])
def test_names_are_numbered_once_also_where_their_order_or_a_landmark_matters(workers: int) -> None:
    names = ["minimum_spanning_forest", "cdlp", "shortest_paths", "weighted_paths"]
    flow = graph_flow(names, key="string")
    assert flow.describe().count("'numbers in order', operator") == 1
    assert flow.describe().count("'numbers', operator") == 1
    assert "forest: lightest" not in flow.describe()
    history = random_history(workers, key="string")
    judge_history(names, history, directed=workers == 1, workers=workers, key="string")


def test_ids_without_numbers_go_round_in_tables() -> None:
    names = ["minimum_spanning_forest", "cdlp", "shortest_paths", "sssp", "wcc", "k_core", "triangles"]
    history = random_history(5, key="double", vertices=5, epochs=3)
    judge_history(names, history, directed=True, workers=1, key="double")


def test_landmarks_of_a_table_may_come_and_go() -> None:
    flow = ps.Dataflow("landmarks")
    graph = graphs.Graph(flow.stream_input("edges", "src string, dst string"))
    towers = flow.table("towers", "id string, w long", weight="w")
    flow.output("paths", graphs.shortest_paths(graph, towers))
    edges = [{"src": "a", "dst": "b"}, {"src": "b", "dst": "c"}]
    stands = [[{"id": "c", "w": 1}], [{"id": "c", "w": -1}, {"id": "b", "w": 1}]]
    results = flow.run(edges=[edges], towers=stands)
    found = [{tuple(r.values()) for r in results.table("paths", as_of=e).to_pylist()} for e in (0, 1)]
    assert found == [{("a", "c", 2), ("b", "c", 1), ("c", "c", 0)}, {("a", "b", 1), ("b", "b", 0)}]


@pytest.mark.long
@pytest.mark.parametrize("name", ALGORITHMS)
def test_every_epoch_of_many_small_graphs_is_as_the_oracle_says(name: str) -> None:
    for seed in range(10, 16):
        for directed in (True, False):
            judge_history([name], random_history(seed, epochs=8), directed=directed, workers=seed % 3 + 1)


RULES = {
    "bfs": check_exact,
    "sssp": check_epsilon,
    "wcc": check_equivalent,
    "lcc": check_epsilon,
    "reachable": check_exact,
    "triangles": check_exact,
    "scc": check_exact,
    "k_core": check_exact,
}


def large_history(seed: int, *, vertices: int, edges: int, epochs: int, changed: int) -> list[Epoch]:
    """Many edges at once, and then some that come and some that go in each epoch."""
    chance = random.Random(seed)

    def edge() -> tuple[int, int, int]:
        return chance.randrange(vertices), chance.randrange(vertices), chance.randrange(1, 20)

    there = Counter(edge() for _ in range(edges))
    history = [Epoch([(each, 1) for each in there.elements()], [])]
    for _ in range(epochs):
        gone = chance.sample(sorted(there.elements()), changed)
        new = [edge() for _ in range(changed)]
        there.subtract(gone)
        there.update(new)
        history.append(Epoch([(each, -1) for each in gone] + [(each, 1) for each in new], []))
    return history


@pytest.mark.parametrize(("workers", "density"), [(1, 3), (3, 1)])
def test_every_epoch_of_a_large_graph_passes_the_rules_of_graphalytics(workers: int, density: int) -> None:
    history = large_history(density, vertices=800, edges=800 * density, epochs=3, changed=40)
    results = graph_flow(list(RULES)).run(inputs_of(history), workers=workers)
    for epoch, whole in enumerate(wholes(history, directed=True)):
        for name, check in RULES.items():
            rows = (tuple(row.values()) for row in results.table(name, as_of=epoch).to_pylist())
            check(_answer(ORACLES[name](whole)), _answer(rows))


def _answer(rows: Any) -> dict[Any, Any]:  # noqa: ANN401 - any rows whose first column is the vertex
    return {vertex: value[0] if value else None for vertex, *value in rows}


@pytest.mark.parametrize("workers", [1, 2])
def test_a_chain_that_is_cut_and_mended_is_followed_to_its_end(workers: int) -> None:
    links = [(n, n + 1, 1) for n in range(16)]
    history = [
        Epoch([(each, 1) for each in links], []),
        Epoch([(links[3], -1), (links[11], -1)], []),
        Epoch([(links[3], 1)], []),
        Epoch([(links[11], 1), (links[0], -1)], []),
    ]
    names = ["bfs", "sssp", "wcc", "topological_levels"]
    judge_history(names, history, directed=workers == 1, workers=workers)


@pytest.mark.parametrize("workers", [1, 3])
def test_components_of_a_graph_that_only_grows_are_joined_by_union_find(workers: int) -> None:
    flow = ps.Dataflow("grows")
    graph = graphs.Graph(
        flow.stream_input("edges", "src long, dst long"), flow.stream_input("vertices", "id long")
    )
    flow.output("wcc", graphs.wcc(graph))
    assert "wcc by union-find" in flow.describe()
    assert "wcc by union-find" not in graph_flow(["wcc"]).describe()
    chance = random.Random(workers)
    epochs = [[(chance.randrange(30), chance.randrange(30), 1) for _ in range(6)] for _ in range(5)]
    history = [Epoch([(edge, 1) for edge in edges], [(chance.randrange(40), 1)]) for edges in epochs]
    results = flow.run(inputs_of(history), workers=workers)  # an input takes the columns that it has
    for epoch, whole in enumerate(wholes(history, directed=True)):
        found = {tuple(row.values()) for row in results.table("wcc", as_of=epoch).to_pylist()}
        assert found == ORACLES["wcc"](whole)


@pytest.mark.parametrize("workers", [1, 2])
def test_a_forest_of_floats_says_their_weights_as_they_came(workers: int) -> None:
    flow = ps.Dataflow("floats")
    edges = flow.table("edges", "src long, dst long, km float, w long", weight="w")
    flow.output("forest", graphs.minimum_spanning_forest(graphs.Graph(edges, weight="km")))
    built = [
        (3, 2, -0.5, 1),
        (1, 2, 0.25, 2),
        (2, 1, 0.25, 1),
        (1, 3, 0.5, 1),
        (1, 3, 7.0, 1),
        (4, 4, 1.0, 1),
    ]
    closed = [(3, 2, -0.5, -1), (1, 2, 0.25, -2)]
    epochs = [[dict(zip(("src", "dst", "km", "w"), row, strict=True)) for row in e] for e in (built, closed)]
    results = flow.run(edges=epochs, workers=workers)
    found = [{tuple(r.values()) for r in results.table("forest", as_of=e).to_pylist()} for e in (0, 1)]
    assert found == [{(2, 3, -0.5), (1, 2, 0.25)}, {(1, 2, 0.25), (1, 3, 0.5)}]


# Refusal.


def edges_of(flow: ps.Dataflow, schema: str = "src long, dst long, km long") -> ps.Table:
    return flow.table("edges", schema)


def test_a_negative_weight_is_refused_with_its_edge() -> None:
    flow = ps.Dataflow("negative")
    graph = graphs.Graph(edges_of(flow), weight="km")
    flow.output("distances", graphs.sssp(graph, 1))
    with pytest.raises(FlowError, match=r"weights must be 0 or more, but the edge from 2 to 3 has -1"):
        flow.run(edges=[[{"src": 1, "dst": 2, "km": 0}, {"src": 2, "dst": 3, "km": -1}]])


@pytest.mark.parametrize("weight", [-1.0, None])
def test_a_weight_is_refused_with_the_names_of_its_edge(weight: float | None) -> None:
    flow = ps.Dataflow("names")
    graph = graphs.Graph(edges_of(flow, "src string, dst string, km double"), weight="km")
    flow.output("distances", graphs.shortest_paths(graph, "a", weighted=True))
    with pytest.raises(FlowError, match=r"the edge from 'b' to 'c' has (-1.0|None)"):
        flow.run(edges=[[{"src": "b", "dst": "c", "km": weight}]])


def test_an_edge_without_an_end_is_refused() -> None:
    flow = ps.Dataflow("open")
    flow.output("levels", graphs.bfs(graphs.Graph(edges_of(flow)), 1))
    with pytest.raises(SchemaError, match="'dst' must name a vertex in every row"):
        flow.run(edges=[[{"src": 1, "dst": None, "km": 0}]])


@pytest.mark.parametrize("weight", [None, float("nan")])
def test_a_forest_refuses_an_edge_without_a_weight(weight: float | None) -> None:
    flow = ps.Dataflow("open weights")
    graph = graphs.Graph(edges_of(flow, "src long, dst long, km double"), weight="km")
    flow.output("forest", graphs.minimum_spanning_forest(graph))
    with pytest.raises(
        FlowError, match=r"every edge needs a weight, but the edge between 2 and 3 has (None|nan)"
    ):
        flow.run(edges=[[{"src": 1, "dst": 2, "km": 0.5}, {"src": 3, "dst": 2, "km": weight}]])


def test_what_needs_weights_says_so() -> None:
    graph = graphs.Graph(edges_of(ps.Dataflow("none")))
    with pytest.raises(FlowError, match="have no weights"):
        graphs.sssp(graph, 1)
    with pytest.raises(FlowError, match="have no weights"):
        graphs.minimum_spanning_forest(graph)


def test_columns_that_are_no_graph_are_refused_by_name() -> None:
    edges = edges_of(ps.Dataflow("columns"), "src long, dst string, km string")
    with pytest.raises(SchemaError, match="ids must have one type"):
        graphs.Graph(edges)
    with pytest.raises(SchemaError, match="need a column 'from'"):
        graphs.Graph(edges, src="from")
    with pytest.raises(SchemaError, match="'km' must be a number, got string"):
        graphs.Graph(edges.select("km", src=ps.col("src"), dst=ps.col("src")), weight="km")
    with pytest.raises(FlowError, match="edges must be a Table or a Stream"):
        graphs.Graph([(1, 2)])  # type: ignore[arg-type]


def test_a_vertex_keeps_its_properties_and_one_without_has_none() -> None:
    flow = ps.Dataflow("people")
    knows = flow.stream_input("knows", "from string, to string, since long")
    people = flow.stream_input("people", "name string, age long")
    graph = graphs.Graph(knows, people, src="from", dst="to", id="name")
    flow.output("vertices", graph.vertices)
    flow.output("edges", graph.reversed().edges)
    results = flow.run(
        knows=[[{"from": "ada", "to": "bob", "since": 1}]], people=[[{"name": "ada", "age": 7}]]
    )
    rows = sorted(results.table("vertices").to_pylist(), key=lambda row: row["id"])
    assert rows == [{"id": "ada", "age": 7}, {"id": "bob", "age": None}]
    assert results.table("edges").to_pylist() == [{"dst": "ada", "src": "bob", "since": 1}]


@pytest.mark.parametrize("given", ["table", "stream", "text", "nothing"])
def test_an_algorithm_that_is_given_no_graph_says_what_it_needs(given: str) -> None:
    edges = ps.Dataflow("given").stream_input("edges", "src long, dst long")
    wrong: Any = {"table": edges.to_table(), "stream": edges, "text": "edges", "nothing": None}[given]
    needed: dict[str, dict[str, Any]] = {
        "bfs": {"source": 1},
        "sssp": {"source": 1},
        "reachable": {"sources": [1]},
        "personalised_pagerank": {"sources": [1]},
        "shortest_paths": {"landmarks": [1]},
        "find": {"motif": "(a)-[]->(b)"},
        "aggregate_messages": {"to_dst": ps.lit(1), "m": ps.count()},
        "pregel": {"start": {"x": ps.lit(1)}, "update": {"x": ps.col("x")}, "aggregates": {"m": ps.count()}},
    }
    classes = {"AggregateMessages", "Graph", "GraphFrame", "Pregel", "connected_components"}
    names = sorted(set(graphs.__all__) - classes)
    assert {"wcc", "pregel"} < set(names)
    for name in names:
        with pytest.raises(
            FlowError, match=rf"{name}: it needs a Graph, got \w+\. Make one .*Graph\(edges\)"
        ):
            getattr(graphs, name)(wrong, **needed.get(name, {}))


@pytest.mark.parametrize("given", ["graph", "text"])
def test_components_of_edges_that_are_given_something_else_name_the_edges_of_a_graph(given: str) -> None:
    edges = ps.Dataflow("given").stream_input("edges", "src long, dst long")
    wrong: Any = graphs.Graph(edges) if given == "graph" else "edges"
    with pytest.raises(
        FlowError, match=r"needs a Stream or a Table of edges, got (Graph|str)\. .*graph\.edges"
    ):
        graphs.connected_components(wrong)


def test_vertices_that_are_given_as_a_stream_are_refused_with_what_to_give() -> None:
    flow = ps.Dataflow("given")
    graph = graphs.Graph(flow.stream_input("edges", "src long, dst long"))
    for wrong in (flow.stream_input("starts", "id long"), graph):
        with pytest.raises(FlowError, match=r"vertices of .* got (Stream|Graph)\. Give"):
            graphs.bfs(graph, wrong)  # type: ignore[arg-type]
