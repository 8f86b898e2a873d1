"""Simulated durable state, and the failures around each operation on it.

Kept: what the ports promise (``pointstamp.storage.port``, ``pointstamp.connectors.sink``), and no more. An
operation may fail, or be done without an answer; its caller may die before it, in the middle of it or after
it. What was not acknowledged may be undone when the power fails. The storage is
``pointstamp.simulate.crash.durability``; the sink is here.

The sink enforces its contract: a commit that comes again has the same content as before, numbers have no
gaps, and every piece that is published was staged and not discarded. Each row is stored under its output and
epoch as often as it was published, so a row that is published twice shows.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Final, TypeVar

import msgspec
import pyarrow as pa

from pointstamp.connectors.sink import Epochs, PublisherBase, SinkBase, Staged, WriterBase
from pointstamp.errors import AlreadyStored, InternalError, StorageError
from pointstamp.storage.memory import MemoryStorage
from pointstamp.storage.port import Content, joined
from pointstamp.topology.domain import Time

T = TypeVar("T")


class DiedError(BaseException):
    """The process that was at work is dead: it does nothing more, and no error handler sees this."""


class UnansweredError(StorageError):
    """An operation that the world let fail."""


class Durability:
    """Decides what happens around each durable operation; set by the world, one step at a time."""

    def __init__(self) -> None:
        self.dies_after: int | None = None
        """The number of operations that the acting process still does; it dies at the next one."""
        self.dies_late: bool = False
        """Whether the operation at which it dies is done."""
        self.fails: str | None = None
        """"fail": an operation is not done. "no answer": it is done. Both raise UnansweredError."""
        self.fails_after: int = 0
        """So many operations are done before the one that fails."""
        self.before: Callable[[str], None] = _nothing
        """Called before each operation: the world may let others act meanwhile."""
        self.draw: Callable[[int], int] = _plain
        """Decides what is left of an operation that was not acknowledged."""

    def around(
        self,
        what: str,
        act: Callable[[], T],
        *,
        killed: Callable[[], None] | None = None,
        unsure: Callable[[], None] | None = None,
    ) -> T:
        """Do an operation, or fail as the world decides.

        ``killed`` is done instead if the process dies before the operation is complete, ``unsure`` if it is
        perhaps done but not acknowledged.
        """
        self.before(what)
        if self.dies_after is not None:
            if self.dies_after == 0:
                if self.dies_late:
                    self._unacknowledged(act, unsure)
                elif killed is not None:
                    killed()
                raise DiedError(what)
            self.dies_after -= 1
            return act()
        if self.fails is None or self.fails_after > 0:
            self.fails_after = max(0, self.fails_after - 1)
            return act()
        fails, self.fails = self.fails, None
        if fails == "no answer":
            self._unacknowledged(act, unsure)
        raise UnansweredError(f"{what}: the storage does not answer.")

    def stand_aside(self) -> None:
        """Let everything be done as asked from now on."""
        self.dies_after = self.fails = None
        self.before = _nothing

    def _unacknowledged(self, act: Callable[[], object], unsure: Callable[[], None] | None) -> None:
        """Durable, or visible to all and not yet on the disk."""
        if unsure is not None and self.draw(2):
            unsure()
        else:
            act()


def _nothing(_: str) -> None:
    """Nothing happens before an operation."""


def _plain(_: int) -> int:
    """The plain answer."""
    return 0


class StoredCommit(msgspec.Struct, frozen=True):
    """A commit as it was published."""

    epochs_through: int
    staged: tuple[Staged, ...]


class SimulatedSink(SinkBase, PublisherBase):
    """The simulated sink: published commits and their staged pieces."""

    def __init__(self, durability: Durability) -> None:
        self._durability = durability
        self._pieces: dict[str, tuple[int, str, dict[int, list[pa.RecordBatch]]]] = {}
        self.commits: list[StoredCommit] = []
        self.visible: dict[tuple[str, Time], list[pa.RecordBatch]] = {}
        self._discarded: dict[str, tuple[int, str, dict[int, list[pa.RecordBatch]]]] = {}
        self._begun = False
        self._sure = 0
        """So many commits are on the disk; those after them are seen, and are not there yet."""

    def for_query(self, query: str, schemas: Mapping[str, pa.Schema]) -> "SimulatedSink":
        """There is one query in a world."""
        return self

    def writer(self, worker: int, generation: int) -> "SimulatedWriter":
        """For one worker."""
        return SimulatedWriter(self, worker, generation)

    def publisher(self) -> "SimulatedSink":
        """The sink itself."""
        return self

    def check_outputs(self, before: Collection[str]) -> None:
        """The flow of a world does not change."""

    def stage(self, path: str, generation: int, output: str, epochs: Epochs) -> list[Staged]:
        """Keep rows, unseen; an epoch without rows has no piece."""
        rows = {epoch: list(batches) for epoch, batches in epochs.items() if any(map(len, batches))}
        if not rows:
            return []
        if path in self._pieces:
            raise InternalError(f"'{path}' was staged twice.")

        def keep() -> None:
            self._pieces[path] = (generation, output, rows)

        self._durability.around(f"stage '{path}'", keep)
        count = sum(batch.num_rows for batches in rows.values() for batch in batches)
        return [Staged(output, min(rows), max(rows), path, count, count, 0)]

    def begin(self) -> None:
        """Mark the output before its first commit."""

        def mark() -> None:
            self._begun = True

        if not self._begun:
            self._durability.around("mark the output", mark)

    def publish(self, number: int, epochs_through: int, staged: Sequence[Staged]) -> None:
        """Make a commit visible, once; InternalError where the contract is broken."""
        commit = StoredCommit(epochs_through, tuple(staged))

        def done() -> None:
            self._publish(number, commit)
            self._sure = len(self.commits)

        self._durability.around(
            f"publish commit {number}", done, unsure=lambda: self._publish(number, commit)
        )

    def published_through(self) -> int | None:
        """The last epoch that is visible, which is sure from now on."""
        self._sure = len(self.commits)
        if self.commits:
            return self.commits[-1].epochs_through
        return -1 if self._begun else None

    def discard(self, generation: int, keep: Collection[Staged]) -> None:
        """Remove what older generations have staged, unless it is published or to be kept."""
        kept = {piece.path for piece in keep} | {p.path for commit in self.commits for p in commit.staged}
        gone = [path for path, (of, _, _) in self._pieces.items() if of < generation and path not in kept]
        for path in gone:
            self._durability.around(f"discard '{path}'", partial(self._discard, path))

    def lose_power(self) -> int:
        """Commits that were not acknowledged may be gone, and what was discarded may be there again."""
        changed = 0
        for path, discarded in self._discarded.items():
            if self._durability.draw(2):
                changed += 1
                self._pieces[path] = discarded
        self._discarded.clear()
        unsure = len(self.commits) - self._sure
        for _ in range(self._durability.draw(unsure + 1) if unsure else 0):
            changed += 1
            for piece in self.commits.pop().staged:
                for epoch in self._pieces[piece.path][2]:
                    self.visible.pop((piece.output, (epoch,)), None)
        self._sure = len(self.commits)
        return changed

    def _discard(self, path: str) -> None:
        piece = self._pieces.pop(path, None)
        if piece is not None:  # another driver may have been faster
            self._discarded[path] = piece

    def _publish(self, number: int, commit: StoredCommit) -> None:
        if number < len(self.commits):
            if self.commits[number] != commit:
                raise InternalError(
                    f"commit {number} was published with {self.commits[number]}, got {commit}."
                )
            return
        if number > len(self.commits):
            raise InternalError(f"commit {number} was published after {len(self.commits)} commits.")
        before = self.published_through()
        for piece in commit.staged:
            if piece.path not in self._pieces:
                raise InternalError(f"commit {number} has the piece '{piece.path}', which does not exist.")
            if not (-1 if before is None else before) < piece.first_epoch <= piece.last_epoch:
                raise InternalError(
                    f"commit {number} has {piece}, but epochs up to {before} are already published."
                )
            if piece.last_epoch > commit.epochs_through:
                raise InternalError(
                    f"commit {number} goes up to epoch {commit.epochs_through}, but has {piece}."
                )
        for piece in commit.staged:
            _, output, rows = self._pieces[piece.path]
            for epoch, batches in rows.items():
                self.visible.setdefault((output, (epoch,)), []).extend(batches)
        self.commits.append(commit)


class SimulatedWriter(WriterBase):
    """Stages what one worker has found, in one generation."""

    def __init__(self, sink: SimulatedSink, worker: int, generation: int) -> None:
        self._sink = sink
        self._where = f"g{generation}-worker{worker}"
        self._generation = generation
        self._number = 0

    def stage(self, output: str, epochs: Epochs) -> list[Staged]:
        """Keep rows, unseen."""
        self._number += 1
        return self._sink.stage(f"{self._where}-{self._number}", self._generation, output, epochs)


# Simulated storage with the write steps of ``LocalStorage``.
#
# What is acknowledged is durable. What is not may be whole, absent, or begun:
#
# - a writer that is killed before its object has its name leaves nothing under it: what it had written, up to
#   any byte, is a new file with a name of its own, which is neither listed nor read;
# - one that is killed after that, or that gets no answer, leaves it whole, but perhaps not yet on the disk:
#   it is visible to all, and if the power fails before the folder goes to the disk, it is gone; AlreadyStored
#   and ``sync`` make it sure;
# - a deletion is never made durable: where the power fails, what was deleted may be there again.
#
# All of it is within the promises of ``pointstamp.storage.port``. Not here: objects that lie torn under their
# names, which no storage may show (a damaged disk may, see ``damage``); ``writes_in_place`` is a storage that
# breaks the promise, so that tests can check that it is noticed.


class SimulatedStorage:
    """Objects in memory, with the failures of the world."""

    address: Final = "a simulated storage"
    is_exclusive: Final = True
    writes_in_place: bool = False
    is_synced: bool = True
    """Whether what is acknowledged is on the disk; a storage for which it is not breaks its promise."""

    def __init__(self, durability: Durability) -> None:
        self._durability = durability
        self._objects = MemoryStorage()
        self._unsure: dict[str, bytes | None] = {}
        """The possible content after a power failure: an object as it was, or nothing."""
        self.begun = 0
        """The number of new files that killed writers left."""

    def create(self, name: str, content: Content) -> None:
        """Store a new object; AlreadyStored where there is one."""
        self._store("create", name, joined(content), self._objects.create)

    def write(self, name: str, content: Content) -> None:
        """Store an object, in place of one that may be there."""
        self._store("write", name, joined(content), self._objects.write)

    def sync(self, name: str) -> None:
        """Make a visible object durable; NotStored if it does not exist."""

        def settle() -> None:
            self._objects.sync(name)
            self._sync(name)

        self._durability.around(f"sync '{name}'", settle)

    def read(self, name: str) -> bytes:
        """Return the content of an object; NotStored if it does not exist."""
        return self._durability.around(f"read '{name}'", lambda: self._objects.read(name))

    def size(self, name: str) -> int | None:
        """The size of an object in bytes; None where there is none."""
        return self._durability.around(f"size of '{name}'", lambda: self._objects.size(name))

    def list(self, prefix: str = "") -> list[str]:
        """The names that begin with a prefix, sorted."""
        return self._durability.around(f"list '{prefix}'", lambda: self._objects.list(prefix))

    def delete(self, name: str) -> None:
        """Remove an object; nothing happens where there is none. It may come back."""

        def remove() -> None:
            if self._objects.size(name) is not None:
                self._unsure.setdefault(name, self._objects.read(name))
                self._objects.delete(name)

        self._durability.around(f"delete '{name}'", remove)

    def damage(self, name: str) -> None:
        """Cut an object in half, as a disk might; nothing happens where there is none."""
        if self._objects.size(name) is not None:
            whole = self._objects.read(name)
            self._objects.write(name, whole[: len(whole) // 2])

    def lose_power(self) -> int:
        """Objects that were not on the disk may go back to what they were; return how many do."""
        changed = 0
        for name, before in sorted(self._unsure.items()):
            if not self._durability.draw(2):
                continue
            changed += 1
            if before is None:
                self._objects.delete(name)
            else:
                self._objects.write(name, before)
        self._unsure.clear()
        return changed

    def _store(self, what: str, name: str, content: bytes, store: Callable[[str, bytes], None]) -> None:
        def seen() -> None:
            """Complete under its name, and in the memory of the machine alone."""
            before = self._objects.read(name) if self._objects.size(name) is not None else None
            try:
                store(name, content)
            except AlreadyStored:
                self._sync(name)  # what is said to be there is on the disk
                raise
            self._unsure.setdefault(name, before)

        def done() -> None:
            seen()
            if self.is_synced:
                self._sync(name)

        def killed() -> None:
            cut = self._durability.draw(len(content) + 1)
            self.begun += 1
            if self.writes_in_place and cut:
                store(name, content[:cut])

        self._durability.around(f"{what} '{name}'", done, killed=killed, unsure=seen)

    def _sync(self, name: str) -> None:
        """The folder goes to the disk: all objects in it are sure. Deletions stay unsure, as they may."""
        folder = name.rpartition("/")[0]
        for each in list(self._unsure):
            is_there = self._objects.size(each) is not None
            if each == name or (is_there and each.rpartition("/")[0] == folder):
                del self._unsure[each]
