"""A bounded run on Spark: DataFrames in, DataFrames out, a gang of barrier tasks between.

The inputs are packed and shuffled to the workers (``packing``), the gang runs the flow (``gang``), and
what it wrote is handed back as DataFrames over those files: they can be read again and again without
running the job again. Where something can be known to be wrong before Spark starts, it is said here, in
one sentence with the setting to change.
"""

import os
import re
import sys
import tempfile
from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema

from pointstamp import errors
from pointstamp.dataflow.ddl import to_ddl
from pointstamp.dataflow.plan import Kind, Plan
from pointstamp.dataflow.schema import fit
from pointstamp.errors import FlowError, PointstampError, SchemaError
from pointstamp.runtime.feeding import EpochColumns
from pointstamp.spark.gang import REPORT_DDL, Done, Failed, FileWritten, Gang, decode_report, is_consequence
from pointstamp.spark.packing import PACKED_DDL, InputSpec, input_specs, packer
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
    if plan.root is not EPOCHS:
        raise FlowError(f"flow '{plan.name}' has times of its own; on Spark, flows have epochs.")
    names = list(plan.named(Kind.INPUT))
    if set(frames) != set(names):
        raise FlowError(
            f"flow '{plan.name}' has the inputs {_listed(names)} and was given {_listed(frames)}; give one "
            "DataFrame for each."
        )
    count = _workers(spark, workers)
    epochs = dict.fromkeys(names, epoch) if isinstance(epoch, str) else dict(epoch or {})
    specs = input_specs(plan, plan.graph(), epochs)
    folder = path or tempfile.mkdtemp(prefix="pointstamp-")
    gang = Gang(plan, specs, count, folder)
    packed = _packed(frames, specs, count)
    rows = _collect(packed.mapInArrow(gang, REPORT_DDL, barrier=True))
    files = _files(rows)
    return {
        name: _frame(spark, schema, files.get(name, [])) for name, schema in plan.output_schemas().items()
    }


def _workers(spark: SparkSession, wanted: int | None) -> int:
    """How many workers to start, after a look whether Spark can run them all at once."""
    context = spark.sparkContext
    if context.getConf().get("spark.dynamicAllocation.enabled", "false") == "true":
        raise FlowError(
            "a gang of workers needs all its tasks at once, and dynamic allocation gives slots one by one. "
            "Set spark.dynamicAllocation.enabled=false and a fixed number of executors."
        )
    slots = context.defaultParallelism
    count = slots if wanted is None else wanted
    if count < 1 or count > slots:
        raise FlowError(
            f"{count} workers were asked for, and Spark has {slots} slots; all workers run at once, one to a "
            f"slot. Ask for 1 to {slots}, or start Spark with more cores (local[{max(count, 1)}], or more "
            "executors)."
        )
    return count


def _packed(frames: Mapping[str, DataFrame], specs: list[InputSpec], workers: int) -> DataFrame:
    """All inputs in one DataFrame whose partition i belongs to worker i."""
    # The tasks' Python must be the environment that has pointstamp.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    parts = []
    for spec in specs:
        frame = frames[spec.name]
        wanted = [*spec.schema.names, *([spec.epoch] if spec.epoch else [])]
        missing = [column for column in wanted if column not in frame.columns]
        if missing:
            raise SchemaError(
                f"input '{spec.name}': the DataFrame has no column {_listed(missing)}; it has "
                f"{_listed(frame.columns)}."
            )
        chosen = frame.select(*wanted)
        _check_types(chosen, spec)
        parts.append(chosen.mapInArrow(packer(spec, workers), PACKED_DDL))
    together = parts[0]
    for part in parts[1:]:
        together = together.unionAll(part)
    # In the order of epochs, so that a worker can finish one before it reads on.
    return together.repartitionById(workers, together["worker"]).sortWithinPartitions("epoch")


def _collect(reports: DataFrame) -> list[Any]:
    try:
        return [decode_report(bytes(row.report)) for row in reports.collect()]
    except PySparkException as error:
        raise _error_of_ours(str(error)) from error


def _error_of_ours(message: str) -> PointstampError:
    """The error that a task raised while it packed rows, found in Spark's message; or Spark's first line."""
    found = re.search(r"pointstamp\.errors\.(\w+): (.+)", message)
    if found is None:
        return FlowError(f"Spark could not run the workers: {message.splitlines()[0]}")
    kind: type[PointstampError] = getattr(errors, found[1], PointstampError)
    return kind(found[2])


def _check_types(frame: DataFrame, spec: InputSpec) -> None:
    """Refuse columns of other types here, and not in a task."""
    arrow = to_arrow_schema(frame.schema)
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


def _files(reports: list[FileWritten | Done | Failed]) -> dict[str, list[str]]:
    """The files of each output; the first failure that is not another's consequence is raised."""
    failed = [report for report in reports if isinstance(report, Failed)]
    if failed:
        first = min(failed, key=is_consequence)
        kind = getattr(errors, first.kind, PointstampError)
        raise kind(first.message)
    files: dict[str, list[str]] = {}
    for report in reports:
        if isinstance(report, FileWritten):
            files.setdefault(report.output, []).append(report.path)
    return files


def _frame(spark: SparkSession, schema: pa.Schema, files: list[str]) -> DataFrame:
    ddl = "epoch long, " + to_ddl(schema)
    return spark.read.schema(ddl).parquet(*sorted(files)) if files else spark.createDataFrame([], ddl)


def _listed(names: Iterable[str]) -> str:
    return ", ".join(f"'{name}'" for name in names) or "none"
