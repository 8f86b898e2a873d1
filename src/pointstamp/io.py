"""Sources that workers read and sinks that epochs are published in: ``ps.io.files``, ``ps.io.kafka``."""

from pointstamp.sinks.compactor import Compacted, compact
from pointstamp.sinks.delta import DeltaSink
from pointstamp.sinks.delta_versions import delta_version
from pointstamp.sinks.iceberg import IcebergSink
from pointstamp.sinks.kafka.sink import KafkaSink
from pointstamp.sinks.parquet import ParquetSink
from pointstamp.sinks.postgres.sink import PostgresSink
from pointstamp.sinks.reading import published_files
from pointstamp.sinks.tiers import CompactionPolicy
from pointstamp.sources.bad_records import BadRecords
from pointstamp.sources.delta import delta
from pointstamp.sources.files import files
from pointstamp.sources.kafka.source import kafka
from pointstamp.sources.published import published

__all__ = [
    "BadRecords",
    "Compacted",
    "CompactionPolicy",
    "DeltaSink",
    "IcebergSink",
    "KafkaSink",
    "ParquetSink",
    "PostgresSink",
    "compact",
    "delta",
    "delta_version",
    "files",
    "kafka",
    "published",
    "published_files",
]
