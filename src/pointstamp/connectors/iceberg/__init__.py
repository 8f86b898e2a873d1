"""Apache Iceberg tables: epochs as snapshots of a table, and snapshots as changes.

``sink`` stages Parquet files and adds them to one table per output; ``source`` reads a table and then the
changes of its snapshots. They need pyiceberg on the driver, and to read on the workers, too.
"""
