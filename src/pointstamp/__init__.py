"""Timely dataflow for Apache Spark: streams with loops, exact completion, unobservable recovery.

Names are imported when they are first used, so that the command line answers at once and a process that only
judges models never loads Arrow.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from pointstamp.version import __version__

if TYPE_CHECKING:
    from pointstamp.dataflow import saved
    from pointstamp.dataflow.aggregate import Aggregate, count, mean
    from pointstamp.dataflow.aggregate import max as max  # noqa: A004 - SQL's words, as ps.max and not starred
    from pointstamp.dataflow.aggregate import min as min  # noqa: A004 - as above
    from pointstamp.dataflow.aggregate import sum as sum  # noqa: A004 - as above
    from pointstamp.dataflow.capability import Capability
    from pointstamp.dataflow.context import Context
    from pointstamp.dataflow.loop import Loop
    from pointstamp.dataflow.operator import operator
    from pointstamp.dataflow.probe import Probe
    from pointstamp.dataflow.state import Piece
    from pointstamp.dataflow.stream import Stream
    from pointstamp.errors import PointstampError, PointstampWarning
    from pointstamp.flow import Dataflow
    from pointstamp.recovery.policy import RestartPolicy, SnapshotPolicy
    from pointstamp.recovery.query import Query
    from pointstamp.runtime.feeding import FlowControl
    from pointstamp.runtime.local import LocalRun
    from pointstamp.runtime.results import OutputTables, Results
    from pointstamp.sinks.compactor import Compacted, compact
    from pointstamp.sinks.delta import DeltaSink
    from pointstamp.sinks.parquet import ParquetSink
    from pointstamp.sinks.port import Sink, Staged
    from pointstamp.sinks.reading import published_files, read_published
    from pointstamp.sinks.tiers import CompactionPolicy
    from pointstamp.sources.files import files
    from pointstamp.sources.port import Source
    from pointstamp.topology.domain import Time
    from pointstamp.topology.stacks import Stacks
    from pointstamp.topology.summary import Summary, delay

_HOMES = {
    "Aggregate": "dataflow.aggregate",
    "Capability": "dataflow.capability",
    "Compacted": "sinks.compactor",
    "CompactionPolicy": "sinks.tiers",
    "Context": "dataflow.context",
    "Dataflow": "flow",
    "DeltaSink": "sinks.delta",
    "FlowControl": "runtime.feeding",
    "LocalRun": "runtime.local",
    "Loop": "dataflow.loop",
    "OutputTables": "runtime.results",
    "ParquetSink": "sinks.parquet",
    "Piece": "dataflow.state",
    "PointstampError": "errors",
    "PointstampWarning": "errors",
    "Probe": "dataflow.probe",
    "Query": "recovery.query",
    "RestartPolicy": "recovery.policy",
    "Results": "runtime.results",
    "Sink": "sinks.port",
    "SnapshotPolicy": "recovery.policy",
    "Source": "sources.port",
    "Stacks": "topology.stacks",
    "Staged": "sinks.port",
    "Stream": "dataflow.stream",
    "Summary": "topology.summary",
    "Time": "topology.domain",
    "compact": "sinks.compactor",
    "count": "dataflow.aggregate",
    "delay": "topology.summary",
    "files": "sources.files",
    "max": "dataflow.aggregate",
    "mean": "dataflow.aggregate",
    "min": "dataflow.aggregate",
    "operator": "dataflow.operator",
    "published_files": "sinks.reading",
    "read_published": "sinks.reading",
    "saved": "dataflow.saved",
    "sum": "dataflow.aggregate",
}

__all__ = [
    "Aggregate",
    "Capability",
    "Compacted",
    "CompactionPolicy",
    "Context",
    "Dataflow",
    "DeltaSink",
    "FlowControl",
    "LocalRun",
    "Loop",
    "OutputTables",
    "ParquetSink",
    "Piece",
    "PointstampError",
    "PointstampWarning",
    "Probe",
    "Query",
    "RestartPolicy",
    "Results",
    "Sink",
    "SnapshotPolicy",
    "Source",
    "Stacks",
    "Staged",
    "Stream",
    "Summary",
    "Time",
    "__version__",
    "compact",
    "count",
    "delay",
    "files",
    "mean",
    "operator",
    "published_files",
    "read_published",
    "saved",
]

# As ps.sum and the like: a star import must not put them before Python's own.
_NOT_STARRED = ("max", "min", "sum")


if not TYPE_CHECKING:  # to a type checker, a name that is not listed above is a mistake

    def __getattr__(name: str) -> object:
        home = _HOMES.get(name)
        if home is None:
            raise AttributeError(f"pointstamp has no {name!r}; it has {', '.join(__dir__())}.")
        module = import_module(f"pointstamp.{home}")
        # ``saved`` is a module, every other name something in one.
        value: object = module if name == "saved" else getattr(module, name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted([*__all__, *_NOT_STARRED])
