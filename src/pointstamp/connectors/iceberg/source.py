"""The changes of an Iceberg table as a source: ``iceberg(path)``; needs ``pyiceberg``.

A snapshot is a unit: the rows of the data files that it added are inserts, those of the files that it removed
are deletes. So tables that are written by copy-on-write (Iceberg's default) can be followed. A snapshot that
adds delete files (merge-on-read) is rejected by name, because the rows that they delete are not in it. A
snapshot that only rewrites files (``replace``) changes no rows.

At the beginning the table as it is then comes as inserts, shared by the workers. A position is the last
snapshot taken. Rows have the columns of the table and ``_change_type``, ``insert`` or ``delete``.
"""

import os
import re
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from pointstamp.arrow.schema import check_undeclared, extra_of, to_batches
from pointstamp.connectors.delta.source import VersionWatch
from pointstamp.connectors.source import Identity, Part, Position, SourceBase, Unit, Watch, options_of
from pointstamp.errors import FlowError, SourceError, StorageError
from pointstamp.redaction import RedactedRepr, redact
from pointstamp.storage.anywhere import absolute_place, recorded_place

_TYPE: Final = "_change_type"
_WHOLE: Final = "whole"
_METADATA: Final = re.compile(r"v?(\d+).*\.metadata\.json")
_LOOK_EVERY_SECONDS: Final = 1.0


def iceberg(
    table: str | Path,
    *,
    catalog: Mapping[str, str] | None = None,
    snapshots_per_tick: int | None = 1,
    look_every_seconds: float = _LOOK_EVERY_SECONDS,
) -> "IcebergChanges":
    """Read the changes of an Iceberg table: each snapshot is one epoch.

    Args:
        table: The folder of the table; with ``catalog``, its identifier such as ``"db.orders"``.
        catalog (Mapping[str, str], default None): The properties with which pyiceberg loads the catalog.
            Default: the table is a folder whose ``metadata`` has the versions of the table, as Hadoop
            catalogs write them.
        snapshots_per_tick (int, default 1): Maximum number of snapshots per epoch; None for no limit.
        look_every_seconds (float, default 1.0): How often to look for a new snapshot.

    Examples:
        >>> ps.io.iceberg("/data/orders").describe()
        "changes of the Iceberg table '/data/orders'"

    """
    if snapshots_per_tick is not None and snapshots_per_tick < 1:
        raise FlowError(
            f"iceberg {redact(str(table))!r}: snapshots_per_tick must be at least 1, got "
            f"{snapshots_per_tick}. Give a larger number, or None for all available snapshots."
        )
    place = str(table) if catalog is not None else absolute_place(table)
    return IcebergChanges(place, dict(catalog or {}), snapshots_per_tick, look_every_seconds)


@dataclass(frozen=True, slots=True, repr=False)
class IcebergChanges(SourceBase, RedactedRepr):
    """A source of the changes of one Iceberg table; made by ``iceberg``."""

    table: str
    catalog: Mapping[str, str] = field(repr=False)  # it may hold keys
    units_per_tick: int | None
    look_every_seconds: float

    def check(self) -> None:
        """Raise SourceError if there is no such table."""
        self._table()

    def watch(self, position: Position, *, available_now: bool = False) -> Watch:
        """Find the snapshots after a position, those there and those to come."""
        table = self._table()
        current = table.current_snapshot()
        if position is None:
            # An empty table has no snapshot: its first one is a change like others.
            units = [] if current is None else [_whole(current)]
            after = None if current is None else int(current.snapshot_id)
        else:
            after = int(position)
            units = self._units(table, after)
            after = int(units[-1].name) if units else after
        watch = _SnapshotWatch(self, units, after, self.look_every_seconds)
        return watch.ended() if available_now else watch

    def units_after(self, after: int | None) -> list[Unit]:
        """Return the snapshots after one, in order."""
        return self._units(self._table(), after)

    def read(self, part: Part, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """The changes of a snapshot, or the rows of the table as it was then, or a share of these."""
        number, _, whole = part.locator.partition(" ")
        who = f"{self.describe()}, snapshot {number}"
        check_undeclared([_TYPE], schema.names, self.describe(), extra_of(schema))
        table = self._table()
        snapshot = self._snapshot(table, int(number))
        found = (
            self._whole_rows(table, snapshot, part, schema)
            if whole
            else self._changes(table, snapshot, schema)
        )
        for operation, batch in found:
            change = pa.repeat(pa.scalar(operation), batch.num_rows)
            yield from to_batches(
                batch.append_column(_TYPE, change), schema.remove_metadata(), who, leaves_others=True
            )

    def after(self, position: Position, unit: Unit) -> int:
        """The snapshot of the unit."""
        return int(unit.name.partition(" ")[0])

    def identity(self) -> Identity:
        """Return the identity of this source, for the checkpoint."""
        place = self.table if self.catalog else recorded_place(self.table)
        uri = {"catalog": redact(self.catalog["uri"])} if "uri" in self.catalog else {}
        hidden = ("table", "catalog", "look_every_seconds")
        return {"kind": "changes of the Iceberg table", "place": place, **uri, **options_of(self, *hidden)}

    def describe(self) -> str:
        """A description for messages."""
        return f"changes of the Iceberg table '{redact(self.table)}'"

    # Inside.

    def _table(self) -> Any:  # noqa: ANN401 - of a package without complete types
        exceptions = _iceberg("exceptions")
        try:
            if self.catalog:
                return _iceberg("catalog").load_catalog("default", **self.catalog).load_table(self.table)
            return _iceberg("table").StaticTable.from_metadata(_newest_metadata(self.table, self.describe()))
        except (exceptions.NoSuchTableError, FileNotFoundError) as error:
            raise SourceError(
                f"{self.describe()} cannot be read: there is no such table. Give the folder of a table, or "
                "its identifier and catalog=."
            ) from error
        except SourceError:
            raise
        except Exception as error:  # pyiceberg's errors have no common kind
            raise StorageError(f"{self.describe()} cannot be opened: {redact(str(error))}.") from error

    def _snapshot(self, table: Any, number: int) -> Any:  # noqa: ANN401
        found = table.snapshot_by_id(number)
        if found is None:
            raise SourceError(
                f"{self.describe()}: snapshot {number} is gone, most likely by expire_snapshots. Begin with "
                "a new checkpoint, and keep snapshots for longer than a query may be stopped."
            )
        return found

    def _units(self, table: Any, after: int | None) -> list[Unit]:  # noqa: ANN401
        """The snapshots from the one after a position to the current one, by their parents."""
        newer: list[Unit] = []
        snapshot = table.current_snapshot()
        while snapshot is not None and snapshot.snapshot_id != after:
            newer.append(Unit(str(snapshot.snapshot_id), (Part(str(snapshot.snapshot_id), _size(snapshot)),)))
            parent = snapshot.parent_snapshot_id
            if parent is None:
                snapshot = None
                break
            if parent == after:
                return newer[::-1]
            snapshot = self._snapshot(table, parent)
        if snapshot is None and after is not None:
            raise SourceError(
                f"{self.describe()}: snapshot {after}, which was taken last, is not an ancestor of the "
                "current snapshot. The table was rolled back or made again; begin with a new checkpoint."
            )
        return newer[::-1]

    def _whole_rows(
        self,
        table: Any,  # noqa: ANN401
        snapshot: Any,  # noqa: ANN401
        part: Part,
        schema: pa.Schema,
    ) -> Iterator[tuple[str, pa.RecordBatch]]:
        mine, of = part.share or (0, 1)
        scan = table.scan(snapshot_id=snapshot.snapshot_id, selected_fields=_own(table, schema))
        tasks = sorted(scan.plan_files(), key=lambda each: str(each.file.file_path))[mine::of]
        for batch in self._scanned(table, scan.projection(), tasks):
            yield "insert", batch

    def _changes(
        self,
        table: Any,  # noqa: ANN401
        snapshot: Any,  # noqa: ANN401
        schema: pa.Schema,
    ) -> Iterator[tuple[str, pa.RecordBatch]]:
        operation = snapshot.summary.operation.value if snapshot.summary is not None else "append"
        if operation == "replace":
            return
        status = _iceberg("manifest").ManifestEntryStatus
        task = _iceberg("table").FileScanTask
        wanted: list[tuple[str, str, Any]] = []
        has_deletes = False
        for manifest in snapshot.manifests(table.io):
            is_deletes = manifest.content.name == "DELETES"
            has_deletes |= is_deletes
            if manifest.added_snapshot_id != snapshot.snapshot_id:
                continue
            for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=False):
                if entry.snapshot_id != snapshot.snapshot_id or entry.status == status.EXISTING:
                    continue
                if is_deletes:
                    raise self._by_delete_files(snapshot)
                change = "insert" if entry.status == status.ADDED else "delete"
                wanted.append((change, str(entry.data_file.file_path), entry.data_file))
        if has_deletes and any(change == "delete" for change, _, _ in wanted):
            raise self._by_delete_files(
                snapshot
            )  # some rows of the files that it removes were deleted before
        projected = table.scan(selected_fields=_own(table, schema)).projection()
        for change, _, file in sorted(wanted, key=lambda each: each[:2]):
            for batch in self._scanned(table, projected, [task(file)]):
                yield change, batch

    def _by_delete_files(self, snapshot: Any) -> SourceError:  # noqa: ANN401
        return SourceError(
            f"{self.describe()}: snapshot {snapshot.snapshot_id} deletes rows by delete files "
            "(merge-on-read), and the rows are not in it. Set the table properties write.delete.mode, "
            "write.update.mode and write.merge.mode to copy-on-write, and begin with a new checkpoint."
        )

    def _scanned(self, table: Any, projected: Any, tasks: list[Any]) -> Iterator[pa.RecordBatch]:  # noqa: ANN401
        scan = _iceberg("io.pyarrow").ArrowScan
        always = _iceberg("expressions").AlwaysTrue()
        try:
            for one in tasks:
                yield from scan(table.metadata, table.io, projected, always).to_record_batches([one])
        except (FileNotFoundError, pa.ArrowInvalid) as error:
            raise SourceError(
                f"{self.describe()}: a file of a snapshot cannot be read: {redact(str(error))}. Begin with a "
                "new checkpoint, and keep snapshots for longer than a query may be stopped."
            ) from error


class _SnapshotWatch(VersionWatch):
    """The snapshots of a table as units; a thread looks for them."""

    def __init__(
        self, source: IcebergChanges, units: list[Unit], after: int | None, every_seconds: float
    ) -> None:
        super().__init__([], 0, self._find, every_seconds)
        self._source = source
        self._found = deque(units)  # the thread appends, and polls take
        self._after = after

    def ended(self) -> "_SnapshotWatch":
        """Return the watch without those to come."""
        self._newest = None
        return self

    def poll(self) -> list[Unit]:
        """The snapshots since the last call."""
        if self._newest is not None:
            self._last = max(self._last, self._look(self._newest))
        return [self._found.popleft() for _ in range(len(self._found))]

    def _find(self, after: int) -> int:
        """Look for snapshots; called by the thread that looks, one call at a time."""
        newer = self._source.units_after(self._after)
        if newer:
            self._after = int(newer[-1].name)
            self._found.extend(newer)
        return after + len(newer)

    @property
    def is_finished(self) -> bool:
        """Whether all snapshots that were asked for have been returned."""
        return self._newest is None and not self._found


def _whole(snapshot: Any) -> Unit:  # noqa: ANN401
    name = f"{snapshot.snapshot_id} {_WHOLE}"
    return Unit(name, (Part(name, _size(snapshot), (0, 1)),))


def _size(snapshot: Any) -> int:  # noqa: ANN401
    said = dict(snapshot.summary.additional_properties) if snapshot.summary is not None else {}
    return int(said.get("total-files-size", 1))


def _own(table: Any, schema: pa.Schema) -> tuple[str, ...]:  # noqa: ANN401
    names = [each.name for each in table.schema().fields]
    return tuple(name for name in names if name in schema.names) or tuple(names[:1])


def _newest_metadata(path: str, who: str) -> str:
    """The newest metadata of a table in a folder, by the numbers in the names of its files."""
    if "://" in path:
        raise SourceError(
            f"{who} cannot be read: a table without a catalog must be in a local folder. Give catalog=."
        )
    folder = os.path.join(path, "metadata")
    found = [(int(match[1]), name) for name in os.listdir(folder) if (match := _METADATA.fullmatch(name))]
    if not found:
        raise FileNotFoundError(folder)
    return os.path.join(folder, max(found)[1])


def _iceberg(module: str) -> Any:  # noqa: ANN401 - a module of a package that may be missing
    try:
        return import_module(f"pyiceberg.{module}")
    except ImportError as error:
        raise FlowError(
            "changes of Iceberg tables need the package pyiceberg on the driver and on all workers, which is "
            "not installed. Install pointstamp[iceberg]."
        ) from error
