"""Partial orders, antichains, signed multisets and frontiers. Standard library only."""
