"""Paths: distances, breadth-first search and reachability.

``bfs``, ``sssp`` and ``reachable`` go by ``nearest``, which is a loop of tables or, by ``searching``, the
operator of ``phases``. Its ``ways`` take ``step_changes`` and keep ``way_keys``, and pass these on by
``relaxing`` at a ``pace``; ``saved_ways`` says how they are saved. ``shortest_paths`` and ``topological`` are
loops of tables.
"""
