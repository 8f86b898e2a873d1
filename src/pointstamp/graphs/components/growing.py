"""Connected components of a graph to which edges are only added.

    edges = flow.stream_input("edges", "src long, dst long")
    flow.output("components", connected_components(edges))        # vertex long, component long

The component of a vertex is named by its least vertex. An epoch's result has exactly the vertices that were
new in it or have another component than before, each once; kept by vertex, the results of epochs 0 to e are
the components of the edges of epochs 0 to e.

The flow is one loop around one operator. A worker owns the vertices that hash to it and joins what it can by
itself, whole epochs of edges at a time (``forest``); what concerns vertices of others goes round, by owner,
until no worker has anything to send. With one worker that is never; with several the rounds grow with the
logarithm of the longest path between labels, not with its length.

Epochs may overlap on the way in, but the labels have one version, so the operator takes them one after the
other (``least_labels``). Edges are added only (``edge_pairs``); taking one away could split a component,
which labels alone cannot tell.
"""

import pyarrow as pa

from pointstamp import Stream, Table, operator
from pointstamp.errors import FlowError, SchemaError
from pointstamp.graphs.components.edge_pairs import FACTS, EdgesToPairs
from pointstamp.graphs.components.least_labels import LeastLabels


def connected_components(
    edges: Stream | Table, *, src: str = "src", dst: str = "dst", diff: str | None = None
) -> Stream:
    """The component of every vertex, as "vertex long, component long": per epoch those that changed.

    ``src`` and ``dst`` name the columns of the two ends, whole numbers; which end is which does not matter,
    an edge may come again, and an edge from a vertex to itself makes the vertex known. ``diff`` names a
    column that says how often each edge is added, at least once: an edge that is to be taken away is refused.
    A table of edges must be one that only grows; of one from which edges are taken away, components are a
    loop: ``vertices.iterate(...)``.
    """
    if isinstance(edges, Table):
        edges = _added_edges(edges)
    _check_stream(edges, src, dst, diff)
    pairs = operator("edges to pairs", EdgesToPairs(src, dst, diff), edges=edges)
    with pairs.loop("labels") as loop:
        facts = loop.variable(FACTS, "facts")
        again, labels = operator(
            "least labels",
            LeastLabels(),
            edges=loop.enter(pairs).exchange("vertex"),
            again=facts.exchange("vertex"),
        )
        loop.feedback(facts, again)
        components: Stream = loop.leave(labels)
    return components


def _added_edges(edges: Table) -> Stream:
    if not edges.is_append_only:
        raise FlowError(
            f"connected_components of {edges}: edges of this table can be deleted, and joined labels "
            "cannot be separated. Give a table that only grows, or propagate the least vertex along the "
            "edges with iterate: labels.iterate(lambda x, labels, edges: x.join(edges, "
            "{'vertex': 'src'}).select(vertex=ps.col('dst'), "
            "component=ps.col('component')).union(labels).group_by('vertex').agg("
            "component=ps.min('component')), labels, edges)."
        )
    return edges.to_stream().named("edges that are added")


def _check_stream(edges: object, src: str, dst: str, diff: str | None) -> None:
    if not isinstance(edges, Stream):
        raise FlowError(
            f"connected_components: it needs a Stream or a Table of edges, got {type(edges).__name__}. Give "
            "the edges, such as graph.edges, or use ps.graphs.wcc(graph), from which edges can be deleted."
        )
    if edges.loops:
        raise FlowError(
            f"connected_components of {edges}: the edges must be outside of loops, got a stream in loop "
            f"'{edges.loops[-1]}'. Leave the loop first."
        )
    for name in (src, dst, *(() if diff is None else (diff,))):
        found = edges.schema.field(name).type if edges.schema.names.count(name) == 1 else None
        if found is None or not pa.types.is_signed_integer(found):
            what = "not among them" if found is None else f"of type {found}"
            raise SchemaError(
                f"connected_components of {edges} needs integers (long) in column '{name}', which is {what}; "
                f"the columns are {', '.join(map(repr, edges.schema.names))}. Name the columns with src=, "
                "dst= and diff=, or number the vertices first."
            )
