"""Flows of graph algorithms for simulated worlds, with the rows that a seed gives them."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import pointstamp as ps
from pointstamp import graphs
from support import ranked_worlds
from support.graph_cases import story_flow
from support.graph_flows import Epoch, graph_flow, inputs_of, random_history
from support.graph_stories import PALETTES, random_story, rows_of


@dataclass(frozen=True)
class GraphWorld:
    """A flow, and its inputs by seed; ``seeds`` is how many worlds of it are tried where time is short."""

    flow: Callable[[], ps.Dataflow]
    rows: Callable[[int], dict[str, Any]]
    seeds: int


def _changing(seed: int) -> dict[str, Any]:
    return inputs_of(random_history(seed, vertices=5, epochs=4, most=4))


def _changing_names(seed: int) -> dict[str, Any]:
    return inputs_of(random_history(seed, vertices=5, epochs=4, most=4, key="string"), "string")


def _growing(seed: int) -> dict[str, Any]:
    """Only what comes."""
    history = random_history(seed, vertices=6, epochs=5, most=4)
    return inputs_of([Epoch([e for e in each.edges if e[1] > 0], []) for each in history])


def _story(key: str, seed: int) -> dict[str, Any]:
    """A story with ids at the limits of a type, in which sources go and vertices return."""
    told = [rows_of(epoch, key, seed) for epoch in random_story(seed, min(7, len(PALETTES[key])), epochs=6)]
    return {name: [epoch[name] for epoch in told] for name in told[0]}


def growing_flow() -> ps.Dataflow:
    """Components of a graph that only grows, by union-find."""
    flow = ps.Dataflow("growing")
    flow.stream_input("vertices", "id long, w long")
    flow.output(
        "wcc", graphs.wcc(graphs.Graph(flow.stream_input("edges", "src long, dst long, km long, w long")))
    )
    return flow


def program_flow() -> ps.Dataflow:
    """The least id that leads to each vertex, by a vertex program."""
    flow = ps.Dataflow("program")
    edges = flow.table("edges", "src long, dst long, km long, w long", weight="w")
    least = graphs.pregel(
        graphs.Graph(edges.select("src", "dst"), flow.table("vertices", "id long, w long", weight="w")),
        start={"least": ps.col("id")},
        to_dst=ps.col("src_least"),
        aggregates={"heard": ps.min("msg")},
        update={"least": ps.functions.least("least", "heard")},
    )
    flow.output("least", least)
    return flow


_TABLES = [
    *("wcc", "sssp", "triangles", "maximal_matching", "scc", "k_core", "minimum_spanning_forest"),
    *("shortest_paths", "topological_levels"),
]

GRAPH_WORLDS: dict[str, GraphWorld] = {
    **{name: GraphWorld(partial(graph_flow, [name]), _changing, 1) for name in _TABLES},
    "bfs by name": GraphWorld(partial(graph_flow, ["bfs"], key="string"), _changing_names, 1),
    "forest by name": GraphWorld(
        partial(graph_flow, ["minimum_spanning_forest"], key="string"), _changing_names, 1
    ),
    "growing": GraphWorld(growing_flow, _growing, 1),
    "program": GraphWorld(program_flow, _changing, 1),
    "ranks from sources": GraphWorld(
        partial(story_flow, ["ranks from sources by the formula"], "long", directed=True),
        partial(_story, "long"),
        1,
    ),
    "story by name": GraphWorld(
        partial(story_flow, ["cdlp in 1 rounds", "reachable from a table"], "string", directed=True),
        partial(_story, "string"),
        1,
    ),
    "wcc by name": GraphWorld(partial(graph_flow, ["wcc"], key="string"), _changing_names, 1),
    **{
        name: GraphWorld(flow, partial(ranked_worlds.inputs_of, name), 2)
        for name, flow in ranked_worlds.FLOWS.items()
    },
}
