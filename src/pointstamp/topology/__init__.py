"""Ports, times, path summaries and the graph of a flow, compiled and validated.

``domain`` says which times may be at a port of ``ports``, ``summary`` what a path does to them; ``times``
does the work on single ones. ``graph`` puts all together: it rejects summaries that cannot be right, and
``levels`` proves that every cycle advances time.
"""
