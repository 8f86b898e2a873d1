"""Communities by label propagation, after every epoch, beside the definition carried out by hand.

Families, and what only each can find:
- *oracle*: the definition, vertex by vertex, over all edges so far; exactly the
  same, as Graphalytics validates.
- *journey*: saved after some epochs, and taken up by other workers.
- *meaning*: ties, edges both ways, copies, loops, vertices without edges.
"""

from collections import Counter
from typing import Any

import pytest

import pointstamp as ps
from pointstamp.errors import FlowError
from pointstamp.graphs import cdlp
from support.changing_graphs import Edge, changing_edges, edge_tables, edges_after, graph_input, values_of
from support.journeys import Journey

EPOCHS = 5


def by_hand(edges: list[Edge], rounds: int, *, directed: bool) -> dict[Any, Any]:
    """Each vertex takes the most frequent label of its neighbours, the least of several."""
    beside: dict[Any, list[Any]] = {end: [] for edge in edges for end in edge}
    for src, dst in edges:
        beside[dst].append(src)
        if directed or src != dst:
            beside[src].append(dst)
    labels = {vertex: vertex for vertex in beside}
    for _ in range(rounds):
        before = dict(labels)
        for vertex, others in beside.items():
            votes = Counter(before[other] for other in others)
            labels[vertex] = min(votes, key=lambda label: (-votes[label], label))
    return labels


@pytest.mark.parametrize(
    ("seed", "workers", "rounds", "directed"),
    [(0, 1, 1, True), (1, 2, 3, True), (2, 3, 10, True), (3, 2, 4, False)],
)
def test_communities_are_those_of_the_definition_after_every_epoch(
    seed: int, workers: int, rounds: int, directed: bool
) -> None:
    flow = ps.Dataflow("communities")
    flow.output("communities", cdlp(graph_input(flow, directed=directed), rounds=rounds))
    changes = changing_edges(seed, EPOCHS, vertices=16, most=24)
    results = flow.run(edges=edge_tables(changes), workers=workers)
    for epoch in range(EPOCHS):
        found = values_of(results.table("communities", as_of=epoch), "label")
        assert found == by_hand(edges_after(changes, epoch), rounds, directed=directed), epoch


@pytest.mark.parametrize("route", [(1, 3, 2), (3, 2, 1), (2, 2, 2)])
def test_communities_go_on_from_what_was_saved_on_any_workers(route: tuple[int, int, int]) -> None:
    flow = ps.Dataflow("communities")
    flow.output("communities", cdlp(graph_input(flow), rounds=4))
    changes = changing_edges(11, 9, vertices=30, most=40)
    tables = edge_tables(changes)
    there: Counter[Any] = Counter()
    with Journey(flow.plan, route[0]) as run:
        for epoch, table in enumerate(tables):
            run.next_epoch({"edges": table.to_batches()})
            run.save(changes_only=epoch % 4 != 0)
            if epoch % 3 == 2 and epoch < 8:
                run.go_on(route[epoch // 3 + 1])
        run.finish()
        for epoch in range(9):
            result = run.results.get(("communities", epoch))
            for row in [] if result is None else result.to_pylist():
                there[row["id"], row["label"]] += row["diff"]
            wanted = by_hand(edges_after(changes, epoch), 4, directed=True)
            assert +there == Counter(wanted.items()), epoch
            assert min(there.values()) >= 0, "a label was taken back that was not there"


def communities(edges: list[Edge], rounds: int, named: str = "{}") -> dict[Any, Any]:
    flow = ps.Dataflow("communities")
    key = "long" if named == "{}" else "string"
    flow.output("communities", cdlp(graph_input(flow, key), rounds=rounds))
    results = flow.run(edges=edge_tables([[(edge, 1) for edge in edges]], named))
    return dict(values_of(results.table("communities"), "label"))


def test_of_several_labels_the_least_wins_and_an_edge_both_ways_counts_twice() -> None:
    assert communities([(2, 5), (3, 5)], 1) == {2: 5, 3: 5, 5: 2}
    assert communities([(2, 5), (3, 5), (5, 3)], 1) == {2: 5, 3: 5, 5: 3}


def test_ids_may_be_texts() -> None:
    assert communities([(2, 5), (3, 5)], 1, "v{}") == {"v2": "v5", "v3": "v5", "v5": "v2"}


def test_without_rounds_or_edges_everybody_keeps_the_own_label() -> None:
    assert communities([(1, 2)], 0) == {1: 1, 2: 2}
    flow = ps.Dataflow("communities")
    vertices = flow.table("vertices", "id long")
    flow.output("communities", cdlp(graph_input(flow, vertices=vertices), rounds=2))
    results = flow.run(edges=edge_tables([[((1, 2), 1)]]), vertices=[[{"id": 7}, {"id": 2}]])
    assert values_of(results.table("communities"), "label") == {1: 1, 2: 2, 7: 7}


def test_a_number_of_rounds_below_zero_is_refused() -> None:
    with pytest.raises(FlowError, match="rounds must be an integer of 0 or more, got -1"):
        cdlp(graph_input(ps.Dataflow("communities")), rounds=-1)
