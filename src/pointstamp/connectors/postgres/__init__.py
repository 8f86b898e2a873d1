"""PostgreSQL tables: each output a table, each commit one transaction.

``sink`` publishes a commit's rows together with its number. Workers stage rows by ``staging`` in tables of
the database, ``output_tables`` are the tables and what is recorded of their owners and commits, and
``database`` is a connection.
"""
