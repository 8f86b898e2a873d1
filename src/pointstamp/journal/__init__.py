"""The journal of a query: its entries, their meaning, and what can resume.

``ledger`` is what a query calls; it writes the entries of ``history`` into ``journal``, which stores them as
``entries``. ``parts`` are the snapshots' bytes, ``shape`` says whether a changed flow may continue.
"""
