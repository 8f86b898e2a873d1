"""The nodes of a flow: streams, loops, operators of the user's own, and the physical plan that they make.

``stream``, ``custom`` and ``endpoints`` add nodes by ``builder`` to a ``plan``, with a ``pact``
for each input. ``key_kinds``, ``marking`` and ``updates`` refuse what would give wrong rows. ``logic`` has
the types. ``event_time`` finds in a plan by which promises about event time a stream goes, ``in_time``
keeps them; ``event_epochs`` are epochs that are event time.
"""
