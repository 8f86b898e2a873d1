"""GraphFrames' names for these algorithms, over Spark DataFrames.

``graphframe`` has the methods and columns of a GraphFrame and runs each algorithm as a flow; ``triplets`` are
degrees, messages and subgraphs that Spark computes alone; ``pregel`` is the builder of vertex programs.
"""

from pointstamp.graphs.frames.graphframe import GraphFrame
from pointstamp.graphs.frames.pregel import Pregel
from pointstamp.graphs.frames.triplets import AggregateMessages

__all__ = ["AggregateMessages", "GraphFrame", "Pregel"]
