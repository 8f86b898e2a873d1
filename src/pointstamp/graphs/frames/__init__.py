"""GraphFrames' names for graphs of DataFrames; loaded when asked for, because it needs PySpark.

``graphframe`` has the class, which runs flows by ``running``, and leaves joins and groups to Spark:
``along_edges``.
"""

from pointstamp.graphs.frames.along_edges import AggregateMessages
from pointstamp.graphs.frames.graphframe import GraphFrame

__all__ = ["AggregateMessages", "GraphFrame"]
