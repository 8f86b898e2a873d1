"""Compactions: merged files that replace the first commits of a chain.

    <path>/_pointstamp/compactions/<number>.json

A compaction lists the files that hold all rows up to one commit of the chain; only the newest counts, and the
chain continues after it. It changes where rows lie and nothing else: the same rows, with the same epochs.
Compaction n + 1 is made from compaction n, and exists once its object has been created, which only one writer
can do. So a compactor that is late, or has been replaced, changes nothing that a reader sees.

Files that were replaced stay for a while, for readers that know of them. Some older compactions are ``kept``
to tell since when they are replaced: a file that one of them does not list, and that is not newer than it, is
replaced since then, and will not be listed again. What is neither the newest nor kept by the newest is
removed, and means nothing if a late writer creates it again.
"""

import re
from typing import Final

import msgspec

from pointstamp.errors import NotStored, StorageError
from pointstamp.sinks.chain import FOLDER, Chain, Columns
from pointstamp.sinks.port import Staged
from pointstamp.storage.port import Storage
from pointstamp.storage.sealed_json import seal_json, unseal_json

PLACE: Final = f"{FOLDER}/compactions"
COMPACTION_VERSION: Final = 2
_NAME: Final = re.compile(rf"{PLACE}/(\d{{12,}})\.json")
_TRIES_MAX: Final = 100


class KeptCompaction(msgspec.Struct, frozen=True, array_like=True):
    """An older compaction that is still there, and when it was made."""

    number: int
    at_seconds: float


class Compaction(msgspec.Struct, frozen=True):
    """All that is published up to a commit: whose it is, and the files, in the order of publication."""

    number: int
    query: str
    outputs: dict[str, Columns]
    commits_through: int
    epochs_through: int
    is_complete: bool
    files: list[Staged]
    at_seconds: float
    kept: list[KeptCompaction]


def encode_compaction(compaction: Compaction) -> bytes:
    """As it is stored: sealed with its name, so that it is known where it belongs."""
    return seal_json(msgspec.json.encode(compaction), _name(compaction.number), COMPACTION_VERSION)


def decode_compaction(content: bytes, number: int, place: str) -> Compaction:
    """Return the compaction of a number; StorageError if it was altered or replaced."""
    name = _name(number)
    try:
        return msgspec.json.decode(unseal_json(content, name, COMPACTION_VERSION), type=Compaction)
    except StorageError as error:
        raise StorageError(f"the compactions in '{place}': {error}.") from error
    except msgspec.DecodeError as error:
        raise StorageError(f"'{place}/{name}' cannot be read as a compaction: {error}.") from error


class PublishedMoment(msgspec.Struct, frozen=True):
    """Everything that is published up to one commit."""

    query: str
    outputs: dict[str, Columns]
    commits_through: int
    epochs_through: int
    is_complete: bool
    files: list[Staged]
    files_after: int
    """How many of the files are of commits after the newest compaction."""


def moment(storage: Storage, newest: Compaction | None, tail: int = 0) -> PublishedMoment | None:
    """Return the published commits on top of the newest compaction; None if there are none."""
    through = -1 if newest is None else newest.commits_through
    links = Chain(storage).links(after=through)
    commits = [commit for link in links for commit in link.commits if commit.number > through]
    commits = commits[: max(0, len(commits) - tail)]
    if newest is None and not commits:
        return None
    added = [file for commit in commits for file in commit.files]
    said = links[-1] if links else newest  # a link has every output there ever was
    last = commits[-1] if commits else newest
    assert said is not None and last is not None  # noqa: PT018 - one of them is there
    return PublishedMoment(
        said.query,
        said.outputs,
        commits[-1].number if commits else through,
        last.epochs_through,
        last.is_complete,
        [*([] if newest is None else newest.files), *added],
        len(added),
    )


class Compactions:
    """The compactions below a folder. It keeps nothing in memory, so two of them see the same."""

    def __init__(self, storage: Storage) -> None:
        self.storage = storage

    def newest(self) -> Compaction | None:
        """The newest one, the only one that counts; None before the first."""
        before = None
        for _ in range(_TRIES_MAX):
            number = max(self.numbers(), default=None)
            if number is None:
                return None
            try:
                return self.read(number)
            except NotStored:
                # With a newer one it was replaced meanwhile; without, it is lost.
                if number == before:
                    break
                before = number
        raise StorageError(
            f"'{self.storage.address}/{PLACE}': compactions were removed during the read. Read again."
        )

    def read(self, number: int) -> Compaction:
        """One of them; NotStored where it is gone."""
        return decode_compaction(self.storage.read(_name(number)), number, self.storage.address)

    def create(self, compaction: Compaction) -> None:
        """Make a compaction the newest; AlreadyStored if another one has taken its number."""
        self.storage.create(_name(compaction.number), encode_compaction(compaction))

    def remove_unneeded(self, newest: Compaction) -> None:
        """Remove those before the newest that it does not keep."""
        kept = {each.number for each in newest.kept}
        for number in self.numbers():
            if number < newest.number and number not in kept:
                self.storage.delete(_name(number))

    def numbers(self) -> list[int]:
        """Return the numbers of all compactions."""
        found = (_NAME.fullmatch(name) for name in self.storage.list(f"{PLACE}/"))
        return [int(each[1]) for each in found if each]


def _name(number: int) -> str:
    return f"{PLACE}/{number:012d}.json"
