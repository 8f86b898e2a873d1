"""Algorithms that gather the graph on one worker: strong components, cores, spanning forest.

``gathering`` is the operator: it brings all changes to one worker and asks an algorithm what follows.
``counted`` says which edges and vertices come and go, and ``by_vertex`` what is said of vertices. Each
algorithm has a module: ``parts``, which finds components from scratch by ``strong``; ``shells``, which finds
``levels``; and ``lightest``.
"""
