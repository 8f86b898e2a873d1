"""``pointstamp run --master``: the Spark half. Files become DataFrames, and ``flow.run`` does the rest.

Spark's tasks are other processes and cannot import a flow file by its name, so what the file and the modules
beside it define travels with the job by value. CSV comes as text from Spark and is cast to the declared
types here, by column name: Spark itself would use positions.
"""

import argparse
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pointstamp.arrangement.open_changes import tables_among
from pointstamp.arrow.ddl import to_ddl
from pointstamp.cli.run_display import PREVIEW_EPOCHS_MAX, PREVIEW_ROWS_MAX, Totals, preview
from pointstamp.cli.run_files import InputFile, is_remote
from pointstamp.dataflow import Dataflow
from pointstamp.errors import FlowError, UsageError
from pointstamp.spark.locations import folder_name

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def run(flow: Dataflow, files: list[InputFile], arguments: argparse.Namespace) -> Totals:
    """Run the flow as a Spark job, show or place its outputs, and count."""
    send_by_value(Path(arguments.flow).resolve().parent)
    epochs = {file.name: file.epoch for file in files if file.epoch is not None}
    with session(arguments.master, flow.name) as spark, _in_one_line():
        frames = {file.name: _frame(spark, file) for file in files}
        counted = [_by_epoch(frames[file.name], file.epoch) for file in files]
        output = None if arguments.output is None else _absolute(arguments.output)
        results = flow.run(frames, on=spark, workers=arguments.workers, epoch=epochs, output=output)
        finished = {name: _by_epoch(frame, "epoch") for name, frame in results.items()}
        if output is None:
            _show(results, finished)
        for name in tables_among(flow.plan.output_schemas()):
            table = results.table(name)
            if output is None:
                rows = table.limit(PREVIEW_ROWS_MAX).toArrow()
                sys.stdout.write(preview(f"at the end, {name}", rows, table.count()) + "\n")
            else:
                table.write.parquet(f"{output}/{folder_name(name)}.parquet")
        return Totals(
            len({epoch for each in counted for epoch in each}),
            sum(sum(each.values()) for each in counted),
            sum(sum(each.values()) for each in finished.values()),
        )


@contextmanager
def session(master: str, flow: str) -> "Iterator[SparkSession]":
    """A new session that ends with the block, or the one that is there."""
    try:
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise UsageError(
            "run: --master needs pyspark, which is not installed; install pointstamp[spark], or run without "
            "--master in this process."
        ) from error

    before = SparkSession.getActiveSession()
    if before is not None:
        if before.sparkContext.master != master:
            raise UsageError(
                f"run: Spark already runs in this process, on {before.sparkContext.master}, not on {master}."
            )
        yield before
        return
    builder: Any = SparkSession.builder.master(master).appName(f"pointstamp: {flow}")
    builder = builder.config("spark.ui.showConsoleProgress", "false")
    if master.startswith("local"):
        os.environ["PYSPARK_PYTHON"] = sys.executable
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        for name in ("spark.driver.host", "spark.driver.bindAddress"):
            builder = builder.config(name, "127.0.0.1")
        builder = builder.config("spark.ui.enabled", "false")
        builder = builder.config("spark.sql.shuffle.partitions", "4")  # 200 tasks would only wait for slots
    try:
        session = builder.getOrCreate()
    except Exception as error:  # Java is missing, the master does not answer, a setting is refused
        raise FlowError(f"Spark could not be started on {master}: {_first_line(error)}") from error
    # What goes wrong comes back as an error, in one line; its Java stack trace is not for the user.
    session.sparkContext.setLogLevel("FATAL")
    try:
        yield session
    finally:
        session.stop()


@contextmanager
def _in_one_line() -> Iterator[None]:
    """Reduce errors of Spark while it reads or writes to one line."""
    from pyspark.errors import PySparkException

    try:
        yield
    except PySparkException as error:
        raise FlowError(f"Spark could not read or write the rows: {_first_line(error)}") from error


def _frame(spark: "SparkSession", file: InputFile) -> "DataFrame":
    path = _absolute(file.path)
    if file.format == "csv":
        text = spark.read.csv(path, header=True)
        file.check_columns(text.columns)
        return _typed(text, file)
    if file.format == "json":
        file.check_columns(spark.read.json(path).columns)
        return spark.read.schema(to_ddl(file.wanted)).json(path, mode="FAILFAST")
    frame = spark.read.parquet(path)
    file.check_columns(frame.columns)
    return frame


def _typed(text: "DataFrame", file: InputFile) -> "DataFrame":
    """Columns of text as the declared types; a wrong value names its column here, not in a task."""
    from pyspark.sql import functions
    from pyspark.sql.types import StructType

    kinds = {field.name: field.dataType for field in StructType.fromDDL(to_ddl(file.wanted))}
    wrong = text.select(
        *(
            functions.min(
                functions.when(text[name].isNotNull() & text[name].try_cast(kind).isNull(), text[name])
            ).alias(name)
            for name, kind in kinds.items()
        )
    ).first()
    assert wrong is not None
    for name, kind in kinds.items():
        if wrong[name] is not None:
            raise UsageError(
                f"input '{file.name}': {file.path} has {wrong[name]!r} in column '{name}', which must be "
                f"{kind.simpleString()}."
            )
    return text.select(*(text[name].cast(kind).alias(name) for name, kind in kinds.items()))


def _absolute(path: str) -> str:
    """The same place for Spark, whose own folder may be another."""
    return path if is_remote(path) else str(Path(path).resolve())


def _by_epoch(frame: "DataFrame", epoch: str | None) -> dict[int, int]:
    """The number of rows of each epoch."""
    if epoch is None:
        return {0: frame.count()}
    return {row[0]: row[1] for row in frame.groupBy(epoch).count().orderBy(epoch).collect()}


def _show(results: "dict[str, DataFrame]", finished: dict[str, dict[int, int]]) -> None:
    epochs = sorted({epoch for each in finished.values() for epoch in each})
    for epoch in epochs[:PREVIEW_EPOCHS_MAX]:
        for name, frame in results.items():
            rows = frame.where(frame["epoch"] == epoch).drop("epoch").limit(PREVIEW_ROWS_MAX).toArrow()
            sys.stdout.write(preview(f"epoch {epoch}, {name}", rows, finished[name].get(epoch, 0)) + "\n")
    if len(epochs) > PREVIEW_EPOCHS_MAX:
        sys.stdout.write(f"... {len(epochs) - PREVIEW_EPOCHS_MAX:,} more epochs\n")


def send_by_value(folder: Path) -> None:
    """Let what the flow's file and the modules beside it define travel with the job."""
    try:
        from pyspark import cloudpickle
    except ImportError:
        return  # said where the session is asked for
    for module in list(sys.modules.values()):
        place = getattr(module, "__file__", None)
        if place is None or "." in module.__name__ or module.__name__ == "__main__":
            continue
        path = Path(place).resolve()
        home = path.parent.parent if path.name == "__init__.py" else path.parent
        if home == folder:
            cloudpickle.register_pickle_by_value(module)


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
