"""Timely dataflow for Apache Spark: streams with loops, exact completion, unobservable recovery.

Names are imported when they are first used, so that the command line answers at once and a process that only
judges models never loads Arrow.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from pointstamp.version import __version__

if TYPE_CHECKING:
    from pointstamp.dataflow.aggregate import Aggregate, count, max, mean, min, sum  # noqa: A004 - SQL's words
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

_HOMES = {
    "Aggregate": "dataflow.aggregate",
    "Capability": "dataflow.capability",
    "Context": "dataflow.context",
    "Dataflow": "flow",
    "FlowControl": "runtime.feeding",
    "LocalRun": "runtime.local",
    "Loop": "dataflow.loop",
    "OutputTables": "runtime.results",
    "PointstampError": "errors",
    "PointstampWarning": "errors",
    "Probe": "dataflow.probe",
    "Results": "runtime.results",
    "Stacks": "topology.stacks",
    "Stream": "dataflow.stream",
    "Summary": "topology.summary",
    "Time": "topology.domain",
    "count": "dataflow.aggregate",
    "delay": "topology.summary",
    "max": "dataflow.aggregate",
    "mean": "dataflow.aggregate",
    "min": "dataflow.aggregate",
    "operator": "dataflow.operator",
    "sum": "dataflow.aggregate",
}

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


if not TYPE_CHECKING:  # to a type checker, a name that is not listed above is a mistake

    def __getattr__(name: str) -> object:
        home = _HOMES.get(name)
        if home is None:
            raise AttributeError(f"pointstamp has no {name!r}; it has {', '.join(__all__)}.")
        value: object = getattr(import_module(f"pointstamp.{home}"), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted(__all__)
