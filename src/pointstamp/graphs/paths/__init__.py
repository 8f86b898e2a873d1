"""Ways through a graph: how far it is to each vertex, and what can be reached.

``bfs``, ``sssp`` and ``reachable`` go by ``nearest``, which is a loop of tables or the operator of
``searching``; its ``ways`` keep the steps and pass keys on at a ``pace``. ``shortest_paths`` and
``topological`` are loops of tables.
"""
