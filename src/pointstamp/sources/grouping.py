"""Which files are one unit: the names that arrive in a folder, turned into units, each file once.

Without markers every file is a unit of its own. With markers, a file waits until a marker closes its group,
and the group is one unit under the marker's name. A marker is a file whose name ends in the given suffix:

- a marker with lines in it closes the group of exactly the files it lists, one name a line, which may lie
  in subfolders; all of them must be there, and in no other group;
- an empty marker closes the group of all files that are there and in no group yet. Where several empty
  markers are found at once, the first by name takes all: no row is lost, but groups become one. With
  ``in_order`` an empty marker closes only the files whose names sort before its own, so groups are exact
  whenever they are found.

A group without files is a unit without parts. The final marker (``until``) ends the source: it closes the
group of what is left, if anything is.

What was taken is known by all the names (files and markers), or, with ``in_order``, by the last name alone:
then a name that does not sort after the last one taken is never looked at.

Not input are: names that begin with ``.`` or ``_`` (markers may begin with ``_``), that end like unfinished
or accompanying files, or that do not match the pattern.
"""

import fnmatch
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from pointstamp.errors import SourceError, StorageError
from pointstamp.sources.folder import Entry, Folder
from pointstamp.sources.port import Part, Position, Unit

_NEVER_INPUT: Final = (".tmp", ".inprogress", ".crc")


@dataclass(frozen=True, slots=True)
class GroupingRules:
    """Which names are files with rows, which are markers, and what a position is."""

    pattern: str = "*"
    group_by_marker: str | None = None
    until: str | None = None
    in_order: bool = False
    may_share: bool = False

    def is_border(self, name: str) -> bool:
        """Whether a name is a marker, or the final one: files before it are there when it is."""
        return name == self.until or self.is_marker(name)

    def is_marker(self, name: str) -> bool:
        """Whether a name closes a group."""
        suffix = self.group_by_marker
        return suffix is not None and name.endswith(suffix) and name != self.until and name[0] != "."

    def after(self, position: Position, unit: Unit) -> Position:
        """What was taken, with this unit too."""
        if self.in_order:
            return unit.name
        names = dict.fromkeys([*(part.locator for part in unit.parts), unit.name])
        return tuple(position or ()) + tuple(names)


class Grouping:
    """What was taken and what waits for a marker; changed by its watch alone, as names arrive."""

    def __init__(self, rules: GroupingRules, folder: Folder, position: Position) -> None:
        self.is_finished = False
        self._rules = rules
        self._folder = folder
        self._is_wanted = re.compile(fnmatch.translate(rules.pattern)).match
        self._taken: set[str] = set() if rules.in_order else set(position or ())
        self._last: str = (position or "") if rules.in_order else ""
        self._waiting: dict[str, Entry] = {}

    def is_new(self, name: str) -> bool:
        """Whether a name was neither taken before nor waits for its marker; the final one always is new."""
        if name == self._rules.until:
            return True  # wherever it sorts: it is no file to take
        return name not in self._taken and name > self._last and name not in self._waiting

    def arrive(self, entries: Iterable[Entry]) -> list[Unit]:
        """The units that are complete with these arrivals, and were not before.

        Single files come sorted by name. Groups come as their markers do.
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
            elif self.is_new(name) and self._is_input(name):
                self._waiting[name] = entry
        if self._rules.group_by_marker is None:
            units += self._singles()
        return units

    def may_be_input(self, name: str) -> bool:
        """Whether a name is looked at: that of a file with rows, of a marker, or the final one."""
        return self._rules.is_border(name) or self._is_named_like_input(name)

    def _is_named_like_input(self, name: str) -> bool:
        return name[0] not in "._" and not name.endswith(_NEVER_INPUT) and bool(self._is_wanted(name))

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
        return [self._taking(Unit(part.locator, (part,))) for part in self._parts(sorted(self._waiting))]

    def _rest(self) -> list[Unit]:
        """The last group, under the name of its last file: the final marker's name may sort before it."""
        parts = self._parts(sorted(self._waiting)) if self._rules.group_by_marker is not None else ()
        return [self._taking(Unit(parts[-1].locator, parts))] if parts else []

    def _close(self, marker: str) -> Unit:
        """The group of a marker."""
        listed = self._listed(marker)
        if listed is None:
            names = sorted(name for name in self._waiting if not self._rules.in_order or name < marker)
            return self._taking(Unit(marker, self._parts(names)))
        parts = self._parts(listed)
        if len(parts) < len(listed):
            missing = sorted({*listed} - {part.locator for part in parts})
            raise StorageError(
                f"the marker '{marker}' in {self._folder.path!r} lists {_some(missing)}, which is not there. "
                "Write the files of a group before its marker; the marker lists one name a line, relative "
                "to the folder."
            )
        return self._taking(Unit(marker, parts))

    def _parts(self, names: Iterable[str]) -> tuple[Part, ...]:
        """The parts for these files, which no longer wait; a file that is gone again has no part."""
        share = (0, 1) if self._rules.may_share else None
        parts: list[Part] = []
        for name in names:
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
                f"the file '{name}' in {self._folder.path!r} was found, but cannot be examined: {error}. Let "
                "this program read the folder, or leave the file out with pattern=."
            ) from error

    def _taking(self, unit: Unit) -> Unit:
        """The unit itself, whose files are not looked at again: ``Rules.after``, without a copy."""
        if self._rules.in_order:
            self._last = unit.name
            for name in [name for name in self._waiting if name <= unit.name]:
                del self._waiting[name]
        else:
            self._taken.update((part.locator for part in unit.parts), (unit.name,))
        return unit

    def _listed(self, marker: str) -> list[str] | None:
        """The names in a marker, in its order; None where it is empty."""
        try:
            with self._folder.open(marker) as handle:
                lines = handle.read().decode().splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise StorageError(
                f"the marker '{marker}' in {self._folder.path!r} cannot be read: {error}. A marker is empty, "
                "or is UTF-8 text with one file name a line."
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
