"""Simulated durable state, and the failures around each operation on it.

Kept: what the ports promise (``pointstamp.storage.port``, ``pointstamp.sinks.port``), and no more. An
operation may fail, or be done without an answer; its caller may die before it, in the middle of it or after
it. What was not acknowledged may be undone when the power fails. The storage is
``pointstamp.simulate.crash.storage``; the sink is here.

The sink enforces its contract: a commit that comes again has the same content as before, numbers have no
gaps, and every piece that is published was staged and not discarded. Each row is stored under its output and
epoch as often as it was published, so a row that is published twice shows.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import TypeVar

import msgspec
import pyarrow as pa

from pointstamp.errors import InternalError, StorageError
from pointstamp.sinks.port import Epochs, PublisherBase, SinkBase, Staged, WriterBase
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
        """How many operations the acting process still does; it dies at the next one."""
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
                raise InternalError(f"commit {number} has the piece '{piece.path}', which is not there.")
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
