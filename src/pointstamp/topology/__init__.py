"""Ports, times, path summaries and the graph of a flow, compiled and validated.

``domain`` says which times stand at a ``ports`` place, ``summary`` what a path does to them; ``times`` does
the work on single ones. ``graph`` puts all together: it asks ``validation`` whether a summary can be right
and ``levels`` whether every cycle advances.
"""
