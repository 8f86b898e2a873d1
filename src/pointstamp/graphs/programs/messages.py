"""Messages along edges, aggregated at the receiver (aggregateMessages of GraphFrames).

    ages = graphs.aggregate_messages(graph, to_dst=ps.col("src_age"), total=ps.sum("msg"))

A message is worked out of a *triplet*, an edge with both of its ends: ``src``, ``dst`` and the properties of
the edge, and those of the ends as ``src_age`` and ``dst_age``. It goes to one end or the other, and what has
come to a vertex is aggregated. A change costs its triplets, and what the aggregates say of theirs.
"""

from collections.abc import Mapping
from typing import Any, TypeAlias

from pointstamp import Expression, Table, col
from pointstamp.errors import FlowError
from pointstamp.graphs.graph import DST, ID, SRC, Graph, check_graph

Message: TypeAlias = Expression | Mapping[str, Any]
"""One value, which is called ``msg``, or several by name; values are expressions or constants."""


def triplets(graph: Graph) -> Table:
    """Every edge with its properties and those of its ends: ``src``, ``dst``, ``src_age``, ``dst_age``."""
    check_graph("triplets", graph)
    return with_ends(graph.edges, graph.vertices)


def with_ends(edges: Table, vertices: Table) -> Table:
    """The edges, with the columns of the vertices at both ends, each under the name of its end."""
    columns = [column for column in vertices.schema.names if column != ID]
    for end in (SRC, DST) if columns else ():
        named = {f"{end}_{column}": col(column) for column in columns}
        clash = next((column for column in named if column in edges.schema.names), None)
        if clash is not None:
            raise FlowError(
                f"a triplet has '{clash}' twice: as a property of edges, and as a property of vertices at "
                f"'{end}'. Rename one of them."
            )
        edges = edges.join(vertices.select(**{end: col(ID), **named}), end).named(f"triplets: {end}")
    return edges


def aggregate_messages(
    graph: Graph,
    *,
    to_src: Message | None = None,
    to_dst: Message | None = None,
    aggregates: Mapping[str, Any] | None = None,
    **named: Any,  # noqa: ANN401 - aggregates, as reduce takes them
) -> Table:
    """``id`` and aggregates of what was sent to it, for every vertex to which something was sent.

    ``to_src`` and ``to_dst`` are expressions over the columns of triplets; with one of them, or both, each
    edge sends a message to that end. In a graph that is not directed ends are as the edges say.
    """
    check_graph("aggregate_messages", graph)
    sent = messages_of("aggregate_messages", triplets(graph), to_src, to_dst)
    return sent.group_by(ID).agg({**(aggregates or {}), **named})


def messages_of(who: str, of: Table, to_src: Message | None, to_dst: Message | None) -> Table:
    """Return the messages of triplets: ``id`` and the message columns."""
    parts = []
    for end, message in ((SRC, to_src), (DST, to_dst)):
        if message is not None:
            columns = {"msg": message} if isinstance(message, Expression) else dict(message)
            if ID in columns:
                raise FlowError(
                    f"{who}: a message cannot have a column '{ID}', which is reserved for its "
                    "receiver. Rename it."
                )
            parts.append(of.select(**{ID: col(end), **columns}))
    if not parts:
        raise FlowError(f"{who}: no message was defined. Give to_src, to_dst or both.")
    return parts[0] if len(parts) == 1 else parts[0].union(parts[1]).named("messages")
