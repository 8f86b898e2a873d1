"""The sink port: how output is staged and published, in two phases.

Workers *stage* rows: what is staged is durable and invisible. The driver writes into its journal which pieces
belong to a commit, and then *publishes* them: the commit becomes visible, complete and once. A run that is
restarted repeats the last publications of its journal, so it must be safe to publish again; what a dead
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

A sink is for rows that must be seen exactly once. ``examples/12_sqlite_sink.py`` is a complete one, and
``pointstamp.testing.check_sink`` is the contract as a test. ``SinkBase``, ``WriterBase`` and
``PublisherBase`` add the optional methods with their defaults: inherit them, or write only the methods that
differ (``complete_sink`` adds the others where a query takes the sink).
"""

from abc import abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol, TypeAlias

import msgspec
import pyarrow as pa

from pointstamp.errors import FlowError, StorageError
from pointstamp.optional import conforms
from pointstamp.storage.port import Storage

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


class StagedLost(StorageError):  # noqa: N818 - what happened
    """The staged rows of a commit are gone or altered; a driver that starts does not retry."""


class Writer(Protocol):
    """Stages the output of one worker, in one generation of a run; only that worker calls it."""

    def stage(self, output: str, epochs: Epochs) -> list[Staged]:
        """Store rows durably but invisible; they survive this process when the call returns.

        Rows that a piece holds itself are made durable by the journal, with the commit.

        The epochs are closed, so each is staged once per output in a generation; another generation may stage
        the same epochs again, beside these. Several epochs come together if they will be committed together,
        and may become one piece. Epochs without rows need no piece, so the list may be empty.
        """
        ...


class Publisher(Protocol):
    """Makes commits visible; called only by the driver, one commit at a time."""

    @abstractmethod
    def begin(self) -> None:
        """Mark the output as the query's before its first commit, durably and unseen by readers.

        ``published_through`` then returns -1 and not None. If a commit or the mark exists, nothing changes,
        even while another driver publishes the first commit. With the mark, an output that has lost its first
        commit together with all marks is an error; without it, that commit would be published again.
        """
        ...

    def publish(self, number: int, epochs_through: int, staged: Sequence[Staged]) -> None:
        """Make commit ``number`` visible: exactly these pieces, once, complete.

        If this number has been published with the same pieces, nothing changes. With other pieces, or if a
        number in between is missing, nothing changes either and StorageError is raised. After an error or a
        crash inside this call the commit may be visible or not; calling it again makes it visible.
        """
        ...

    def published_through(self) -> int | None:
        """Return the last epoch of the last visible commit; None if there is none.

        Between ``begin`` and the first commit it is -1, and never None.

        A sink that cannot find out raises an error; it never returns None, or an earlier epoch, because it
        got no answer. The driver compares the answer with its journal: an output that has lost a commit is an
        error, and is not written again.

        A driver resumes from this epoch, so its commit must stay even if the power fails: the driver that
        made it may have been killed before the commit was on the disk.
        """
        ...

    def discard(self, generation: int, keep: Collection[Staged]) -> None:
        """Remove what earlier generations have staged, except published and kept pieces.

        ``keep`` are the pieces of commits that are in the journal and may not be published yet. Workers of a
        dead generation may still be staging: what they add later is for the next call.
        """
        ...


class Compactor(Protocol):
    """Maintains published output; called by a separate thread of the driver."""

    @property
    def pause_seconds(self) -> float:
        """Seconds between two turns."""
        ...

    def turn(self, is_stopped: Callable[[], bool]) -> bool:
        """Do a bounded piece of work that no reader notices; return whether more is left.

        It may raise, and is then called again later. When ``is_stopped()`` is true it returns soon.
        """
        ...


class Sink(Protocol):
    """A destination of output: a plain value, pickled to the workers, that opens nothing itself."""

    def for_query(self, query: str, schemas: Mapping[str, pa.Schema]) -> "Sink":
        """Return the sink of one query; SchemaError for an output that it cannot store.

        Called on the driver, before a query starts and again when its workers are started. ``query`` is a
        name that stays the same over all restarts and that no other query has; ``schemas`` are the columns
        of each output, without the epoch.
        """
        ...

    def writer(self, worker: int, generation: int) -> Writer:
        """Return the writer of one worker, on its host."""
        ...

    def publisher(self) -> Publisher:
        """Return the publisher, for the driver."""
        ...


class WriterBase(Writer):
    """A writer with all optional methods."""

    __slots__ = ()

    def stage_early(self, output: str, epochs: Epochs) -> list[Staged]:
        """Stage rows whose commit is far, in pieces that hold nothing themselves; default: ``stage``."""
        return self.stage(output, epochs)


class PublisherBase(Publisher):
    """A publisher with all optional methods."""

    __slots__ = ()

    def check_outputs(self, before: Collection[str]) -> bool | None:
        """Raise RecoveryError if these outputs cannot resume from what is published; change nothing.

        Called before anything is written for a query that starts, because a flow may have changed: an output
        may be new, be gone, or have other columns. What is accepted here must be publishable: commits that
        are not published yet may hold pieces of outputs that are gone.

        Args:
            before: the outputs of the last run; empty if there was none.

        Returns:
            False (default) if the publisher cannot tell: then every output of before must still exist.

        """
        del before
        return False

    def prepared(
        self, number: int, epochs_through: int, staged: Sequence[Staged]
    ) -> AbstractContextManager[None]:
        """Return the context in which the commit is written into the journal; default: one without effect.

        Long work may begin in it, unseen by readers, if a process that dies leaves nothing of it. ``publish``
        follows, unless the context ends with an error.
        """
        del number, epochs_through, staged
        return nullcontext()


class SinkBase(Sink):
    """A sink with all optional methods."""

    __slots__ = ()

    def compactor(self) -> Compactor | None:
        """Return the work that runs beside a query; default: None."""
        return None

    def staging_in(self, storage: Storage) -> Sink:
        """Return the sink that stages in the storage of the query's checkpoint; default: the sink itself.

        For places where nothing can be durable and unseen.
        """
        del storage
        return self

    def check_place(self) -> None:
        """Raise if the sink's place lacks what the sink needs; called once, before a query starts."""
        return


def complete_sink(sink: Sink) -> SinkBase:
    """Return the sink with all optional methods; called where a query takes a sink."""
    return sink if isinstance(sink, SinkBase) else _CompleteSink(sink)


def complete_writer(writer: Writer) -> WriterBase:
    """Return the writer with all optional methods; called where a worker gets it."""
    return writer if isinstance(writer, WriterBase) else _CompleteWriter(writer)


def complete_publisher(publisher: Publisher) -> PublisherBase:
    """Return the publisher with all optional methods; FlowError if it lacks one that it needs."""
    if not conforms(publisher, Publisher):
        raise FlowError(
            f"{type(publisher).__name__} is not a publisher. It needs the methods begin, publish, "
            "published_through and discard: define those that it lacks."
        )
    return publisher if isinstance(publisher, PublisherBase) else _CompletePublisher(publisher)


def kind_of_sink(sink: Sink) -> str:
    """Return the name of a sink's class, for messages."""
    return type(sink.given if isinstance(sink, _CompleteSink) else sink).__name__


def prepared(
    publisher: Publisher, number: int, epochs_through: int, staged: Sequence[Staged]
) -> AbstractContextManager[None]:
    """Return a context in which a commit is written into the journal, while its publisher begins its work."""
    return complete_publisher(publisher).prepared(number, epochs_through, staged)


# One protocol for each optional method, with the default that a sink, a writer or a publisher without it has.


class _StagesEarly(Protocol):
    def stage_early(self, output: str, epochs: Epochs, /) -> list[Staged]: ...


class _ChecksOutputs(Protocol):
    def check_outputs(self, before: Collection[str], /) -> bool | None: ...


class _Prepares(Protocol):
    def prepared(
        self, number: int, epochs_through: int, staged: Sequence[Staged], /
    ) -> AbstractContextManager[None]: ...


class _Compacts(Protocol):
    def compactor(self) -> Compactor | None: ...


class _StagesElsewhere(Protocol):
    def staging_in(self, storage: Storage, /) -> Sink: ...


class _ChecksPlace(Protocol):
    def check_place(self) -> None: ...


class _CompleteWriter(WriterBase):
    """A writer without some of the optional methods, which take their defaults."""

    def __init__(self, given: Writer) -> None:
        self._given = given

    def stage(self, output: str, epochs: Epochs) -> list[Staged]:
        return self._given.stage(output, epochs)

    def stage_early(self, output: str, epochs: Epochs) -> list[Staged]:
        given = self._given
        stage = given.stage_early if conforms(given, _StagesEarly) else given.stage
        return stage(output, epochs)


class _CompletePublisher(PublisherBase):
    """A publisher without some of the optional methods, which take their defaults."""

    def __init__(self, given: Publisher) -> None:
        self._given = given

    def begin(self) -> None:
        self._given.begin()

    def publish(self, number: int, epochs_through: int, staged: Sequence[Staged]) -> None:
        self._given.publish(number, epochs_through, staged)

    def published_through(self) -> int | None:
        return self._given.published_through()

    def discard(self, generation: int, keep: Collection[Staged]) -> None:
        self._given.discard(generation, keep)

    def check_outputs(self, before: Collection[str]) -> bool | None:
        if conforms(self._given, _ChecksOutputs):
            return self._given.check_outputs(before)
        return super().check_outputs(before)

    def prepared(
        self, number: int, epochs_through: int, staged: Sequence[Staged]
    ) -> AbstractContextManager[None]:
        if conforms(self._given, _Prepares):
            return self._given.prepared(number, epochs_through, staged)
        return super().prepared(number, epochs_through, staged)


class _CompleteSink(SinkBase):
    """A sink without some of the optional methods, which take their defaults."""

    def __init__(self, given: Sink) -> None:
        self.given = given

    def for_query(self, query: str, schemas: Mapping[str, pa.Schema]) -> Sink:
        return complete_sink(self.given.for_query(query, schemas))

    def writer(self, worker: int, generation: int) -> Writer:
        return self.given.writer(worker, generation)

    def publisher(self) -> Publisher:
        return self.given.publisher()

    def compactor(self) -> Compactor | None:
        return self.given.compactor() if conforms(self.given, _Compacts) else super().compactor()

    def staging_in(self, storage: Storage) -> Sink:
        given = self.given
        return complete_sink(given.staging_in(storage)) if conforms(given, _StagesElsewhere) else self

    def check_place(self) -> None:
        if conforms(self.given, _ChecksPlace):
            self.given.check_place()
