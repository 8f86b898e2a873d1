"""The sink port: what a run requires from the place that its output goes to, in two phases.

Workers *stage* rows: what is staged is durable, and nobody sees it. The driver writes into its journal which
pieces belong to a commit, and then *publishes* them: the commit becomes visible, whole and once. A run that
is restarted repeats the last publications of its journal, so it must be safe to publish again; what a dead
generation has staged and no commit names is never seen, and is discarded at some later time.

    on a worker                on the driver
    writer.stage(...)  ------> journal: commit n holds these pieces
                               publisher.publish(n, ...)          again after a crash, with the same pieces

The order of calls that an implementation may rely on: commits are published in the order of their numbers, 0,
1, 2, ...; a number that comes again has the same pieces as before; the epochs of a commit are those after the
previous one's ``epochs_through``, up to its own. Two drivers may publish the same commit at the same time
(one that was replaced and does not know it yet), so the check for a repetition and the publication must be
one atomic step; the journal sees to it that they publish the same content. Everything else may happen: a
process may die between any two steps inside any of these calls.

A sink is for rows that must be seen exactly once. ``examples/12_sqlite_sink.py`` is a whole one, and
``pointstamp.testing.check_sink`` is the contract as a test.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol, TypeAlias

import msgspec
import pyarrow as pa

Epochs: TypeAlias = Mapping[int, Sequence[pa.RecordBatch]]
"""All rows of an output that one worker has, for some closed epochs."""


class Staged(msgspec.Struct, frozen=True):
    """A piece of output that is durable and not yet visible; it goes into the journal with its commit.

    Its rows are of epochs from ``first_epoch`` to ``last_epoch``. ``path`` is how the sink finds it again: a
    file's path, or any word that the sink understands; no other piece has the same. A small piece may hold
    its rows itself, as ``content``: then it is durable with its commit, and nothing need lie elsewhere.
    """

    output: str
    first_epoch: int
    last_epoch: int
    path: str
    rows: int
    size_bytes: int
    crc32: int
    content: bytes = b""


class Writer(Protocol):
    """Stages what one worker has found, in one generation of a run; only that worker calls it.

    A writer whose pieces may hold their rows has a method ``stage_early``, too, which is called in place of
    ``stage`` for rows whose commit is far: these must not stay in memory, and its pieces hold nothing.
    """

    def stage(self, output: str, epochs: Epochs) -> list[Staged]:
        """Make rows durable, unseen by readers; they survive this process when the call returns.

        Rows that a piece holds itself are made durable by the journal, with the commit.

        The epochs are closed, so each is staged once per output in a generation; another generation may stage
        the same epochs again, beside these. Several epochs come together if they will be committed together,
        and may become one piece. Epochs without rows need no piece, so the list may be empty.
        """
        ...


class Publisher(Protocol):
    """Makes commits visible; only the driver calls it, and one commit after the other.

    A publisher may also have two further methods. ``prepared(number, epochs_through, staged)`` is a context
    in which the commit is written into the journal: what takes long may be begun there, unseen by readers, as
    long as a process that dies leaves nothing of it. ``publish`` follows, unless the context ends with an
    error.

    ``begin()`` marks the output as the query's before its first commit, durably and unseen by readers:
    ``published_through`` then returns -1 and not None. Where a commit or the mark is there, it changes
    nothing, also where another driver publishes the first commit meanwhile. With it, an output that has lost
    its first commit together with all marks is an error; without it, that commit would be published again.
    """

    def check_outputs(self, before: Collection[str]) -> None:
        """RecoveryError if these outputs cannot resume from what is published; nothing is changed.

        Asked before anything is written for a query that starts, because a flow may have changed: an output
        may be new, be gone, or have other columns. ``before`` are the outputs that the query had when it ran
        last; none where it has not run. What is accepted here must be publishable: commits that are not
        published yet may hold pieces of outputs that are gone. A publisher without this method accepts the
        outputs of before and no others.
        """
        ...

    def publish(self, number: int, epochs_through: int, staged: Sequence[Staged]) -> None:
        """Make commit ``number`` visible: exactly these pieces, once, whole.

        If this number has been published with the same pieces, nothing changes. With other pieces, or if a
        number in between is missing, nothing changes either and StorageError is raised. After an error or a
        crash inside this call the commit may be visible or not; calling it again makes it visible.
        """
        ...

    def published_through(self) -> int | None:
        """The last epoch of the last commit that is visible; None before the first, and only then.

        Between ``begin`` and the first commit it is -1, and never None.

        A sink that cannot find out raises an error; it never returns None, or an earlier epoch, because it
        got no answer. The driver compares the answer with its journal: an output that has lost a commit is an
        error, and is not written again.

        A driver resumes from this epoch, so its commit must stay even if the power fails: the driver that
        made it may have been killed before the commit was on the disk.
        """
        ...

    def discard(self, generation: int, keep: Collection[Staged]) -> None:
        """Remove what generations before this one have staged, except what is published and what is kept.

        ``keep`` are the pieces of commits that are in the journal and may not be published yet. Workers of a
        dead generation may still be staging: what they add later is for the next call.
        """
        ...


class Compactor(Protocol):
    """Keeps what is published in good order; a thread of the driver calls it beside everything else."""

    @property
    def pause_seconds(self) -> float:
        """How long to wait between two turns."""
        ...

    def turn(self, is_stopped: Callable[[], bool]) -> bool:
        """Do a bounded piece of work that no reader notices, and say whether there is more to do.

        It may raise, and is then called again later. When ``is_stopped()`` is true it returns soon.
        """
        ...


class Sink(Protocol):
    """Where output goes: a plain value that is pickled to the workers, and opens nothing by itself.

    A sink may also have these methods: ``compactor() -> Compactor | None``, for work beside a query;
    ``staging_in(storage) -> Sink``, the sink that stages in the storage of the query's checkpoint, for places
    where nothing can be durable and unseen; and ``check_place() -> None``, which is called once before a
    query starts and raises where the sink's place does not keep what the sink rests on.
    """

    def for_query(self, query: str, schemas: Mapping[str, pa.Schema]) -> "Sink":
        """The sink for one query; SchemaError for an output that it cannot hold.

        Called on the driver, before a query starts and again when its workers are started. ``query`` is a
        name that stays the same over all restarts and that no other query has; ``schemas`` are the columns
        of each output, without the epoch.
        """
        ...

    def writer(self, worker: int, generation: int) -> Writer:
        """For one worker, on its host."""
        ...

    def publisher(self) -> Publisher:
        """For the driver."""
        ...


def prepared(
    publisher: Publisher, number: int, epochs_through: int, staged: Sequence[Staged]
) -> AbstractContextManager[None]:
    """A context in which a commit is written into the journal, while its publisher may begin its work."""
    begin: Callable[..., AbstractContextManager[None]] | None = getattr(publisher, "prepared", None)
    return nullcontext() if begin is None else begin(number, epochs_through, staged)


def begin_output(publisher: Publisher) -> bool:
    """Mark an output before its first commit; False where the publisher cannot do that."""
    begin: Callable[[], None] | None = getattr(publisher, "begin", None)
    if begin is not None:
        begin()
    return begin is not None
