"""Apache Iceberg tables: epochs as snapshots of a table.

``sink`` stages Parquet files and adds them to one table per output. It needs pyiceberg on the driver
only.
"""
