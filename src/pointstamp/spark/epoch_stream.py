"""The epochs of a flow on Spark, one after the other: what ``flow.stream(..., on=spark)`` yields.

DataFrames that do not stream are a bounded run (``job``), whose files are then read epoch by epoch. Other
inputs are a query: its commits are handed to the thread that iterates, and are published nowhere else. A
commit waits until the one before it was taken, and so does everything behind it, because a query lets only so
many epochs in. So a slow loop slows the query down, and this process holds one epoch at a time.

Invariant: each epoch with rows is yielded once, whole, in order, no matter how often workers were restarted.
The checkpoint and the files are this iteration's own, and are removed when it ends, also by ``break``.
"""

import tempfile
import threading
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final
from uuid import uuid4

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from pointstamp.connectors import staging
from pointstamp.connectors.published.reader import published_now
from pointstamp.connectors.published.sink import ParquetSink
from pointstamp.connectors.sink import Publisher, PublisherBase, SinkBase, Staged, Writer
from pointstamp.errors import FlowError, StorageError
from pointstamp.flow.plan import Plan
from pointstamp.query.query import Query
from pointstamp.spark.input_log import remove_folder
from pointstamp.spark.locations import spark_address
from pointstamp.spark.slots import is_connect
from pointstamp.storage.anywhere import storage_at
from pointstamp.storage.port import Storage

_LOOK_SECONDS: Final = 0.2
"""How often it is looked whether a query has ended that hands nothing over."""

_EPOCH: Final = staging.EPOCH_COLUMN.name

Tables = dict[str, pa.Table]
StartQuery = Callable[[str, SinkBase], Query]
"""Starts the query with a checkpoint and a sink."""
Run = Callable[[str], Any]
"""Runs a bounded flow, with a folder for its files."""


def is_bounded(inputs: Mapping[str, Any]) -> bool:
    """Whether all inputs are DataFrames that do not stream."""
    return all(isinstance(each, DataFrame) and not each.isStreaming for each in inputs.values())


def epochs_of_run(
    plan: Plan, spark: SparkSession, run: Run, folder: str | None
) -> Iterator[tuple[int, Tables]]:
    """Yield the epochs of a bounded run, which begins with the first one that is asked for."""
    place = _own_folder(plan, spark, folder)
    try:
        run(place)
        outputs = published_now(place, check_files=False).outputs
        files = [file for output in outputs.values() for file in output.files]
        schemas = {name: _without_epoch(output.schema) for name, output in outputs.items()}
        yield from _by_epoch(storage_at(place), files, schemas)
    finally:
        remove_folder(spark_address(place))


def epochs_of_query(
    plan: Plan, spark: SparkSession, start: StartQuery, folder: str | None
) -> Iterator[tuple[int, Tables]]:
    """Yield the epochs of a query, which starts with the first one that is asked for."""
    place = _own_folder(plan, spark, folder)
    handover = Handover()
    output = f"{place}/output"
    storage = storage_at(output)
    try:
        query = start(f"{place}/checkpoint", HandoverSink(ParquetSink(output, compaction=None), handover))
        try:
            while (pieces := handover.take(query)) is not None:
                yield from _by_epoch(storage, pieces, handover.schemas)
                for piece in pieces:
                    storage.delete(piece.path)
            query.await_termination()
        finally:
            handover.close()
            query.stop(finish=False)
    finally:
        remove_folder(spark_address(place))


def _own_folder(plan: Plan, spark: SparkSession, folder: str | None) -> str:
    """A new folder, in the given one or a temporary one."""
    if folder is not None:
        return f"{folder.rstrip('/')}/{uuid4().hex}"
    if is_connect(spark):
        raise FlowError(
            f"flow '{plan.name}': a Connect session runs the workers on other hosts, which cannot see a "
            "temporary folder of this one. Give folder= on a file system that all of them and this process "
            "reach."
        )
    return tempfile.mkdtemp(prefix="pointstamp-")


def _without_epoch(schema: pa.Schema) -> pa.Schema:
    return pa.schema([each for each in schema if each.name != _EPOCH])


def _by_epoch(
    storage: Storage, files: Collection[Staged], schemas: Mapping[str, pa.Schema]
) -> Iterator[tuple[int, Tables]]:
    """Yield the epochs that files have rows of; a file is in memory from its first epoch to its last."""
    waiting = deque(sorted(files, key=lambda file: file.first_epoch))
    opened: list[tuple[str, pa.Table]] = []
    while waiting or opened:
        firsts = [table.column(_EPOCH)[0].as_py() for _, table in opened]
        epoch = min([*firsts, *(file.first_epoch for file in list(waiting)[:1])])
        while waiting and waiting[0].first_epoch <= epoch:
            file = waiting.popleft()
            opened.append((file.output, _read(storage, file)))
        parts: dict[str, list[pa.Table]] = {name: [schema.empty_table()] for name, schema in schemas.items()}
        left: list[tuple[str, pa.Table]] = []
        for output, table in opened:
            # Rows of a file are in the order of epochs.
            end = int(np.searchsorted(table.column(_EPOCH).to_numpy(), epoch, side="right"))
            parts[output].append(table.slice(0, end).drop_columns([_EPOCH]).cast(schemas[output]))
            if end < table.num_rows:
                left.append((output, table.slice(end)))
        opened = left
        yield epoch, {name: pa.concat_tables(each) for name, each in parts.items()}


def _read(storage: Storage, file: Staged) -> pa.Table:
    content = file.content or storage.read(file.path)
    if problem := staging.damage(storage.address, file, content):
        raise StorageError(problem)
    return staging.table_of(content)


class Handover(PublisherBase):
    """Hands the commits of a query to the thread that iterates over them.

    ``publish`` and its like are called by the query's thread, ``take`` and ``close`` by the iterating one.
    """

    def __init__(self) -> None:
        self.schemas: Mapping[str, pa.Schema] = {}
        self.files: Publisher | None = None
        self._changed = threading.Condition()
        self._waiting: deque[Sequence[Staged]] = deque()
        self._taken: Sequence[Staged] = ()
        self._number = -1
        self._through: int | None = None
        self._is_closed = False

    def begin(self) -> None:
        """Take note that the first commit follows."""
        with self._changed:
            if self._through is None:
                self._through = -1

    def publish(self, number: int, epochs_through: int, staged: Sequence[Staged]) -> None:
        """Let a commit wait to be taken, when the one before it was; a commit that comes again is not new."""
        with self._changed:
            if number <= self._number:
                return
            self._changed.wait_for(lambda: not self._waiting or self._is_closed)
            self._waiting.append(staged)
            self._number, self._through = number, epochs_through
            self._changed.notify_all()

    def published_through(self) -> int | None:
        """The last epoch that was handed over."""
        with self._changed:
            return self._through

    def discard(self, generation: int, keep: Collection[Staged]) -> None:
        """Remove what earlier generations have staged, except what is kept or has not been iterated over."""
        assert self.files is not None
        with self._changed:
            needed = [piece for pieces in (self._taken, *self._waiting) for piece in pieces]
        self.files.discard(generation, [*keep, *needed])

    def take(self, query: Query) -> Sequence[Staged] | None:
        """Wait for the next commit; None after the last one of a query that has ended."""
        while True:
            has_ended = not query.is_active
            with self._changed:
                # In short waits, so that the end of the query and an interrupt of the keyboard are seen.
                if self._changed.wait_for(lambda: bool(self._waiting), 0 if has_ended else _LOOK_SECONDS):
                    self._taken = self._waiting.popleft()
                    self._changed.notify_all()
                    return self._taken
            if has_ended:
                return None

    def close(self) -> None:
        """Let nothing wait any more: the query is about to be stopped."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()


@dataclass(frozen=True)
class HandoverSink(SinkBase):
    """Stages as a sink of files does, and publishes by a handover; workers get the sink of files alone."""

    files: ParquetSink
    handover: Handover = field(repr=False)

    def __reduce__(self) -> tuple[Any, ...]:
        return replace, (self.files,)

    def for_query(self, query: str, schemas: Mapping[str, pa.Schema]) -> "HandoverSink":
        """The sink for one query."""
        self.handover.schemas = dict(schemas)
        return replace(self, files=self.files.for_query(query, schemas))

    def check_place(self) -> None:
        """As for the files."""
        self.files.check_place()

    def writer(self, worker: int, generation: int) -> Writer:
        """For one worker."""
        return self.files.writer(worker, generation)

    def publisher(self) -> Handover:
        """The handover, which is the same for all generations."""
        self.handover.files = self.files.publisher()
        return self.handover
