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

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from pointstamp import Table, col, lit
from pointstamp.errors import FlowError
from pointstamp.graphs.edge_tables import DST, ID, SRC, Graph, check_graph


def find(graph: Graph, motif: str) -> Table:
    """Find all matches of a motif, with multiplicity.

    Args:
        graph: The graph. In an undirected graph an edge matches both ways.
        motif: Terms such as ``"(a)-[e]->(b); !(b)-[]->(a)"``. Terms without a common vertex are all pairs.

    Returns:
        A table with the properties of the named vertices and edges, in columns such as ``a.id``.

    Examples:
        >>> flow = ps.Dataflow("graph")
        >>> graph = ps.graphs.Graph(flow.table("edges", "src long, dst long"))
        >>> flow.output("out", ps.graphs.find(graph, "(a)-[]->(b); (b)-[]->(c)"))
        >>> flow.run(edges=pa.table({"src": [1, 2], "dst": [2, 3]})).table("out").to_pylist()
        [{'a.id': 1, 'b.id': 2, 'c.id': 3}]

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


# Parse a GraphFrames motif into terms.
#
#     (a)-[e]->(b); (b)-[]->(c); !(c)-[]->(a); (d)
#
# A term is an edge between two vertices, the other way round with ``<-[e]-``, an edge that must not be there,
# with ``!`` before it, or a vertex by itself. An unnamed vertex matches any vertex, in each place separately.

_NAME: Final = r"\s*([A-Za-z_]\w*)?\s*"
_VERTEX: Final = rf"\({_NAME}\)"
_EDGE: Final = re.compile(rf"(!)?\s*{_VERTEX}\s*(<?)-\s*\[{_NAME}\]\s*-(>?)\s*{_VERTEX}")
_ALONE: Final = re.compile(_VERTEX)


@dataclass(frozen=True, slots=True)
class EdgeTerm:
    """An edge that must be there, or must not be; None is a name that was left out."""

    src: str | None
    edge: str | None
    dst: str | None
    is_negated: bool = False

    @property
    def vertices(self) -> tuple[str, ...]:
        """The vertices that have a name, each once."""
        return tuple(dict.fromkeys(name for name in (self.src, self.dst) if name is not None))


@dataclass(frozen=True, slots=True)
class VertexTerm:
    """Any vertex."""

    vertex: str


Term = EdgeTerm | VertexTerm


def terms_of(motif: str) -> list[Term]:
    """The terms of a motif, checked; FlowError says what is wrong with it, and where.

    >>> terms_of("(a)-[e]->(b); !(b)-[]->(a)")  # doctest: +NORMALIZE_WHITESPACE
    [EdgeTerm(src='a', edge='e', dst='b', is_negated=False),
     EdgeTerm(src='b', edge=None, dst='a', is_negated=True)]
    """
    if not motif.strip():
        raise FlowError("find: the motif is empty. Give at least one term, such as (a)-[e]->(b).")
    terms = [_term(text.strip(), motif) for text in motif.strip().rstrip(";").split(";")]
    _check(terms, motif)
    return terms


def names_of(terms: Sequence[Term]) -> list[tuple[str, bool]]:
    """The names in a motif, in the order of the text, each with whether it is that of an edge.

    >>> names_of(terms_of("(a)-[e]->(b); (b)-[]->(); (d)"))
    [('a', False), ('e', True), ('b', False), ('d', False)]
    """
    found: dict[str, bool] = {}
    for term in terms:
        for name in (term.vertex,) if isinstance(term, VertexTerm) else (term.src, term.edge, term.dst):
            if name is not None:
                found.setdefault(name, isinstance(term, EdgeTerm) and name == term.edge)
    return list(found.items())


def _term(text: str, motif: str) -> Term:
    if (edge := _EDGE.fullmatch(text)) is not None:
        negated, left, back, name, forth, right = edge.groups()
        if bool(back) != bool(forth):
            src, dst = (right, left) if back else (left, right)
            return EdgeTerm(src, name, dst, negated is not None)
    elif (alone := _ALONE.fullmatch(text)) is not None and alone[1] is not None:
        return VertexTerm(alone[1])
    raise FlowError(
        f"motif '{motif}': '{text}' is not a term. Write (a)-[e]->(b), (a)<-[e]-(b), !(a)-[]->(b) or (a); "
        "names begin with a letter, and edge names are optional."
    )


def _check(terms: Sequence[Term], motif: str) -> None:
    there = [term for term in terms if isinstance(term, VertexTerm) or not term.is_negated]
    names = names_of(there)
    vertices = {name for term in there for name in _vertices(term)}
    edges = [term.edge for term in terms if isinstance(term, EdgeTerm) and term.edge is not None]
    for name in edges:
        if edges.count(name) > 1:
            raise FlowError(f"motif '{motif}': two edges have the name '{name}'. Give each a different name.")
        if name in vertices:
            raise FlowError(f"motif '{motif}': '{name}' names an edge and a vertex. Rename one of them.")
    for term in terms:
        if isinstance(term, EdgeTerm) and term.is_negated:
            _check_negated(term, vertices, motif)
    if not names:
        raise FlowError(f"motif '{motif}': no vertex or edge has a name. Name what to return.")


def _check_negated(term: EdgeTerm, bound: set[str], motif: str) -> None:
    if term.edge is not None:
        raise FlowError(
            f"motif '{motif}': a negated edge cannot have a name, got '{term.edge}'. Remove the name."
        )
    if not term.vertices:
        raise FlowError(f"motif '{motif}': !()-[]->() names no vertex. Name at least one of its ends.")
    for name in term.vertices:
        if name not in bound:
            raise FlowError(
                f"motif '{motif}': the vertex '{name}' occurs only in a negated term. Add ({name}) to "
                "match any vertex."
            )


def _vertices(term: Term) -> tuple[str, ...]:
    return (term.vertex,) if isinstance(term, VertexTerm) else term.vertices


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
    """The named vertices and edges, in the order of the text, with all their properties."""
    of_edges, of_vertices = graph.edges.schema.names, graph.vertices.schema.names
    columns = []
    for name, is_edge in names_of(terms):
        columns += [f"{name}.{column}" for column in (of_edges if is_edge else of_vertices)]
        if not is_edge and len(of_vertices) > 1:
            theirs = {f"{name}.{column}": col(column) for column in of_vertices}
            vertices = graph.vertices.select(**theirs).named(f"motif: vertices {name}")
            found = found.join(vertices, f"{name}.{ID}").named(f"motif: properties of {name}")
    return found.select(*columns).named("motif")
