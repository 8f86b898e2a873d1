"""Graph algorithms, written with the public API only.

``graph`` is what they all take, and each is a module of its own. Several go by the same: searches by
``nearest``, which is a loop of tables or the operator of ``searching``, whose ``ways`` keep the steps in an
``edge_index`` and pass keys on at a ``pace``; components by ``spreading`` where they are a loop; triangles by
the operator of ``counting``, which finds ``triads``. ``components`` is the one that takes streams, an
operator that keeps a ``forest``; that finds vertices by ``vertices``, members by ``members``, and merges
small dense graphs by ``collapse``. ``relabelling`` makes a table of what it says.
"""

from pointstamp.graphs.bfs import bfs
from pointstamp.graphs.components import connected_components
from pointstamp.graphs.degrees import degrees
from pointstamp.graphs.graph import Graph
from pointstamp.graphs.k_core import k_core
from pointstamp.graphs.lcc import lcc
from pointstamp.graphs.matching import maximal_matching
from pointstamp.graphs.reachable import reachable
from pointstamp.graphs.scc import scc
from pointstamp.graphs.shortest_paths import shortest_paths
from pointstamp.graphs.spanning_forest import minimum_spanning_forest
from pointstamp.graphs.sssp import sssp
from pointstamp.graphs.topological import topological_levels
from pointstamp.graphs.triangles import triangle_count, triangles
from pointstamp.graphs.wcc import wcc

__all__ = [
    "Graph",
    "bfs",
    "connected_components",
    "degrees",
    "k_core",
    "lcc",
    "maximal_matching",
    "minimum_spanning_forest",
    "reachable",
    "scc",
    "shortest_paths",
    "sssp",
    "topological_levels",
    "triangle_count",
    "triangles",
    "wcc",
]
