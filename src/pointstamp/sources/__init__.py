"""Sources: replayable units, found by the driver and read by workers.

``port`` is what is asked of a source; ``files`` and ``memory`` are two. ``watching`` finds files, asks
``wholeness`` whether they are whole and ``grouping`` which are one unit; ``dealing`` shares units out, and
``reading`` reads them.
"""
