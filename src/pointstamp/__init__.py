"""Timely dataflow for Apache Spark: streams with loops, exact completion, unobservable recovery."""

from pointstamp.dataflow.aggregate import Aggregate, count, max, mean, min, sum  # noqa: A004 - the words of SQL
from pointstamp.dataflow.capability import Capability
from pointstamp.dataflow.context import Context
from pointstamp.dataflow.loop import Loop
from pointstamp.dataflow.operator import operator
from pointstamp.dataflow.probe import Probe
from pointstamp.dataflow.stream import Stream
from pointstamp.errors import PointstampError, PointstampWarning
from pointstamp.flow import Dataflow
from pointstamp.runtime.feeding import FlowControl
from pointstamp.runtime.local import LocalRun
from pointstamp.runtime.results import OutputTables, Results
from pointstamp.topology.domain import Time
from pointstamp.topology.stacks import Stacks
from pointstamp.topology.summary import Summary, delay
from pointstamp.version import __version__

__all__ = [
    "Aggregate",
    "Capability",
    "Context",
    "Dataflow",
    "FlowControl",
    "LocalRun",
    "Loop",
    "OutputTables",
    "PointstampError",
    "PointstampWarning",
    "Probe",
    "Results",
    "Stacks",
    "Stream",
    "Summary",
    "Time",
    "__version__",
    "count",
    "delay",
    "max",
    "mean",
    "min",
    "operator",
    "sum",
]
