"""The journal of a query: its entries, their meaning, and what can resume.

    query -> ledger -> entries -> journal -> storage
                  +-> snapshot_parts

``ledger`` is what a query calls; it writes the ``entries`` of ``history`` into ``journal``, a totally ordered
log that only the newest driver can append to. ``snapshot_parts`` are the bytes of snapshots; ``flow_shape``
decides whether a changed flow may resume.
"""
