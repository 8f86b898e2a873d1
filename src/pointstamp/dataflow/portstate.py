"""The ports of a running operator: what is counted and sent at an output, and the ways from an input."""

from collections.abc import Callable, Sequence
from typing import TypeAlias

import pyarrow as pa

from pointstamp.progress.pointstamp import Change
from pointstamp.topology.domain import Domain, Time
from pointstamp.topology.ports import Location
from pointstamp.topology.summary import Summary

Moves: TypeAlias = Sequence[Callable[[Time], Time | None]]


class OutputState:
    """One output of a running operator: its schema, what it has sent, and what is counted there."""

    __slots__ = (
        "changes",
        "domain",
        "held",
        "is_over",
        "less_equal",
        "location",
        "name",
        "operator",
        "reports_loss",
        "schema",
        "sent",
    )

    def __init__(
        self,
        operator: str,
        name: str,
        schema: pa.Schema,
        location: Location,
        domain: Domain,
        *,
        reports_loss: bool = True,
    ) -> None:
        self.operator = operator
        self.name = name
        self.schema = schema
        self.location = location
        self.domain = domain
        self.less_equal = domain.less_equal
        self.sent: list[tuple[Time, pa.RecordBatch]] = []
        self.changes: list[Change] = []
        self.held: dict[Time, int] = {}
        # Whether a capability that is garbage-collected here is somebody's mistake, not yet reported: not for
        # inputs, which live as long as their run, and not when the run is over.
        self.reports_loss = reports_loss
        self.is_over = False

    def count(self, time: Time, diff: int) -> None:
        """Record that a capability came or went."""
        self.changes.append(Change(self.location, time, diff))
        held = self.held.get(time, 0) + diff
        if held:
            self.held[time] = held
        else:
            del self.held[time]


class InputState:
    """One input of a running operator: its domain and the ways from it to each output."""

    __slots__ = ("domain", "location", "moves", "name")

    def __init__(self, name: str, location: Location, domain: Domain, moves: Sequence[Moves | None]) -> None:
        self.name = name
        self.location = location
        self.domain = domain
        # For each output how a time gets there: None for unchanged, an empty sequence for not at all.
        self.moves = moves


def moves_of(summaries: Sequence[Summary], domain: Domain) -> Moves | None:
    """The summaries of one way through an operator as functions; None for the identity alone."""
    if len(summaries) == 1 and summaries[0].is_identity(domain):
        return None
    return tuple(summary.compiled() for summary in summaries)
