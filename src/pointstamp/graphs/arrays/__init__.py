"""Arrays that graph algorithms share: vertices as slots, edges and links as sorted runs.

``vertices`` maps ids to ``slot_arrays``, the indexes of all arrays; ``numbering`` assigns integers to ids of
other types. ``edges`` are edges by one end and ``links`` edges with weights by source.
"""
