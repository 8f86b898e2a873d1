"""Order waiting files by modification time, name or a column.

- ``"modified"``: by the time of the last change as the file system or store tells it, then by name. A store
  that tells no times leaves the name.
- ``"name"``: by name, with the numbers in it compared as numbers.
- any other text is a column: by the least value of that column in the file, then as ``"modified"``. A file
  without rows comes first. A file without the column, with nulls alone, or with values that cannot be
  compared with those of another file is an error.

An order is one of the files that wait together. A file that arrives after its successor was taken cannot be
placed before it any more; for columns this is a warning.
"""

import logging
from collections.abc import Callable, Iterable
from datetime import date, datetime
from decimal import Decimal
from typing import Any, Final, NamedTuple, TypeAlias

from pointstamp.errors import SourceError
from pointstamp.sources.file_names import NameKey, name_key
from pointstamp.sources.folder import Entry, Folder

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

_log = logging.getLogger("pointstamp.query")

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
        """The place of a whole file among those that wait."""
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
