"""Group the files of a folder into units.

Without markers every file is a separate unit. With markers, a file waits until a marker closes its group,
and the group is one unit under the marker's name. A marker is a file whose name ends in the given suffix:

- a marker with lines in it closes the group of exactly the files it lists, one name a line, which may lie
  in subfolders; all of them must be there, and in no other group;
- an empty marker closes the group of all files that are there and in no group yet. Where several empty
  markers are found at once, the first by name takes all: no row is lost, but groups become one. With
  ``in_order`` an empty marker closes only the files whose names sort before its own, so groups are exact
  whenever they are found.

A group without files is a unit without parts. The final marker (``until``) ends the source: it closes the
group of what is left, if anything is.

What was taken is known by all the names (files and markers), or, with ``in_order``, by the last name, with
the number of all names and a digest of them. A name that does not sort after the last one is not read. One
that arrives then is a warning: at once in a running query, and after a restart by the digest, or, where files
were removed meanwhile, by the time of its arrival.

Not input are: names that begin with ``.`` or ``_`` (markers may begin with ``_``), that end like unfinished
or accompanying files, or that do not match the pattern.
"""

import fnmatch
import logging
import re
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from hashlib import blake2b
from typing import Any, Final, NamedTuple, TypeAlias

from pointstamp.connectors.files.folder import Entry, Folder, NameKey, format_of, name_key
from pointstamp.connectors.source import Part, Position, Unit
from pointstamp.errors import SourceError, StorageError

_NEVER_INPUT: Final = (".tmp", ".inprogress", ".crc")
_MAY_SHARE: Final = ("parquet", "arrow")
_RECENT: Final = 100_000  # names that were taken, of which the kernel may tell once more

_log = logging.getLogger("pointstamp.query")


class LastTaken(NamedTuple):
    """A position with ``in_order``: the last name, and how many names there were, with a digest of them."""

    name: str = ""
    names: int = 0
    digest: int = 0

    @classmethod
    def of(cls, position: Position) -> "LastTaken":
        """A position as it is in a journal; the number is -1 where it is not known."""
        if isinstance(position, str):  # as it was written before there was a digest
            return cls(position, -1)
        return cls() if position is None else cls(*position)

    def with_names(self, name: str, names: Collection[str]) -> "LastTaken":
        """Also these names, of which the first is the last one now."""
        if self.names < 0:
            return LastTaken(name, -1)
        return LastTaken(name, self.names + len(names), self.digest ^ _digest(names))


def _digest(names: Iterable[str]) -> int:
    """The same for the same names in any order."""
    found = 0
    for name in names:
        content = name.encode("utf-8", "surrogateescape")
        found ^= int.from_bytes(blake2b(content, digest_size=8).digest(), "little")
    return found


# Order waiting files by modification time, name or a column.
#
# - ``"modified"``: by the time of the last change as the file system or store tells it, then by name. A store
#   that tells no times leaves the name.
# - ``"name"``: by name, with the numbers in it compared as numbers.
# - any other text is a column: by the least value of that column in the file, then as ``"modified"``. A file
#   without rows comes first. A file without the column, with nulls alone, or with values that cannot be
#   compared with those of another file is an error.
#
# An order is one of the files that wait together. A file that arrives after its successor was taken cannot be
# placed before it any more; for columns this is a warning.

MODIFIED: Final = "modified"
NAME: Final = "name"

_KINDS: Final[dict[type, str]] = {
    bool: "a boolean",
    int: "a number",
    float: "a number",
    Decimal: "a number",
    datetime: "a timestamp",
    date: "a date",
    str: "text",
    bytes: "binary",
}

LeastValue: TypeAlias = Callable[[str], Any]
"""Reads the least value of the column in a file of this name; None for a file without rows."""


class FileKey(NamedTuple):
    """Sorts files: by the column, where there is one, then by time, then by name."""

    value: tuple[Any, ...]
    modified: float
    name: NameKey


class FileOrder:
    """The keys of files that wait, each found once; for one thread at a time."""

    def __init__(self, order_by: str, folder: Folder, least: LeastValue | None = None) -> None:
        self._by = order_by
        self._folder = folder
        self._least = least
        self._keys: dict[str, FileKey] = {}
        self._kind: tuple[str, str, object] | None = None
        self._last: tuple[FileKey, str] | None = None

    def key(self, entry: Entry) -> FileKey:
        """The place of a complete file among those that wait."""
        key = self._keys.get(entry.name)
        if key is None:
            value = self._value(entry.name)
            key = self._keys[entry.name] = self.rough_key(entry)._replace(value=value)
        return key

    def rough_key(self, entry: Entry) -> FileKey:
        """The place of a file that may be incomplete: without the column."""
        name = name_key(entry.name)
        if self._by == NAME:
            return FileKey((), 0.0, name)
        modified = entry.modified
        if modified is None:
            times = self._folder.times(entry.name)
            modified = 0.0 if times is None else times.modified
        return FileKey((), modified, name)

    def forget(self, names: Iterable[str]) -> None:
        """Take note that files changed, or are not looked at any more."""
        for name in names:
            self._keys.pop(name, None)

    def taken(self, name: str) -> None:
        """Take note that a file was taken, and warn if one that should follow it was taken before it."""
        key = self._keys.pop(name, None)
        if self._least is None or key is None or not key.value:
            return
        if self._last is not None and key.value < self._last[0].value:
            _log.warning(
                "file '%s' in '%s' begins at %s=%r, but '%s', which begins at %r, was read before it "
                "arrived. It is read now, out of order.",
                name,
                self._folder.path,
                self._by,
                key.value[0],
                self._last[1],
                self._last[0].value[0],
            )
            return
        self._last = (key, name)

    def _value(self, name: str) -> tuple[Any, ...]:
        """The least value in a file, as a tuple; an empty one, which sorts first, for a file without rows."""
        value = None if self._least is None else self._least(name)
        if value is None:
            return ()
        kind = _KINDS.get(type(value))
        if kind is None or value != value:
            raise SourceError(
                f"file '{name}' in {self._folder.path!r}: order_by={self._by!r} needs a column of numbers, "
                f"text, dates or timestamps, got {value!r}. Choose another column, or order_by='modified'."
            )
        if self._kind is None:
            self._kind = (kind, name, value)
        elif self._kind[0] != kind:
            raise SourceError(
                f"file '{name}' in {self._folder.path!r}: order_by={self._by!r} cannot compare {value!r}, "
                f"{kind}, with {self._kind[2]!r}, {self._kind[0]}, of file '{self._kind[1]}'. Write the "
                "column with one type in all files, or choose another order_by=."
            )
        return (value,)


@dataclass(frozen=True, slots=True)
class GroupingRules:
    """Rules for the names of a folder: data files, markers and positions."""

    pattern: str = "*"
    group_by_marker: str | None = None
    until: str | None = None
    in_order: bool = False
    format: str | None = None
    order_by: str = MODIFIED

    def may_share(self, name: str) -> bool:
        """Return whether several workers may read a file of this name, each a part of it."""
        return (self.format or format_of(name)) in _MAY_SHARE

    def is_border(self, name: str) -> bool:
        """Return whether a name is a marker or the final one: earlier files exist when it does."""
        return name == self.until or self.is_marker(name)

    def is_marker(self, name: str) -> bool:
        """Return whether a name closes a group."""
        suffix = self.group_by_marker
        is_marked = suffix is not None and name.endswith(suffix) and name != self.until
        return is_marked and name[0] != "." and "/" not in name

    def after(self, position: Position, unit: Unit) -> Position:
        """Return the position after this unit."""
        names = dict.fromkeys([*(part.locator for part in unit.parts), unit.name])
        if self.in_order:
            return tuple(LastTaken.of(position).with_names(unit.name, names))
        return tuple(position or ()) + tuple(names)


class Grouping:
    """The files that were taken or wait for a marker; changed by its watch only."""

    def __init__(
        self, rules: GroupingRules, folder: Folder, position: Position, order: FileOrder | None = None
    ) -> None:
        self.is_finished = False
        self._rules = rules
        self._folder = folder
        self._order = order or FileOrder(rules.order_by, folder)
        self._is_wanted = re.compile(fnmatch.translate(rules.pattern)).match
        self._taken: set[str] = set() if rules.in_order else set(position or ())
        self._begun = LastTaken.of(position) if rules.in_order else LastTaken()
        self._last = self._begun.name
        # Before there was a digest, numbers in names were compared as text.
        self._was_text_order = self._begun.names < 0
        self._known: set[str] | None = None
        self._recent: deque[str] = deque(maxlen=_RECENT)
        self._waiting: dict[str, Entry] = {}

    def is_new(self, name: str) -> bool:
        """Whether a name was neither taken before nor waits for its marker; the final one always is new."""
        if name == self._rules.until:
            return True  # wherever it sorts: it is no file to take
        if self._rules.in_order and not self._follows_last(name):
            return False
        return name not in self._taken and name not in self._waiting

    def rank(self, entry: Entry) -> tuple[bool, bool, FileKey]:
        """The place of a file that may be incomplete: with rows before markers, the final one last."""
        is_final = entry.name == self._rules.until
        return is_final, self._rules.is_border(entry.name), self._order.rough_key(entry)

    def prepare(self, entries: Iterable[Entry]) -> None:
        """Find the places of complete files, which may require reading; a poll does not wait for that."""
        for entry in entries:
            if not self._rules.is_border(entry.name):
                self._order.key(entry)

    def forget(self, names: Iterable[str]) -> None:
        """Take note that files may have other times and content than they had."""
        self._order.forget(names)

    def listed(self, entries: Iterable[Entry]) -> None:
        """Warn of files that have arrived after one that sorts after them was taken, and are not read."""
        if not self._rules.in_order:
            return
        until = self._rules.until
        files = {each.name: each for each in entries if each.name != until and self.may_be_input(each.name)}
        early = {name for name in files if not self._follows_last(name)}
        if self._known is None:
            late = self._late_at_start({name: files[name] for name in early})
        else:
            late = early - self._known
        self._known = set(files)
        self._warn_of_late(late.difference(self._recent))

    def _late_at_start(self, early: dict[str, Entry]) -> set[str]:
        """The files that were not taken before this watch began, as far as that can be known."""
        begun = self._begun
        if not begun.name or (len(early), _digest(early)) == (begun.names, begun.digest):
            return set()
        if begun.name not in early:
            return set(early) if begun.names >= 0 else set()
        arrived = {name: self._arrived(entry) for name, entry in early.items()}
        return {name for name, at in arrived.items() if at > arrived[begun.name]}

    def _arrived(self, entry: Entry) -> float:
        if entry.modified is not None:
            return entry.modified
        times = self._folder.times(entry.name)
        return 0.0 if times is None else times.arrived

    def _warn_of_late(self, names: Collection[str]) -> None:
        if names:
            self._recent.extend(names)
            _log.warning(
                "the folder '%s': %s will not be read. With in_order=True files are read in the order of "
                "their names, and '%s' was already read. Give new files names that sort after it.",
                self._folder.path,
                _some(sorted(names, key=name_key)),
                self._last,
            )

    def _follows_last(self, name: str) -> bool:
        if self._was_text_order and name <= self._begun.name:
            return False
        return name_key(name) > name_key(self._last)

    def arrive(self, entries: Iterable[Entry]) -> list[Unit]:
        """The units that are complete with these arrivals, and were not before.

        Single files come in the order of the source. Groups come as their markers do.
        """
        units: list[Unit] = []
        for entry in entries:
            name = entry.name
            if self.is_finished:
                break
            if name == self._rules.until:
                units += self._rest()
                self.is_finished = True
            elif self._rules.is_marker(name):
                if self.is_new(name):
                    units.append(self._close(name))
            elif self.is_new(name):
                if self._is_input(name):
                    self._waiting[name] = entry
            elif self._rules.in_order and self._is_late(name):
                self._warn_of_late([name])
        if self._rules.group_by_marker is None:
            units += self._singles()
        return units

    def _is_late(self, name: str) -> bool:
        is_known = name in self._waiting or name in self._recent or name in (self._known or ())
        return not is_known and self._is_named_like_input(name)

    def may_be_input(self, name: str) -> bool:
        """Return whether a name is looked at: that of a file with rows, of a marker, or the final one."""
        return self._rules.is_border(name) or self._is_named_like_input(name)

    def _is_named_like_input(self, name: str) -> bool:
        own = name.rpartition("/")[2]
        return own[0] not in "._" and not own.endswith(_NEVER_INPUT) and bool(self._is_wanted(own))

    def _is_input(self, name: str) -> bool:
        if not self._is_named_like_input(name):
            return False
        if not name.isprintable() and any("\ud800" <= letter <= "\udfff" for letter in name):
            raise SourceError(
                f"the folder {self._folder.path!r} has a file whose name is not UTF-8: {name!r}. Rename it, "
                "or leave it out with pattern=."
            )
        return True

    def _singles(self) -> list[Unit]:
        return [self._taking(Unit(part.locator, (part,))) for part in self._parts(self._sorted())]

    def _sorted(self) -> list[str]:
        """The names of the files that wait, in the order of the source."""
        return sorted(self._waiting, key=lambda name: self._order.key(self._waiting[name]))

    def _rest(self) -> list[Unit]:
        """The last group, under the name of its last file: the final marker's name may sort before it."""
        names = sorted(self._waiting, key=name_key)
        parts = self._parts(names) if self._rules.group_by_marker is not None else ()
        return [self._taking(Unit(parts[-1].locator, parts))] if parts else []

    def _close(self, marker: str) -> Unit:
        """The group of a marker."""
        listed = self._listed(marker)
        if listed is None:
            end = name_key(marker)
            waiting = sorted(self._waiting, key=name_key)
            names = [name for name in waiting if not self._rules.in_order or name_key(name) < end]
            return self._taking(Unit(marker, self._parts(names)))
        parts = self._parts(listed)
        if len(parts) < len(listed):
            missing = sorted({*listed} - {part.locator for part in parts})
            raise StorageError(
                f"the marker '{marker}' in {self._folder.path!r} lists {_some(missing)}, which does not "
                "exist. Write the files of a group before its marker; the marker lists one name per "
                "line, relative to the folder."
            )
        return self._taking(Unit(marker, parts))

    def _parts(self, names: Iterable[str]) -> tuple[Part, ...]:
        """The parts for these files, which no longer wait; a file that is gone again has no part."""
        parts: list[Part] = []
        for name in names:
            share = (0, 1) if self._rules.may_share(name) else None
            entry: Entry | None = self._waiting.pop(name, Entry(name))
            if entry is not None and entry.size_bytes is None:
                entry = self._entry(name)
            if entry is not None and entry.size_bytes is not None:
                parts.append(Part(name, entry.size_bytes, share, entry.identity))
        return tuple(parts)

    def _entry(self, name: str) -> Entry | None:
        try:
            return self._folder.entry(name)
        except OSError as error:
            raise StorageError(
                f"the file '{name}' in {self._folder.path!r} was listed, but cannot be examined: {error}. "
                "Give this program read access to the folder, or leave the file out with pattern=."
            ) from error

    def _taking(self, unit: Unit) -> Unit:
        """The unit itself, whose files are not looked at again: ``Rules.after``, without a copy."""
        names = [*(part.locator for part in unit.parts), unit.name]
        for part in unit.parts:
            self._order.taken(part.locator)
        if self._rules.in_order:
            self._last = unit.name
            left_out = [name for name in self._waiting if not self._follows_last(name)]
            self._recent.extend((*names, *left_out))
            for name in left_out:
                del self._waiting[name]
        else:
            self._taken.update(names)
        return unit

    def _listed(self, marker: str) -> list[str] | None:
        """The names in a marker, in its order; None where it is empty."""
        try:
            with self._folder.open(marker) as handle:
                lines = handle.read().decode().splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise StorageError(
                f"the marker '{marker}' in {self._folder.path!r} cannot be read: {error}. A marker must "
                "be empty, or UTF-8 text with one file name per line."
            ) from error
        names = [line.strip() for line in lines if line.strip()]
        for name in names:
            if name.startswith("/") or ".." in name.split("/"):
                raise SourceError(
                    f"the marker '{marker}' in {self._folder.path!r} lists '{name}', which is not in the "
                    "folder. Name files relative to the folder."
                )
        times = Counter(names)
        if again := [name for name in times if times[name] > 1 or name in self._taken]:
            raise SourceError(
                f"the marker '{marker}' in {self._folder.path!r} lists {_some(again)} twice or from another "
                "group, but a file is read once. List each file in one marker."
            )
        return names or None


def _some(names: Sequence[str]) -> str:
    shown = ", ".join(f"'{name}'" for name in names[:5])
    return shown if len(names) <= 5 else f"{shown} and {len(names) - 5} more"
