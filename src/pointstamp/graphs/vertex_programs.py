"""Vertex programs in rounds, as in Pregel (Malewicz et al. 2010), with deletions: custom graph algorithms.

    nearest = graphs.pregel(
        graph,
        start={"dist": ps.when(ps.col("id") == 1, 0.0).otherwise(float("inf"))},
        to_dst=ps.col("src_dist") + ps.col("weight"),
        aggregates={"least": ps.min("msg")},
        update={"dist": ps.functions.least("dist", "least")},
    )

Every vertex has a state, columns that ``start`` gives it. In each round edges send messages, which are worked
out of the states of both ends, messages to one vertex are aggregated, and ``update`` makes the next state of
the state and the aggregates, which are null where nothing came. All of it is done for whole batches of
columns, by expressions or by a function. It ends when no state changes any more, or after a given number of
rounds.

All rounds are tables, in a loop. So the law of tables holds: after every epoch the states are those that the
same program, begun again, gives for the graph as it is then, whatever was added and taken away before.
Nothing is begun again for that: a change goes through the rounds in which it makes a difference, and only
there. What is kept is the change of every state from round to round, which is much where states change in
many rounds.
"""

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import pyarrow as pa

import pointstamp as ps
from pointstamp import Expression, Table, col
from pointstamp.errors import FlowError
from pointstamp.graphs.edge_tables import DST, ID, SRC, Graph, check_graph

Update = Mapping[str, Any] | Callable[[pa.RecordBatch], pa.RecordBatch]


# Messages along edges, aggregated at the receiver (aggregateMessages of GraphFrames).
#
#     ages = graphs.aggregate_messages(graph, to_dst=ps.col("src_age"), total=ps.sum("msg"))
#
# A message is worked out of a *triplet*, an edge with both of its ends: ``src``, ``dst`` and the properties
# of the edge, and those of the ends as ``src_age`` and ``dst_age``. It goes to one end or the other, and what
# has come to a vertex is aggregated. A change costs its triplets, and what the aggregates say of theirs.

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


# In-degrees, out-degrees and degrees.
#
# A loop at a vertex begins and ends there, so it counts twice in ``degree``; an edge that is there several
# times counts as often (networkx, igraph). A change costs its own edges.


def degrees(graph: Graph) -> ps.Table:
    """``id``, ``in_degree``, ``out_degree`` and ``degree``, their sum, of every vertex.

    Where edges have no direction all three are the number of ends of edges at the vertex.
    """
    check_graph("degrees", graph)
    none, one = ps.lit(0, "long"), ps.lit(1, "long")
    begin = graph.edges.select(id=ps.col(SRC), begins=one, ends=none).named("begin")
    end = graph.edges.select(id=ps.col(DST), begins=none, ends=one).named("end")
    alone = graph.ids.select(ID, begins=none, ends=none).named("of every vertex")
    counted = (
        begin.union(end)
        .union(alone)
        .group_by(ID)
        .agg(begins=ps.sum("begins"), ends=ps.sum("ends"))
        .named("degrees")
    )
    both = ps.col("begins") + ps.col("ends")
    return counted.select(
        ID,
        in_degree=ps.col("ends") if graph.directed else both,
        out_degree=ps.col("begins") if graph.directed else both,
        degree=both,
    )


def pregel(
    graph: Graph,
    *,
    start: Mapping[str, Any],
    update: Update,
    aggregates: Mapping[str, Any],
    to_src: Message | None = None,
    to_dst: Message | None = None,
    rounds: int | None = None,
    max_rounds: int | None = None,
) -> Table:
    """``id`` and the state of every vertex after the last round.

    ``start`` gives the columns of the state, as expressions over the properties of a vertex. ``to_src`` and
    ``to_dst`` are messages, over the columns of a triplet: ``src``, ``dst``, the properties of the edge, and
    the states of its ends as ``src_dist`` and ``dst_dist``. ``update`` has an expression for each column of
    the state, over ``id``, the state and the aggregates, or is a function from a batch of these columns to
    one of ``id`` and the state, which must make the same of a row whatever rows stand beside it.

    With ``rounds`` it ends after so many. Without, it ends when no state changes; one that continues for
    ``max_rounds`` is an error.
    """
    check_graph("pregel", graph)
    _check(start, update, aggregates, rounds)
    states = graph.vertices.select(ID, **start)

    def one_round(now: Table, along: Table) -> Table:
        sent = messages_of("pregel", with_ends(along, now), to_src, to_dst)
        came = sent.group_by(ID).agg(aggregates)
        beside = now.join(came, ID, how="left").named("states and messages")
        if callable(update):
            return beside.map_batches(update, states.schema).named("update")
        return beside.select(ID, **update)

    if rounds is None:
        return states.iterate(one_round, graph.edges, max_rounds=max_rounds, name="pregel")
    for _ in range(rounds):
        states = one_round(states, graph.edges)
    return states


def _check(
    start: Mapping[str, Any], update: Update, aggregates: Mapping[str, Any], rounds: int | None
) -> None:
    if not start or ID in start:
        raise FlowError(
            f"pregel: start= must define at least one column, and none with the name '{ID}'. "
            "Write start={'rank': ...}."
        )
    if not callable(update) and update.keys() != start.keys():
        raise FlowError(
            f"pregel: update= must have the columns of start= ({', '.join(start)}), got "
            f"{', '.join(update) or 'none'}. Give an expression for each column of the state."
        )
    for name in aggregates:
        if name == ID or name in start:
            raise FlowError(
                f"pregel: '{name}' names an aggregate and a column of the state. Rename the aggregate."
            )
    if rounds is not None and rounds < 0:
        raise FlowError(
            f"pregel: rounds must be an integer of 0 or more, got {rounds!r}. Give a number of rounds."
        )
