"""Connected components and minimum spanning forests.

``wcc`` goes by the operator of searches, by ``growing`` where edges are only added, or by ``spreading``, a
loop of tables; ``scc`` and ``spanning_forest`` go by an operator that has the whole graph, or by such a loop.
``growing`` takes streams, of which ``edge_pairs`` makes ``pairs``; the operator of ``least_labels`` keeps a
``forest`` of ``labelled_sets``, which finds ``members``, and finds its ``followers`` again when it is
restored. ``relabelling`` makes a table of what it says.
"""
