"""The parts of timely dataflow: times, summaries, antichains, capabilities, probes, runs driven by hand."""

from pointstamp.dataflow.loops import Loop, TableLoop
from pointstamp.driver.feeder import FlowControl, RunInput
from pointstamp.driver.local_run import LocalRun
from pointstamp.flow.event_epochs import EventTime
from pointstamp.flow.plan import Probe
from pointstamp.operators.capability import Capability
from pointstamp.order.antichain import Antichain
from pointstamp.progress.pointstamp import Pointstamp
from pointstamp.progress.why import Holder
from pointstamp.topology.domain import RootSummary, Time, TimeOrder
from pointstamp.topology.stacks import Stacks
from pointstamp.topology.summary import Summary, delay

__all__ = [
    "Antichain",
    "Capability",
    "EventTime",
    "FlowControl",
    "Holder",
    "LocalRun",
    "Loop",
    "Pointstamp",
    "Probe",
    "RootSummary",
    "RunInput",
    "Stacks",
    "Summary",
    "TableLoop",
    "Time",
    "TimeOrder",
    "delay",
]
