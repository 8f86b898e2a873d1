"""Everything that is fixed about a query before it runs, as one value."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import pyarrow as pa

from pointstamp.flow.plan import Plan
from pointstamp.journal.history import FlowShape, Ticked
from pointstamp.journal.ledger import TICKS_GATHERED_MAX
from pointstamp.journal.shape import shape_of
from pointstamp.query.observing import Judge
from pointstamp.query.pacing import DECODED_BYTES_MAX
from pointstamp.query.policy import (
    BYTES_IN_FLIGHT_MAX,
    EPOCHS_IN_FLIGHT_MAX,
    RestartPolicy,
    SnapshotPolicy,
)
from pointstamp.rows.epochcolumn import EpochColumn
from pointstamp.sinks.port import Sink
from pointstamp.sources.port import Source
from pointstamp.sources.provenance import moved_from_of
from pointstamp.storage.port import Storage


class SavepointPlace(NamedTuple):
    """A savepoint of another query: where its checkpoint is, its name, and whose it is."""

    checkpoint: Storage
    name: str
    query: str


@dataclass(frozen=True, slots=True)
class QuerySpec:
    """Everything that is said about a query before it runs."""

    plan: Plan
    sources: Mapping[str, Source]
    sink: Sink
    storage: Storage
    workers: int
    query_id: str
    snapshots: SnapshotPolicy = field(default_factory=SnapshotPolicy)
    restarts: RestartPolicy = field(default_factory=RestartPolicy)
    epoch_columns: Mapping[str, EpochColumn] = field(default_factory=dict)
    available_now: bool = False
    closes: bool = False
    """Whether the end of all sources is the end of time: then what was put off is published, too."""
    accept_changes: bool = False
    grows: bool = False
    """Whether a new generation begins as soon as it would have more workers."""
    epochs_max: int = EPOCHS_IN_FLIGHT_MAX
    bytes_max: int = BYTES_IN_FLIGHT_MAX
    decoded_bytes_max: int = DECODED_BYTES_MAX
    ticks_gathered_max: int = TICKS_GATHERED_MAX
    tick_every_seconds: float | None = None
    """Where epochs are ticks of a clock: how far apart."""
    waits_for_silent: bool = False
    """Whether silent inputs hold event time back whatever the flow says: a simulated world has no clock by
    which its results could be compared."""
    savepoint: SavepointPlace | None = None
    """The savepoint with which a query begins that has no journal yet."""
    schemas: Mapping[str, pa.Schema] | None = None
    """The columns of what is published, where they differ from those of the flow's outputs."""
    judge: Judge | None = None
    """The judge of what happens while the query runs; None without one."""
    forget: Callable[[list[Ticked]], None] | None = None
    """Called with ticks that will never be read again, so that their rows can be removed at the source."""
    shape: FlowShape = field(init=False)
    """The shape of the flow, made once: functions may change what they capture while the query runs."""

    def __post_init__(self) -> None:
        """Make the shape."""
        shape = shape_of(self.plan, self.query_id, self.sources, self.epoch_columns, self.schemas)
        object.__setattr__(self, "shape", shape)

    @property
    def moved_from(self) -> dict[str, str]:
        """The places from which sources were moved, by input."""
        moved = {name: moved_from_of(source) for name, source in self.sources.items()}
        return {name: place for name, place in moved.items() if place is not None}
