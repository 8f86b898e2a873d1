"""The journal of a query: what is durable, what it means, and what may be resumed from.

``ledger`` is what a query calls; it writes the entries of ``history`` into ``journal``, which stores them as
``entries``. ``parts`` are the snapshots' bytes, ``shape`` says whether a changed flow may continue.
"""
