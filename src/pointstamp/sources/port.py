"""The source port: rows that come in named units, each of which can be read again.

Recovery replays what came after the last commit, so a source must guarantee exactly one strong thing: a unit
that was found once can be read again, and gives the same rows. Everything else follows from how a run uses
it. The driver holds a ``Watch`` and finds units; a tick takes some of them and becomes an epoch; the workers
read the parts themselves and send the rows at that epoch; the tick is in the journal with its parts before or
with the commit of the epoch. A tick that is not may be forgotten, and then its units are found again. No row
passes through the driver. This is the rule of Abadi & Isard (2015) for what comes from outside: an
input is durable before anything that follows from it is seen.

A *position* says what was taken so far. It is a plain value that msgpack can hold (it is written into the
journal), ``None`` at the beginning, and only the source itself looks inside. ``after`` is the one way to move
it: the position after a unit is known from the position before it and from the unit, so a driver that reads
its journal again comes to the same position.

To add another source, write these two classes. Of a table a unit may be a version; of topics of Kafka
(``pointstamp.sources.kafka``) a unit is ranges of offsets, a part one partition's range, a position the
offsets taken. ``Source`` is a plain value that is pickled to the workers; ``Watch`` stays on the driver and
may hold sockets and threads.

A unit that is found and not taken has the same name when it is found again, because a promise may rest on the
units that were found before it. A source that would find other units has a method ``units_named(position,
names)``, which makes those of these names that can be taken from a position on, in order; a driver that goes
on from a journal takes them first. A source whose units may change
as long as nothing of them is committed has a method ``renewed(unit)``, which returns the unit as it is now,
or None while it is being written. A driver that resumes from a journal calls it before a unit is read again.

A source whose units are of very different sizes may have a method ``share_of_tick(unit)``, which returns how
much of what one tick may take a unit is: a tick then takes units up to 1 together, and always one.

A source whose parts have lanes has a method ``lanes(position)``, which returns those that were taken from. A
unit may have an empty part, of no bytes, to tell of a lane from which nothing has come: event time passes in
an input with the lane that is farthest behind.

A source that may leave rows out, because they cannot be read and the user wants it so, has a method
``skipped(part)``: how many these were, asked once after a part was read, where it was read.

A checkpoint belongs to one source for each input. A source may have a method ``identity()``, which returns a
mapping of words that tells it from others: ``{"kind": "mailbox", "place": "imap://host/box"}``, without
secrets. Another identity is rejected when a query resumes; a source without the method is known by its class.

What a source does not do: give rows an epoch, remember what was taken, or know of workers.
"""

from collections.abc import Iterator
from typing import Any, Protocol, TypeAlias

import msgspec
import pyarrow as pa

Position: TypeAlias = Any
"""What was taken before: None, or a value of the source's own that msgpack can hold; lists may be tuples."""


class Part(msgspec.Struct, frozen=True):
    """What one worker reads: where it is, as its source knows it, and how large.

    ``share`` is ``(k, n)`` where this is the k-th of n shares of what is there. A source says that something
    may be shared by giving it as ``(0, 1)``, the one share of one; None means that one worker reads it whole.
    ``size_bytes`` is the size of what is there, whatever the share, and ``identity`` tells its content from
    other content, where the source can say. Parts of one ``lane`` are read by one worker, tick after tick.
    """

    locator: str
    size_bytes: int
    share: tuple[int, int] | None = None
    identity: str | None = None
    lane: int | None = None

    @property
    def load_bytes(self) -> int:
        """About how much there is to read in this part.

        >>> Part("a", 1000, (2, 4)).load_bytes
        250
        """
        return self.size_bytes if self.share is None else self.size_bytes // self.share[1]


class Unit(msgspec.Struct, frozen=True):
    """What one tick may take: it has a name, and is read whole or not at all. It may have no part.

    A source whose rows say their epochs may promise that none in this unit, or in any that follows it, is of
    an epoch before ``least_epoch``, and none in those that follow it of one before ``complete_to``.
    """

    name: str
    parts: tuple[Part, ...]
    least_epoch: int | None = None
    complete_to: int | None = None


class Watch(Protocol):
    """What the driver holds to find units, in one process and from one thread.

    Poll once before waiting for ``fileno``: units that were there at the start do not make it readable. Also
    poll every second or so without being woken: some news does not make it readable.

    A watch that knows what it waits for may say so, by a method ``waits_for()`` that returns the words.

    A watch that looks at intervals may have a method ``refresh()``, after which it looks again at once, and
    an attribute ``is_refreshing``: true until polls have returned everything that was there at that moment.
    """

    def poll(self) -> list[Unit]:
        """The units found since the last call, in the order to take them, each unit once; never waits."""
        ...

    def fileno(self) -> int | None:
        """What becomes readable when there may be news; None where polling is the only way to know."""
        ...

    @property
    def is_finished(self) -> bool:
        """Whether every unit that there will ever be has been returned by ``poll``."""
        ...

    def close(self) -> None:
        """Release what is held; a second call does nothing."""
        ...


class Source(Protocol):
    """A plain value that says where rows are, pickled to every worker."""

    @property
    def units_per_tick(self) -> int | None:
        """How many units one tick takes at most; None takes all there are into one epoch."""
        ...

    def watch(self, position: Position, *, available_now: bool = False) -> Watch:
        """Find the units after a position; with ``available_now``, only those that are there now."""
        ...

    def read(self, part: Part, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """The rows of a part, with exactly this schema; the same rows in the same order every time."""
        ...

    def after(self, position: Position, unit: Unit) -> Position:
        """The position once this unit is taken as well; pure: the same arguments give an equal position."""
        ...

    def describe(self) -> str:
        """A description for messages: ``files '/in' (parquet)``."""
        ...
