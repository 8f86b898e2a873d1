"""Published output: Parquet files under a chain of manifests, written once and read complete.

    sink -> chain of manifests -> reader, source
                 |  compactor, bases: fewer and larger files

``sink`` stages and publishes; ``chain`` is the published commits of a folder. ``reader`` reads them without
Spark, and ``source`` gives them to another query epoch by epoch. ``compactor`` merges small files, chosen by
``merging``; ``bases`` are the accumulated rows of a table after an epoch.
"""
