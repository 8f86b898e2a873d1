"""Graph algorithms, one file each, written with the public API only.

``edge_tables`` is what they all take: tables of edges and vertices, checked by ``validation``. Paths:
``path_lengths`` (bfs, sssp, shortest_paths, reachable, topological_levels), with ``search_operator`` and
``search_state``. Components: ``weak_components``, ``growing_components`` with ``union_find``,
``strong_components``, ``spanning_forest``. Communities: ``label_propagation``, ``core_numbers``. Patterns:
``triangle_counts`` (lcc too), ``motifs``, ``matching``. Ranks: ``page_rank``. Custom algorithms:
``vertex_programs``. ``gathering`` brings a graph to one worker; ``arrays`` are shared structures, and
``frames`` has GraphFrames' names.
"""

from typing import TYPE_CHECKING

from pointstamp.graphs.core_numbers import k_core
from pointstamp.graphs.edge_tables import Graph
from pointstamp.graphs.growing_components import connected_components
from pointstamp.graphs.label_propagation import cdlp
from pointstamp.graphs.matching import maximal_matching
from pointstamp.graphs.motifs import find
from pointstamp.graphs.page_rank import pagerank, personalised_pagerank
from pointstamp.graphs.path_lengths import bfs, reachable, shortest_paths, sssp, topological_levels
from pointstamp.graphs.spanning_forest import minimum_spanning_forest
from pointstamp.graphs.strong_components import scc
from pointstamp.graphs.triangle_counts import lcc, triangle_count, triangles
from pointstamp.graphs.vertex_programs import aggregate_messages, degrees, pregel, triplets
from pointstamp.graphs.weak_components import wcc

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
        """Load names that need PySpark when they are used."""
        if name not in ("AggregateMessages", "GraphFrame", "Pregel"):
            raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
        from pointstamp.graphs import frames

        return getattr(frames, name)
