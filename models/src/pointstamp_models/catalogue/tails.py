"""Tails before the judge: instances of the exchange protocol with a tail, and variants with one change each.

The points are the three places of a short flow: x is a message before the last exchange's operator, b a
capability behind it, and c a message to the output. Numbers of states are this model's own.
"""

from functools import partial
from typing import Final

from pointstamp_models.catalogue.exchange import A, B
from pointstamp_models.exploring.entry import Entry, Instance, Mutant
from pointstamp_models.spec.broadcasting import WorkerIndex
from pointstamp_models.spec.exchange import ExchangeState, Operation
from pointstamp_models.spec.multiset import EMPTY, ZM, Point, chain
from pointstamp_models.spec.tails import TailedExchange

TAIL: Final = frozenset({1, 2})
"""All points of a chain of three but the first."""


class RowsLeaveTheTail(TailedExchange):
    """MT.1: what is sent inside the tail may go to any worker."""

    def stays(self, w: WorkerIndex, operation: Operation) -> bool:
        """The rule of the exchange protocol."""
        return True


class BordersForgotten(TailedExchange):
    """MT.2: a worker does not ask what may still come from outside."""

    def has_passed(self, view: ZM, point: Point) -> bool:
        """Always."""
        return True


class MessagesUncounted(TailedExchange):
    """MT.3: a worker looks at its capabilities, and not at messages to itself."""

    def own(self, state: ExchangeState, q: WorkerIndex) -> ZM:
        """Capabilities alone."""
        return state.caps[q]


class CapabilitiesUncounted(TailedExchange):
    """MT.4: a worker looks at messages to itself, and not at its capabilities."""

    def own(self, state: ExchangeState, q: WorkerIndex) -> ZM:
        """Messages alone."""
        return state.data[q]


ENTRY: Final[Entry] = Entry(
    name="tails",
    title="Tails: what a worker knows by itself (over Brun et al. 2021)",
    instances=(
        Instance(
            "one worker before the tail, 2 operations",
            partial(TailedExchange, chain("xbc"), (A, EMPTY), ops=2, inside=TAIL),
            7_497,
            20_576,
        ),
        Instance(
            "both workers before the tail, 2 operations",
            partial(TailedExchange, chain("xbc"), (A, EMPTY), ops=2, inside=TAIL, data=(EMPTY, A)),
            42_089,
            134_185,
            long=True,
        ),
        Instance(
            "an exchange before the tail, 3 operations",
            partial(TailedExchange, chain("axbc"), (A, EMPTY), ops=3, inside=frozenset({2, 3})),
            limit=60_000,
            long=True,
        ),
    ),
    mutants=(
        Mutant(
            "MT.1",
            "what is sent inside the tail goes to others",
            partial(RowsLeaveTheTail, chain("xbc"), (B, EMPTY), ops=1, inside=TAIL),
            "OwnPartKept",
        ),
        Mutant(
            "MT.2",
            "borders are forgotten",
            partial(BordersForgotten, chain("xbc"), (A, EMPTY), ops=1, inside=TAIL),
            "OwnPartKept",
        ),
        Mutant(
            "MT.3",
            "messages inside are not counted",
            partial(MessagesUncounted, chain("xbc"), (B, EMPTY), ops=1, inside=TAIL),
            "OwnPartKept",
        ),
        Mutant(
            "MT.4",
            "capabilities inside are not counted",
            partial(CapabilitiesUncounted, chain("xbc"), (B, EMPTY), ops=1, inside=TAIL),
            "OwnPartKept",
        ),
    ),
)
