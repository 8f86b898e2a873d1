"""Graph algorithms, written with the public API only.

``graph`` is what they all take, made of what is ``given``. Each is a module, in a room with those like it:
``paths``, ``components``, ``ranks``, ``communities``, ``patterns``, and ``programs`` for algorithms of one's
own. What works in arrays is made of ``arrays``; ``whole`` has operators that keep the whole graph on one
worker; ``frames`` has GraphFrames' names for all of it.
"""

from typing import TYPE_CHECKING

from pointstamp.graphs.communities.cdlp import cdlp
from pointstamp.graphs.communities.k_core import k_core
from pointstamp.graphs.communities.lcc import lcc
from pointstamp.graphs.components.growing import connected_components
from pointstamp.graphs.components.scc import scc
from pointstamp.graphs.components.spanning_forest import minimum_spanning_forest
from pointstamp.graphs.components.wcc import wcc
from pointstamp.graphs.graph import Graph
from pointstamp.graphs.paths.bfs import bfs
from pointstamp.graphs.paths.reachable import reachable
from pointstamp.graphs.paths.shortest_paths import shortest_paths
from pointstamp.graphs.paths.sssp import sssp
from pointstamp.graphs.paths.topological import topological_levels
from pointstamp.graphs.patterns.matching import maximal_matching
from pointstamp.graphs.patterns.motifs import find
from pointstamp.graphs.patterns.triangles import triangle_count, triangles
from pointstamp.graphs.programs.degrees import degrees
from pointstamp.graphs.programs.messages import aggregate_messages, triplets
from pointstamp.graphs.programs.pregel import pregel
from pointstamp.graphs.ranks.pagerank import pagerank, personalised_pagerank

if TYPE_CHECKING:
    from pointstamp.graphs.frames import AggregateMessages, GraphFrame, Pregel

__all__ = [
    "AggregateMessages",
    "Graph",
    "GraphFrame",
    "Pregel",
    "aggregate_messages",
    "bfs",
    "cdlp",
    "connected_components",
    "degrees",
    "find",
    "k_core",
    "lcc",
    "maximal_matching",
    "minimum_spanning_forest",
    "pagerank",
    "personalised_pagerank",
    "pregel",
    "reachable",
    "scc",
    "shortest_paths",
    "sssp",
    "topological_levels",
    "triangle_count",
    "triangles",
    "triplets",
    "wcc",
]


if not TYPE_CHECKING:  # to a type checker, a name that is not listed above is a mistake

    def __getattr__(name: str) -> object:
        """What needs PySpark is loaded by those who use it."""
        if name not in ("AggregateMessages", "GraphFrame", "Pregel"):
            raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
        from pointstamp.graphs import frames

        return getattr(frames, name)
