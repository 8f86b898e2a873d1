"""The Python data source of pointstamp, under the name by which Spark finds it without registration.

``spark.read.format("pointstamp")`` looks for a module ``pyspark_pointstamp`` with ``DefaultSource``.
"""

from pointstamp.spark.data_source import PointstampSource as DefaultSource

__all__ = ["DefaultSource"]
