"""Files that arrive in a folder as a source: ``files(path)``.

Files are expected to appear complete: renamed or linked into the folder. A file that is being written is
taken when it is closed, if the kernel of this host can tell; if not, as on a network disk, when it has not
changed for a while. Files must not change after they were found: a file with other bytes is refused when it
is read. As long as nothing of it is committed, the next attempt takes it as it is then; afterwards its other
rows would not fit what is published, and the query ends. Found are the files directly in the folder, and
those in folders that are named after a column and its value (``day=2024-01-31``); a marker may list others.

On a local disk under Linux, the kernel tells of arrivals. Elsewhere (other systems, network disks,
``s3://...`` and all else that fsspec knows) the folder is listed at an interval. If the folder is a symbolic
link that is switched, the files of the new folder follow; names that were taken are not taken again.

Files that wait together are taken by the time of their last change, then by name, or as ``order_by`` says. A
position holds every name taken, and grows by one name per file. With ``in_order=True`` a name counts only if
it sorts after the last one taken, and a position is that one name.
"""

import logging
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, get_args

import msgspec
import pyarrow as pa

from pointstamp.connectors.files.file_watch import EventWatch, Listing, ListingWatch, UpToNow
from pointstamp.connectors.files.folder import Folder, Format, LocalFolder, no_folder, open_folder
from pointstamp.connectors.files.formats import (
    ERROR,
    FILE,
    LINE_BYTES_MAX,
    FileOptions,
    OnBadRow,
    least_value,
    read_file,
)
from pointstamp.connectors.files.inotify import FolderEvents, can_watch
from pointstamp.connectors.files.units import MODIFIED, NAME, FileOrder, Grouping, GroupingRules
from pointstamp.connectors.files.wholeness import SETTLE_SECONDS, Settling, State
from pointstamp.connectors.source import (
    Identity,
    Part,
    Position,
    SourceBase,
    Unit,
    Watch,
    check_bytes_per_tick,
    options_of,
    share_of_bytes,
    units_with_bytes,
)
from pointstamp.errors import FlowError
from pointstamp.redaction import RedactedRepr, redact
from pointstamp.storage.anywhere import absolute_place, recorded_place

_LIST_EVERY_SECONDS: Final = 1.0
_ONLY_SUBFOLDERS: Final = (
    "files '%s': the folder holds subfolders, such as '%s', but no files. Only subfolders that are named "
    "after a column and its value, such as 'day=2024-01-31', are read. Give a subfolder itself, or markers "
    "that list the files (group_by_marker=)."
)

_log = logging.getLogger("pointstamp.query")
_skipped: dict[tuple[str, str], int] = {}  # by folder and part, until whoever has read it asks


def files(
    path: str | Path,
    format: Format | None = None,  # noqa: A002  Spark's word for it
    *,
    order_by: str | None = None,
    group_by_marker: str | None = None,
    pattern: str = "*",
    in_order: bool = False,
    until: str | None = None,
    units_per_tick: int | None = 1,
    bytes_per_tick: int | None = None,
    list_every_seconds: float | None = None,
    settle_seconds: float = SETTLE_SECONDS,
    skip: Collection[str] = (),
    delimiter: str | None = None,
    quote: str | None = '"',
    header: bool = True,
    on_bad: OnBadRow = "error",
    columns: Mapping[str, str] | None = None,
    line_bytes_max: int = LINE_BYTES_MAX,
    storage_options: Mapping[str, Any] | None = None,
    moved_from: str | Path | None = None,
) -> "FolderSource":
    """Read the existing and arriving files of a folder; each file or group of files is one epoch.

    Columns are found by their exact names, or else by a name that differs only in case. Partition values of
    folder names such as ``day=2024-01-31`` are columns of the files in them.

    Args:
        path: The folder.
        format (str, default None): ``"parquet"``, ``"csv"``, ``"json"`` with one object per line, or
            ``"arrow"``, the IPC file format. Default: by the name of each file (``.csv``, ``.tsv``,
            ``.json``, ``.jsonl``, ``.ndjson``, ``.arrow``, ``.feather``, ``.ipc``), and Parquet for all other
            names. CSV and JSON may be compressed, as their names show (``.csv.gz``).
        order_by (str, default "modified"): The order of waiting files. ``"modified"``: by the time of the
            last change, then by name. ``"name"``: by name, with numbers compared as numbers. Any other text
            is a column: by its least value in each file, which the driver reads.
        group_by_marker (str, default None): The suffix of marker files, such as ``"_done"``. A marker closes
            a group of files, which is one unit: the files that the marker lists, one name per line, or, if it
            is empty, all files that are in no group yet.
        pattern (str, default "*"): A shell pattern for the names of input files. Names that begin with ``.``
            or ``_`` or end in ``.tmp``, ``.inprogress`` or ``.crc`` are never input.
        in_order (bool, default False): Files arrive in the order of their names, with numbers compared as
            numbers. A file that arrives after a later name was read is not read, and a warning names it.
        until (str, default None): The name of a file that marks the end of the input.
        units_per_tick (int, default 1): Maximum number of files or groups per epoch; None for no limit.
        bytes_per_tick (int, default None): Maximum number of bytes of files per epoch, instead of one file or
            group; a larger file is an epoch alone.
        list_every_seconds (float, default None): List the folder at this interval, also if the kernel reports
            arrivals.
        settle_seconds (float, default 1.0): If it is not known whether a file is being written (network
            disks, files of another user), the file is read when it has not changed for this time. Set 0 if
            files appear complete.
        skip (Collection[str], default ()): Names of files that are not read, as if they had no rows. A query
            that failed on a damaged file can resume with this, without the rows of that file.
        delimiter (str, default None): Of CSV. Default: a comma, or a tab for ``.tsv``.
        quote (str, default '"'): The quote character of CSV.
        header (bool, default True): Whether CSV has a header line. Without one, the fields of a line are the
            declared columns, in their order.
        on_bad (str, default "error"): What happens to rows of CSV and JSON that cannot be read: ``"error"``;
            ``"drop"``, counted in a warning and in ``query.last_progress["rowsSkipped"]``; or ``"keep"``,
            with nulls and the reason in a column.
        columns (Mapping[str, str], default None): Columns for metadata, by name: ``{"why": "error", "name":
            "file"}``.
        line_bytes_max (int, default 64 MiB): The longest line of CSV or JSON that is read.
        storage_options (Mapping[str, object], default None): What fsspec needs to open the path.
        moved_from (path, default None): The former path of the same files: a query resumes with them.
            Otherwise a checkpoint belongs to one path.

    Examples:
        >>> ps.io.files("/data/in", "csv", until="_finished").describe()
        "files '/data/in' (csv)"

    """
    if format is not None and format not in get_args(Format):
        raise FlowError(
            f"files {redact(path)!r}: format must be one of {', '.join(get_args(Format))}, got "
            f"{format!r}. Choose one of these."
        )
    if isinstance(skip, str):
        raise FlowError(
            f"files {redact(path)!r}: skip must be a list of names, got {skip!r}. Write skip=[{skip!r}]."
        )
    for what, given in (("group_by_marker", group_by_marker), ("until", until)):
        if given is not None and (not given or "/" in given):
            raise FlowError(
                f"files {redact(path)!r}: {what} must be a name without '/', got {given!r}. Give one such "
                "as '_done'."
            )
    if units_per_tick is not None and units_per_tick < 1:
        raise FlowError(
            f"files {redact(path)!r}: units_per_tick must be at least 1, got {units_per_tick}. Give a "
            "larger number, or None for all available units."
        )
    check_bytes_per_tick(f"files {redact(path)!r}", bytes_per_tick)
    if list_every_seconds is not None and not list_every_seconds >= 0:
        raise FlowError(
            f"files {redact(path)!r}: list_every_seconds must be 0 or more, got {list_every_seconds}. "
            "Give seconds, or None."
        )
    if not settle_seconds >= 0:
        raise FlowError(
            f"files {redact(path)!r}: settle_seconds must be 0 or more, got {settle_seconds}. Give "
            "seconds; 0 if files appear complete."
        )
    if in_order and order_by not in (None, NAME):
        raise FlowError(
            f"files {redact(path)!r}: in_order=True orders files by name, got order_by={order_by!r} too. "
            "Leave one of them out."
        )
    options_of_rows = FileOptions(
        format, delimiter, quote, header, on_bad, dict(columns or {}), line_bytes_max
    )
    _check_rows(f"files {redact(path)!r}", options_of_rows)
    order = NAME if in_order else order_by or MODIFIED
    rules = GroupingRules(pattern, group_by_marker, until, in_order, format, order)
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
        rows=options_of_rows,
    )


def _check_rows(who: str, options: FileOptions) -> None:
    """FlowError if rows cannot be read like this."""
    for what, text in (("delimiter", options.delimiter), ("quote", options.quote)):
        if text is not None and (len(text) != 1 or not text.isascii()):
            raise FlowError(f"{who}: {what} must be one ASCII character, got {text!r}. Give one such as ';'.")
    if options.on_bad not in get_args(OnBadRow):
        words = ", ".join(map(repr, get_args(OnBadRow)))
        raise FlowError(f"{who}: on_bad must be one of {words}, got {options.on_bad!r}. Choose one of these.")
    if wrong := [each for each in options.columns.values() if each not in (ERROR, FILE)]:
        raise FlowError(
            f"{who}: columns= must ask for '{ERROR}' or '{FILE}', got {wrong[0]!r}. Choose one of these."
        )
    if options.on_bad == "keep" and ERROR not in options.columns.values():
        raise FlowError(
            f"{who}: on_bad='keep' keeps rows that cannot be read, so a column must distinguish them. "
            "Ask for it: columns={'why': 'error'}."
        )
    if options.line_bytes_max < 1:
        raise FlowError(
            f"{who}: line_bytes_max must be at least 1, got {options.line_bytes_max}. Give a number of bytes."
        )


@dataclass(frozen=True, slots=True, repr=False)
class FolderSource(SourceBase, RedactedRepr):
    """A source of files in one folder; made by ``files``."""

    path: str
    format: Format | None
    rules: GroupingRules
    units_per_tick: int | None
    list_every_seconds: float | None
    storage_options: Mapping[str, Any] = field(repr=False)  # it may hold keys
    skip: frozenset[str] = frozenset()
    settle_seconds: float = SETTLE_SECONDS
    bytes_per_tick: int | None = None
    moved_from: str | None = None
    known_as: Identity | None = None
    """The identity that a checkpoint records if the folder is not the user's."""
    rows: FileOptions = field(default_factory=FileOptions)

    def check(self) -> None:
        """Raise StorageError if the folder cannot be listed now; most often the path is wrong."""
        folder = open_folder(self.path, self.storage_options)
        if isinstance(folder, LocalFolder):  # elsewhere a folder without files is not there, and listing dear
            folder.list()

    def watch(self, position: Position, *, available_now: bool = False) -> Watch:
        """Find the files after a position, those there and those to come."""
        folder = open_folder(self.path, self.storage_options)
        order = FileOrder(self.rules.order_by, folder, self._least_value(folder))
        grouping = Grouping(self.rules, folder, position, order)
        watch = self._watch(folder, grouping, available_now=available_now)
        if folder.subfolders and self.rules.group_by_marker is None:  # a marker may list files in subfolders
            _log.warning(_ONLY_SUBFOLDERS, redact(self.path), folder.subfolders[0])
        return watch

    def _least_value(self, folder: Folder) -> Callable[[str], Any] | None:
        """Reads the place of a file in an order by a column; None for another order."""
        column, rows = self.rules.order_by, self.rows
        if column in (MODIFIED, NAME):
            return None

        def least(name: str) -> Any:  # noqa: ANN401 - a value of the column
            if name in self.skip:
                return None
            return least_value(folder, name, column, rows, f"{self.describe()}, file '{name}'")

        return least

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
        who = f"{self.describe()}, file '{part.locator}'"
        return self._counted(part, read_file(folder, part, self.rows, schema, who, self._note(part)), who)

    def _note(self, part: Part) -> Callable[[int], None]:
        _skipped.pop(self._key(part), None)

        def note(count: int) -> None:
            _skipped[self._key(part)] = _skipped.get(self._key(part), 0) + count

        return note

    def _counted(self, part: Part, batches: Iterator[pa.RecordBatch], who: str) -> Iterator[pa.RecordBatch]:
        yield from batches
        if count := _skipped.get(self._key(part)):
            _log.warning("%s: %s rows could not be read and were dropped.", who, count)

    def skipped(self, part: Part) -> int:
        """Return the number of skipped rows of a part that was read."""
        return _skipped.pop(self._key(part), 0)

    def _key(self, part: Part) -> tuple[str, str]:
        return self.path, part.locator

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
        """Return the share of one tick that a unit takes."""
        return share_of_bytes(unit, self.bytes_per_tick)

    def identity(self) -> Identity:
        """Return the identity of this source, for the checkpoint."""
        if self.known_as is not None:
            return self.known_as
        # When there will be no more files, and whether workers share one, changes no row.
        options = options_of(self, "path", "until", "may_share")
        return {"kind": "files", "place": recorded_place(self.path), **options}

    def describe(self) -> str:
        """A description for messages."""
        place = redact(self.path)
        return f"files '{place}'" if self.format is None else f"files '{place}' ({self.format})"
