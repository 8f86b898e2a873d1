"""Sources for the tables that views read: each leaf of a plan, or why it has none.

A leaf says where its rows are, so a view knows its inputs by itself:

- a Delta table: as it is at the first start, then its change data feed;
- an Iceberg table: as it is at the first start, then its snapshots;
- a folder of Parquet files: the files, and those that are added; other formats and partitioned folders
  through Structured Streaming, with the options of the DataFrame;
- the leaf of a streaming DataFrame: its stream;
- a published view: its epochs;
- rows that are in the plan or in the memory of the session: read once.

All others are rejected when a query starts, with the name of the table and what to give in ``inputs=``.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import Any, Final
from urllib.parse import unquote

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import lit
from pyspark.sql.types import StructType

from pointstamp.arrangement.consolidate import DIFF
from pointstamp.arrangement.open_changes import is_changes
from pointstamp.connectors.delta.source import delta
from pointstamp.connectors.files.source import files
from pointstamp.connectors.iceberg.source import iceberg
from pointstamp.connectors.published.reader import published_now
from pointstamp.connectors.published.source import published
from pointstamp.errors import FlowError

CHANGE: Final = "_change_type"
"""The column that says what a row of a change feed does."""

_FEED: Final = "delta.enableChangeDataFeed"
_V1_FORMATS: Final = {"csv": "csv", "json": "json", "orc": "orc", "text": "text", "parquet": "parquet"}
_READER_OPTIONS: Final = ("path", "paths", "schema")
_ICEBERG_TYPES: Final = ("rest", "hive", "glue")


@dataclass(frozen=True, slots=True)
class FollowedInput:
    """How the table of an input is followed."""

    name: str
    text: str
    """What is read, for explain and messages."""
    make: Callable[[], Any] | None
    """Returns the source, or the streaming DataFrame; None if the table cannot be followed."""
    read: Callable[[], DataFrame] | None
    """Returns the rows that are there now as a DataFrame, for a run that ends."""
    marker: str | None = None
    """The column that says what a row changes: ``_change_type`` or ``diff``; None: rows are added."""
    problem: str = ""

    @property
    def told(self) -> str:
        """Return how it is read, for explain."""
        return self.text if self.make is not None else f"{self.text}, not followed: {self.problem}"

    def to_follow(self) -> Any:  # noqa: ANN401 - a source or a DataFrame
        """Return what a query reads; FlowError if the table cannot be followed."""
        if self.make is None:
            raise FlowError(f"input '{self.name}' ({self.text}) cannot be followed: {self.problem}")
        return self.make()

    def to_read(self) -> DataFrame:
        """Return the rows that are there now; FlowError if a DataFrame cannot have them."""
        if self.read is None:
            raise FlowError(
                f"input '{self.name}' ({self.text}) has no end. Use start(), or give a DataFrame as input."
            )
        frame = self.read()
        if self.marker is None:
            return frame
        return frame.withColumn(self.marker, lit("insert") if self.marker == CHANGE else lit(1).cast("long"))


def follow(spark: SparkSession, name: str, leaf: Any) -> FollowedInput:  # noqa: ANN401 - a leaf of the JVM
    """Return how the table of a leaf is followed."""
    kind = str(leaf.getClass().getSimpleName())
    frame = _frame(spark, leaf)

    def read() -> DataFrame:
        return _frame(spark, leaf)

    if frame.isStreaming:
        return FollowedInput(name, f"stream {leaf.sourceName()}", read, None)
    if kind in ("LogicalRDD", "LocalRelation"):
        return FollowedInput(name, "rows in the memory of the session, read once", read, read)
    if kind == "LogicalRelation":
        relation = leaf.relation()
        class_name = str(relation.getClass().getName())
        if class_name.startswith("org.apache.spark.sql.delta.DeltaLog$"):
            return _delta(name, relation.location(), read)
        if class_name.endswith(".HadoopFsRelation"):
            return _folder(spark, name, relation, frame.schema, read)
        return _unknown(name, class_name.rpartition(".")[2], read)
    if kind.startswith("DataSourceV2"):
        table = leaf.table()
        class_name = str(table.getClass().getName())
        if _is_iceberg(table):
            return _iceberg(spark, name, leaf, read)
        if is_python_source(leaf):
            return _published(name, leaf, read)
        return _unknown(name, f"table of {class_name.rpartition('.')[2]}", read)
    return _unknown(name, kind, read)


def of_columns(followed: FollowedInput, names: Sequence[str]) -> FollowedInput:
    """Return an input of which Spark reads some of the columns."""
    wanted = ["`" + name.replace("`", "``") + "`" for name in names]

    def some(given: Any) -> Any:  # noqa: ANN401 - a source or a DataFrame
        return given.select(*wanted) if isinstance(given, DataFrame) else given

    make, read = followed.make, followed.read
    return replace(
        followed,
        make=None if make is None else lambda: some(make()),
        read=None if read is None else lambda: some(read()),
    )


def fresh_frame(spark: SparkSession, plan: Any) -> DataFrame:  # noqa: ANN401 - a plan of the JVM
    """Return a DataFrame of a plan that reads its tables as they are now, without what Spark has cached."""
    leaves = plan.collectLeaves()
    for leaf in (leaves.apply(place) for place in range(leaves.size())):
        kind = str(leaf.getClass().getSimpleName())
        if kind == "LogicalRelation" and str(leaf.relation().getClass().getName()).endswith(
            ".HadoopFsRelation"
        ):
            leaf.relation().location().refresh()
        elif kind.startswith("DataSourceV2") and _is_iceberg(leaf.table()):
            leaf.table().table().refresh()
    return _frame(spark, plan)


def _is_iceberg(table: Any) -> bool:  # noqa: ANN401 - of the JVM
    return str(table.getClass().getName()).startswith("org.apache.iceberg.")


def _frame(spark: SparkSession, leaf: Any) -> DataFrame:  # noqa: ANN401 - a plan of the JVM
    sql = spark.sparkContext._jvm.org.apache.spark.sql  # noqa: SLF001 - the one way
    return DataFrame(sql.classic.Dataset.ofRows(spark._jsparkSession, leaf), spark)  # noqa: SLF001


def _unknown(name: str, text: str, read: Callable[[], DataFrame]) -> FollowedInput:
    problem = (
        "nothing tells which of its rows change. Give inputs={'" + name + "': source}, such as a streaming "
        f"DataFrame, or inputs={{'{name}': DataFrame}} to start(), which reads its rows once."
    )
    return FollowedInput(name, text, None, read, problem=problem)


def _delta(name: str, location: Any, read: Callable[[], DataFrame]) -> FollowedInput:  # noqa: ANN401
    path = _local(str(location.path().toString()))
    text = f"Delta table '{path}'"
    if location.isTimeTravelQuery():
        return FollowedInput(name, f"{text} at one version, read once", read, read)
    feed = location.metadata().configuration().get(_FEED)
    if not feed.isDefined() or str(feed.get()) != "true":
        problem = (
            f"the table has no change data feed. Run ALTER TABLE delta.`{path}` SET TBLPROPERTIES ({_FEED} = "
            "true) and define the view again."
        )
        return FollowedInput(name, text, None, read, problem=problem)

    def make() -> Any:  # noqa: ANN401 - a source
        return delta(path)

    return FollowedInput(name, f"{text} and its changes, a version per epoch", make, read, marker=CHANGE)


def _iceberg(
    spark: SparkSession,
    name: str,
    leaf: Any,  # noqa: ANN401 - a leaf of the JVM
    read: Callable[[], DataFrame],
) -> FollowedInput:
    table = leaf.table()
    text = f"Iceberg table '{table.name()}'"
    if "snapshot_id" in str(table.toString()) or not _is_plain(leaf.options()):
        return FollowedInput(name, f"{text} at one snapshot, read once", read, read)
    own = table.table()
    catalog = leaf.catalog().get().name() if leaf.catalog().isDefined() else ""
    properties = _properties(spark, f"spark.sql.catalog.{catalog}.")
    kind = properties.pop("type", "")
    location = _local(str(own.location()))
    if kind == "hadoop":

        def of_folder() -> Any:  # noqa: ANN401 - a source
            return iceberg(location)

        made = of_folder
    elif kind in _ICEBERG_TYPES:
        parts = leaf.identifier().get()
        identifier = ".".join([*map(str, parts.namespace()), str(parts.name())])

        def of_catalog() -> Any:  # noqa: ANN401 - a source
            return iceberg(identifier, catalog={"type": kind, **properties})

        made = of_catalog
    else:
        said = kind or str(properties.get("catalog-impl", "unknown"))
        problem = (
            f"its catalog is of the type '{said}'. Give inputs={{'{name}': ps.io.iceberg(...)}} with "
            "pyiceberg's properties of the catalog."
        )
        return FollowedInput(name, text, None, read, problem=problem)
    return FollowedInput(name, f"{text} and its changes, a snapshot per epoch", made, read, marker=CHANGE)


def _folder(
    spark: SparkSession,
    name: str,
    relation: Any,  # noqa: ANN401 - of the JVM
    schema: StructType,
    read: Callable[[], DataFrame],
) -> FollowedInput:
    paths = relation.location().rootPaths()
    found = [_local(str(paths.apply(place).toString())) for place in range(paths.size())]
    class_name = str(relation.fileFormat().getClass().getSimpleName())
    kind = class_name.removesuffix("FileFormat").lower()
    text = f"{kind} files '{found[0]}'" if len(found) == 1 else f"{kind} files in {len(found)} places"
    if kind not in _V1_FORMATS:
        return _unknown(name, text, read)
    if len(found) != 1:
        problem = (
            f"it has {len(found)} paths. Read one folder, or give inputs={{'{name}': spark.readStream...}}}}."
        )
        return FollowedInput(name, text, None, read, problem=problem)
    if PurePosixPath(found[0]).suffix.lower() in (".parquet", ".json", ".csv", ".orc", ".txt", ".gz"):
        return FollowedInput(name, f"{kind} file '{found[0]}', read once", read, read)
    options = {key: value for key, value in _map(relation.options()).items() if key not in _READER_OPTIONS}
    is_partitioned = relation.partitionSchema().size() > 0
    if kind == "parquet" and not options and not is_partitioned:

        def of_files() -> Any:  # noqa: ANN401 - a source
            return files(found[0], "parquet", units_per_tick=None)

        return FollowedInput(name, f"{text} and files that are added", of_files, read)

    def of_stream() -> Any:  # noqa: ANN401 - a DataFrame
        reader = spark.readStream.format(kind).schema(schema)
        return reader.options(**options).load(found[0])

    return FollowedInput(name, f"{text} and files that are added, by Structured Streaming", of_stream, read)


def _published(name: str, leaf: Any, read: Callable[[], DataFrame]) -> FollowedInput:  # noqa: ANN401
    options = {key.lower(): value for key, value in _map(leaf.options().asCaseSensitiveMap()).items()}
    path, output = options.get("path"), options.get("output")
    if path is None or output is None or not set(options) <= {"path", "output"}:
        return _unknown(name, "Python data source", read)

    def make() -> Any:  # noqa: ANN401 - a source
        return published(_local(path), output)

    text = f"published view '{output}' in '{path}', epoch by epoch"
    is_table = is_changes(published_now(_local(path), check_files=False).outputs[output].schema)
    return FollowedInput(name, text, make, read, marker=DIFF if is_table else None)


def is_python_source(leaf: Any) -> bool:  # noqa: ANN401 - a leaf of the JVM
    """Return whether a leaf is that of a Python data source."""
    if not str(leaf.getClass().getSimpleName()).startswith("DataSourceV2"):
        return False
    class_name = str(leaf.table().getClass().getName())
    return class_name.endswith("PythonTable") or "PythonDataSourceV2" in class_name


def _properties(spark: SparkSession, prefix: str) -> dict[str, str]:
    found = {str(key): str(value) for key, value in spark.conf.getAll.items()}
    return {key.removeprefix(prefix): value for key, value in found.items() if key.startswith(prefix)}


def _map(options: Any) -> Mapping[str, str]:  # noqa: ANN401 - a map of Scala or Java
    if isinstance(options, Mapping):  # a map of Java
        return {str(key): str(value) for key, value in options.items()}
    entries, found = options.iterator(), {}
    while entries.hasNext():
        entry = entries.next()
        found[str(entry._1())] = str(entry._2())  # noqa: SLF001 - Scala's name
    return found


def _is_plain(options: Any) -> bool:  # noqa: ANN401 - a map of Java
    return not any(
        "snapshot" in key or "timestamp" in key or key in ("branch", "tag") for key in _map(options)
    )


def _local(address: str) -> str:
    """Return a path without the scheme of local files."""
    if address.startswith("file:"):
        return unquote("/" + address.removeprefix("file:").lstrip("/"))
    return address
