"""Graph algorithms, written with the public API only.

``graph`` is what they all take, and each is a module of its own. Several go by the same: searches by
``nearest``, which is a loop of tables or the operator of ``searching``, whose ``ways`` keep the steps in an
``edge_index`` and pass keys on at a ``pace``; components by ``spreading`` where they are a loop; triangles by
the operator of ``counting``, which finds ``triads``; strong components, core numbers and forests by that of
``whole``, which has the whole graph on one worker. ``pagerank`` is an operator in a loop, ``pushing``,
which keeps ``residuals`` and ``out_links``, and finds vertices by ``ids``; ``cdlp`` is another, ``voting``,
which counts ``votes``. ``motifs`` reads ``motif_text``, ``pregel`` sends ``messages``, and ``frames`` has
GraphFrames' names for all of it. ``components`` is the one that takes streams, an operator that keeps a
``forest``; that finds vertices by ``vertices``, members by ``members``, and merges small dense graphs by
``collapse``. ``relabelling`` makes a table of what it says.
"""

from typing import TYPE_CHECKING

from pointstamp.graphs.bfs import bfs
from pointstamp.graphs.cdlp import cdlp
from pointstamp.graphs.components import connected_components
from pointstamp.graphs.degrees import degrees
from pointstamp.graphs.graph import Graph
from pointstamp.graphs.k_core import k_core
from pointstamp.graphs.lcc import lcc
from pointstamp.graphs.matching import maximal_matching
from pointstamp.graphs.messages import aggregate_messages, triplets
from pointstamp.graphs.motifs import find
from pointstamp.graphs.pagerank import pagerank, personalised_pagerank
from pointstamp.graphs.pregel import pregel
from pointstamp.graphs.reachable import reachable
from pointstamp.graphs.scc import scc
from pointstamp.graphs.shortest_paths import shortest_paths
from pointstamp.graphs.spanning_forest import minimum_spanning_forest
from pointstamp.graphs.sssp import sssp
from pointstamp.graphs.topological import topological_levels
from pointstamp.graphs.triangles import triangle_count, triangles
from pointstamp.graphs.wcc import wcc

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
