"""Flows with ranks and communities for simulated worlds: an operator of one's own in a loop, and tables."""

from collections.abc import Callable
from typing import Any

import pointstamp as ps
from pointstamp import graphs
from support.changing_graphs import changing_edges, edge_tables, graph_input


def ranked_flow() -> ps.Dataflow:
    """Ranks as they are."""
    flow = ps.Dataflow("ranked")
    graph = graph_input(flow)
    flow.output("ranks", graphs.pagerank(graph, sums_to=None, tolerance=0.001))
    return flow


def seen_flow() -> ps.Dataflow:
    """Ranks as seen from the vertices that link to themselves, scaled; ids are texts."""
    flow = ps.Dataflow("seen")
    graph = graph_input(flow, "string")
    own = graph.links.filter(ps.col("src") == ps.col("dst")).select(id=ps.col("src"))
    flow.output("ranks", graphs.personalised_pagerank(graph, own, tolerance=0.01))
    return flow


def communities_flow() -> ps.Dataflow:
    """Communities after three rounds."""
    flow = ps.Dataflow("communities")
    flow.output("communities", graphs.cdlp(graph_input(flow), rounds=3))
    return flow


def named_flow() -> ps.Dataflow:
    """Communities of people with names, which are tables for each round."""
    flow = ps.Dataflow("named")
    flow.output("communities", graphs.cdlp(graph_input(flow, "string"), rounds=2))
    return flow


FLOWS: dict[str, Callable[[], ps.Dataflow]] = {
    "ranked": ranked_flow,
    "seen": seen_flow,
    "communities": communities_flow,
    "named": named_flow,
}


def inputs_of(name: str, seed: int = 0, epochs: int = 6) -> dict[str, Any]:
    """The rows of a flow, in epochs."""
    changes = changing_edges(seed, epochs, vertices=6, most=7)
    return {"edges": edge_tables(changes, "v{}" if name in ("seen", "named") else "{}")}
