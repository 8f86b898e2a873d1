"""A bounded run on Spark: DataFrames in, DataFrames out, a gang of barrier tasks between.

What Spark does better than a worker it does itself (``pushing``). Then the inputs are packed and shuffled to
the workers (``packing``), the gang runs the flow (``gang``) and writes files, and a commit publishes them
(``manifest``). It returns DataFrames over exactly these files: they can be
read again and again without running the job again. A mistake that can be known before Spark starts is
reported here, in one sentence with the setting to change; later failures are put into words by ``failures``.

Without ``output`` the files are in a temporary folder, which is removed when the session is no longer used,
at the latest when this process ends.
"""

import os
import shutil
import tempfile
import weakref
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from pointstamp.errors import FlowError, InternalError, StorageError
from pointstamp.flow.plan import Plan
from pointstamp.mesh.mesh import SILENCE_SECONDS_MAX
from pointstamp.pushing.steps import PushedPlan
from pointstamp.query.starting import check_epochs
from pointstamp.running.failing import error_of
from pointstamp.running.feeding import EpochColumns
from pointstamp.running.messages import Failed, FileWritten, Finished, Report, decode_report
from pointstamp.sinks.port import Staged
from pointstamp.sinks.reading import published_now
from pointstamp.spark.errand import fetch
from pointstamp.spark.failures import in_words
from pointstamp.spark.frame_results import FrameResults
from pointstamp.spark.frames import chosen as chosen_columns
from pointstamp.spark.frames import frames_over, use_this_python
from pointstamp.spark.gang import SparkGang, is_consequence
from pointstamp.spark.manifest import check_unpublished, discard, new_run_name, publish
from pointstamp.spark.meeting import REPORT, meeting_folder, versions
from pointstamp.spark.packing import NO_INPUT, PACKED_DDL, InputSpec, input_specs, packer
from pointstamp.spark.place import spark_address
from pointstamp.spark.pushing import pushed_into, with_steps
from pointstamp.spark.sendable import check_sendable
from pointstamp.spark.slots import choose_workers, is_connect
from pointstamp.spark.types import spark_schema


def run(
    plan: Plan,
    spark: SparkSession,
    frames: Mapping[str, DataFrame],
    *,
    workers: int | None = None,
    epoch: EpochColumns = None,
    output: str | None = None,
    silence_seconds_max: float = SILENCE_SECONDS_MAX,
    push: bool = True,
) -> FrameResults:
    """Run a flow to the end of its inputs; return each output as a DataFrame with the epoch of each row."""
    epochs = check_epochs(plan, frames, epoch)
    declared = input_specs(plan, plan.graph(), epochs)
    outputs = {
        name: spark_schema(schema, f"output '{name}'") for name, schema in plan.output_schemas().items()
    }

    def prepare() -> tuple[dict[str, DataFrame], PushedPlan, int]:
        chosen = {spec.name: chosen_columns(frames[spec.name], spec) for spec in declared}
        left = pushed_into(plan, chosen, epochs) if push else PushedPlan(plan, {})
        for each, steps in left.inputs.items():
            chosen[each] = with_steps(chosen[each], steps, epochs.get(each))
        if output is not None:
            spark_address(output)
            check_unpublished(output)
        use_this_python(spark)
        return chosen, left, choose_workers(spark, workers)

    def write() -> list[Staged]:
        with meeting_folder(spark) as meeting:
            is_packed = not reads_as_it_is(spark, chosen, specs, count)
            gang = SparkGang(
                left.plan,
                specs,
                count,
                folder,
                name,
                outputs,
                versions(),
                meeting,
                silence_seconds_max=silence_seconds_max,
                is_packed=is_packed,
            )
            check_sendable(left.plan, gang)
            rows = _packed(spark, chosen, specs, count) if is_packed else chosen[specs[0].name]
            reports = rows.mapInArrow(gang, from_arrow_schema(REPORT), barrier=True)
            return _files(_collect(reports), count)

    # Nothing of Spark is called in this thread, where an interrupt of the keyboard may come (``errand``).
    chosen, left, count = fetch(spark, prepare)
    specs = input_specs(left.plan, left.plan.graph(), epochs)
    folder = output or _temporary_folder(spark)
    name = new_run_name(plan.name)
    try:
        publish(folder, name, outputs, fetch(spark, write))
    except BaseException:
        with suppress(StorageError):  # what stays is never read
            discard(folder, name, outputs)
        raise
    # The files have just been looked for.
    return fetch(
        spark, partial(frames_over, spark, spark_address(folder), published_now(folder, check_files=False))
    )


def _temporary_folder(spark: SparkSession) -> str:
    if is_connect(spark):
        raise FlowError(
            "a Connect session runs the workers on other hosts, which cannot see a temporary folder of this "
            "one. Give output= on a file system that all of them and this process reach."
        )
    folder = tempfile.mkdtemp(prefix="pointstamp-")
    # DataFrames hold their session, so the files stay as long as one can be read.
    weakref.finalize(spark, _remove_own, folder, os.getpid())
    return folder


def _remove_own(folder: str, owner: int) -> None:
    if os.getpid() == owner:  # a forked child that ends leaves its parent's files alone
        shutil.rmtree(folder, ignore_errors=True)


def reads_as_it_is(
    spark: SparkSession, frames: Mapping[str, DataFrame], specs: list[InputSpec], workers: int
) -> bool:
    """Whether the partitions of the input can be read by the workers as they are.

    This is so if there is one input, all in one epoch, with one partition for each worker. Rows that belong
    to another worker by their key go there directly: that takes a fraction of packing them for Spark's
    shuffle and handing them to Python twice. It looks only at plans whose partitions are known without
    running anything.
    """
    if is_connect(spark) or len(specs) != 1 or specs[0].epoch is not None:
        return False
    plan: Any = frames[specs[0].name]._jdf.queryExecution().executedPlan()  # noqa: SLF001 - Python has no name for it
    words = plan.toString()
    if "AdaptiveSparkPlan" in words or "Exchange" in words or "EmptyRelation" in words:
        return False
    return _has_partitions(plan.execute(), workers)


def _has_partitions(rdd: Any, count: int) -> bool:  # noqa: ANN401 - of the JVM
    """Whether each step on the way of the rows has so many partitions, as a barrier stage wants it."""
    waiting = [rdd]
    while waiting:
        each = waiting.pop()
        if each.getNumPartitions() != count:
            return False
        before = each.dependencies()
        waiting.extend(before.apply(number).rdd() for number in range(before.size()))
    return True


def _packed(
    spark: SparkSession, frames: Mapping[str, DataFrame], specs: list[InputSpec], workers: int
) -> DataFrame:
    """All inputs in one DataFrame whose partition i belongs to worker i."""
    # A row for each worker, because where there are no rows at all Spark would not start the gang.
    together = spark.range(0, workers, 1, 1).selectExpr(
        "int(id) as worker", f"int({NO_INPUT}) as input", "0L as epoch", "binary('') as rows"
    )
    for spec in specs:
        together = together.unionAll(frames[spec.name].mapInArrow(packer(spec, workers), PACKED_DDL))
    # In the order of epochs, so that a worker can finish one before it reads on.
    return together.repartitionById(workers, together["worker"]).sortWithinPartitions("epoch")


def _collect(reports: DataFrame) -> list[Report]:
    try:
        rows = reports.collect()
    except Exception as error:  # Spark's and py4j's errors have no common kind
        # Spark's own error is a Java stack trace; what it says that matters is in these words.
        raise in_words(str(error)) from None
    return [decode_report(bytes(row.report)) for row in rows]


def _files(reports: list[Report], workers: int) -> list[Staged]:
    """The files that were written; the first failure that is not another's consequence is raised."""
    failed = [report for report in reports if isinstance(report, Failed)]
    if failed:
        raise error_of(min(failed, key=is_consequence))
    done = sum(isinstance(report, Finished) for report in reports)
    if done != workers:
        raise InternalError(
            f"only {done} of {workers} workers have reported that they are done, though none has failed."
        )
    return [each.file for each in reports if isinstance(each, FileWritten)]
