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
from typing import Any

import pyarrow as pa

from pointstamp import Table
from pointstamp.errors import FlowError
from pointstamp.graphs.graph import ID, Graph, check_graph
from pointstamp.graphs.programs.messages import Message, messages_of, with_ends

Update = Mapping[str, Any] | Callable[[pa.RecordBatch], pa.RecordBatch]


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
