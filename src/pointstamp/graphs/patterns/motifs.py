"""Motif search, in the language of GraphFrames.

    triangles = graphs.find(graph, "(a)-[e]->(b); (b)-[]->(c); !(c)-[]->(a)")
    triangles.select("a.id", "c.id", "e.weight")

The result has a row for each way to find the motif. Of a vertex that has a name, say a, there is ``a.id`` and
each of its properties, ``a.name``; of an edge e there is ``e.src``, ``e.dst`` and its properties. Vertices
with different names may be the same; a condition on them is a ``filter``.

A motif is a join: each term brings the edges, and meets what was found before in the vertices that both name.
Terms with ! take away what has such an edge. So what comes and goes with an edge is found by joins, too, and
a change costs the motifs in which it takes part, and those that are found of the terms before it.
"""

from collections.abc import Sequence

from pointstamp import Table, col, lit
from pointstamp.graphs.graph import DST, ID, SRC, Graph, check_graph
from pointstamp.graphs.patterns.motif_text import EdgeTerm, Term, VertexTerm, names_of, terms_of


def find(graph: Graph, motif: str) -> Table:
    """All places where the motif is found, such as ``"(a)-[e]->(b); !(b)-[]->(a)"``, as often as it is.

    Terms without a vertex in common are all pairs. In a graph that is not directed an edge leads both ways.
    """
    check_graph("find", graph)
    terms = terms_of(motif)
    edges = _edges(graph)
    found: Table | None = None
    bound: set[str] = set()
    for number, term in enumerate(terms):
        if isinstance(term, VertexTerm) and term.vertex not in bound:
            any_vertex = graph.ids.select(**{f"{term.vertex}.{ID}": col(ID)})
            found = _joined(found, any_vertex, [])
            bound.add(term.vertex)
        elif isinstance(term, EdgeTerm) and not term.is_negated:
            shared = [f"{name}.{ID}" for name in term.vertices if name in bound]
            found = _joined(found, _of_term(edges, term, number), shared)
            bound |= set(term.vertices)
    assert found is not None, "some term without ! names something"
    for number, term in enumerate(terms):
        if isinstance(term, EdgeTerm) and term.is_negated:
            ends = [f"{name}.{ID}" for name in term.vertices]
            found = found.join(_of_term(edges, term, number), ends, how="anti").named("motif: not there")
    return _with_properties(graph, found, terms)


def _edges(graph: Graph) -> Table:
    """The edges with their properties, in the directions in which they lead."""
    if graph.directed:
        return graph.edges
    between = graph.edges.filter(col(SRC) != col(DST)).named("motif: between two")
    turned = between.with_columns(**{SRC: col(DST), DST: col(SRC)}).named("motif: the other way")
    return graph.edges.union(turned).named("motif: both ways")


def _of_term(edges: Table, term: EdgeTerm, number: int) -> Table:
    """The edges of a term, under its names; of an edge of which nothing has a name its number."""
    if term.src is not None and term.src == term.dst:
        edges = edges.filter(col(SRC) == col(DST)).named("motif: loops")
    columns = {
        f"{name}.{ID}": col(end) for name, end in ((term.src, SRC), (term.dst, DST)) if name is not None
    }
    if term.edge is not None:
        columns |= {f"{term.edge}.{column}": col(column) for column in edges.schema.names}
    return edges.select(**(columns or {f"#{number}": lit(number)})).named("motif: a term")


def _joined(found: Table | None, more: Table, shared: list[str]) -> Table:
    if found is None:
        return more
    if not shared:
        return found.join(more, how="cross").named("motif: all pairs")
    return found.join(more, shared).named("motif: one term more")


def _with_properties(graph: Graph, found: Table, terms: Sequence[Term]) -> Table:
    """What has a name, in the order of the text: vertices and edges with all their properties."""
    of_edges, of_vertices = graph.edges.schema.names, graph.vertices.schema.names
    columns = []
    for name, is_edge in names_of(terms):
        columns += [f"{name}.{column}" for column in (of_edges if is_edge else of_vertices)]
        if not is_edge and len(of_vertices) > 1:
            theirs = {f"{name}.{column}": col(column) for column in of_vertices}
            vertices = graph.vertices.select(**theirs).named(f"motif: vertices {name}")
            found = found.join(vertices, f"{name}.{ID}").named(f"motif: properties of {name}")
    return found.select(*columns).named("motif")
