"""Graph algorithms, written with the public API only.

``components`` is the flow and its operator, which keeps a ``forest``; that finds vertices by ``vertices``,
members by ``members``, and merges small dense graphs by ``collapse``.
"""

from pointstamp.graphs.components import connected_components
from pointstamp.graphs.graph import Graph

__all__ = ["Graph", "connected_components"]
