"""Simulated queries with crashes of drivers, members, storage and sinks.

``world`` runs the real coordinator, journal, members and workers over the storage of ``durability``, in a
``setting`` that a seed decides, with a ``crew`` and a ``feed``; it also has the ways to fail. ``explaining``
finds the run without failures that explains what was observed, and a ``trace`` of ``events`` can be replayed.
"""
