"""Probes: places in a flow where a person or a program can ask how far it has come."""

from dataclasses import dataclass

from pointstamp.topology.ports import SourcePort


@dataclass(frozen=True, slots=True)
class Probe:
    """Names an output of the flow; a running flow answers for it (``Running.is_done``)."""

    _source: SourcePort


def probed(probe: Probe) -> SourcePort:
    """The output that a probe names; for those who run plans, and not for users."""
    return probe._source  # noqa: SLF001 - this function is the one way to it
