"""Durable objects under names: in memory, in local files, on any path that fsspec knows."""
