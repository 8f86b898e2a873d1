"""Sealed, numbered journal entries, signed by their generation.

Each object is sealed with its name, which contains its number, and with its query, so that an object in the
place of another is found. It holds the generation and the mark of its writer, so that a second writer knows
who was first; the kind of the entry, so that the journal need not understand it; and the entry itself, as its
owner encoded it.

Invariant: what ``encoded`` returns depends on its arguments alone, so a write that is tried again has the
same bytes; and no two writers share a mark, so equal bytes are one writer's.
"""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, Generic, Literal, NewType, TypeAlias, TypeVar

import msgspec

from pointstamp.errors import RecoveryError, StorageError
from pointstamp.storage.sealed import seal, unseal

Generation = NewType("Generation", int)
"""Counts the drivers of one checkpoint; the highest in the journal is the one that may write."""

EntryNumber = NewType("EntryNumber", int)
"""An entry's place in the total order, from 0, without gaps."""

Sort: TypeAlias = Literal["generation", "entry", "summary"]

E = TypeVar("E")

_KIND: Final = "journal entry"
_VERSION: Final = 1


class GenerationStarted(msgspec.Struct, frozen=True, tag=True):
    """A driver has taken the journal over: from here on, no older one can append."""

    generation: int
    owner: str  # for messages: which process on which host
    at: float  # seconds since 1970, by the owner's clock; for messages, never for decisions

    def __str__(self) -> str:
        when = datetime.fromtimestamp(self.at, UTC).isoformat(sep=" ", timespec="seconds")
        return f"generation {self.generation}, started by {self.owner} at {when}"


@dataclass(frozen=True, slots=True)
class Record(Generic[E]):
    """An entry with its place and its writer's generation."""

    number: EntryNumber
    generation: Generation
    entry: E | GenerationStarted


class Stored(msgspec.Struct, frozen=True):
    """The content of a journal object."""

    number: int
    generation: int
    writer: str
    sort: Sort
    entry: msgspec.Raw
    # In a summary: where generations were started before it. Those objects stay; the journal says why.
    starts: tuple[int, ...] = ()


_stored: Final = msgspec.msgpack.Decoder(Stored)
_started: Final = msgspec.msgpack.Decoder(GenerationStarted)


def encoded(
    number: EntryNumber,
    generation: Generation,
    writer: str,
    entry: object,
    *,
    name: str,
    query: str,
    sort: Sort,
    starts: tuple[int, ...] = (),
) -> bytes:
    """The bytes of an entry, the same for the same arguments."""
    raw = msgspec.Raw(msgspec.msgpack.encode(entry))
    stored = Stored(number, generation, writer, sort, raw, starts)
    return seal(msgspec.msgpack.encode(stored), _KIND, name, owner=query, version=_VERSION)


def decoded(content: bytes, number: EntryNumber, name: str, query: str) -> Stored:
    """Return the entry of a number, after a check of its integrity and identity."""
    try:
        return _stored.decode(unseal(content, _KIND, name, owner=query, version=_VERSION))
    except (StorageError, msgspec.DecodeError) as error:
        raise RecoveryError(
            f"entry {number} of the journal cannot be read, and no entry may be skipped: {error} Restore "
            "the object from a copy, or start with a new checkpoint."
        ) from error


def entry_of(stored: Stored, decoder: "msgspec.msgpack.Decoder[Any]", name: str) -> Any:  # noqa: ANN401
    """The entry itself; the decoder knows all but GenerationStarted."""
    try:
        return (_started if stored.sort == "generation" else decoder).decode(stored.entry)
    except msgspec.DecodeError as error:
        raise RecoveryError(
            f"entry {stored.number} of the journal ('{name}') is intact, but unknown to this version of "
            f"pointstamp: {error}. Another version wrote it: use that version, or start with a new "
            "checkpoint."
        ) from error
