"""Motifs in graphs that change: the same as all assignments of vertices and edges, tried one by one.

Families, and what only each can find:
- *oracle*: every assignment of edges to the terms, after every epoch; a random motif of up to four terms.
- *columns*: what they are called, in which order, and the properties of vertices and edges.
- *refusal*: texts that are none, and what is said about them.
"""

import itertools
import random
from collections import Counter
from typing import Any

import pytest

import pointstamp as ps
from pointstamp.errors import FlowError
from pointstamp.graphs import Graph, find
from pointstamp.graphs.motifs import EdgeTerm, Term, VertexTerm, names_of, terms_of
from support.changing_graphs import Edge, changing_edges, edge_tables, edges_after, graph_input

MOTIFS = [
    "(a)-[e]->(b)",
    "(a)-[]->(b); (b)-[]->(c); !(c)-[]->(a)",
    "(a)<-[e]-(b); (b)-[f]->(a)",
    "(a)-[]->(); !()-[]->(a)",
    "(a)-[e]->(a)",
    "(a)-[]->(b); (c)-[]->(d)",
    "(a)-[e]->(b); (c); !(c)-[]->(a)",
    "()-[e]->(); (a)",
    "()-[]->(); (a); !(a)-[]->(a)",
]


def by_trying(motif: str, edges: list[Edge]) -> Counter[tuple[Any, ...]]:
    """Every assignment of edges to the terms that agrees in its vertices, by the names of the motif."""
    terms = terms_of(motif)
    positive = [term for term in terms if isinstance(term, VertexTerm) or not term.is_negated]
    ids = sorted({end for edge in edges for end in edge})
    found: Counter[tuple[Any, ...]] = Counter()
    for chosen in itertools.product(*(ids if isinstance(term, VertexTerm) else edges for term in positive)):
        bound = _bound(positive, chosen)
        if bound is not None and not any(_is_there(term, bound, edges) for term in terms):
            found[tuple(bound[name] for name, _ in names_of(terms))] += 1
    return found


def _bound(terms: list[Term], chosen: tuple[Any, ...]) -> dict[str, Any] | None:
    bound: dict[str, Any] = {}
    for term, value in zip(terms, chosen, strict=True):
        pairs: list[tuple[str | None, Any]]
        if isinstance(term, VertexTerm):
            pairs = [(term.vertex, value)]
        else:
            pairs = [(term.src, value[0]), (term.dst, value[1]), (term.edge, value)]
        for name, each in pairs:
            if name is not None and bound.setdefault(name, each) != each:
                return None
    return bound


def _is_there(term: Term, bound: dict[str, Any], edges: list[Edge]) -> bool:
    """Whether there is an edge that a term with ! rules out."""
    if isinstance(term, VertexTerm) or not term.is_negated:
        return False
    return any(
        (term.src is None or bound[term.src] == src) and (term.dst is None or bound[term.dst] == dst)
        for src, dst in edges
    )


def _rows(motif: str, rows: list[dict[str, Any]]) -> Counter[tuple[Any, ...]]:
    return Counter(
        tuple(
            (row[f"{name}.src"], row[f"{name}.dst"]) if is_edge else row[f"{name}.id"]
            for name, is_edge in names_of(terms_of(motif))
        )
        for row in rows
    )


def random_motif(seed: int) -> str:
    """A motif of two to four terms over few names."""
    rng = random.Random(seed)
    terms = ["(a)-[]->(b)"]
    for number in range(rng.randrange(1, 4)):
        one, other = (rng.choice(["a", "b", "c", ""]) for _ in range(2))
        edge = rng.choice(["", f"e{number}"])
        terms.append(f"({one})-[{edge}]->({other})")
    if rng.random() < 0.6:
        terms.append("!" + rng.choice(["(b)-[]->(a)", "(a)-[]->(a)", "()-[]->(a)"]))
    return "; ".join(terms)


@pytest.mark.parametrize("motif", [*MOTIFS, *(random_motif(seed) for seed in range(4))])
def test_a_motif_is_found_wherever_trying_everything_finds_it(motif: str) -> None:
    flow = ps.Dataflow("motifs")
    flow.output("found", find(graph_input(flow), motif))
    changes = changing_edges(3, 4, vertices=5, most=6)
    results = flow.run(edges=edge_tables(changes), workers=1 + len(motif) % 3)
    for epoch in range(4):
        found = _rows(motif, results.table("found", as_of=epoch).to_pylist())
        assert found == by_trying(motif, edges_after(changes, epoch)), epoch


def test_in_a_graph_without_directions_an_edge_leads_both_ways() -> None:
    flow = ps.Dataflow("motifs")
    flow.output("found", find(graph_input(flow, directed=False), "(a)-[]->(b)"))
    results = flow.run(edges=edge_tables([[((1, 2), 1), ((3, 3), 1)]]))
    rows = results.table("found").to_pylist()
    assert sorted((row["a.id"], row["b.id"]) for row in rows) == [(1, 2), (2, 1), (3, 3)]


def test_vertices_and_edges_come_with_their_properties_in_the_order_of_the_text() -> None:
    flow = ps.Dataflow("motifs")
    edges = flow.table("edges", "id long, src string, dst string, since long")
    people = flow.table("people", "id string, age long")
    found = find(Graph(edges, people), "(a)-[e]->(b); (b)-[]->(c)")
    assert found.schema.names == [
        *("a.id", "a.age", "e.id", "e.src", "e.dst", "e.since", "b.id", "b.age", "c.id", "c.age")
    ]
    flow.output("old", found.filter(ps.col("b.age") > 30).select("a.id", "e.since", "c.age"))
    results = flow.run(
        edges=[
            [
                {"id": 1, "src": "x", "dst": "y", "since": 7},
                {"id": 2, "src": "y", "dst": "x", "since": 8},
                {"id": 3, "src": "y", "dst": "z", "since": 9},
            ]
        ],
        people=[[{"id": "x", "age": 20}, {"id": "y", "age": 40}]],
    )
    rows = sorted(results.table("old").to_pylist(), key=str)
    assert rows == [
        {"a.id": "x", "e.since": 7, "c.age": 20},
        {"a.id": "x", "e.since": 7, "c.age": None},
    ]


@pytest.mark.parametrize(
    ("motif", "said"),
    [
        ("", "the motif is empty"),
        ("(a)-[e]-(b)", "'\\(a\\)-\\[e\\]-\\(b\\)' is not a term"),
        ("(a)<-[e]->(b)", "is not a term"),
        ("(a)-[e*2]->(b)", "is not a term"),
        ("(a)-[e]->(b); (b)-[e]->(c)", "two edges have the name 'e'"),
        ("(a)-[a]->(b)", "'a' names an edge and a vertex"),
        ("(a)-[]->(b); !(a)-[e]->(b)", "a negated edge cannot have a name, got 'e'"),
        ("(a)-[]->(b); !(a)-[]->(c)", "the vertex 'c' occurs only in a negated term. Add \\(c\\)"),
        ("(a); !()-[]->()", "names no vertex"),
        ("()-[]->()", "no vertex or edge has a name"),
    ],
)
def test_a_text_that_is_no_motif_is_refused_with_its_place(motif: str, said: str) -> None:
    with pytest.raises(FlowError, match=said):
        find(graph_input(ps.Dataflow("motifs")), motif)


def test_names_are_read_as_graphframes_reads_them() -> None:
    assert terms_of(" ( a ) - [e] -> (b1_) ; ") == [EdgeTerm("a", "e", "b1_")]
