"""What a crew is sent out with: everything that a member needs to know, as one value that can be pickled."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from pointstamp.flow.plan import NodeKind, Plan
from pointstamp.journal.dealers import dealers_of
from pointstamp.journal.parts import (
    INLINE_BYTES_MAX,
    parts_needed,
    restored_from,
    whole_part,
)
from pointstamp.journal.saved_part import PartSaved
from pointstamp.query.pacing import DECODED_BYTES_MAX
from pointstamp.rows.epochcolumn import EpochColumn, with_epochs
from pointstamp.rows.undeclared import with_extra
from pointstamp.sinks.port import Sink
from pointstamp.sources.port import Source
from pointstamp.storage.port import Storage
from pointstamp.worker.snapshots import Restored, place_of


@dataclass(frozen=True, slots=True)
class Mission:
    """One generation of a query: the flow, where its rows come from and go to, and the state it resumes from.

    ``chain`` are the parts of a whole snapshot, then those with what changed; empty where the flow starts
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
    """How many bytes of unfinished rows a member may have decoded."""
    inline_bytes_max: int = INLINE_BYTES_MAX
    """How many bytes of state all members together may put into a commit itself."""

    def schema(self, name: str) -> pa.Schema:
        """What is read of an input: its columns, and the epoch column if there is one beside them."""
        schema = with_epochs(self.declared(name), self.epoch_columns.get(name))
        return with_extra(schema, self.plan.named(NodeKind.INPUT)[name].extra_columns)

    def declared(self, name: str) -> pa.Schema:
        """The columns of an input as operators see them."""
        schema: pa.Schema = self.plan.named(NodeKind.INPUT)[name].outputs[0].schema
        return schema

    def restored(self, worker: int) -> Restored | None:
        """What a worker resumes from, read from storage; None where the flow starts from nothing.

        Whoever resumes from a part checks it: DamagedSnapshot if it is not whole.
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
        """Where a worker's part of a snapshot lies; no other generation writes there."""
        return part_name(worker, epoch, self.generation)


def part_name(worker: int, epoch: int, generation: int) -> str:
    """Where a worker's part of the snapshot of an epoch lies that a generation has written."""
    return f"snapshots/{epoch:012d}-g{generation:06d}-worker-{worker:05d}"


_PART = re.compile(r"snapshots/(\d+)-g(\d+)-worker-\d+")


def part_origin(name: str) -> tuple[int, int] | None:
    """The epoch and the generation of a part; None for a name that is not a part's."""
    found = _PART.fullmatch(name)
    return None if found is None else (int(found[1]), int(found[2]))
