"""The ports of a running operator: capabilities, counts and summaries.

An output keeps the record of the rights that it has given: which object stands for which time. The record is
what counts; what such an object says of itself does not.
"""

from collections.abc import Callable, Sequence
from typing import TypeAlias

import pyarrow as pa

from pointstamp.operators.rights import Right, when_collected
from pointstamp.progress.pointstamp import Change, change_of
from pointstamp.topology.domain import Domain, Time
from pointstamp.topology.ports import Location
from pointstamp.topology.summary import Summary

Moves: TypeAlias = Sequence[Callable[[Time], Time | None]]


class OutputState:
    """One output of a running operator: its schema, what it has sent, and what is held and counted there."""

    __slots__ = (
        "changes",
        "domain",
        "held",
        "is_over",
        "less_equal",
        "location",
        "lost",
        "name",
        "on_collected",
        "operator",
        "reports_loss",
        "rights",
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
        # By the identity of the object, which is in nobody else's hands as long as the object lives.
        self.rights: dict[int, Right] = {}
        self.lost: list[Time] = []
        self.on_collected = when_collected(self._lose)
        # Whether a capability that is garbage-collected here is somebody's mistake, not yet reported: not for
        # inputs, which live as long as their run, and not when the run is over.
        self.reports_loss = reports_loss
        self.is_over = False

    def give(self, capability: object, time: Time) -> None:
        """Enter a right into the record, for a new object that stands for it."""
        right = Right(capability, self.on_collected)
        right.number = id(capability)
        right.time = time
        self.rights[right.number] = right
        self.count(time, 1)

    def move(self, capability: object, time: Time) -> None:
        """Let an object that stands for a right stand for a later time."""
        right = self.rights[id(capability)]
        self.count(time, 1)
        self.count(right.time, -1)
        right.time = time

    def release(self, capability: object) -> bool:
        """Strike a right from the record; False where the object stands for none."""
        right = self.rights.pop(id(capability), None)
        if right is not None:
            self.count(right.time, -1)
        return right is not None

    def settle(self) -> None:
        """Count what was lost since: what stood for it was collected, perhaps in the middle of counting."""
        while self.lost:
            self.count(self.lost.pop(), -1)

    def count(self, time: Time, diff: int) -> None:
        """Record that a capability was added or dropped."""
        self.changes.append(change_of((self.location, time, diff)))
        held = self.held.get(time, 0) + diff
        if held:
            self.held[time] = held
        else:
            del self.held[time]

    def _lose(self, right: Right) -> str | None:
        """Strike a right whose object was collected; return what to report, once."""
        # The collector runs where it pleases, also between two steps of this very record.
        if self.rights.pop(right.number, None) is None or self.is_over:
            return None
        self.lost.append(right.time)
        if not self.reports_loss:
            return None
        self.reports_loss = False
        return (
            f"operator '{self.operator}' lost a capability for {right.time} on output '{self.name}': it was "
            "garbage-collected while held and has been released. Call drop() when it is not needed."
        )


class InputState:
    """One input of a running operator: its domain and the ways from it to each output."""

    __slots__ = ("domain", "location", "moves", "name", "row_moves")

    def __init__(
        self,
        name: str,
        location: Location,
        domain: Domain,
        moves: Sequence[Moves | None],
        row_moves: Sequence[Moves | None],
    ) -> None:
        self.name = name
        self.location = location
        self.domain = domain
        # For each output how a time gets there: None for unchanged, an empty sequence for not at all. What
        # becomes of a row may be known more exactly than what becomes of anything that is still to come.
        self.moves = moves
        self.row_moves = row_moves


def moves_of(summaries: Sequence[Summary], domain: Domain, *, rows: bool = False) -> Moves | None:
    """The summaries of one way through an operator as functions; None for the identity alone."""
    if len(summaries) == 1 and summaries[0].is_identity(domain):
        return None
    return tuple([summary.for_rows() if rows else summary.compiled() for summary in summaries])
