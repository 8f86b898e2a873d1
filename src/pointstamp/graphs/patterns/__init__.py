"""Patterns: triangles, motifs and matchings.

``triangles`` go by the operator of ``counting``, which finds ``triads`` from what changes and by ``arrows``
where a graph is loaded. ``motifs`` reads ``motif_text``. ``matching`` is a loop of tables.
"""
