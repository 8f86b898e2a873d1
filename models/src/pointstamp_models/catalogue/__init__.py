"""The catalogue of models that ``pointstamp check models`` puts before the judge."""

from typing import Final

from pointstamp_models.catalogue import (
    accumulating,
    borders,
    clocks,
    combined,
    exchange,
    propagation,
    recursion,
    snapshots,
    tails,
    timely,
)
from pointstamp_models.exploring.entry import Entry

ENTRIES: Final[tuple[Entry, ...]] = (
    clocks.ENTRY,
    exchange.ENTRY,
    propagation.ENTRY,
    combined.ENTRY,
    borders.ENTRY,
    timely.ENTRY,
    recursion.ENTRY,
    snapshots.ENTRY,
    accumulating.ENTRY,
    tails.ENTRY,
)
