"""PostgreSQL output: rows staged in the database, published in one transaction.

``sink`` is what a user makes; its workers stage by ``staging`` and its driver publishes by ``publishing``.
Both reach the database through ``database``, and find there what ``registry`` has written down. ``columns``
says which types there are and how values are sent, ``tables`` what a commit does to the tables.
"""
