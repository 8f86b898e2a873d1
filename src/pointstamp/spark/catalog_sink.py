"""Outputs as tables of Spark's catalog: ``catalog("gold")`` writes tables that ``spark.table`` reads.

Each output is a table of the schema, at the place where the catalog would put it:

- ``format="delta"``: a Delta table of the current rows (``DeltaSink``), one Delta version per commit;
- ``format="parquet"``: a folder of Parquet with the rows after an epoch, to which the entry of the catalog
  moves after each commit. It needs no jar, and each commit costs the complete table, which the driver holds.

Changes are staged and published by a sink of files: ``DeltaSink``, or ``ParquetSink`` beside the tables. That
is the commit. The entries of the catalog are names for places, and follow it: a driver that dies in between
loses nothing, because they are made, or moved, at the next start. A reader of Parquet has one moment, that of
the place that it found; places that were left stay for an hour.
"""

import re
import secrets
from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from time import monotonic
from typing import Any, Final, Literal, TypeAlias, get_args

import pyarrow as pa
import pyarrow.parquet as pq

from pointstamp.arrangement.open_changes import is_changes
from pointstamp.connectors.delta.log import table_folder
from pointstamp.connectors.delta.sink import DeltaSink
from pointstamp.connectors.published.reader import published_now, read_changes, read_table
from pointstamp.connectors.published.sink import ParquetSink
from pointstamp.connectors.sink import (
    Compactor,
    PublisherBase,
    Sink,
    SinkBase,
    Staged,
    Writer,
    complete_publisher,
    complete_sink,
)
from pointstamp.errors import FlowError, RecoveryError
from pointstamp.storage.anywhere import absolute_place, storage_at
from pointstamp.storage.port import Storage

CatalogFormat: TypeAlias = Literal["delta", "parquet"]

_FOLDER: Final = "_pointstamp"
"""Where published changes are, below the place of the schema; one folder per query."""
_KEEP_SECONDS: Final = 3600.0
_VERSION: Final = re.compile(r"epoch-(\d{12})-[0-9a-f]+")


def catalog(
    schema: str,
    *,
    format: CatalogFormat = "delta",  # noqa: A002 - Spark's word
    path: str | None = None,
) -> "CatalogSink":
    """Return the sink whose outputs are tables of a schema in Spark's catalog.

    Args:
        schema: The schema (database), such as ``"gold"``; it must exist.
        format (str, default "delta"): ``"delta"``, which needs Delta in the session and the package
            deltalake, or ``"parquet"`` for small tables, which needs neither.
        path (str, default None): The folder of the tables. Default: the location of the schema.

    On Spark: ``flow.start(on=spark, checkpoint=place, output=ps.io.catalog("gold"))``, then
    ``spark.table("gold.totals").show()``.

    """
    if format not in get_args(CatalogFormat):
        raise FlowError(
            f"catalog '{schema}': format must be one of {', '.join(get_args(CatalogFormat))}, got "
            f"{format!r}. For Iceberg, use ps.io.IcebergSink(changes=False)."
        )
    return CatalogSink(schema, format, None if path is None else absolute_place(path))


@dataclass(frozen=True, slots=True)
class CatalogSink(SinkBase):
    """Publish into tables of a schema in Spark's catalog; made by ``catalog``."""

    schema: str
    format: CatalogFormat
    path: str | None = None
    written: Sink | None = field(default=None, repr=False)
    """The sink that writes the files, once the query is known."""
    outputs: tuple[str, ...] = ()

    def for_query(self, query: str, schemas: Mapping[str, pa.Schema]) -> "CatalogSink":
        """Return the sink of one query; FlowError if the schema does not exist."""
        place = self.path or _place_of(_session(), self.schema)
        sink: Sink
        if self.format == "delta":
            sink = DeltaSink(place)
        else:
            sink = ParquetSink(f"{place.rstrip('/')}/{_FOLDER}/{query}")
        return replace(self, path=place, written=sink.for_query(query, schemas), outputs=tuple(schemas))

    def writer(self, worker: int, generation: int) -> Writer:
        """Return the writer of one worker, on its host."""
        return self._sink.writer(worker, generation)

    def publisher(self) -> "CatalogPublisher":
        """Return the publisher, for the driver."""
        return CatalogPublisher(self)

    def compactor(self) -> Compactor | None:
        """Return the compactor of the files' sink."""
        return self._sink.compactor()

    def check_place(self) -> None:
        """Raise FlowError if the session cannot read the tables."""
        self._sink.check_place()
        spark = _session()
        own = str(spark.conf.get("spark.sql.catalog.spark_catalog", ""))
        if self.format == "delta" and "delta" not in own.lower():
            raise FlowError(
                f"catalog '{self.schema}': the session has no Delta catalog, so it could not read the "
                "tables. Set spark.sql.extensions=io.delta.sql.DeltaSparkSessionExtension and "
                "spark.sql.catalog.spark_catalog=org.apache.spark.sql.delta.catalog.DeltaCatalog, or use "
                "format='parquet'."
            )

    @property
    def _sink(self) -> SinkBase:
        assert self.written is not None, "for_query was not called"
        return complete_sink(self.written)

    def table(self, output: str) -> str:
        """Return the name of the table of an output, in quotes."""
        return f"{_quoted(self.schema)}.{_quoted(output)}"

    def location(self, output: str) -> str:
        """Return the folder of an output's table; for Parquet, of its versions."""
        return f"{str(self.path).rstrip('/')}/{table_folder(output)}"


class CatalogPublisher(PublisherBase):
    """Publishes by the sink of the files, and makes the entries of the catalog before the first commit."""

    def __init__(self, sink: CatalogSink) -> None:
        self._sink = sink
        self._files = complete_publisher(sink._sink.publisher())  # noqa: SLF001 - its own sink
        self._is_registered = False
        self._left: dict[str, float] = {}
        """When this driver has first seen a file of a version."""

    def check_outputs(self, before: Collection[str]) -> bool | None:
        """Reject a name of the catalog that is another table."""
        for output in self._sink.outputs:
            known = _location_of(_session(), self._sink, output)
            own = self._sink.location(output)
            if known is not None and known != own and not known.startswith(f"{own}/"):
                raise RecoveryError(
                    f"output '{output}': {self._sink.schema}.{output} exists already at '{known}', which is "
                    "not the table of this query. Drop it, or give the output another name."
                )
        return self._files.check_outputs(before)

    def begin(self) -> None:
        """Mark the output before the first commit."""
        self._files.begin()

    def prepared(
        self, number: int, epochs_through: int, staged: Sequence[Staged]
    ) -> AbstractContextManager[None]:
        """Return the context of the files' sink."""
        return self._files.prepared(number, epochs_through, staged)

    def publish(self, number: int, epochs_through: int, staged: Sequence[Staged]) -> None:
        """Make a commit visible, and the tables with the first one that this driver publishes."""
        self._files.publish(number, epochs_through, staged)
        self._follow()

    def published_through(self) -> int | None:
        """The last epoch of the last commit that is visible."""
        reached = self._files.published_through()
        if reached is not None and reached >= 0:
            self._follow()  # the driver that published it may have died before it made the entries
        return reached

    def discard(self, generation: int, keep: Collection[Staged]) -> None:
        """Remove what earlier generations have staged."""
        self._files.discard(generation, keep)

    def _follow(self) -> None:
        """Let the entries of the catalog name the tables as they are published."""
        if self._sink.format == "parquet":
            for output in self._sink.outputs:
                self._move(output)
        elif not self._is_registered:
            for output in self._sink.outputs:
                place = _literal(self._sink.location(output))
                _session().sql(
                    f"create table if not exists {self._sink.table(output)} using delta location {place}"
                )
            self._is_registered = True

    def _move(self, output: str) -> None:
        """Write the rows of an output after the last epoch to a new place, and let its entry name this."""
        sink, spark = self._sink, _session()
        assert isinstance(sink.written, ParquetSink)
        found = published_now(sink.written.path, check_files=False)
        before = _location_of(spark, sink, output)
        version = None if before is None else _VERSION.fullmatch(before.rpartition("/")[2])
        if version is not None and int(version[1]) >= found.epochs_through:
            return
        name = f"epoch-{found.epochs_through:012d}-{secrets.token_hex(8)}"
        rows = (
            read_table(sink.written.path, output, as_of=found.epochs_through)
            if is_changes(found.outputs[output].schema)
            else read_changes(sink.written.path, output)
        )
        content = pa.BufferOutputStream()
        pq.write_table(rows, content)
        storage = storage_at(sink.location(output))
        storage.create(f"{name}/rows.parquet", content.getvalue().to_pybytes())
        place, table = _literal(f"{sink.location(output)}/{name}"), sink.table(output)
        if before is None:
            spark.sql(f"create table {table} using parquet location {place}")
        else:
            spark.sql(f"alter table {table} set location {place}")
            spark.catalog.refreshTable(table)
        self._remove(storage, name)

    def _remove(self, storage: Storage, name: str) -> None:
        """Remove versions that were left, some time after they were."""
        now = monotonic()
        for path in storage.list("epoch-"):
            left = self._left.setdefault(path, now)
            if not path.startswith(f"{name}/") and now - left > _KEEP_SECONDS:
                storage.delete(path)
                del self._left[path]


def _session() -> Any:  # noqa: ANN401 - a Spark session
    from pyspark.sql import SparkSession

    # Publishers run in threads of the driver, which have no active session of their own.
    found = SparkSession.getActiveSession() or getattr(SparkSession, "_instantiatedSession", None)
    if found is None:
        raise FlowError(
            "a catalog sink needs a Spark session in this process. Start the flow with start(spark)."
        )
    return found


def _place_of(spark: Any, schema: str) -> str:  # noqa: ANN401
    if not spark.catalog.databaseExists(schema):
        raise FlowError(f"catalog '{schema}': there is no such schema. Run CREATE SCHEMA {schema}.")
    return _local(str(spark.catalog.getDatabase(schema).locationUri))


def _location_of(spark: Any, sink: CatalogSink, output: str) -> str | None:  # noqa: ANN401
    name = sink.table(output)
    if not spark.catalog.tableExists(name):
        return None
    said = {row[0]: row[1] for row in spark.sql(f"describe table extended {name}").collect()}
    return _local(str(said.get("Location", "")))


def _local(address: str) -> str:
    """Return a path without the scheme of local files."""
    return "/" + address.removeprefix("file:").lstrip("/") if address.startswith("file:") else address


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _literal(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
