"""Files that arrive in a folder, as a source: ``files(path)``.

Files are expected to appear whole: renamed or linked into the folder. A file that is being written is taken
when it is closed, if the kernel of this host can tell; if not, as on a network disk, when it has not changed
for a while. Files must not change after they were found: a file with other bytes is refused when it is read.
As long as nothing of it is committed, the next attempt takes it as it is then; afterwards its other rows
would not fit what is published, and the query ends. Only files that lie directly in the folder are found; a
marker may list others.

On a local disk under Linux, the kernel tells of arrivals. Elsewhere (other systems, network disks,
``s3://...`` and all else that fsspec knows) the folder is listed at an interval.

Units that one poll finds are in the order of their names. The time of a file's last change would be no
better: stores round it, copies keep it or not, and clocks differ. If order across polls matters, number the
files and say ``in_order=True``: then a name counts only if it sorts after the last one taken, and a position
is that one name. Otherwise a position holds every name taken, and grows by one name per file.
"""

import logging
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias, get_args

import msgspec
import pyarrow as pa

from pointstamp.errors import FlowError
from pointstamp.redaction import RedactedRepr, redact
from pointstamp.sources.folder import Folder, LocalFolder, no_folder, open_folder
from pointstamp.sources.grouping import Grouping, GroupingRules
from pointstamp.sources.inotify import FolderEvents, can_watch
from pointstamp.sources.limits import check_bytes_per_tick, share_of_bytes, units_with_bytes
from pointstamp.sources.port import Part, Position, Unit, Watch
from pointstamp.sources.provenance import Identity, options_of
from pointstamp.sources.reading import read_file
from pointstamp.sources.watching import EventWatch, Listing, ListingWatch, UpToNow
from pointstamp.sources.wholeness import SETTLE_SECONDS, Settling, State
from pointstamp.storage.places import absolute_place, recorded_place

Format: TypeAlias = Literal["parquet", "csv", "json", "arrow"]

_LIST_EVERY_SECONDS: Final = 1.0
_MAY_SHARE: Final = ("parquet", "arrow")
_ONLY_SUBFOLDERS: Final = (
    "files '%s': the folder holds subfolders, such as '%s', but no files, and files in subfolders are not "
    "read. Give a subfolder itself, or markers that list the files (group_by_marker=); on Spark, read a "
    "table that is partitioned into subfolders with spark.readStream or spark.read."
)

_log = logging.getLogger("pointstamp.query")


def files(
    path: str | Path,
    format: Format = "parquet",  # noqa: A002  Spark's word for it
    *,
    group_by_marker: str | None = None,
    pattern: str = "*",
    in_order: bool = False,
    until: str | None = None,
    units_per_tick: int | None = 1,
    bytes_per_tick: int | None = None,
    list_every_seconds: float | None = None,
    settle_seconds: float = SETTLE_SECONDS,
    skip: Collection[str] = (),
    storage_options: Mapping[str, Any] | None = None,
    moved_from: str | Path | None = None,
) -> "FolderSource":
    """The files of a folder, those there and those to come: each file one epoch, or each group of files.

    - ``format``: ``"parquet"``, ``"csv"`` with a header line, ``"json"`` with one object a line, or
      ``"arrow"``, the IPC file format. CSV and JSON may be compressed, as their names say (``.gz``).
    - ``group_by_marker``: how the names of marker files end, such as ``"_done"``. A marker closes a group,
      and a group is one unit: the files that the marker lists, one name a line, or, where it is empty, all
      that are there and in no group yet.
    - ``pattern``: which names are input, as in a shell; names that begin with ``.`` or ``_`` or end in
      ``.tmp``, ``.inprogress`` or ``.crc`` never are.
    - ``in_order``: files come in the order of their names.
    - ``until``: the name of a file that, once there, says that no more will come.
    - ``units_per_tick``: how many files or groups one epoch takes at most; None takes all that are there.
    - ``bytes_per_tick``: how many bytes of files one epoch takes at most, in place of one file or group; a
      larger one comes by itself.
    - ``list_every_seconds``: list the folder at this interval, even where the kernel tells of arrivals.
    - ``settle_seconds``: where it is not known whether a file is being written (network disks, files of
      another user), it is taken when it has not changed for this long; 0 where files appear whole.
    - ``skip``: names of files that are not read, as if they had no rows. A query that has taken a file which
      it cannot read can go on with this, without that file's rows.
    - ``storage_options``: what fsspec needs to know to open the path.
    - ``moved_from``: the place of before, if the same files lie at ``path`` now: a query resumes with them. A
      checkpoint belongs to one place otherwise.

    >>> files("/data/in", "csv", until="_finished").describe()
    "files '/data/in' (csv)"
    """
    if format not in get_args(Format):
        raise FlowError(
            f"files {redact(path)!r}: the format must be one of {', '.join(get_args(Format))}, not "
            f"{format!r}. "
            "Choose one of these."
        )
    if isinstance(skip, str):
        raise FlowError(
            f"files {redact(path)!r}: skip must be a list of names, not a string. Write skip=[{skip!r}]."
        )
    for what, given in (("group_by_marker", group_by_marker), ("until", until)):
        if given is not None and (not given or "/" in given):
            raise FlowError(
                f"files {redact(path)!r}: {what} must be a name without '/', not {given!r}. Give one such as "
                "'_done'."
            )
    if units_per_tick is not None and units_per_tick < 1:
        raise FlowError(
            f"files {redact(path)!r}: units_per_tick must be at least 1, not {units_per_tick}. Give a number "
            "from 1 on, or None for all units that are there."
        )
    check_bytes_per_tick(f"files {redact(path)!r}", bytes_per_tick)
    if list_every_seconds is not None and not list_every_seconds >= 0:
        raise FlowError(
            f"files {redact(path)!r}: list_every_seconds must be zero or more, not {list_every_seconds}. "
            "Give "
            "seconds, or None."
        )
    if not settle_seconds >= 0:
        raise FlowError(
            f"files {redact(path)!r}: settle_seconds must be zero or more, not {settle_seconds}. Give "
            "seconds; "
            "0 where files appear whole."
        )
    rules = GroupingRules(pattern, group_by_marker, until, in_order, format in _MAY_SHARE)
    # Workers may run in another folder than the driver, so a local path is made absolute here.
    place = absolute_place(path)
    options = dict(storage_options or {})
    return FolderSource(
        place,
        format,
        rules,
        units_with_bytes(units_per_tick, bytes_per_tick),
        list_every_seconds,
        options,
        frozenset(skip),
        settle_seconds,
        bytes_per_tick,
        None if moved_from is None else absolute_place(moved_from),
    )


@dataclass(frozen=True, slots=True, repr=False)
class FolderSource(RedactedRepr):
    """A source of files in one folder; made by ``files``."""

    path: str
    format: Format
    rules: GroupingRules
    units_per_tick: int | None
    list_every_seconds: float | None
    storage_options: Mapping[str, Any] = field(repr=False)  # it may hold keys
    skip: frozenset[str] = frozenset()
    settle_seconds: float = SETTLE_SECONDS
    bytes_per_tick: int | None = None
    moved_from: str | None = None
    known_as: Identity | None = None
    """What a checkpoint records in place of path and options, if the folder is not the user's."""

    def check(self) -> None:
        """Raise StorageError if the folder cannot be listed now; most often the path is wrong."""
        folder = open_folder(self.path, self.storage_options)
        if isinstance(folder, LocalFolder):  # elsewhere a folder without files is not there, and listing dear
            folder.list()

    def watch(self, position: Position, *, available_now: bool = False) -> Watch:
        """Find the files after a position, those there and those to come."""
        folder = open_folder(self.path, self.storage_options)
        watch = self._watch(folder, Grouping(self.rules, folder, position), available_now=available_now)
        if folder.subfolders and self.rules.group_by_marker is None:  # a marker may list files in subfolders
            _log.warning(_ONLY_SUBFOLDERS, redact(self.path), folder.subfolders[0])
        return watch

    def _watch(self, folder: Folder, grouping: Grouping, *, available_now: bool) -> Watch:
        """A watch that has made its first listing."""
        listing = Listing(folder, self.rules, grouping, Settling(folder.look, self.settle_seconds))
        if available_now:
            return UpToNow(listing, grouping)
        if isinstance(folder, LocalFolder) and self.list_every_seconds is None and can_watch(folder.path):
            try:
                events = FolderEvents(folder.path)
            except (FileNotFoundError, NotADirectoryError, PermissionError) as error:
                raise no_folder(self.path, error) from error
            except OSError:
                pass  # this machine has no watch left to give: listing finds the same
            else:
                return EventWatch(listing, grouping, events)
        every_seconds = _LIST_EVERY_SECONDS if self.list_every_seconds is None else self.list_every_seconds
        return ListingWatch(listing, grouping, every_seconds)

    def read(self, part: Part, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """The rows of a file, or of a share of it, with the columns of the schema and no others."""
        if part.locator in self.skip:
            return iter(())
        folder = open_folder(self.path, self.storage_options)
        return read_file(folder, part, self.format, schema, f"{self.describe()}, file '{part.locator}'")

    def renewed(self, unit: Unit) -> Unit | None:
        """The unit with its files as they are now; None while one of them is being written."""
        folder = open_folder(self.path, self.storage_options)
        parts: list[Part] = []
        for part in unit.parts:
            seen, entry = folder.look(part.locator), folder.entry(part.locator)
            if entry is None or entry.size_bytes is None:
                parts.append(part)  # it is gone, and whoever reads it says so
                continue
            identity = None if part.identity is None else entry.identity
            now = msgspec.structs.replace(part, size_bytes=entry.size_bytes, identity=identity)
            if seen.state is State.WRITTEN or (now != part and seen.is_fresh(self.settle_seconds)):
                return None
            parts.append(now)
        return Unit(unit.name, tuple(parts))

    def after(self, position: Position, unit: Unit) -> Position:
        """Every name taken; or, with ``in_order``, the last one."""
        return self.rules.after(position, unit)

    def share_of_tick(self, unit: Unit) -> float:
        """How much of what one tick may take a unit is."""
        return share_of_bytes(unit, self.bytes_per_tick)

    def identity(self) -> Identity:
        """What tells this source from others, for the checkpoint."""
        if self.known_as is not None:
            return self.known_as
        # When there will be no more files, and whether workers share one, changes no row.
        options = options_of(self, "path", "until", "may_share")
        return {"kind": "files", "place": recorded_place(self.path), **options}

    def describe(self) -> str:
        """A description for messages."""
        return f"files '{redact(self.path)}' ({self.format})"
