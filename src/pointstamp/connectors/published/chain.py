"""The chain of manifests: the published commits of a folder.

Commit n is published by creating the object ``_pointstamp/<n>.json``, which only one writer can do: object
stores have no rename, so this is the commit point. A chain of months would be as many objects as there were
commits, so every tenth link also holds the nine before it, every hundredth the ninety-nine, and so on up to
ten thousand, and what a later link holds is removed. So n commits are at most n / 10,000 + 36 objects, no
object grows beyond ten thousand commits, and each commit is written five times at most: unlike a checkpoint
of everything, this stays cheap however long it continues.

    n = 0 .. 8    one commit each       n = 9     0 .. 9
    n = 10 .. 18  one commit each       n = 19    10 .. 19      ...      n = 99    0 .. 99

The links that hold everything up to n follow from n alone (``links_to``). A link is removed only after one
that holds it is there, so a reader that finds a link gone looks for the newest again, and finds a later one.

Invariant: a commit is either in one link that the newest leads to, or in none; a publication that is
repeated, or comes late, changes nothing that a reader sees. This file does not check whether the data files
are there.

Before its first commit a query creates ``_pointstamp/begun-<a digest of its name>.json``. So a chain whose
links are all lost with it is told from one that has none yet.
"""

import base64
import hashlib
import os
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Final

import msgspec
import pyarrow as pa

from pointstamp.connectors.sink import Staged
from pointstamp.errors import AlreadyStored, FlowError, NotStored, StorageError
from pointstamp.redaction import redact
from pointstamp.storage.port import Storage
from pointstamp.storage.sealed import seal_json, unseal_json

FOLDER: Final = "_pointstamp"
"""The folder of the links; Spark does not read folders whose names begin with an underscore."""

FORMAT_VERSION: Final = 3
_FANOUT: Final = 10
_HELD_MAX: Final = 10_000
_TRIES_MAX: Final = 100
_NAME: Final = re.compile(rf"{FOLDER}/(\d{{12,}})\.json")


class PublishedCommit(msgspec.Struct, frozen=True):
    """One commit: the files of the epochs after the previous commit, through its own."""

    number: int
    epochs_through: int
    files: list[Staged]
    is_complete: bool = False


class Columns(msgspec.Struct, frozen=True):
    """The columns of an output's files: for people, and as Arrow writes a schema, in base 64."""

    names: dict[str, str]
    arrow: str

    @classmethod
    def of(cls, schema: pa.Schema) -> "Columns":
        """Encode the columns for storage."""
        names = {field.name: str(field.type) for field in schema}
        return cls(names, base64.b64encode(schema.serialize().to_pybytes()).decode())

    def schema(self) -> pa.Schema:
        """Decode the columns to an Arrow schema."""
        return pa.ipc.read_schema(pa.py_buffer(base64.b64decode(self.arrow)))


class ChainLink(msgspec.Struct, frozen=True):
    """One object of the chain: consecutive commits, and everything else that a reader must know.

    ``outputs`` are all outputs that there have been so far: an output may begin or end with any commit, and
    its columns never change.
    """

    query: str
    outputs: dict[str, Columns]
    commits: list[PublishedCommit]


def first_held(number: int) -> int:
    """The first of the commits that link ``number`` holds; the last is ``number``.

    >>> [first_held(number) for number in (0, 8, 9, 10, 19, 98, 99, 109, 999, 99_999)]
    [0, 8, 0, 10, 10, 98, 0, 100, 0, 90000]
    """
    held = 1
    while held < _HELD_MAX and (number + 1) % (held * _FANOUT) == 0:
        held *= _FANOUT
    return number + 1 - held


def links_to(number: int) -> Iterator[int]:
    """The links that together hold all commits up to ``number``, the newest first.

    >>> list(links_to(122)), list(links_to(9))
    ([122, 121, 120, 119, 109, 99], [9])
    """
    while number >= 0:
        yield number
        number = first_held(number) - 1


class Chain:
    """The links below a folder. It keeps nothing in memory, so two of them see the same."""

    def __init__(self, storage: Storage) -> None:
        self.storage = storage

    def newest(self) -> int | None:
        """The number of the last commit, None before the first."""
        return max(self._numbers(), default=None)

    def links(self, after: int = -1) -> list[ChainLink]:
        """The links after a commit, the oldest first; StorageError if there is a gap.

        The first link may also hold commits up to that one.
        """
        links = self._read(lambda newest: [link for link in links_to(newest) if link > after])[::-1]
        for link in links[:-1]:
            if link.query != links[-1].query:
                number = link.commits[-1].number
                raise self._broken(
                    f"'{_name(number)}' belongs to '{link.query}', but "
                    f"'{_name(links[-1].commits[-1].number)}' to '{links[-1].query}'. One of the two "
                    "files was moved or overwritten: restore it from a copy"
                )
        return links

    def last(self) -> ChainLink | None:
        """The link with the last commit, without a look at those before it; None before the first."""
        links = self._read(lambda newest: [newest])
        return links[0] if links else None

    def _read(self, chosen: Callable[[int], list[int]]) -> list[ChainLink]:
        """The links that are chosen by the newest one's number."""
        before: int | None = None
        for _ in range(_TRIES_MAX):
            newest = self.newest()
            if newest is None:
                return []
            try:
                return [self._link(number) for number in chosen(newest)]
            except NotStored as error:
                # With a newer link the missing one was replaced meanwhile; without, it is lost.
                if newest == before:
                    raise self._broken(
                        f"link {newest} exists, but an earlier link is missing: {error}"
                    ) from error
                before = newest
        raise self._broken(f"links were removed during the read, {_TRIES_MAX} times in a row")

    def begin(self, query: str) -> None:
        """Mark the folder as one to which a query publishes, unless it is."""
        with suppress(AlreadyStored):
            name = _begun_name(query)
            self.storage.create(name, seal_json(msgspec.json.encode(query), name, FORMAT_VERSION))

    def is_begun(self, query: str) -> bool:
        """Return whether the folder is marked for a query, and stays so."""
        try:
            self.storage.sync(_begun_name(query))
        except NotStored:
            return False
        return True

    def append(
        self,
        query: str,
        outputs: dict[str, Columns],
        commit: PublishedCommit,
        look: Callable[[], None] = lambda: None,
    ) -> None:
        """Publish a commit, unless it has been; StorageError if it cannot be the next one.

        ``look`` is called before a commit that has not been published: its files must be there.
        """
        numbers = self._numbers()
        newest = max(numbers, default=None)
        if newest is not None and commit.number <= newest:
            self._check_same(query, commit)
        else:
            try:
                there = self._check_next(query, outputs, commit, newest)
                look()
                held = self._commits(first_held(commit.number), newest)
                link = ChainLink(query, {**there, **outputs}, [*held, commit])
                self.storage.create(_name(commit.number), encode_link(link, commit.number))
            except (AlreadyStored, NotStored):
                # Another driver, which this one replaces or which replaces this one, was faster.
                self._check_same(query, commit)
        self._remove_held([*numbers, commit.number])

    def _check_next(
        self, query: str, outputs: dict[str, Columns], commit: PublishedCommit, newest: int | None
    ) -> dict[str, Columns]:
        """The outputs that are published; an output that is gone from the flow stays among them."""
        expected, through, there = 0, -1, dict[str, Columns]()
        if newest is not None:
            last = self._link(newest)
            self.check_query(last, query)
            there = last.outputs
            for name in changed_columns(last, outputs):
                raise self._broken(
                    f"output '{name}' has the columns {', '.join(there[name].names)}, but commit "
                    f"{commit.number} has {', '.join(outputs[name].names)}"
                )
            if last.commits[-1].is_complete:
                raise self._broken(
                    f"expected the commit after the last one, {newest}, got commit {commit.number}"
                )
            expected, through = newest + 1, last.commits[-1].epochs_through
        if commit.number != expected:
            raise self._broken(f"expected commit {expected}, got commit {commit.number}")
        epochs = [(file.first_epoch, file.last_epoch) for file in commit.files]
        if commit.epochs_through < through or not all(
            through < first <= last <= commit.epochs_through for first, last in epochs
        ):
            raise self._broken(
                f"commit {commit.number} must hold epochs after {through} up to {commit.epochs_through}, "
                f"got files of epochs {sorted(epochs)}"
            )
        return there

    def check_query(self, link: ChainLink, query: str) -> None:
        """StorageError where a link is of another query."""
        if link.query != query:
            raise self._broken(
                f"the folder belongs to query '{link.query}', and query '{query}' cannot publish to it"
            )

    def sync(self, link: ChainLink) -> None:
        """Make sure that a link that was seen stays, no matter which driver wrote it."""
        # One that is gone was replaced by a later one, whose writer has taken the folder to the disk.
        with suppress(NotStored):
            self.storage.sync(_name(link.commits[-1].number))

    def _check_same(self, query: str, commit: PublishedCommit) -> None:
        for link in self.links():
            for there in link.commits:
                if there.number == commit.number:
                    if link.query == query and _sorted(there) == _sorted(commit):
                        self.sync(link)
                        return
                    raise self._broken(
                        f"commit {commit.number} of '{link.query}' is already published with "
                        f"{len(there.files)} files through epoch {there.epochs_through}, but '{query}' "
                        f"published different content as this commit: {len(commit.files)} files through "
                        f"epoch {commit.epochs_through}"
                    )
        raise self._broken(f"commit {commit.number} was published and has been removed")

    def _commits(self, first: int, newest: int | None) -> list[PublishedCommit]:
        """The commits from ``first`` to the newest."""
        if newest is None or first > newest:
            return []
        links = [self._link(number) for number in links_to(newest) if number >= first]
        return [commit for link in reversed(links) for commit in link.commits]

    def _remove_held(self, numbers: list[int]) -> None:
        """Remove links whose commits later links hold; also those that a late or interrupted driver left.

        There may be later links meanwhile: what they need of these numbers, the last of these needs too.
        """
        needed = set(links_to(max(numbers)))
        for number in numbers:
            if number not in needed:
                self.storage.delete(_name(number))

    def _numbers(self) -> list[int]:
        found = (_NAME.fullmatch(name) for name in self.storage.list(f"{FOLDER}/"))
        return [int(each[1]) for each in found if each]

    def _link(self, number: int) -> ChainLink:
        try:
            return decode_link(self.storage.read(_name(number)), number)
        except NotStored:
            raise
        except StorageError as error:
            raise self._broken(str(error)) from error

    def _broken(self, what: str) -> StorageError:
        return StorageError(f"the manifests in '{self.storage.address}/{FOLDER}': {what}.")


def encode_link(link: ChainLink, number: int) -> bytes:
    """Link ``number`` as it is stored: sealed with its name, which says where it belongs."""
    return seal_json(msgspec.json.encode(link), _name(number), FORMAT_VERSION)


def decode_link(stored: bytes, number: int) -> ChainLink:
    """A link as it was written; StorageError if it was altered, or is another one."""
    name = _name(number)
    content = unseal_json(stored, name, FORMAT_VERSION)
    try:
        link = msgspec.json.decode(content, type=ChainLink)
    except msgspec.DecodeError as error:
        raise StorageError(f"'{name}' cannot be read as a manifest: {error}") from error
    if [commit.number for commit in link.commits] != list(range(first_held(number), number + 1)):
        raise StorageError(f"'{name}' must hold the commits {first_held(number)} to {number}, but does not")
    return link


def _name(number: int) -> str:
    return f"{FOLDER}/{number:012d}.json"


def _begun_name(query: str) -> str:
    return f"{FOLDER}/begun-{hashlib.blake2b(query.encode(), digest_size=8).hexdigest()}.json"


def _sorted(commit: PublishedCommit) -> tuple[int, bool, list[Staged]]:
    files = sorted(commit.files, key=lambda file: file.path)
    return commit.epochs_through, commit.is_complete, files


def changed_columns(link: ChainLink, outputs: dict[str, Columns]) -> list[str]:
    """The outputs that are published with other columns than these."""
    both = [name for name in outputs if name in link.outputs]
    return [name for name in both if link.outputs[name].schema() != outputs[name].schema()]


# Compactions: merged files that replace the first commits of a chain.
#
#     <path>/_pointstamp/compactions/<number>.json
#
# A compaction lists the files that hold all rows up to one commit of the chain; only the newest counts, and
# the chain continues after it. It changes where rows lie and nothing else: the same rows, with the same
# epochs. Compaction n + 1 is made from compaction n, and exists once its object has been created, which only
# one writer can do. So a compactor that is late, or has been replaced, changes nothing that a reader sees.
#
# Files that were replaced stay for a while, for readers that know of them. Some older compactions are
# ``kept`` to tell since when they are replaced: a file that one of them does not list, and that is not newer
# than it, is replaced since then, and will not be listed again. What is neither the newest nor kept by the
# newest is removed, and means nothing if a late writer creates it again.

PLACE: Final = f"{FOLDER}/compactions"
COMPACTION_VERSION: Final = 2
_COMPACTION_NAME: Final = re.compile(rf"{PLACE}/(\d{{12,}})\.json")


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
    """Encode for storage, sealed with its name, which proves its place."""
    return seal_json(msgspec.json.encode(compaction), _compaction_name(compaction.number), COMPACTION_VERSION)


def decode_compaction(content: bytes, number: int, place: str) -> Compaction:
    """Return the compaction of a number; StorageError if it was altered or replaced."""
    name = _compaction_name(number)
    try:
        return msgspec.json.decode(unseal_json(content, name, COMPACTION_VERSION), type=Compaction)
    except StorageError as error:
        raise StorageError(f"the compactions in '{place}': {error}.") from error
    except msgspec.DecodeError as error:
        raise StorageError(f"'{place}/{name}' cannot be read as a compaction: {error}.") from error


class PublishedMoment(msgspec.Struct, frozen=True):
    """The published files up to one commit."""

    query: str
    outputs: dict[str, Columns]
    commits_through: int
    epochs_through: int
    is_complete: bool
    files: list[Staged]
    files_after: int
    """The number of files of commits after the newest compaction."""


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


def moment_now(storage: Storage, path: str | os.PathLike[str]) -> PublishedMoment:
    """Return the published commits of a folder; FlowError, with its path, if there are none."""
    found = moment(storage, Compactions(storage).newest())
    if found is None:
        raise FlowError(
            f"'{redact(path)}' contains no {FOLDER}/*.json: nothing has been published to it. "
            "Give the path of a published output."
        )
    return found


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
        return decode_compaction(self.storage.read(_compaction_name(number)), number, self.storage.address)

    def create(self, compaction: Compaction) -> None:
        """Make a compaction the newest; AlreadyStored if another one has taken its number."""
        self.storage.create(_compaction_name(compaction.number), encode_compaction(compaction))

    def remove_unneeded(self, newest: Compaction) -> None:
        """Remove those before the newest that it does not keep."""
        kept = {each.number for each in newest.kept}
        for number in self.numbers():
            if number < newest.number and number not in kept:
                self.storage.delete(_compaction_name(number))

    def numbers(self) -> list[int]:
        """Return the numbers of all compactions."""
        found = (_COMPACTION_NAME.fullmatch(name) for name in self.storage.list(f"{PLACE}/"))
        return [int(each[1]) for each in found if each]


def _compaction_name(number: int) -> str:
    return f"{PLACE}/{number:012d}.json"
