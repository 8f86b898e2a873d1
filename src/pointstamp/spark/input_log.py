"""The input log: rows of Structured Streaming, as files for the workers.

Structured Streaming owns a source and its offsets. Each of its micro-batches becomes a folder of Parquet
files and then a marker, which lists them and is created once: a micro-batch that Spark repeats after a
failure finds its marker and changes nothing. The workers read the log as they read any folder of files; a
tick takes all batches that are there. DataFrames that do not stream are one batch, written at the start; when
the run is started again, such a DataFrame must have the rows that are in the log.

Batches that will never be read again are removed. When Structured Streaming fails, or another program stops
its query, the input cannot continue: the query is told, and what was written before is still read.
"""

import logging
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Final
from uuid import uuid4

import fsspec
import msgspec
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it
from pyspark.sql import types as T  # noqa: N812

from pointstamp.connectors.files.source import FolderSource, files
from pointstamp.connectors.source import Identity, Unit
from pointstamp.errors import FlowError, PointstampError
from pointstamp.redaction import redact, redact_text
from pointstamp.spark.failures import cause_in_words, in_words
from pointstamp.spark.locations import folder_name
from pointstamp.storage.anywhere import recorded_place, storage_at
from pointstamp.storage.port import Storage
from pointstamp.storage.sealed import seal, unseal

_MARKER: Final = ".done"
_STATIC_END: Final = "static.end"
_END: Final = "finished-"
_READS: Final = ("path", "subscribe", "subscribePattern", "assign", "kafka.bootstrap.servers", "host", "port")
_STARTS_MAX: Final = 3
_TOO_SLOW: Final = "Python worker failed to connect back"

_log = logging.getLogger("pointstamp.query")


@dataclass(frozen=True, slots=True)
class WriteBatch:
    """Writes micro-batches into a log; the function of ``foreachBatch``."""

    folder: str

    def __call__(self, batch: DataFrame, number: int) -> None:
        """Write one micro-batch, unless it is there."""
        storage = storage_at(self.folder)
        name = _batch_name(number)
        if storage.size(name + _MARKER) is None:
            writer = batch.write.mode("overwrite")
            # The marker says it, and a file less is written and removed.
            writer = writer.option("mapreduce.fileoutputcommitter.marksuccessfuljobs", "false")
            writer.parquet(f"{self.folder}/{name}")
            written = [each for each in storage.list(f"{name}/") if each.endswith(".parquet")]
            storage.create(name + _MARKER, "\n".join(written).encode())


class StreamLog:
    """The log of one streaming DataFrame, and the streaming query that writes it."""

    def __init__(self, name: str, frame: DataFrame, checkpoint: str, *, available_now: bool) -> None:
        self._name = name
        self._frame = frame
        self._folder = f"{checkpoint}/log/{folder_name(name)}"
        self._offsets = f"{checkpoint}/sources/{folder_name(name)}"
        self._available_now = available_now
        # Another name for each start: an end that was reached before says nothing about this time.
        self._end = f"{_END}{uuid4().hex}.end" if available_now else None
        self._query: Any = None
        self._failure: PointstampError | None = None
        self._lock = threading.Lock()  # start and stop may come at the same moment
        self._is_stopped = False
        self.when_failed: Callable[[], None] = lambda: None
        _make_folder(self._folder, "stream", name)
        storage = storage_at(self._folder)
        for old in storage.list(_END):
            storage.delete(old)

    def source(self) -> FolderSource:
        """The log as the workers read it."""
        read = files(
            self._folder,
            "parquet",
            group_by_marker=_MARKER,
            pattern="*.parquet",
            in_order=True,
            until=self._end,
            units_per_tick=None,
            settle_seconds=0,  # everything in it is put there whole
        )
        return replace(read, known_as=frame_identity(self._frame))

    def start(self) -> None:
        """Let Structured Streaming write, unless it was stopped before."""
        writer = self._frame.writeStream.foreachBatch(WriteBatch(self._folder))
        writer = writer.option("checkpointLocation", self._offsets)
        if self._available_now:
            writer = writer.trigger(availableNow=True)
        with self._lock:
            if self._is_stopped:
                return
            self._query = start_patiently(writer.start, f"input '{self._name}'")
        threading.Thread(target=self._watch, name=f"pointstamp-log-{self._name}", daemon=True).start()

    def failure(self) -> PointstampError | None:
        """What has ended the streaming query, as text."""
        return self._failure

    def drain(self) -> None:
        """Wait until Structured Streaming has written all that its source has now."""
        if self._query is not None:
            with suppress(Exception):  # it has ended; whether by a failure, the watching thread says
                self._query.processAllAvailable()

    def stop(self) -> None:
        """End the streaming query."""
        with self._lock:
            self._is_stopped = True
        if self._query is not None:
            with suppress(Exception):  # it has ended already, or the session has
                self._query.stop()

    def forget(self, units: list[Unit]) -> None:
        """Remove batches that will never be read again."""
        storage = storage_at(self._folder)
        for unit in units:
            remove_folder(f"{self._folder}/{unit.name.removesuffix(_MARKER)}")
            storage.delete(unit.name)

    def _watch(self) -> None:
        try:
            self._query.awaitTermination()
            if self._end is not None and not self._is_stopped:
                storage_at(self._folder).create(self._end, b"end\n")
        except Exception as error:  # as above
            self._fail(cause_in_words(str(error)))
        if self._end is None:
            self._fail("another program has stopped its query.")

    def _fail(self, words: str) -> None:
        if self._is_stopped or self._failure is not None:
            return
        self._failure = FlowError(
            f"input '{self._name}': Structured Streaming has ended: {words} What it had read before is "
            "published; start the flow again with the same checkpoint to resume from there."
        )
        self.when_failed()


def static_log(name: str, frame: DataFrame, checkpoint: str) -> FolderSource:
    """A DataFrame that does not stream, written once, as a source that has come to its end.

    If it was written before: FlowError if it has other rows by now, because they would not be read.
    """
    folder = f"{checkpoint}/log/{folder_name(name)}"
    _make_folder(folder, "static", name)
    storage = storage_at(folder)
    try:
        if storage.size(_batch_name(0) + _MARKER) is None:
            WriteBatch(folder)(frame, 0)
        else:
            check_same_rows(name, frame, f"{folder}/{_batch_name(0)}", storage)
    except Exception as error:  # as above
        if isinstance(error, PointstampError):
            raise
        raise in_words(str(error), published="") from None
    if storage.size(_STATIC_END) is None:
        storage.create(_STATIC_END, b"end\n")
    read = files(
        folder,
        "parquet",
        group_by_marker=_MARKER,
        pattern="*.parquet",
        in_order=True,
        until=_STATIC_END,
        units_per_tick=None,
        settle_seconds=0,
    )
    return replace(read, known_as=frame_identity(frame))


def frame_identity(frame: DataFrame) -> Identity:
    """What tells a DataFrame from others, for the checkpoint.

    The rows of one that does not stream are compared themselves. Of one that streams it is what it reads, as
    far as this process knows its plan: Spark Connect does not say it.
    """
    if not frame.isStreaming:
        return {"kind": "DataFrame"}
    plan: Any = getattr(frame, "_jdf", None)
    if plan is None:
        return {"kind": "streaming DataFrame"}
    leaves = plan.queryExecution().analyzed().collectLeaves()
    reads = [_leaf(leaves.apply(number)) for number in range(leaves.length())]
    return {"kind": "streaming DataFrame", "reads": "; ".join(reads)}


def _leaf(leaf: Any) -> str:  # noqa: ANN401 - a node of a Spark plan
    """The source of a streaming DataFrame with the options that say which rows it has; never a password."""
    try:
        if leaf.nodeName() == "StreamingRelation":
            name, options = leaf.sourceName(), leaf.dataSource().options()
            found = {key: options.get(key).get() for key in _READS if options.contains(key)}
        else:
            name, options = leaf.sourceName(), leaf.extraOptions()
            found = {key: options.get(key) for key in _READS if options.containsKey(key)}
    except Exception:  # a node of another kind, which has no such methods
        return str(leaf.nodeName())
    told = [f"{key} {recorded_place(value) if key == 'path' else value}" for key, value in found.items()]
    return f"{name} {', '.join(told)}".strip()


def _batch_name(number: int) -> str:
    return f"batch-{number:012d}"


def start_patiently(start: Callable[[], Any], who: str) -> Any:  # noqa: ANN401 - Spark's two kinds of queries
    """Start a streaming query; again where Python was too slow for Spark, which waits ten seconds for it."""
    tries = 0
    while True:
        tries += 1
        try:
            return start()
        except Exception as error:  # Spark's and py4j's errors have no common kind
            if tries < _STARTS_MAX and _TOO_SLOW in str(error):
                continue
            raise FlowError(
                f"{who}: Structured Streaming could not start: {cause_in_words(str(error))}"
            ) from None


def _make_folder(folder: str, kind: str, name: str) -> None:
    """A folder that can be watched while it is empty, and that records the kind of its DataFrame.

    The first batch of the one must not be taken for the first batch of the other.
    """
    storage = storage_at(folder)
    if storage.size("_log") is None:
        storage.write("_log", kind.encode())
    before = storage.read("_log").decode()
    if before != kind:
        words = {"stream": "a streaming DataFrame", "static": "a DataFrame that does not stream"}
        raise FlowError(
            f"input '{name}' is {words[kind]}, but was {words.get(before, 'something else')} when this "
            "checkpoint started. Give the same kind, or start with a new checkpoint and a new output."
        )


def remove_folder(address: str) -> None:
    """Remove a folder of Spark with everything in it; leftovers do no harm."""
    try:
        system, inside = fsspec.core.url_to_fs(address)
        system.rm(inside, recursive=True)
    except FileNotFoundError:
        pass
    except Exception as error:  # whatever the library of a store raises
        _log.warning(
            "'%s' is no longer needed, but could not be removed: %s",
            redact(address),
            redact_text(str(error), address),
        )


# Whether a DataFrame still has the rows that a checkpoint took from it: one aggregate over each.
#
# What is compared is how many rows there are, and sums over a hash of each row, which do not depend on the
# order of rows nor on how they are partitioned: Spark promises neither. The rows that were taken lie in the
# input log; their fingerprint is computed once and kept beside them, so that going on costs one scan of the
# DataFrame. It is kept together with what it depends on, the columns and the version of Spark, and computed
# again where these are others.
#
# Maps have no hash in Spark, because the order of their entries says nothing: they are hashed entry by entry.
# Of a type that Spark cannot hash at all, only the positions of nulls count.

_KEPT: Final = "_fingerprint"
_NO_HASH: Final = ("variant", "geometry", "geography")
# So that no sum of so many bits leaves 64 of them below 2^39 rows; ANSI mode refuses what does.
_BITS: Final = 24


class Fingerprint(msgspec.Struct, frozen=True):
    """The fingerprint of all rows; ``of`` is what it depends on besides the rows."""

    of: str
    rows: int
    sums: tuple[int, ...]


def check_same_rows(name: str, frame: DataFrame, log: str, storage: Storage) -> None:
    """FlowError if a DataFrame has other rows than those in the log, which were taken from it."""
    of = f"{frame.sparkSession.version} {frame.schema.simpleString()}"
    before = _kept(storage)
    if before is None or before.of != of:
        written = frame.sparkSession.read.schema(frame.schema).parquet(log)
        before = fingerprint_of(written, of)
        storage.write(_KEPT, seal(msgspec.msgpack.encode(before), _KEPT, _KEPT))
    now = fingerprint_of(frame, of)
    if now != before:
        found = f"{now.rows:,}" if now.rows != before.rows else "as many with other values"
        raise FlowError(
            f"input '{name}': this checkpoint has already taken {before.rows:,} rows from it, but the "
            f"DataFrame given now has {found}. A checkpoint continues with its original rows: give the "
            "same rows again, or start with a new checkpoint and a new output. If the DataFrame has other "
            "rows each time it is computed (rand(), a table that grows), write it into a separate table "
            "first."
        )


def _kept(storage: Storage) -> Fingerprint | None:
    if storage.size(_KEPT) is None:
        return None
    return msgspec.msgpack.decode(unseal(storage.read(_KEPT), _KEPT, _KEPT), type=Fingerprint)


def fingerprint_of(frame: DataFrame, of: str) -> Fingerprint:
    """The number of rows of a DataFrame, and three sums over a hash of each: one job."""
    row = F.col("hash")
    # Nulls are passed over by Spark's hash: without a word on each, a value could change its column unseen.
    columns = [each for column in hashable_columns(frame) for each in (column.isNull(), column)]
    hashed = frame.select(F.xxhash64(*columns).alias("hash"))
    low, high = row.bitwiseAND(F.lit((1 << _BITS) - 1)), F.shiftright(row, 64 - _BITS)
    found: Any = hashed.agg(F.count(F.lit(1)), F.sum(low), F.sum(high), F.bit_xor(row)).first()
    rows, *sums = found
    return Fingerprint(of, rows, tuple(each or 0 for each in sums))  # of no rows they are null


def hashable_columns(frame: DataFrame) -> list[Column]:
    """The columns of a DataFrame as Spark can hash them."""
    # In backquotes, because Spark takes a dot in a name for a field of a struct.
    return [
        _hashable(F.col("`" + field.name.replace("`", "``") + "`"), field.dataType) for field in frame.schema
    ]


def _hashable(column: Column, kind: T.DataType) -> Column:
    """A column of equal values where the given one has equal values, of a type that Spark can hash."""
    if not _has_no_hash(kind):
        return column
    if isinstance(kind, T.MapType):
        hashes = F.transform(
            F.map_entries(column),
            lambda entry: F.xxhash64(
                _hashable(entry["key"], kind.keyType), _hashable(entry["value"], kind.valueType)
            ),
        )
        return F.array_sort(hashes)
    if isinstance(kind, T.ArrayType):
        return F.transform(column, lambda each: _hashable(each, kind.elementType))
    if isinstance(kind, T.StructType):
        fields = [_hashable(column.getField(field.name), field.dataType) for field in kind.fields]
        return F.struct(column.isNull(), *fields)
    return column.isNull()


def _has_no_hash(kind: T.DataType) -> bool:
    if isinstance(kind, T.ArrayType):
        return _has_no_hash(kind.elementType)
    if isinstance(kind, T.StructType):
        return any(_has_no_hash(field.dataType) for field in kind.fields)
    return isinstance(kind, T.MapType) or kind.typeName().startswith(_NO_HASH)
