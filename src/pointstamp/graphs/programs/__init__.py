"""User-defined programs: messages along edges, once or in rounds.

``pregel`` sends ``messages`` in rounds, made of the states of both ends of an edge.
``degrees`` are the simplest of such sums, in one round.
"""
