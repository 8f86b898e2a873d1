"""Simulated queries with crashes of drivers, members, storage and sinks.

``world`` runs the real coordinator, journal, members and workers over simulated storage; ``crashes`` are the
ways to fail; ``explaining`` finds the run without failures that explains what was seen, and ``replaying``
makes a page of a ``trace``.
"""
