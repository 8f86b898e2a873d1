"""The mission of a crew: everything that its members need, as one value."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import pyarrow as pa

from pointstamp.arrow.epoch_column import EpochColumn, with_epochs
from pointstamp.arrow.schema import with_extra
from pointstamp.connectors.sink import Sink
from pointstamp.connectors.source import Source, moved_from_of
from pointstamp.flow.plan import NodeKind, Plan
from pointstamp.journal.flow_shape import shape_of
from pointstamp.journal.history import FlowShape, PartSaved, Ticked
from pointstamp.journal.ledger import TICKS_GATHERED_MAX
from pointstamp.journal.snapshot_parts import (
    INLINE_BYTES_MAX,
    dealers_of,
    parts_needed,
    restored_from,
    whole_part,
)
from pointstamp.query.observation import Judge
from pointstamp.query.policy import (
    BYTES_IN_FLIGHT_MAX,
    DECODED_BYTES_MAX,
    EPOCHS_IN_FLIGHT_MAX,
    RestartPolicy,
    SnapshotPolicy,
)
from pointstamp.storage.port import Storage
from pointstamp.worker.snapshots import Restored, place_of


@dataclass(frozen=True, slots=True)
class Mission:
    """One generation of a query: the flow, where its rows come from and go to, and the state it resumes from.

    ``chain`` are the parts of a complete snapshot, then those with what changed; empty where the flow starts
    from nothing. Output up to epoch ``published_through`` is published: where an older
    snapshot had to be used, it is computed again and must not be staged again.
    """

    plan: Plan
    sources: Mapping[str, Source]
    sink: Sink
    storage: Storage
    workers: int
    generation: int
    chain: Sequence[Sequence[PartSaved]] = ()
    epoch_columns: Mapping[str, EpochColumn] = field(default_factory=dict)
    published_through: int = -1
    is_observed: bool = False
    """Whether members tell the events of their workers, because they are judged."""
    query: str = ""
    """The identity of the query, with which everything in its checkpoint is sealed."""
    decoded_bytes_max: int = DECODED_BYTES_MAX
    """The maximum bytes of decoded, unprocessed rows of a member."""
    inline_bytes_max: int = INLINE_BYTES_MAX
    """The maximum bytes of state of all members in the commit itself."""

    def schema(self, name: str) -> pa.Schema:
        """The columns that are read of an input, with the epoch column if it is separate."""
        schema = with_epochs(self.declared(name), self.epoch_columns.get(name))
        return with_extra(schema, self.plan.named(NodeKind.INPUT)[name].extra_columns)

    def declared(self, name: str) -> pa.Schema:
        """The columns of an input as operators see them."""
        schema: pa.Schema = self.plan.named(NodeKind.INPUT)[name].outputs[0].schema
        return schema

    def restored(self, worker: int) -> Restored | None:
        """The state from which a worker resumes, read from storage; None if the flow starts without state.

        Whoever resumes from a part checks it: DamagedSnapshot if it is not complete.
        """
        if not self.chain:
            return None
        links = [
            [whole_part(part, self.storage, self.query) for part in parts_needed(parts, worker, self.workers)]
            for parts in self.chain
        ]
        names = {place_of(node): f"{node.kind.value} {node.name}" for node in self.plan.nodes}
        return restored_from(links, worker, self.workers, dealers_of(self.plan), names)

    def part_name(self, worker: int, epoch: int) -> str:
        """The path of a worker's part of a snapshot, which no other generation writes."""
        return part_name(worker, epoch, self.generation)


def part_name(worker: int, epoch: int, generation: int) -> str:
    """The path of a worker's part of an epoch's snapshot that a generation has written."""
    return f"snapshots/{epoch:012d}-g{generation:06d}-worker-{worker:05d}"


_PART = re.compile(r"snapshots/(\d+)-g(\d+)-worker-\d+")


def part_origin(name: str) -> tuple[int, int] | None:
    """The epoch and the generation of a part; None for a name that is not a part's."""
    found = _PART.fullmatch(name)
    return None if found is None else (int(found[1]), int(found[2]))


# Everything that is fixed about a query before it runs, as one value.


class SavepointPlace(NamedTuple):
    """A savepoint of another query: where its checkpoint is, its name, and whose it is."""

    checkpoint: Storage
    name: str
    query: str


@dataclass(frozen=True, slots=True)
class QuerySpec:
    """The settings of a query before it runs."""

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
    """The distance of ticks, if epochs are ticks of a clock."""
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
