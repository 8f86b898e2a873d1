"""SQL as views that are kept up to date: a text is compiled to tables and expressions, and then forgotten.

``sql`` is what users call; it asks ``statements``, which reads the text with ``parsing`` and declares inputs
and views. A query goes to ``queries``: set operations, common tables and ``recursion`` there, and each select
to ``selecting``, which calls ``sources`` for FROM, ``joins`` and ``outer_joins`` for what stands side by
side, ``subqueries`` for IN, EXISTS and single values, ``grouping``, ``ranking`` and ``limits`` for the rest.
All of them translate expressions with ``translating``, which knows names by ``scope`` and functions by
``functions``. What cannot be kept up to date is refused with its place in the text by ``refusing``.
"""
