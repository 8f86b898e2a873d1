"""Probes: places in a flow where a person or a program can ask how far it has come."""

from dataclasses import dataclass

from pointstamp.topology.ports import Source


@dataclass(frozen=True, slots=True)
class Probe:
    """Names an output of the flow; a running flow answers for it (``Running.is_done``)."""

    source: Source
