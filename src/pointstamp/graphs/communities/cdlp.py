"""Community detection by label propagation, as LDBC Graphalytics defines it.

    flow.output("communities", graphs.cdlp(graph, rounds=10))      # id, label

Every vertex begins with its own id as its label. In each round every vertex takes the label that is most
frequent among its neighbours in the round before, and of several the least (Raghavan, Albert and Kumara 2007,
made deterministic). After the given number of rounds its label names its community.

Outside loops, with numbers in the order of ids for ids of other types, it is the operator of ``voting``,
which keeps the edges once and a label for every vertex and round. Otherwise each round is a table of its own,
made of the one before: a join with the edges, a count of labels, and the first of each vertex. So an edge
that comes or goes changes round 1 at its two ends, round 2 beside those whose labels changed by it, and so
on; where labels stay the same nothing is done. What is kept is the edges and the counts of labels, for every
round.
"""

import pyarrow as pa

from pointstamp import Table, col, count, operator
from pointstamp.errors import FlowError
from pointstamp.graphs.communities.voting import CountVotes
from pointstamp.graphs.graph import Graph, check_graph


def cdlp(graph: Graph, *, rounds: int = 10) -> Table:
    """The community of every vertex after some rounds: ``id`` and ``label``, which is the id of a vertex.

    An edge counts as often as it is there. In a directed graph it counts in both directions, so that of two
    vertices with edges both ways each counts twice for the other. A vertex without edges keeps its label.
    """
    check_graph("cdlp", graph)
    if rounds < 0:
        raise FlowError(
            f"cdlp: rounds must be an integer of 0 or more, got {rounds!r}. Give a number of rounds."
        )
    if graph.needs_numbers:
        return graph.by_ordered_id(cdlp(graph.in_order, rounds=rounds), "id", "label")
    beside = _beside(graph)
    if graph.key_type == pa.int64():
        return _voted(graph, beside, rounds)
    labels = first = graph.ids.select("id", label=col("id")).named("labels")
    alone = first.join(beside, {"id": "src"}, how="anti").named("alone")
    for number in range(1, rounds + 1):
        heard = beside.join(labels, {"src": "id"}).named(f"labels heard in round {number}")
        votes = heard.group_by("dst", "label").agg(votes=count()).named(f"votes of round {number}")
        most = votes.top(1, "dst", by=["votes desc", "label"]).named(f"most votes of round {number}")
        labels = most.select(id=col("dst"), label=col("label")).named(f"labels {number}").union(alone)
    return labels


def _voted(graph: Graph, beside: Table, rounds: int) -> Table:
    """The same by an operator in a loop, whose rounds are those of the algorithm."""
    links = beside.changes().named("links")
    if links.loops:
        raise FlowError(
            f"cdlp of {graph}: the graph must be outside of loops, got one in loop '{links.loops[-1]}'. "
            "Leave the loop first."
        )
    logic = CountVotes(rounds)
    with links.loop("label propagation") as loop:
        again = loop.variable(logic.outputs["again"], "labels of neighbours")
        told, labels = operator(
            "cdlp",
            logic,
            ids=loop.enter(graph.ids.changes().named("vertices")).exchange("id"),
            links=loop.enter(links).exchange("src"),
            again=again.exchange("to"),
        )
        loop.feedback(again, told)
        return Table(loop.leave(labels)).select("id", "label").named("communities")


def _beside(graph: Graph) -> Table:
    """Who hears whose label: the edges in both directions."""
    links = graph.links.select("src", "dst").named("links: ends")
    if not graph.directed:
        return links
    back = links.select(src=col("dst"), dst=col("src")).named("links: the other way")
    return links.union(back).named("beside")
