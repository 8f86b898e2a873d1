"""Graph algorithms, written with the public API only.

``components`` is the flow and its operator, which keeps a ``forest``; that finds vertices by ``vertices``,
members by ``members``, and merges small dense graphs by ``collapse``.
"""

from pointstamp.graphs.cdlp import cdlp
from pointstamp.graphs.components import connected_components
from pointstamp.graphs.graph import Graph
from pointstamp.graphs.pagerank import pagerank, personalised_pagerank

__all__ = ["Graph", "cdlp", "connected_components", "pagerank", "personalised_pagerank"]
