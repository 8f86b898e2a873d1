"""Connectors: where rows come from and where results go, one folder for each system.

    system -> source: units, found by the driver, read by workers -> flow
    flow -> sink: epochs, staged by workers, published once by the driver -> system

``source`` and ``sink`` are the ports that every connector implements. ``files``, ``kafka``, ``delta``,
``iceberg`` and ``postgres`` are systems; ``published`` is our own format, Parquet under a chain of manifests,
which other queries read. ``memory`` has rows in memory as a source, ``staging`` the Parquet files that
several sinks stage, ``json_lines`` reads JSON records, and ``bad_records`` writes those that cannot be read.
"""
