"""Rows: schemas, schema strings, hashes and partitioning.

``schema`` checks rows at every border, and reads the text of a schema by ``ddl``. ``partition`` splits a
batch by its owners, by the hash of ``hashing``; ``epochcolumn`` and ``late`` are about rows that say their
epochs.
"""
