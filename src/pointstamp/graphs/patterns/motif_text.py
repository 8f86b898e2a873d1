"""Parse a GraphFrames motif into terms.

    (a)-[e]->(b); (b)-[]->(c); !(c)-[]->(a); (d)

A term is an edge between two vertices, the other way round with ``<-[e]-``, an edge that must not be there,
with ``!`` before it, or a vertex by itself. An unnamed vertex matches any vertex, in each place separately.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from pointstamp.errors import FlowError

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
