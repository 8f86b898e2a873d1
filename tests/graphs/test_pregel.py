"""Messages along edges and vertex programs, on graphs that change.

Families, and what only each can find:
- *oracle*: the same added up by hand, and shortest paths and ranks by networkx, after every epoch.
- *rounds*: a number of rounds, and a program that never ends.
- *refusal*: what must not be asked, and what is said about it.
"""

from collections import defaultdict
from typing import Any

import networkx as nx
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import pointstamp as ps
from pointstamp.errors import FlowError
from pointstamp.graphs import Graph, aggregate_messages, pregel, triplets
from support.changing_graphs import Edge, changing_edges, edge_tables, edges_after, graph_input, values_of

EPOCHS = 5
FAR = 1_000


def test_what_is_sent_to_both_ends_is_added_up_after_every_epoch() -> None:
    flow = ps.Dataflow("messages")
    people = flow.table("people", "id long, age long")
    graph = graph_input(flow, vertices=people)
    told = aggregate_messages(
        graph, to_src=ps.col("dst_age"), to_dst=ps.col("src_age"), total=ps.sum("msg"), most=ps.max("msg")
    )
    flow.output("told", told)
    changes = changing_edges(1, EPOCHS)
    ages = [{"id": vertex, "age": vertex * vertex} for vertex in range(12)]
    results = flow.run(edges=edge_tables(changes), people=[ages], workers=2)
    for epoch in range(EPOCHS):
        came: dict[Any, list[int]] = defaultdict(list)
        for src, dst in edges_after(changes, epoch):
            came[src].append(dst * dst)
            came[dst].append(src * src)
        table = results.table("told", as_of=epoch)
        assert values_of(table, "total") == {vertex: sum(values) for vertex, values in came.items()}
        assert values_of(table, "most") == {vertex: max(values) for vertex, values in came.items()}


def test_a_message_may_have_several_columns_and_use_the_edge() -> None:
    flow = ps.Dataflow("messages")
    graph = Graph(flow.stream_input("roads", "src string, dst string, km double"))
    message = {"km": ps.col("km"), "from": ps.col("src")}
    flow.output("told", aggregate_messages(graph, to_dst=message, nearest=ps.min_by("from", "km")))
    rows = [{"src": "a", "dst": "c", "km": 2.5}, {"src": "b", "dst": "c", "km": 1.0}]
    assert values_of(flow.run(roads=[rows]).table("told"), "nearest") == {"c": "b"}


def test_a_triplet_has_the_properties_of_both_ends() -> None:
    flow = ps.Dataflow("triplets")
    graph = Graph(
        flow.stream_input("edges", "src long, dst long, kind string"),
        flow.stream_input("people", "id long, name string"),
    )
    flow.output("triplets", triplets(graph))
    rows = flow.run(edges=[[{"src": 1, "dst": 2, "kind": "x"}]], people=[[{"id": 1, "name": "ada"}]]).table(
        "triplets"
    )
    assert rows.to_pylist() == [{"src": 1, "dst": 2, "kind": "x", "src_name": "ada", "dst_name": None}]


def hops(graph: Graph, **options: Any) -> ps.Table:  # noqa: ANN401 - as pregel's
    """How far each vertex is from vertex 0, by a vertex program."""
    return pregel(
        graph,
        start={"dist": ps.when(ps.col("id") == 0, 0).otherwise(FAR)},
        to_dst=ps.col("src_dist") + 1,
        aggregates={"least": ps.min("msg")},
        update={"dist": ps.functions.least(ps.col("dist"), ps.functions.coalesce("least", ps.lit(FAR)))},
        **options,
    )


@pytest.mark.parametrize("workers", [1, 3])
def test_distances_by_a_vertex_program_are_those_of_networkx_with_deletions(workers: int) -> None:
    flow = ps.Dataflow("hops")
    flow.output("hops", hops(graph_input(flow)))
    changes = changing_edges(6, EPOCHS)
    results = flow.run(edges=edge_tables(changes), workers=workers)
    for epoch in range(EPOCHS):
        graph = nx.DiGraph(edges_after(changes, epoch))
        reached = nx.single_source_shortest_path_length(graph, 0) if 0 in graph else {}
        wanted = {vertex: reached.get(vertex, FAR) for vertex in graph}
        assert values_of(results.table("hops", as_of=epoch), "dist") == wanted


def brin_and_page(edges: list[Edge], rounds: int) -> dict[Any, float]:
    ids = {end for edge in edges for end in edge}
    out = {vertex: sum(src == vertex for src, _ in edges) for vertex in ids}
    ranks = dict.fromkeys(ids, 1.0)
    for _ in range(rounds):
        shares = {vertex: ranks[vertex] / max(out[vertex], 1) for vertex in ids}
        ranks = {v: 0.15 + 0.85 * sum(shares[src] for src, dst in edges if dst == v) for v in ids}
    return ranks


def test_a_function_of_batches_goes_so_many_rounds() -> None:
    def update(batch: pa.RecordBatch) -> pa.RecordBatch:
        total = pc.fill_null(batch["total"], 0.0)
        rank = pc.add(0.15, pc.multiply(0.85, total))
        return pa.record_batch({"id": batch["id"], "rank": rank, "out": batch["out"]})

    flow = ps.Dataflow("ranks")
    graph = graph_input(flow)
    sizes = graph.ids.join(graph.links.count("src"), {"id": "src"}, how="left").select(
        "id", size=ps.functions.coalesce("count", ps.lit(1))
    )
    sized = Graph(graph.edges, sizes)
    ranks = pregel(
        sized,
        start={"rank": ps.lit(1.0), "out": ps.col("size").cast("double")},
        to_dst=ps.col("src_rank") / ps.col("src_out"),
        aggregates={"total": ps.sum("msg")},
        update=update,
        rounds=3,
    )
    flow.output("ranks", ranks)
    changes = changing_edges(2, EPOCHS)
    results = flow.run(edges=edge_tables(changes), workers=2)
    for epoch in range(EPOCHS):
        wanted = brin_and_page(edges_after(changes, epoch), 3)
        assert values_of(results.table("ranks", as_of=epoch), "rank") == pytest.approx(wanted)


def test_a_program_that_never_ends_is_an_error_that_shows_its_last_rounds() -> None:
    flow = ps.Dataflow("endless")
    endless = pregel(
        graph_input(flow),
        start={"n": ps.lit(0)},
        to_dst=ps.col("src_n"),
        aggregates={"most": ps.max("msg")},
        update={"n": ps.col("n") + 1},
        max_rounds=5,
    )
    flow.output("n", endless)
    with pytest.raises(ps.errors.PointstampError, match="'pregel' has not converged in 5 rounds"):
        flow.run(edges=edge_tables([[((1, 2), 1)]]))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"start": {}}, "must define at least one column"),
        ({"start": {"id": ps.lit(1)}}, "none with the name 'id'"),
        ({"update": {"x": ps.lit(1)}}, "must have the columns of start= .n., got x"),
        ({"aggregates": {"n": ps.max("msg")}}, "'n' names an aggregate and a column of the state"),
        ({"rounds": -1}, "rounds must be an integer of 0 or more, got -1"),
        ({"to_dst": None}, "Give to_src, to_dst or both"),
        ({"to_dst": {"id": ps.col("src")}}, "a message cannot have a column 'id'"),
    ],
)
def test_what_is_no_program_is_refused_when_the_flow_is_written(options: dict[str, Any], said: str) -> None:
    asked: dict[str, Any] = {
        "start": {"n": ps.lit(0)},
        "to_dst": ps.col("src_n"),
        "aggregates": {"most": ps.max("msg")},
        "update": {"n": ps.col("n")},
    }
    with pytest.raises(FlowError, match=said):
        pregel(graph_input(ps.Dataflow("refused")), **(asked | options))


def test_a_property_that_would_have_two_meanings_is_refused() -> None:
    flow = ps.Dataflow("messages")
    edges = flow.stream_input("edges", "src long, dst long, src_age long")
    people = flow.stream_input("people", "id long, age long")
    with pytest.raises(FlowError, match="a triplet has 'src_age' twice"):
        triplets(Graph(edges, people))
