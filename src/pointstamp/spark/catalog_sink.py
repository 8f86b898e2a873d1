"""Outputs as tables of Spark's catalog: ``catalog("gold")`` writes tables that ``spark.table`` reads.

Each output is a table of the schema, at the place where the catalog would put it:

- ``format="delta"``: a Delta table of the current rows (``DeltaSink``), one Delta version per commit;
- ``format="pointstamp"``: published Parquet (``ParquetSink``), which Spark reads through the data source of
  pointstamp. It needs no jar, and all outputs advance at once.

The files are written and published by those sinks, and this one only makes the entries of the catalog, before
the first commit. An entry is a name for a place, so a driver that dies in between loses nothing: the entry is
made at the next start.
"""

from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal, TypeAlias, get_args

import pyarrow as pa

from pointstamp.errors import FlowError, RecoveryError
from pointstamp.sinks.delta import DeltaSink
from pointstamp.sinks.delta_log import table_folder
from pointstamp.sinks.parquet import ParquetSink
from pointstamp.sinks.port import (
    Compactor,
    PublisherBase,
    Sink,
    SinkBase,
    Staged,
    Writer,
    complete_publisher,
    complete_sink,
)
from pointstamp.storage.places import absolute_place

CatalogFormat: TypeAlias = Literal["delta", "pointstamp"]

_FOLDER: Final = "_pointstamp_views"
"""Where published Parquet of a schema is, below the place of the schema; one folder per query."""


def catalog(
    schema: str,
    *,
    format: CatalogFormat = "delta",  # noqa: A002 - Spark's word
    path: str | None = None,
) -> "CatalogSink":
    """Return the sink whose outputs are tables of a schema in Spark's catalog.

    Args:
        schema: the schema (database), such as ``"gold"``; it must exist.
        format: ``"delta"`` (default), which needs Delta in the session and the package deltalake, or
            ``"pointstamp"``, which needs neither.
        path: where the tables are. Default: the place of the schema.

    Example:
        flow.start(spark, checkpoint=place, output=ps.catalog("gold"))
        spark.table("gold.totals").show()

    """
    if format not in get_args(CatalogFormat):
        raise FlowError(
            f"catalog '{schema}': format must be one of {', '.join(get_args(CatalogFormat))}, got "
            f"{format!r}. Iceberg tables of changes are written by ps.IcebergSink."
        )
    return CatalogSink(schema, format, None if path is None else absolute_place(path))


@dataclass(frozen=True, slots=True)
class CatalogSink(SinkBase):
    """Tables of a schema in Spark's catalog; made by ``catalog``."""

    schema: str
    format: CatalogFormat
    path: str | None = None
    written: Sink | None = field(default=None, repr=False)
    """The sink that writes the files, once the query is known."""
    outputs: tuple[str, ...] = ()

    def for_query(self, query: str, schemas: Mapping[str, pa.Schema]) -> "CatalogSink":
        """The sink for one query; FlowError if the schema does not exist."""
        place = self.path or _place_of(_session(), self.schema)
        sink: Sink
        if self.format == "delta":
            sink = DeltaSink(place)
        else:
            sink = ParquetSink(f"{place.rstrip('/')}/{_FOLDER}/{query}")
        return replace(self, path=place, written=sink.for_query(query, schemas), outputs=tuple(schemas))

    def writer(self, worker: int, generation: int) -> Writer:
        """For one worker, on its host."""
        return self._sink.writer(worker, generation)

    def publisher(self) -> "CatalogPublisher":
        """For the driver."""
        return CatalogPublisher(self)

    def compactor(self) -> Compactor | None:
        """Return the work that runs beside a query: that of the files' sink."""
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
                "format='pointstamp'."
            )

    @property
    def _sink(self) -> SinkBase:
        assert self.written is not None, "for_query was not called"
        return complete_sink(self.written)

    def table(self, output: str) -> str:
        """Return the name of the table of an output, in quotes."""
        return f"{_quoted(self.schema)}.{_quoted(output)}"

    def location(self, output: str) -> str:
        """Return where the table of an output is."""
        if isinstance(self.written, ParquetSink):
            return self.written.path
        return f"{str(self.path).rstrip('/')}/{table_folder(output)}"


class CatalogPublisher(PublisherBase):
    """Publishes by the sink of the files, and makes the entries of the catalog before the first commit."""

    def __init__(self, sink: CatalogSink) -> None:
        self._sink = sink
        self._files = complete_publisher(sink._sink.publisher())  # noqa: SLF001 - its own sink
        self._is_registered = False

    def check_outputs(self, before: Collection[str]) -> bool | None:
        """Reject a name of the catalog that is another table."""
        for output in self._sink.outputs:
            known = _location_of(_session(), self._sink, output)
            if known is not None and known != self._sink.location(output):
                raise RecoveryError(
                    f"output '{output}': {self._sink.schema}.{output} exists already at '{known}', which is "
                    "not the table of this query. Drop it, or give the output another name."
                )
        return self._files.check_outputs(before)

    def begin(self) -> bool | None:
        """Mark the output before the first commit."""
        return self._files.begin()

    def prepared(
        self, number: int, epochs_through: int, staged: Sequence[Staged]
    ) -> AbstractContextManager[None]:
        """Return the context of the files' sink."""
        return self._files.prepared(number, epochs_through, staged)

    def publish(self, number: int, epochs_through: int, staged: Sequence[Staged]) -> None:
        """Make a commit visible, and the tables with the first one that this driver publishes."""
        self._files.publish(number, epochs_through, staged)
        self._register()

    def published_through(self) -> int | None:
        """The last epoch of the last commit that is visible."""
        reached = self._files.published_through()
        if reached is not None and reached >= 0:
            self._register()  # the driver that published it may have died before it made the entries
        return reached

    def discard(self, generation: int, keep: Collection[Staged]) -> None:
        """Remove what earlier generations have staged."""
        self._files.discard(generation, keep)

    def _register(self) -> None:
        if self._is_registered:
            return
        spark = _session()
        for output in self._sink.outputs:
            place = self._sink.location(output).replace("'", "\\'")
            if self._sink.format == "delta":
                rest = f"using delta location '{place}'"
            else:
                name = output.replace("'", "\\'")
                rest = f"using pointstamp options (path '{place}', output '{name}')"
            spark.sql(f"create table if not exists {self._sink.table(output)} {rest}")
        self._is_registered = True


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
    if sink.format == "delta":
        return _local(str(said.get("Location", "")))
    options = str(said.get("Storage Properties", said.get("Table Properties", "")))
    return sink.location(output) if sink.location(output) in options else options


def _local(address: str) -> str:
    """Return a path without the scheme of local files."""
    return "/" + address.removeprefix("file:").lstrip("/") if address.startswith("file:") else address


def _quoted(name: str) -> str:
    return ".".join("`" + part.replace("`", "``") + "`" for part in [name])
