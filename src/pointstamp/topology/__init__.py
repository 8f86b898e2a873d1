"""Ports, times, path summaries and the graph of a flow, compiled and validated.

``domain`` says which times stand at a ``ports`` place, ``summary`` what a path does to them; ``times`` does both
for single times. ``graph`` puts both together: it asks ``validation`` whether a summary can be right and
``levels`` whether every cycle advances.
"""
