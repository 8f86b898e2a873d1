"""Sources that workers read and sinks that epochs are published in: ``ps.io.files``, ``ps.io.kafka``."""

from pointstamp.connectors.bad_records import BadRecords
from pointstamp.connectors.delta.log import delta_version
from pointstamp.connectors.delta.sink import DeltaSink
from pointstamp.connectors.delta.source import delta
from pointstamp.connectors.files.source import files
from pointstamp.connectors.iceberg.sink import IcebergSink
from pointstamp.connectors.iceberg.source import iceberg
from pointstamp.connectors.kafka.sink import KafkaSink
from pointstamp.connectors.kafka.source import kafka
from pointstamp.connectors.postgres.sink import PostgresSink
from pointstamp.connectors.published.compactor import Compacted, compact
from pointstamp.connectors.published.merging import CompactionPolicy
from pointstamp.connectors.published.reader import published_files
from pointstamp.connectors.published.sink import ParquetSink
from pointstamp.connectors.published.source import published
from pointstamp.spark.catalog_sink import CatalogSink, catalog

__all__ = [
    "BadRecords",
    "CatalogSink",
    "Compacted",
    "CompactionPolicy",
    "DeltaSink",
    "IcebergSink",
    "KafkaSink",
    "ParquetSink",
    "PostgresSink",
    "catalog",
    "compact",
    "delta",
    "delta_version",
    "files",
    "iceberg",
    "kafka",
    "published",
    "published_files",
]
