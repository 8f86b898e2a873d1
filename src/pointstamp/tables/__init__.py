"""Tables: what all epochs so far add up to, kept up to date.

``weights`` adds rows up, ``run`` is a sorted, unchanging part of an arrangement, ``arrangement`` is a table
by key. ``calendar`` has rows by the event time for which they wait, and ``until`` lets them go, or come.
"""
