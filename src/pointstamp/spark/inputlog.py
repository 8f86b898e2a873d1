"""The input log: what Structured Streaming reads, kept as files until the workers need it no more.

Structured Streaming owns a source and its offsets. Each of its micro-batches becomes a folder of Parquet
files and then a marker, which lists them and is created once: a micro-batch that Spark repeats after a
failure finds its marker and changes nothing. The workers read the log as they read any folder of files; a
tick takes all batches that are there. DataFrames that do not stream are one batch, written at the start.

What ticks have read that will never be read again is removed.
"""

import threading
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final
from uuid import uuid4

from pyspark.sql import DataFrame

from pointstamp.errors import FlowError, PointstampError
from pointstamp.sources.files import Files, files
from pointstamp.sources.port import Unit
from pointstamp.spark.failures import in_words
from pointstamp.storage.anywhere import storage_at

_MARKER: Final = ".done"
_STATIC_END: Final = "static.end"


@dataclass(frozen=True, slots=True)
class WriteBatch:
    """Writes micro-batches into a log; the function of ``foreachBatch``."""

    folder: str

    def __call__(self, batch: DataFrame, number: int) -> None:
        """Write one micro-batch, unless it is there."""
        storage = storage_at(self.folder)
        name = f"batch-{number:012d}"
        if storage.size(name + _MARKER) is None:
            batch.write.mode("overwrite").parquet(f"{self.folder}/{name}")
            written = [each for each in storage.list(f"{name}/") if each.endswith(".parquet")]
            storage.create(name + _MARKER, "\n".join(written).encode())


class StreamLog:
    """The log of one streaming DataFrame, and the streaming query that writes it."""

    def __init__(self, name: str, frame: DataFrame, checkpoint: str, *, available_now: bool) -> None:
        self._name = name
        self._frame = frame
        self._folder = f"{checkpoint}/log/{name}"
        self._offsets = f"{checkpoint}/sources/{name}"
        self._available_now = available_now
        # Another name for each start: an end that was reached before says nothing about this time.
        self._end = f"finished-{uuid4().hex}.end" if available_now else None
        self._query: Any = None
        self._failure: PointstampError | None = None
        self._is_stopped = False
        _make_folder(self._folder)

    def source(self) -> Files:
        """The log as the workers read it."""
        return files(
            self._folder,
            "parquet",
            group_by_marker=_MARKER,
            pattern="*.parquet",
            in_order=True,
            until=self._end,
            units_per_tick=None,
            list_every_seconds=None,
        )

    def start(self) -> None:
        """Let Structured Streaming write."""
        writer = self._frame.writeStream.foreachBatch(WriteBatch(self._folder))
        writer = writer.option("checkpointLocation", self._offsets)
        if self._available_now:
            writer = writer.trigger(availableNow=True)
        try:
            self._query = writer.start()
        except Exception as error:  # Spark's and py4j's errors have no common kind
            raise in_words(str(error), published="") from None
        threading.Thread(target=self._watch, name=f"pointstamp-log-{self._name}", daemon=True).start()

    def failure(self) -> PointstampError | None:
        """What has ended the streaming query, in words."""
        return self._failure

    def drain(self) -> None:
        """Wait until Structured Streaming has written all that its source has now."""
        if self._query is not None and self._query.isActive:
            self._query.processAllAvailable()

    def stop(self) -> None:
        """End the streaming query."""
        self._is_stopped = True
        if self._query is not None:
            with suppress(Exception):  # it has ended already, or the session has
                self._query.stop()

    def forget(self, units: list[Unit]) -> None:
        """Remove batches that will never be read again."""
        storage = storage_at(self._folder)
        for unit in units:
            for part in unit.parts:
                storage.delete(part.locator)
            folder = unit.name.removesuffix(_MARKER)
            for left in storage.list(f"{folder}/"):  # Spark's own marks
                storage.delete(left)
            storage.delete(folder + _MARKER)

    def _watch(self) -> None:
        try:
            self._query.awaitTermination()
        except Exception as error:  # as above
            if not self._is_stopped:
                words = in_words(str(error), published="")
                self._failure = FlowError(f"input '{self._name}': Structured Streaming has ended: {words}")
            return
        if self._end is not None and not self._is_stopped:
            storage_at(self._folder).create(self._end, b"end\n")


def static_log(name: str, frame: DataFrame, checkpoint: str) -> Files:
    """A DataFrame that does not stream, written once, as a source that has come to its end."""
    folder = f"{checkpoint}/log/{name}"
    _make_folder(folder)
    try:
        WriteBatch(folder)(frame, 0)
    except Exception as error:  # as above
        if isinstance(error, PointstampError):
            raise
        raise in_words(str(error), published="") from None
    storage = storage_at(folder)
    if storage.size(_STATIC_END) is None:
        storage.create(_STATIC_END, b"end\n")
    return files(
        folder,
        "parquet",
        group_by_marker=_MARKER,
        pattern="*.parquet",
        in_order=True,
        until=_STATIC_END,
        units_per_tick=None,
    )


def _make_folder(folder: str) -> None:
    """A folder that can be watched before anything is in it."""
    storage = storage_at(folder)
    if storage.size("_log") is None:
        storage.write("_log", b"")
