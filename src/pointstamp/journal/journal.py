"""The journal: a durable, totally ordered log that only the newest driver can append to.

Everything a run must remember is an entry here: which driver runs it, which input each epoch took, which
epoch is committed. Entry n is the object ``journal/<n in 12 digits>``, stored by ``Storage.create``, which
never replaces: of two drivers that both believe it is their turn, one is told of the other. This is what
makes a restart a *recovery* in the sense of Veresov et al. 2024: one history, continued, never two.

Invariants:

- *Total order.* No number is given twice; entries have no gaps; generations never fall.
- *Fencing.* After a GenerationStarted, nothing of an older generation can be appended. The older driver's
  next number is the one that the newer's GenerationStarted has taken, as only its own entries come before it.
- *Identity.* Each entry is sealed with its number and its query; one of another number, or of another query's
  journal, is rejected with an error wherever it lies.
- *Summary.* A summary stands for all entries before it, which are then deleted, except each
  GenerationStarted: were that gone, its number would be free again, and an old driver that slept all the
  while would succeed. So one small object per generation stays. A crash before or among the deletions leaves
  too much, never too little.

A driver that is about to start cannot be fenced so, as it has no entry yet: the number it chose may have been
taken, summarized and deleted meanwhile. Therefore it looks again after its entry is stored, and if there are
later ones that do not follow from its own, its entry is void (it lies before a summary) and it tries again.

This needs a storage whose ``create`` is exclusive and whose ``list`` shows everything stored before the call
(as S3, Google Cloud Storage, Azure, HDFS and local disks do). It has no clock: times of day come from the
caller. It does not retry a storage that fails; the caller knows how long to be patient.
"""

import uuid
import warnings
from typing import Any, Final, Generic, TypeVar

import msgspec

from pointstamp.errors import AlreadyStored, FencedError, NotStored, PointstampWarning, RecoveryError
from pointstamp.journal.entries import (
    EntryNumber,
    Generation,
    GenerationStarted,
    Record,
    Sort,
    decoded,
    encoded,
    entry_of,
)
from pointstamp.optional import conforms
from pointstamp.storage.port import SaysIfExclusive, Storage

E = TypeVar("E")

_DIGITS: Final = 12
_MOST_TRIES: Final = 1000


def _is_exclusive(storage: object) -> bool:
    return not conforms(storage, SaysIfExclusive) or storage.is_exclusive


class Journal(Generic[E]):
    """One driver's hold of the journal; for one thread. Its entries are of a type that msgspec decodes.

    Say which: ``journal: Journal[Ticked | Committed] = Journal.open(storage, Ticked | Committed)``.
    """

    def __init__(
        self,
        storage: Storage,
        entry_type: Any,  # noqa: ANN401 - as below
        prefix: str,
        writer: str,
        query: str,
    ) -> None:
        self._storage = storage
        self._query = query
        self._prefix = prefix
        self._writer = writer
        self._decoder = msgspec.msgpack.Decoder(entry_type)
        self._generation: Generation | None = None
        self._records: list[Record[E]] = []  # since the last summary, once a generation is started
        self._starts: set[int] = set()  # the numbers that are kept forever
        self._doubtful: bytes | None = None  # an append that failed, and may yet have been stored
        self._fenced: str | None = None  # how, once it is known

    @classmethod
    def open(
        cls,
        storage: Storage,
        entry_type: Any,  # noqa: ANN401 - mypy knows no type for "a type or a union of types"
        prefix: str = "journal/",
        writer: str | None = None,
        query: str = "",
    ) -> "Journal[E]":
        """The journal of a storage, which may be empty yet; nothing is read before it is asked for.

        ``query`` is the query that it belongs to: entries of another one are refused.

        The writer's mark tells this hold from every other; it is drawn at random where none is given. Two
        that share one would each take the other's entries for its own: give it in simulations only.
        """
        if not _is_exclusive(storage):
            warnings.warn(
                f"{storage.address} cannot tell apart two drivers that write at the same instant. Make sure "
                "that only one driver runs, or put the checkpoint on a local disk, S3, Google Cloud "
                "Storage, Azure or HDFS.",
                PointstampWarning,
                stacklevel=2,
            )
        return cls(storage, entry_type, prefix, uuid.uuid4().hex if writer is None else writer, query)

    @property
    def generation(self) -> Generation | None:
        """The generation that this driver has started, if it has."""
        return self._generation

    def entries(self) -> list[E | GenerationStarted]:
        """All entries in order, beginning with the last summary if there is one."""
        return [record.entry for record in self.records()]

    def records(self) -> list[Record[E]]:
        """The same with their numbers and generations.

        Once a generation is started these are the entries that this driver found and its own; before, what
        is stored now.
        """
        return list(self._records) if self._generation is not None else self._load()

    def start_generation(self, owner: str, at: float) -> Generation:
        """Take the journal over: every older driver is fenced when this returns."""
        if self._generation is not None:
            raise RecoveryError(
                f"this journal has already started generation {self._generation}. Open another journal to "
                "start the next one."
            )
        for _ in range(_MOST_TRIES):
            records = self._load()
            generation = Generation(records[-1].generation + 1 if records else 1)
            number = EntryNumber(records[-1].number + 1 if records else 0)
            started = GenerationStarted(generation, owner, at)
            if not self._take(number, generation, started):
                continue  # an older driver was faster: what it appended comes before this generation
            if self._last_number() == number:
                self._generation = generation
                self._records = [*records, Record(number, generation, started)]
                self._starts.add(number)
                return generation
            self._refuse_if_followed(number, started)
        raise RecoveryError(
            f"no generation could be started in {self._where}: another driver was faster {_MOST_TRIES} "
            "times. Run only one driver at a time."
        )

    def append(self, entry: E) -> EntryNumber:
        """Store an entry as the next one; FencedError if a newer driver has taken over.

        After a StorageError the entry may be stored or not: append the same again, or open a new journal.
        """
        return self._append(entry, "entry")

    def check_not_fenced(self) -> None:
        """FencedError if a newer driver has taken over; for a driver that finds files gone."""
        number = EntryNumber(self._records[-1].number + 1)
        try:
            self._storage.read(self._name(number))
        except NotStored:
            return  # a newer driver's start would stand here, and stay
        self._judge(number, self._doubtful or b"")

    def summarize(self, entry: E) -> EntryNumber:
        """Append an entry that stands for all before it, and delete those; FencedError as for ``append``.

        After a StorageError it may be called again: two summaries are as good as one.
        """
        number = self._append(entry, "summary")
        self._records = self._records[-1:]
        for name in self._storage.list(self._prefix):
            older = self._number(name)
            if older is not None and older < number and older not in self._starts:
                self._storage.delete(name)
        return number

    def _append(self, entry: E, sort: Sort) -> EntryNumber:
        if self._fenced is not None:
            raise FencedError(self._fenced)
        if self._generation is None:
            raise RecoveryError("append() needs a started generation. Call start_generation() first.")
        number = EntryNumber(self._records[-1].number + 1)
        starts = tuple(sorted(self._starts)) if sort == "summary" else ()
        content = self._encoded(number, self._generation, entry, sort, starts)
        if self._doubtful not in (None, content):
            raise RecoveryError(
                f"an earlier attempt to store entry {number} of {self._where} failed, and the entry may "
                "exist nevertheless. Append the same entry again, or open a new journal and start a "
                "generation."
            )
        self._doubtful = content
        try:
            self._storage.create(self._name(number), content)
        except AlreadyStored:
            self._judge(number, content)
        self._doubtful = None
        self._records.append(Record(number, self._generation, entry))
        return number

    def _judge(self, number: EntryNumber, ours: bytes) -> None:
        """Decide whether what is stored where we wanted to append is ours, or a newer generation's."""
        name = self._name(number)
        there = self._storage.read(name)
        if there == ours:
            return  # a write whose answer was lost
        stored = decoded(there, number, name, self._query)
        if stored.generation > (self._generation or 0) and stored.sort == "generation":
            newer = entry_of(stored, self._decoder, name)
            self._fenced = (
                f"generation {self._generation} may write nothing more to {self._where}: entry {number} is "
                f"{newer}. Stop this driver; the newer one resumes from here."
            )
            raise FencedError(self._fenced)
        raise RecoveryError(
            f"entry {number} of {self._where}, which generation {self._generation} was about to append, "
            f"was written by generation {stored.generation}; this cannot happen in a storage whose create "
            "is exclusive. Stop all drivers, and check that no other program writes to it."
        )

    def _take(self, number: EntryNumber, generation: Generation, started: GenerationStarted) -> bool:
        content = self._encoded(number, generation, started, "generation")
        name = self._name(number)
        try:
            self._storage.create(name, content)
        except AlreadyStored:
            try:
                return self._storage.read(name) == content
            except NotStored:
                return False  # summarized meanwhile
        return True

    def _refuse_if_followed(self, number: EntryNumber, started: GenerationStarted) -> None:
        """Later entries follow from ours, and we are fenced, unless ours lies before a summary."""
        later = self._load()
        if later[0].number <= number:
            newer = next(r for r in later if r.number > number)
            raise FencedError(
                f"{started}, was replaced at once in {self._where}: entry {newer.number} is {newer.entry}. "
                "Stop this driver; the newer one resumes from here."
            )

    def _load(self) -> list[Record[E]]:
        """All entries since the last summary, read backwards from the last."""
        last = self._last_number()
        while last is not None:
            try:
                return self._back_from(last)
            except NotStored as error:
                # A summary may have been written, and what it stands for deleted, while this was reading.
                again = self._last_number()
                if again == last:
                    raise RecoveryError(
                        f"the journal in {self._where} has a gap: {error} There are entries up to {last}, "
                        "and no summary replaces the missing one. Restore it from a copy, or start with "
                        "a new checkpoint."
                    ) from error
                last = again
        return []

    def _back_from(self, last: EntryNumber) -> list[Record[E]]:
        records: list[Record[E]] = []
        starts: set[int] = set()
        for number in map(EntryNumber, range(last, -1, -1)):
            name = self._name(number)
            stored = decoded(self._storage.read(name), number, name, self._query)
            entry = entry_of(stored, self._decoder, name)
            records.append(Record(number, Generation(stored.generation), entry))
            if stored.sort == "generation":
                starts.add(number)
            if stored.sort == "summary":
                starts.update(stored.starts)
                break
        self._starts = starts
        return records[::-1]

    def _last_number(self) -> EntryNumber | None:
        numbers = [self._number(name) for name in self._storage.list(self._prefix)]
        return max((number for number in numbers if number is not None), default=None)

    @property
    def _where(self) -> str:
        return f"{self._storage.address} ({self._prefix}*)"

    def _encoded(
        self,
        number: EntryNumber,
        generation: Generation,
        entry: object,
        sort: Sort,
        starts: tuple[int, ...] = (),
    ) -> bytes:
        name = self._name(number)
        return encoded(
            number, generation, self._writer, entry, name=name, query=self._query, sort=sort, starts=starts
        )

    def _name(self, number: EntryNumber) -> str:
        return f"{self._prefix}{number:0{_DIGITS}}"

    def _number(self, name: str) -> EntryNumber | None:
        digits = name.removeprefix(self._prefix)
        return EntryNumber(int(digits)) if len(digits) == _DIGITS and digits.isdecimal() else None
