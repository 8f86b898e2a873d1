"""Sinks: epochs staged by workers, published once, read complete.

``port`` is what is asked of a sink; ``parquet`` and ``delta`` are two, whose workers stage ``files``, and
``postgres`` is one whose workers stage rows in a database; ``iceberg`` adds files to tables. What is
published is a ``chain``, which ``reading`` reads and ``compactor`` shortens; ``bases`` say what the changes
of a table add up to. Delta's log is ``delta_log``; ``delta_table`` keeps the rows of a table, by
``delta_rows``.
"""
