"""Durable objects under names: in memory, in local files, on any path that fsspec knows.

``port`` is what every storage implements; ``memory``, ``local`` and ``anywhere`` are three. ``exclusivity``
tests whether a store keeps its promise to create an object once. ``sealed`` wraps what is stored, so that it
can prove itself.
"""
