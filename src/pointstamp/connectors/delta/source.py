"""The change feed of a Delta table as a source: ``delta(path)``; needs ``deltalake``.

A Delta table with ``delta.enableChangeDataFeed`` says for each of its versions which rows were inserted,
deleted and updated. So a version is a unit: it has a number, its changes never change, and it can be read
again as long as its files are there. A position is the last version taken.

At the beginning the table as it is then comes as inserts, shared by the workers, and after it the changes
that follow, as Spark does it; or the changes from some version on. Versions without changes of rows (a table
that is optimized, or altered) are units without rows.

Rows have the columns of the table, and ``_change_type``, ``_commit_version`` and ``_commit_timestamp``, as
Spark names them. The rows of a version have no order.
"""

import os
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic
from typing import Any, Final

import pyarrow as pa
from pyarrow import types

from pointstamp.arrow.schema import check_undeclared, extra_of, to_batches
from pointstamp.connectors.source import (
    Identity,
    Part,
    Position,
    SourceBase,
    Unit,
    Watch,
    WatchBase,
    options_of,
)
from pointstamp.errors import FlowError, SourceError, StorageError
from pointstamp.redaction import RedactedRepr, redact
from pointstamp.storage.anywhere import absolute_place, recorded_place

_WHOLE: Final = "whole"
_FEED: Final = "delta.enableChangeDataFeed"
_TYPE, _VERSION, _TIMESTAMP = "_change_type", "_commit_version", "_commit_timestamp"
_INSTANT: Final = pa.timestamp("us", "UTC")
_LOOK_EVERY_SECONDS: Final = 1.0
_checked: set[tuple[str, tuple[str, ...]]] = set()  # tables and columns that were looked at in this process


def delta(
    path: str | Path,
    *,
    starting_version: int | None = None,
    versions_per_tick: int | None = 1,
    look_every_seconds: float | None = None,
    storage_options: Mapping[str, str] | None = None,
    moved_from: str | Path | None = None,
) -> "DeltaChanges":
    """Read the changes of a Delta table with change data feed: each version is one epoch.

    ``flow.table("people", "id long, _change_type string", operation="_change_type")`` is the same table in a
    flow.

    Args:
        path: The path of the table.
        starting_version (int, default None): The first version whose changes are read. Default: the current
            table as inserts, then the changes that follow.
        versions_per_tick (int, default 1): Maximum number of versions per epoch; None for no limit.
        look_every_seconds (float, default None): How often to look for a new version. Default: at once on a
            local disk, every second elsewhere.
        storage_options (Mapping[str, str], default None): What deltalake needs to open the path.
        moved_from (path, default None): The former path of the same table.

    Examples:
        >>> ps.io.delta("/data/people").describe()
        "changes of the Delta table '/data/people'"

    """
    if starting_version is not None and starting_version < 0:
        raise FlowError(
            f"delta {redact(path)!r}: starting_version must be 0 or more, got {starting_version}. "
            "Give a version of the table."
        )
    if versions_per_tick is not None and versions_per_tick < 1:
        raise FlowError(
            f"delta {redact(path)!r}: versions_per_tick must be at least 1, got "
            f"{versions_per_tick}. Give a larger number, or None for all available versions."
        )
    # Workers may run in another folder than the driver, so a local path is made absolute here.
    return DeltaChanges(
        absolute_place(path),
        starting_version,
        versions_per_tick,
        look_every_seconds,
        dict(storage_options or {}),
        None if moved_from is None else absolute_place(moved_from),
    )


@dataclass(frozen=True, slots=True, repr=False)
class DeltaChanges(SourceBase, RedactedRepr):
    """A source of the changes of one Delta table; made by ``delta``."""

    path: str
    starting_version: int | None
    units_per_tick: int | None
    look_every_seconds: float | None
    storage_options: Mapping[str, str] = field(repr=False)  # it may hold keys
    moved_from: str | None = None

    def check(self) -> None:
        """Raise SourceError where this is no Delta table, or one without a change data feed."""
        table = self._table()
        if table.metadata().configuration.get(_FEED) != "true":
            raise SourceError(
                f"{self.describe()} cannot be read: the table has no change data feed. Set its property "
                f"{_FEED} = true; changes after that can be read."
            )
        if self.starting_version is not None and self.starting_version <= table.version():
            self._feed(self.starting_version, None)

    def watch(self, position: Position, *, available_now: bool = False) -> Watch:
        """Find the versions after a position, those there and those to come."""
        self.check()
        table = self._table()
        first: list[Unit] = []
        if position is not None:
            after = int(position)
        elif self.starting_version is not None:
            after = self.starting_version - 1
        else:
            after = table.version()
            first = [_whole(table)]
        if after < table.version():
            self._feed(after + 1, None)  # whether its changes are still there
        units = [*first, *versions(after, table.version())]
        last = max(after, table.version())
        if available_now:
            return VersionWatch(units, last, None, 0.0)
        if "://" not in self.path and self.look_every_seconds is None:
            return VersionWatch(units, last, self._version_on_disk, None)
        every_seconds = _LOOK_EVERY_SECONDS if self.look_every_seconds is None else self.look_every_seconds
        return VersionWatch(units, last, lambda _: int(self._table().version()), every_seconds)

    def read(self, part: Part, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """The changes of a version, or the rows of the table as it was then, or a share of these."""
        number, _, what = part.locator.partition(" ")
        version = int(number)
        who = f"{self.describe()}, version {version}"
        self._check_undeclared(schema)
        found = self._rows(version, part.share, schema) if what else self._feed(version, schema)
        while True:
            try:
                batch = next(found, None)
            except (pa.ArrowInvalid, OSError) as error:
                raise self._unreadable(version, error) from error
            if batch is None:
                return
            yield from to_batches(_plain(batch), schema.remove_metadata(), who, leaves_others=True)

    def after(self, position: Position, unit: Unit) -> int:
        """The version of the unit."""
        return int(unit.name.partition(" ")[0])

    def identity(self) -> Identity:
        """Return the identity of this source, for the checkpoint."""
        place = recorded_place(self.path)
        return {"kind": "changes of the Delta table", "place": place, **options_of(self, "path")}

    def describe(self) -> str:
        """A description for messages."""
        return f"changes of the Delta table '{redact(self.path)}'"

    # Inside.

    def _check_undeclared(self, schema: pa.Schema) -> None:
        """Refuse a schema without the change of each row, and report columns that it leaves out."""
        check_undeclared([_TYPE], schema.names, self.describe(), extra_of(schema))
        key = (self.path, tuple(schema.names))
        if extra_of(schema) != "ignore" and key not in _checked:
            own = [each.name for each in self._table().schema().fields]
            check_undeclared(own, schema.names, self.describe())
            _checked.add(key)

    def _table(self, version: int | None = None) -> Any:  # noqa: ANN401 - a DeltaTable
        lake = _deltalake()
        try:
            return lake.DeltaTable(self.path, version=version, storage_options=dict(self.storage_options))
        except lake.exceptions.TableNotFoundError as error:
            raise SourceError(
                f"{self.describe()} cannot be read: the path contains no Delta table. Give the path of one."
            ) from error
        except lake.exceptions.DeltaError as error:
            if version is not None:
                raise self._unreadable(version, error) from error
            raise StorageError(f"{self.describe()} cannot be opened: {error}.") from error

    def _version_on_disk(self, after: int) -> int:
        """The last version that is there, by the names of the log's files, which have no gaps."""
        version = after
        while os.path.exists(f"{self.path}/_delta_log/{version + 1:020d}.json"):
            version += 1
        return version

    def _feed(self, version: int, schema: pa.Schema | None) -> Iterator[pa.RecordBatch]:
        table = self._table()
        columns = None if schema is None or not len(schema) else schema.names
        try:
            return iter(pa.RecordBatchReader.from_stream(table.load_cdf(version, version, columns=columns)))
        except _deltalake().exceptions.DeltaError as error:
            raise self._unreadable(version, error) from error

    def _rows(
        self, version: int, share: tuple[int, int] | None, schema: pa.Schema
    ) -> Iterator[pa.RecordBatch]:
        """The rows of a version as inserts: of every n-th of its files, by their names."""
        mine, of = share or (0, 1)
        table = self._table(version)
        dataset = table.to_pyarrow_dataset()
        fragments = sorted(dataset.get_fragments(), key=lambda each: str(each.path))[mine::of]
        own = [name for name in dataset.schema.names if name in schema.names]
        at = pa.scalar(None, _INSTANT)
        if _TIMESTAMP in schema.names:
            said = table.history(1)[0]["timestamp"]
            at = pa.scalar(datetime.fromtimestamp(said / 1000, UTC), _INSTANT)
        added = {_TYPE: pa.scalar("insert"), _VERSION: pa.scalar(version, pa.int64()), _TIMESTAMP: at}
        for fragment in fragments:
            for batch in fragment.to_batches(schema=dataset.schema, columns=own):
                for name, value in added.items():
                    if name in schema.names:
                        batch = batch.append_column(name, pa.repeat(value, batch.num_rows))
                yield batch

    def _unreadable(self, version: int, error: Exception) -> SourceError:
        """The reason why a version cannot be read, and the fix."""
        words = str(error)
        who = f"{self.describe()}: version {version} cannot be read"
        if "does not have change data enabled" in words:
            return SourceError(
                f"{who}: the table had no change data feed then. Begin with a later version, "
                "starting_version=, or with the table as it is now, without it."
            )
        if "not found" in words or "No such file" in words or "Invalid table version" in words:
            return SourceError(
                f"{who}: files of it are gone, most likely by VACUUM or because the log was cleaned up: "
                f"{words.splitlines()[0]}. Begin with a new checkpoint and the table as it is now, and keep "
                "versions for longer than a query may be stopped."
            )
        return SourceError(f"{who}: {words}")


def _whole(table: Any) -> Unit:  # noqa: ANN401 - a DeltaTable
    """All rows of a table at its version, which workers may share."""
    version = table.version()
    name = f"{version} {_WHOLE}"
    size = sum(pa.table(table.get_add_actions()).column("size_bytes").to_pylist())
    return Unit(name, (Part(name, size, (0, 1)),), least_epoch=version)


def _plain(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The same rows with types that flows know."""
    columns = []
    for column, name in zip(batch.columns, batch.schema.names, strict=True):
        if types.is_string_view(column.type):
            columns.append(column.cast(pa.string()))
        elif types.is_binary_view(column.type):
            columns.append(column.cast(pa.binary()))
        elif name == _VERSION:
            columns.append(column.cast(pa.int64()))
        elif name == _TIMESTAMP:
            columns.append(column.cast(_INSTANT))
        else:
            columns.append(column)
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


def _deltalake() -> Any:  # noqa: ANN401 - a module without types
    try:
        import deltalake
    except ImportError as error:
        raise FlowError(
            "the changes of Delta tables need the package deltalake on the driver and on all workers, "
            "which is not installed. Install pointstamp[delta]."
        ) from error
    return deltalake


# Table versions as units.
#
# Where asking costs little the driver asks at every poll. Elsewhere a thread asks at an interval, so that a
# poll never waits.


class VersionWatch(WatchBase):
    """The versions of a table as units; for one thread, which never waits."""

    is_refreshing: bool

    def __init__(
        self,
        units: list[Unit],
        last: int,
        newest: Callable[[int], int] | None,
        every_seconds: float | None,
    ) -> None:
        self._units = units
        self._last = last
        self._newest = newest
        self._every_seconds = every_seconds
        self._next_at = monotonic()
        self._thread: ThreadPoolExecutor | None = None
        self._under_way: Future[int] | None = None
        self._has_old_look = False
        self.is_refreshing = False
        """Whether what was there at the last ``refresh`` may not have been returned yet."""

    def refresh(self) -> None:
        """Look again now; a look in progress may have missed versions."""
        self.is_refreshing = self._newest is not None and self._every_seconds is not None
        self._has_old_look = self._under_way is not None
        self._next_at = monotonic()

    def poll(self) -> list[Unit]:
        """The versions since the last call."""
        units, self._units = self._units, []
        newest = self._last if self._newest is None else self._look(self._newest)
        units.extend(versions(self._last, newest))
        self._last = max(self._last, newest)
        return units

    def _look(self, find: Callable[[int], int]) -> int:
        if self._every_seconds is None:
            return find(self._last)
        newest = self._last
        if self._under_way is not None and self._under_way.done():
            ended, self._under_way = self._under_way, None
            self._next_at = monotonic() + (0.0 if self._has_old_look else self._every_seconds)
            self.is_refreshing &= self._has_old_look
            self._has_old_look = False
            newest = ended.result()
        if self._under_way is None and monotonic() >= self._next_at:
            self._thread = self._thread or ThreadPoolExecutor(1, "pointstamp-delta")
            self._under_way = self._thread.submit(find, newest)
        return newest

    def fileno(self) -> None:
        """Nothing becomes readable; poll from time to time."""
        return

    @property
    def is_finished(self) -> bool:
        """Whether all versions that were asked for have been returned."""
        return self._newest is None and not self._units

    def close(self) -> None:
        """Stop looking; a look in progress ends by itself."""
        self._next_at = float("inf")
        if self._thread is not None:
            self._thread.shutdown(wait=False)


def versions(after: int, last: int) -> list[Unit]:
    """The versions after one, up to another."""
    numbers = range(after + 1, last + 1)
    return [Unit(str(each), (Part(str(each), 1),), least_epoch=each) for each in numbers]
