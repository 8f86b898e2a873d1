"""Vertex programs in rounds, as in Pregel (Malewicz et al. 2010), with deletions.

    nearest = graphs.pregel(
        graph,
        start={"dist": ps.when(ps.col("id") == 1, 0.0).otherwise(float("inf"))},
        to_dst=ps.col("src_dist") + ps.col("weight"),
        aggregates={"least": ps.min("msg")},
        update={"dist": ps.functions.least("dist", "least")},
    )

Every vertex has a state, columns that ``start`` gives it. In each round edges send messages, which are worked
out of the states of both ends, messages to one vertex are aggregated, and ``update`` makes the next state of
the state and the aggregates, which are null where nothing came. All of it is done for complete batches of
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
# A message is computed of a *triplet*, an edge with both of its ends: ``src``, ``dst`` and the properties
# of the edge, and those of the ends as ``src_age`` and ``dst_age``. It goes to one end or the other, and what
# has come to a vertex is aggregated. A change costs its triplets, and what the aggregates say of theirs.

Message: TypeAlias = Expression | Mapping[str, Any]
"""One value, which is called ``msg``, or several by name; values are expressions or constants."""


def triplets(graph: Graph) -> Table:
    """Return each edge with its properties and the properties of its ends.

    Returns:
        A table with columns such as ``src``, ``dst``, ``src_age`` and ``dst_age``.

    Examples:
        >>> flow = ps.Dataflow("graph")
        >>> people = flow.table("people", "id long, age long")
        >>> graph = ps.graphs.Graph(flow.table("edges", "src long, dst long"), people)
        >>> flow.output("out", ps.graphs.triplets(graph))
        >>> ages = pa.table({"id": [1, 2], "age": [30, 40]})
        >>> flow.run(edges=pa.table({"src": [1], "dst": [2]}), people=ages).table("out").to_pylist()
        [{'src': 1, 'dst': 2, 'src_age': 30, 'dst_age': 40}]

    """
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
    """Send messages along edges, and aggregate them for each vertex that receives one.

    Args:
        graph: The graph. In an undirected graph, the ends are those that the edges have.
        to_src (Expression | Mapping, default None): The message to the source of each edge, over the columns
            of triplets.
        to_dst (Expression | Mapping, default None): The message to the destination of each edge.
        aggregates: Aggregates over the messages, by the names of their columns.
        **named: The same as keywords.

    Returns:
        A table of ``id`` and the aggregates.

    Examples:
        >>> flow = ps.Dataflow("graph")
        >>> graph = ps.graphs.Graph(flow.table("edges", "src long, dst long"))
        >>> flow.output("out", ps.graphs.aggregate_messages(graph, to_dst=ps.lit(1), n=ps.count()))
        >>> edges = pa.table({"src": [1, 2, 4], "dst": [2, 3, 5]})
        >>> flow.run(edges=edges).table("out").sort_by("id").to_pydict()
        {'id': [2, 3, 5], 'n': [1, 1, 1]}

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
    """Compute the degrees of each vertex.

    Args:
        graph: The graph. In an undirected graph all three are the number of edge ends at the vertex.

    Returns:
        A table of ``id``, ``in_degree``, ``out_degree`` and ``degree``, their sum.

    Examples:
        >>> flow = ps.Dataflow("graph")
        >>> graph = ps.graphs.Graph(flow.table("edges", "src long, dst long"))
        >>> flow.output("out", ps.graphs.degrees(graph))
        >>> edges = pa.table({"src": [1], "dst": [2]})
        >>> flow.run(edges=edges).table("out").sort_by("id").to_pydict()
        {'id': [1, 2], 'in_degree': [0, 1], 'out_degree': [1, 0], 'degree': [1, 1]}

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
    """Run a vertex program in rounds and return the state of each vertex.

    Args:
        graph: The graph.
        start: The columns of the state in round 0, as expressions over the properties of a vertex.
        update: The columns of the state in the next round, as expressions over ``id``, the state and the
            aggregates; or a function from a batch of these columns to one of ``id`` and the state, which must
            treat each row independently.
        aggregates: Aggregates over the messages to a vertex, by the names of their columns.
        to_src (Expression | Mapping, default None): The message to the source of each edge, over the columns
            of a triplet: ``src``, ``dst``, the properties of the edge, and the states of its ends, such as
            ``src_dist`` and ``dst_dist``.
        to_dst (Expression | Mapping, default None): The message to the destination of each edge.
        rounds (int, default None): The number of rounds. Default: until no state changes.
        max_rounds (int, default None): A program that needs more rounds raises FlowError.

    Returns:
        A table of ``id`` and the state after the last round.

    Examples:
        >>> flow = ps.Dataflow("greatest id")
        >>> graph = ps.graphs.Graph(flow.table("edges", "src long, dst long"))
        >>> greatest = ps.graphs.pregel(
        ...     graph, start={"best": ps.col("id")}, to_dst=ps.col("src_best"),
        ...     aggregates={"m": ps.max("msg")}, update={"best": F.greatest("best", "m")})
        >>> flow.output("out", greatest)
        >>> edges = pa.table({"src": [3, 1], "dst": [1, 2]})
        >>> flow.run(edges=edges).table("out").sort_by("id").to_pydict()
        {'id': [1, 2, 3], 'best': [3, 3, 3]}

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
