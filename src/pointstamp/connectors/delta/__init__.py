"""Delta Lake tables: their change feed as a source, and epochs as commits.

``source`` reads the change feed of a table, version by version. ``sink`` stages files and commits them in the
``log`` of the table, with the epochs of each commit.
"""
