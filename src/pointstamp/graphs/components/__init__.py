"""What hangs together: components, and the lightest edges that connect them.

``wcc`` goes by the operator of searches, by ``growing`` where edges are only added, or by ``spreading``, a
loop of tables; ``scc`` and ``spanning_forest`` go by an operator that has the whole graph, or by such a loop.
``growing`` takes streams and keeps a ``forest``, which finds ``members``; ``relabelling`` makes a table of
what it says.
"""
