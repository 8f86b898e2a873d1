"""Tables: what all epochs so far add up to, kept up to date.

``table`` is what users chain operations on; ``deltas`` are the functions of changes that all of them are made
of, one operator each. Rooms of their own have what tables keep (``kept``), how rows become one
(``aggregates``), what comes in (``incoming``) and what waits for event time (``timed``).
"""
