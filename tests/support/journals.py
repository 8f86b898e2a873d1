"""Entries for tests of the journal: something is said, and summaries tell all that was said before them."""

from typing import Any

import msgspec

from pointstamp.journal.entries import GenerationStarted, Record
from pointstamp.journal.journal import Journal
from pointstamp.storage.port import Storage


class Said(msgspec.Struct, frozen=True, tag=True, array_like=True):
    value: int


class Summed(msgspec.Struct, frozen=True, tag=True, array_like=True):
    said: tuple[tuple[int, int], ...]  # number and value


Entry = Said | Summed


def opened(storage: Storage, **options: Any) -> Journal[Entry]:  # noqa: ANN401
    return Journal.open(storage, Entry, **options)


def started(storage: Storage, owner: str = "host a, process 1", at: float = 0.0) -> Journal[Entry]:
    journal = opened(storage)
    journal.start_generation(owner, at)
    return journal


def said_in(records: list[Record[Entry]]) -> list[tuple[int, int]]:
    """All that was ever said, as far as these records tell: a summary tells what was before it."""
    said: list[tuple[int, int]] = []
    for record in records:
        match record.entry:
            case Said(value):
                said.append((record.number, value))
            case Summed(before):
                said = list(before)
            case GenerationStarted():
                pass
    return said
