"""The GraphFrames API for graphs of DataFrames; imported on demand, since it needs PySpark.

``graphframe`` has the class, which runs flows by ``running``, gives results the ``columns_of`` GraphFrames,
has ``ranks_of`` a graph by ``ranking``, and leaves joins and groups to Spark: ``parts``, made of
``along_edges``. ``pregel`` has the builder of programs for vertices.
"""

from pointstamp.graphs.frames.along_edges import AggregateMessages
from pointstamp.graphs.frames.graphframe import GraphFrame
from pointstamp.graphs.frames.pregel import Pregel

__all__ = ["AggregateMessages", "GraphFrame", "Pregel"]
