"""What tables keep: rows with weights, by key or by the event time for which they wait.

``weights`` adds rows up and ``ordering`` puts them in order; ``run`` is a sorted part that never changes,
made of ``columns``, in memory or in a ``run_file``, whose keys ``run_keys`` tells apart. ``arrangement`` is
a table by key that is made of runs, merged by their ``sizes``; ``summed`` adds up what it finds in them, and
``ends`` finds first rows by ``prefixes``. ``groups`` are the rows of keys side by side, ``rounds`` the times
inside loops, ``open_changes`` what waits for its time to be complete, ``calendar`` what waits for event time,
``value`` what changes add up to, and ``fingerprints`` stand for rows that are only counted.
"""
