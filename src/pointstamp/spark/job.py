"""A bounded run on Spark: DataFrames in, DataFrames out, a gang of barrier tasks between.

The inputs are packed and shuffled to the workers (``packing``), the gang runs the flow (``gang``) and writes
files, and a commit publishes them (``manifest``). What is handed back are DataFrames over exactly these
files: they can be read again and again without running the job again. Where something can be known to be
wrong before Spark starts, it is said here, in one sentence with the setting to change; what goes wrong later
is put into words by ``failures``.

Without a path the files lie in a temporary folder, which is removed when nobody uses the session any more, at
the latest when this process ends.
"""

import os
import shutil
import sys
import tempfile
import weakref
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema

from pointstamp import errors
from pointstamp.dataflow.plan import Kind, Plan
from pointstamp.dataflow.schema import fit
from pointstamp.errors import FlowError, PointstampError, SchemaError, StorageError
from pointstamp.runtime.feeding import EpochColumns
from pointstamp.sinks.port import Staged
from pointstamp.sinks.reading import Published, published
from pointstamp.spark.failures import in_words
from pointstamp.spark.gang import (
    Done,
    Failed,
    FileWritten,
    Gang,
    decode_report,
    is_consequence,
)
from pointstamp.spark.manifest import check_unpublished, discard, new_run_name, publish
from pointstamp.spark.meeting import REPORT_DDL, versions
from pointstamp.spark.packing import PACKED_DDL, InputSpec, input_specs, packer
from pointstamp.spark.place import spark_address
from pointstamp.spark.slots import choose_workers, is_connect, is_local
from pointstamp.spark.types import spark_schema
from pointstamp.topology.domain import EPOCHS


def run(
    plan: Plan,
    spark: SparkSession,
    frames: Mapping[str, DataFrame],
    *,
    workers: int | None = None,
    epoch: EpochColumns = None,
    path: str | None = None,
) -> dict[str, DataFrame]:
    """Run a flow to the end of its inputs; return each output as a DataFrame with the epoch of each row."""
    specs = _checked_inputs(plan, frames, epoch)
    outputs = {
        name: spark_schema(schema, f"output '{name}'") for name, schema in plan.output_schemas().items()
    }
    chosen = {spec.name: _chosen(frames[spec.name], spec) for spec in specs}
    if path is not None:
        spark_address(path)
        check_unpublished(path)
    count = choose_workers(spark, workers)
    _use_this_python(spark)
    folder = path or _temporary_folder(spark)
    gang = Gang(plan, specs, count, folder, new_run_name(plan.name), outputs, versions())
    try:
        files = _files(_collect(_packed(chosen, specs, count).mapInArrow(gang, REPORT_DDL, barrier=True)))
        publish(folder, gang.run, outputs, files)
    except BaseException:
        with suppress(StorageError):  # what stays is never read
            discard(folder, gang.run, outputs)
        raise
    # The files have just been looked for.
    return _frames(spark, spark_address(folder), published(folder, check_files=False))


def read(spark: SparkSession, path: str) -> dict[str, DataFrame]:
    """The outputs that were published at a path until now, as DataFrames with the epoch of each row."""
    return _frames(spark, spark_address(path), published(path))


def _frames(spark: SparkSession, address: str, found: Published) -> dict[str, DataFrame]:
    """A DataFrame for each output, over the files that were published and no others."""
    frames = {}
    for name, output in found.outputs.items():
        schema = from_arrow_schema(output.schema)
        paths = [f"{address}/{file.path}" for file in output.files]
        frames[name] = (
            spark.read.schema(schema).parquet(*paths) if paths else spark.createDataFrame([], schema)
        )
    return frames


def _temporary_folder(spark: SparkSession) -> str:
    if is_connect(spark):
        raise FlowError(
            "a Connect session runs the workers on other hosts, which do not see a temporary folder of this "
            "one. Give path= on a file system that all of them and this process reach."
        )
    folder = tempfile.mkdtemp(prefix="pointstamp-")
    # DataFrames hold their session, so the files stay as long as one can be read.
    weakref.finalize(spark, _remove_own, folder, os.getpid())
    return folder


def _remove_own(folder: str, owner: int) -> None:
    if os.getpid() == owner:  # a forked child that ends leaves its parent's files alone
        shutil.rmtree(folder, ignore_errors=True)


def _use_this_python(spark: SparkSession) -> None:
    """Let the tasks of a local session run in the environment that has pointstamp, unless told otherwise."""
    if not is_connect(spark) and is_local(spark) and "PYSPARK_PYTHON" not in os.environ:
        context: Any = spark.sparkContext
        if context.getConf().get("spark.pyspark.python", None) is None:
            context.pythonExec = sys.executable


def _checked_inputs(plan: Plan, frames: Mapping[str, DataFrame], epoch: EpochColumns) -> list[InputSpec]:
    """The inputs of a plan, each of which has a DataFrame."""
    if plan.root is not EPOCHS:
        raise FlowError(f"flow '{plan.name}' has times of its own; on Spark, flows have epochs.")
    names = list(plan.named(Kind.INPUT))
    if set(frames) != set(names):
        raise FlowError(
            f"flow '{plan.name}' has the inputs {_listed(names)} and was given {_listed(frames)}; give one "
            "DataFrame for each."
        )
    epochs = dict.fromkeys(names, epoch) if isinstance(epoch, str) else dict(epoch or {})
    if unknown := set(epochs) - set(names):
        raise FlowError(
            f"flow '{plan.name}' has the inputs {_listed(names)}, and epoch columns were given for "
            f"{_listed(sorted(unknown))}."
        )
    return input_specs(plan, plan.graph(), epochs)


def _chosen(frame: DataFrame, spec: InputSpec) -> DataFrame:
    """The columns that an input needs, with the types that it declares."""
    wanted = [*spec.schema.names, *([spec.epoch] if spec.epoch else [])]
    missing = [column for column in wanted if column not in frame.columns]
    if missing:
        raise SchemaError(
            f"input '{spec.name}': the DataFrame has no column {_listed(missing)}; it has "
            f"{_listed(frame.columns)}."
        )
    # In backquotes, because Spark takes a dot in a name for a field of a struct.
    chosen = frame.select(*("`" + column.replace("`", "``") + "`" for column in wanted))
    _check_types(chosen, spec)
    return chosen


def _packed(frames: Mapping[str, DataFrame], specs: list[InputSpec], workers: int) -> DataFrame:
    """All inputs in one DataFrame whose partition i belongs to worker i."""
    parts = [frames[spec.name].mapInArrow(packer(spec, workers), PACKED_DDL) for spec in specs]
    together = parts[0]
    for part in parts[1:]:
        together = together.unionAll(part)
    # In the order of epochs, so that a worker can finish one before it reads on.
    return together.repartitionById(workers, together["worker"]).sortWithinPartitions("epoch")


def _collect(reports: DataFrame) -> list[Any]:
    try:
        rows = reports.collect()
    except Exception as error:  # Spark's and py4j's errors have no common kind
        # Spark's own error is a Java stack trace; what it says that matters is in these words.
        raise in_words(str(error)) from None
    return [decode_report(bytes(row.report)) for row in rows]


def _check_types(frame: DataFrame, spec: InputSpec) -> None:
    """Refuse columns of other types here, and not in a task."""
    arrow = to_arrow_schema(frame.schema, timezone="UTC")
    if spec.epoch is not None:
        position = arrow.get_field_index(spec.epoch)
        if not pa.types.is_integer(arrow.field(position).type):
            raise SchemaError(
                f"input '{spec.name}': the epoch column '{spec.epoch}' must be an integer and is "
                f"{arrow.field(position).type}."
            )
        arrow = arrow.remove(position)
    empty = pa.RecordBatch.from_pylist([], schema=arrow)
    fit(empty, spec.schema, f"input '{spec.name}'")


def _files(reports: list[FileWritten | Done | Failed]) -> list[Staged]:
    """The files that were written; the first failure that is not another's consequence is raised."""
    failed = [report for report in reports if isinstance(report, Failed)]
    if failed:
        first = min(failed, key=is_consequence)
        kind = getattr(errors, first.kind, PointstampError)
        raise kind(first.message)
    return [
        Staged(each.output, each.epoch, each.epoch, each.path, each.rows, each.size_bytes, each.crc32)
        for each in reports
        if isinstance(each, FileWritten)
    ]


def _listed(names: Iterable[str]) -> str:
    return ", ".join(f"'{name}'" for name in names) or "none"
