"""Incremental operators: what the epochs of a table accumulate to, kept up to date.

    inputs, upsert, debezium -> operations -> changes with weights -> outputs
                                    | state in arrangements

``physical_table`` is what the lowering calls; ``operations`` are the functions on streams of changes that it
is made of. Joins: ``hash_join``, ``joins`` (outer, semi, anti, cross), ``asof_join``, ``interval_join``,
``lookup_join``. Aggregates: ``aggregation`` chooses between ``aggregate_operators`` for sums and extremes and
``group_operator``, which asks ``group_aggregates`` again for each changed group. Sets and orders:
``distinct``, ``top_k``, ``window_operator``. Event time: ``session_windows``, ``event_time_filters``.
Recursion: ``iterate``. What keeps no state is in ``stateless``, and ``shared_arrangements`` finds equal
arrangements.
"""
