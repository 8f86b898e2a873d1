"""The types of journal entries, and the snapshots that they describe.

All of it is msgpack with a type. A field that is added has a default, so that older journals can be read.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, TypeVar

import msgspec

from pointstamp.connectors.sink import Staged
from pointstamp.connectors.source import Unit

LAYOUT: Final = 3
"""The layout of ``FlowShape``; an entry of an older version has none."""


class OperatorShape(msgspec.Struct, frozen=True):
    """One operator or door of a flow: what it was given and what it reads, by name, as canonical text.

    ``name`` is its kind and what it is called; nothing is found by it. What it reads is told by place.
    ``functions`` has a digest for each function or object of the user, in the order of the parameters.
    ``has_state`` is False for operators of expressions only, which the signatures of their readers tell.
    """

    name: str
    parameters: dict[str, str]
    functions: list[str] = []
    has_state: bool = True


class FlowShape(msgspec.Struct, frozen=True, tag=True):
    """The complete plan whose journal this is, and the sources that it reads.

    ``operators`` are by place, ``sources`` by input. ``schemas`` has the published columns of each output, as
    Arrow writes a schema. ``version`` and ``python`` are those of the driver, for messages.
    """

    name: str
    query: str
    operators: dict[str, OperatorShape] = {}
    sources: dict[str, dict[str, str]] = {}
    schemas: dict[str, bytes] = {}
    version: str = ""
    python: str = ""
    layout: int = 0


class Ticked(msgspec.Struct, frozen=True, tag=True):
    """Tick ``number`` takes these units, by input; after it nothing comes before epoch ``complete_to``.

    ``emit_on_close`` says that no tick will follow: every source has come to its end. ``promised`` says of
    inputs with an epoch column before which epoch rows in these units are late, where that is not
    ``open_from``. ``silent`` are the inputs from which nothing has come for longer than they may be silent.
    """

    number: int
    units: dict[str, list[Unit]]
    open_from: int
    complete_to: int
    final: bool = False
    promised: dict[str, int] = {}
    silent: list[str] = []


class Renewed(msgspec.Struct, frozen=True, tag=True):
    """Units of a tick of which nothing is committed have changed: from now on these are read instead."""

    number: int
    units: dict[str, list[Unit]]


# A member's part of a snapshot, as a commit names it.


class PartSaved(msgspec.Struct, frozen=True, array_like=True):
    """A member's part of a snapshot, as it lies in storage; the checksum is its seal's.

    ``content`` is the part itself where it is small: then it is durable with the commit that names it, and
    nothing lies under its name.
    """

    name: str
    size_bytes: int
    crc32: int
    content: bytes = b""


class Committed(msgspec.Struct, frozen=True, tag=True):
    """Commit ``number``: the snapshot of an epoch, in parts by worker, and the output that it publishes.

    ``settled`` is the last tick that need not be read again to resume from here. ``kept`` says how many rows
    and bytes operators keep on all workers, by operator and what it is, for who looks at the checkpoint.
    ``shape`` is that of the flow where it is no longer the stored one: with this commit the change is done.
    """

    number: int
    epoch: int
    is_whole: bool
    parts: list[PartSaved]
    staged: list[Staged]
    settled: int
    savepoint: str | None = None
    kept: dict[str, tuple[int, int]] = {}
    shape: FlowShape | None = None

    @property
    def size_bytes(self) -> int:
        """The number of saved bytes."""
        return sum(part.size_bytes for part in self.parts)

    def without_rows(self) -> "Committed":
        """The commit after it is published: pieces that hold their rows need them no more."""
        staged = [msgspec.structs.replace(each, content=b"") for each in self.staged]
        return msgspec.structs.replace(self, staged=staged)


class OutputPublished(msgspec.Struct, frozen=True, tag=True):
    """The output of everything up to an epoch was published when this was stored.

    A commit implies that the one before it was published. This entry says it of the last commit, so that an
    output which has lost its marks is not taken for one that was never written.
    """

    epoch: int


class OutputBegun(msgspec.Struct, frozen=True, tag=True):
    """The output has a mark of this query since before its first commit.

    From then on an output without any mark has lost it. Without this entry, a first commit that was published
    and has lost its marks could not be told from one whose publication never came.
    """


class KeptSnapshot(msgspec.Struct, frozen=True, tag=True):
    """The last snapshot is kept, under a name."""

    savepoint: str


class Dropped(msgspec.Struct, frozen=True, tag=True):
    """A savepoint was dropped."""

    savepoint: str


class Said(msgspec.Struct, frozen=True, tag=True):
    """An input with an epoch column has no rows before ``epoch`` beyond the units it had at this entry.

    ``waiting`` are the units that were found by then and that no tick had taken.
    """

    input: str
    epoch: int
    waiting: list[str] = []


class Savepoint(msgspec.Struct, frozen=True):
    """A snapshot that is kept under a name, with all that another query needs to begin there."""

    name: str
    positions: dict[str, Any]
    last_tick: int
    open_from: int
    ticks: list[Ticked]
    commits: list[Committed]


class JournalSummary(msgspec.Struct, frozen=True, tag=True):
    """A summary of all older entries, as far as needed."""

    shape: FlowShape
    positions: dict[str, Any]
    last_tick: int
    open_from: int
    is_final: bool
    ticks: list[Ticked]
    commits: list[Committed]
    savepoints: list[Savepoint]
    promises: list[Said] = []
    published: int = -1
    is_output_begun: bool = False


class StoredAsOne(msgspec.Struct, frozen=True, tag=True):
    """Ticks that were made one after the other, and what followed them: entries that were stored as one."""

    ticks: list[Ticked]
    entry: (
        FlowShape | Renewed | Committed | OutputBegun | OutputPublished | KeptSnapshot | Dropped | Said | None
    ) = None


Entry: TypeAlias = (
    FlowShape
    | Ticked
    | Renewed
    | Committed
    | OutputBegun
    | OutputPublished
    | KeptSnapshot
    | Dropped
    | Said
    | JournalSummary
    | StoredAsOne
)


E = TypeVar("E")


def each_of(entry: Entry | E) -> Iterator[Entry | E]:
    """The entries that were stored as one, in order; most often there is one."""
    if isinstance(entry, StoredAsOne):
        yield from entry.ticks
        if entry.entry is not None:
            yield entry.entry
    else:
        yield entry


def stored_shape(entries: Iterable[Entry | E]) -> FlowShape | None:
    """Return the shape that a journal holds, without a look at anything else; None if it has not begun."""
    shape: FlowShape | None = None
    for stored in entries:
        for entry in each_of(stored):
            if isinstance(entry, FlowShape):
                shape = entry
            elif isinstance(entry, JournalSummary | Committed) and entry.shape is not None:
                shape = entry.shape
    return shape


@dataclass(frozen=True, slots=True)
class SnapshotChain:
    """A snapshot from which a query can continue: a complete one, then those with changes, oldest first."""

    commits: Sequence[Committed]

    @property
    def epoch(self) -> int:
        """The epoch that is saved."""
        return self.commits[-1].epoch

    @property
    def workers(self) -> int:
        """The number of workers that saved it."""
        return len(self.commits[-1].parts)

    def parts(self) -> list[list[PartSaved]]:
        """The parts, by commit and worker."""
        return [commit.parts for commit in self.commits]
