"""Building blocks for graph operators in arrays: slots, ids, edge indexes.

``vertices`` gives ids that are whole numbers their ``slots``, by which all arrays are indexed, with
``hashed_ids`` where they lie far apart, and ``ids`` does so for ids of any type. ``edge_index`` has edges by
one of their ends, in ``edge_runs``; ``ends`` says whom edges name, and ``collapse`` finds the components of a
small dense graph. ``numbering`` gives numbers to ids of other types, once, and ``ordering`` does so in the
order of ids (``ordered_ids``). ``columns`` are what comes and is sent.
"""
