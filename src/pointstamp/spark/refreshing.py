"""Views that Spark recomputes at each refresh, for fixed inputs.

A refresh is one tick of a query that ends (``available_now=True``), so everything that it changes is one
epoch and one commit: views that are incremental, and those that are not. The rows of the latter come as an
input, a complete state for each refresh, and the workers publish the difference. What makes the commit
consistent:

    look at all inputs  ->  Spark recomputes  ->  look again: the same?  ->  one tick with these units
          ^------------------------ no: the rows are for other inputs, try again

- A unit never changes once it was found, and units are found in order. So if both looks find the same, the
  inputs were the same in between, when Spark read them.
- The query sees these units and no others, whatever arrives meanwhile (``_Fixed``).
- The rows are written below the checkpoint before the tick is journaled; what a driver that died has written
  has another name, which no tick has.
"""

import logging
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from time import monotonic, sleep
from typing import Any, Final
from uuid import uuid4

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import lit

from pointstamp.connectors.files.source import FolderSource, files
from pointstamp.connectors.source import (
    AllAtOnce,
    Identity,
    Part,
    Position,
    Source,
    SourceBase,
    Unit,
    Watch,
    identity_of_source,
    moved_from_of,
)
from pointstamp.errors import FlowError
from pointstamp.journal.history import Entry
from pointstamp.journal.journal import Journal
from pointstamp.journal.ledger import Ledger
from pointstamp.query.start_checks import known_query_id
from pointstamp.spark.checkpoint_tables import UnreadSource
from pointstamp.spark.locations import folder_name, spark_address
from pointstamp.storage.anywhere import storage_at

EMPTY: Final = "_pointstamp_end"
"""The column of the row that ends a state, so that an empty one is a state, too."""

_DONE: Final = ".done"
_TRIES_MAX: Final = 5
_LOOK_SECONDS: Final = 0.05
_LOOK_SECONDS_MAX: Final = 600.0

_log = logging.getLogger("pointstamp.query")


@dataclass(frozen=True, slots=True)
class RecomputedView:
    """A view that Spark recomputes at each refresh."""

    name: str
    reason: str
    schema: pa.Schema
    frame: Callable[[], DataFrame]
    """Returns its rows over the inputs as they are now."""
    reads: Mapping[str, Source]
    """The tables that it reads and whose changes can be seen, by name."""

    @property
    def input(self) -> str:
        """Return the name of the input that has its rows."""
        return f"{self.name} (recomputed)"

    def to_read(self) -> DataFrame:
        """Return its rows, for a run that ends."""
        return self.frame().withColumn(EMPTY, lit(False))

    def to_follow(self) -> Any:  # noqa: ANN401 - nothing
        """Raise FlowError: its rows belong to a refresh."""
        raise FlowError(f"view '{self.name}' is recomputed in full. Start with available_now=True.")


@dataclass(frozen=True, slots=True)
class _Fixed(SourceBase):
    """A source from which one refresh takes exactly the units that were found before it."""

    inner: Source
    position: Position
    units: tuple[Unit, ...]

    @property
    def units_per_tick(self) -> int | None:
        return None

    def watch(self, position: Position, *, available_now: bool = False) -> Watch:
        del available_now
        if _plain(position) == _plain(self.position):
            return AllAtOnce(self.units)
        if _plain(position) == _plain(self._end()):
            return AllAtOnce([])  # the tick is in the journal already
        raise FlowError(
            f"{self.inner.describe()}: another driver has refreshed the views meanwhile. Start the refresh "
            "again."
        )

    def _end(self) -> Position:
        position = self.position
        for unit in self.units:
            position = self.inner.after(position, unit)
        return position

    def read(self, part: Part, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        return self.inner.read(part, schema)

    def after(self, position: Position, unit: Unit) -> Position:
        return self.inner.after(position, unit)

    def describe(self) -> str:
        return self.inner.describe()

    def identity(self) -> Identity:
        return identity_of_source(self.inner)

    @property
    def moved_from(self) -> str | None:
        return moved_from_of(self.inner)


def refresh_inputs(
    spark: SparkSession,
    views: Mapping[str, RecomputedView],
    data: Mapping[str, Any],
    checkpoint: str,
    took: dict[str, float],
) -> dict[str, Any]:
    """Return the inputs of one refresh, the rows of recomputed views among them.

    Args:
        spark: the session that recomputes.
        views: the views to recompute.
        data: the sources of the other inputs.
        checkpoint: the checkpoint of the query, below which the rows are written.
        took: is filled with the seconds of each recomputation, by the name of the view.

    Raises:
        FlowError: an input cannot be fixed at a moment, or inputs change faster than Spark recomputes.

    """
    for name, each in data.items():
        if isinstance(each, DataFrame) and each.isStreaming:
            raise FlowError(
                f"input '{name}' is a streaming DataFrame, whose rows cannot be fixed for a view that is "
                f"recomputed ('{next(iter(views))}'). Give a source such as ps.io.files, or define this view "
                "with refresh policy INCREMENTAL."
            )
    sources: dict[str, Source] = {
        name: each for name, each in data.items() if not isinstance(each, DataFrame)
    }
    root = f"{spark_address(checkpoint)}/recomputed"
    logs: dict[str, Source] = {view.input: _log_of(root, view) for view in views.values()}
    static = {name: UnreadSource() for name in data if name not in sources}
    positions, needed = _taken(checkpoint, {**static, **sources, **logs})
    others = {name: each for view in views.values() for name, each in view.reads.items()}
    folders = {view.name: f"{root}/{folder_name(view.name)}" for view in views.values()}
    for folder in folders.values():
        _forget(folder, needed)
    for attempt in range(_TRIES_MAX):
        before = _found(sources, positions), _found(others, {})
        name = f"{_number(positions, logs):012d}-{uuid4().hex}"
        for view in views.values():
            took[view.name] = _write(view, folders[view.name], name)
        if (_found(sources, positions), _found(others, {})) == before:
            fixed: dict[str, Any] = {
                each: _Fixed(source, positions.get(each), tuple(before[0][each]))
                for each, source in sources.items()
            }
            for each, log in logs.items():
                units = [unit for unit in _units(log, positions.get(each)) if unit.name == name + _DONE]
                fixed[each] = _Fixed(log, positions.get(each), tuple(units))
            return {**data, **fixed}
        for folder in folders.values():
            _forget(folder, needed)
        _log.info("inputs changed while views were recomputed; attempt %s of %s", attempt + 1, _TRIES_MAX)
    raise FlowError(
        f"inputs changed {_TRIES_MAX} times while Spark recomputed {', '.join(views)}. Refresh when fewer "
        "changes arrive, or define these views with refresh policy INCREMENTAL."
    )


def _forget(folder: str, needed: Collection[str]) -> None:
    """Remove states that no tick has which may be read again."""
    storage = storage_at(folder)
    for marker in [each for each in storage.list("") if each.endswith(_DONE) and each not in needed]:
        for path in storage.list(f"{marker.removesuffix(_DONE)}/"):
            storage.delete(path)
        storage.delete(marker)


def _log_of(root: str, view: RecomputedView) -> FolderSource:
    folder = f"{root}/{folder_name(view.name)}"
    storage = storage_at(folder)
    if storage.size("_log") is None:  # so that the folder can be watched while it is empty
        storage.write("_log", b"recomputed")
    read = files(
        folder,
        "parquet",
        group_by_marker=_DONE,
        pattern="*.parquet",
        in_order=True,
        units_per_tick=None,
        settle_seconds=0,  # everything in it is put there whole
    )
    return replace(read, known_as={"kind": "recomputed view", "place": view.name})


def _taken(checkpoint: str, sources: Mapping[str, Source]) -> tuple[dict[str, Position], set[str]]:
    """Return what earlier refreshes have taken of each input, and the units that may be read again."""
    storage = storage_at(checkpoint)
    if not storage.list("journal/"):
        return {}, set()
    journal: Journal[Entry] = Journal.open(storage, Entry, query=known_query_id(storage))
    ledger = Ledger(journal, sources)
    ticks = [*ledger.ticks_stored(), *(tick for each in ledger.savepoints for tick in each.ticks)]
    needed = {unit.name for tick in ticks for units in tick.units.values() for unit in units}
    return dict(ledger.positions), needed


def _number(positions: Mapping[str, Position], logs: Mapping[str, Source]) -> int:
    """Return the number of the next state: one more than those that were taken."""
    taken = [str(positions[each][0]) for each in logs if positions.get(each) is not None]
    return max((int(each.partition("-")[0]) + 1 for each in taken), default=0)


def _found(sources: Mapping[str, Source], positions: Mapping[str, Position]) -> dict[str, list[Unit]]:
    """Return the units that are there now, after each position."""
    return {name: _units(source, positions.get(name)) for name, source in sources.items()}


def _units(source: Source, position: Position) -> list[Unit]:
    watch = source.watch(position, available_now=True)
    units: list[Unit] = []
    deadline = monotonic() + _LOOK_SECONDS_MAX
    try:
        while True:
            units += watch.poll()
            if watch.is_finished:
                return units
            if monotonic() > deadline:
                raise FlowError(
                    f"{source.describe()} did not list its files for {_LOOK_SECONDS_MAX:g} seconds. Wait "
                    "until its files are written, and refresh again."
                )
            sleep(_LOOK_SECONDS)
    finally:
        watch.close()


def _write(view: RecomputedView, folder: str, name: str) -> float:
    """Write the rows of a view as the state of a refresh, then their marker; return the seconds it took."""
    began = monotonic()
    frame = view.frame()
    end = frame.sparkSession.range(1).select(
        *(lit(None).cast(field.dataType).alias(field.name) for field in frame.schema.fields)
    )
    rows = frame.withColumn(EMPTY, lit(False)).union(end.withColumn(EMPTY, lit(True)))
    writer = rows.write.mode("overwrite")
    writer.option("mapreduce.fileoutputcommitter.marksuccessfuljobs", "false").parquet(f"{folder}/{name}")
    storage = storage_at(folder)
    written = [each for each in storage.list(f"{name}/") if each.endswith(".parquet")]
    storage.create(f"{name}{_DONE}", "\n".join(written).encode())
    took = monotonic() - began
    _log.warning(
        "view '%s' was recomputed in full by Spark in %.1f s, because %s", view.name, took, view.reason
    )
    return took


def _plain(position: Position) -> Position:
    """Return a position with tuples for lists, as a journal may have either."""
    return tuple(map(_plain, position)) if isinstance(position, list | tuple) else position
