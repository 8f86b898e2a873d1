"""Graph algorithms, written with the public API only."""

from pointstamp.graphs.components import connected_components

__all__ = ["connected_components"]
