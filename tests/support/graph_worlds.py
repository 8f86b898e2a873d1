"""Flows of graph algorithms for simulated worlds, with the rows that a seed gives them."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import pointstamp as ps
from support import ranked_worlds
from support.graph_flows import graph_flow, inputs_of, random_history


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


_TABLES = ["wcc", "sssp", "triangles", "maximal_matching", "scc", "k_core", "minimum_spanning_forest"]

GRAPH_WORLDS: dict[str, GraphWorld] = {
    **{name: GraphWorld(partial(graph_flow, [name]), _changing, 2) for name in _TABLES},
    "bfs by name": GraphWorld(partial(graph_flow, ["bfs"], key="string"), _changing_names, 2),
    "wcc by name": GraphWorld(partial(graph_flow, ["wcc"], key="string"), _changing_names, 2),
    **{
        name: GraphWorld(flow, partial(ranked_worlds.inputs_of, name), 3)
        for name, flow in ranked_worlds.FLOWS.items()
    },
}
