"""A bounded run on Spark: DataFrames in, DataFrames out, workers in ordinary Spark tasks between.

What Spark does better than a worker it does itself (this module). Then the inputs are packed and shuffled to
the workers (``row_packing``), the workers run the flow (``bounded``) and write files, and a commit publishes
them (this module). It returns DataFrames over exactly these files: they can be read again and again without
running the job again. A mistake that can be known before Spark starts is reported here, in one sentence with
the setting to change; later failures are put into words by ``failures``.

Nothing is published before all workers have finished, so a run is repeated: with fewer workers, if Spark has
slots for fewer, and from its beginning, if a worker was lost (``spark.task.maxFailures`` times).

Without ``output`` the files are in a temporary folder, which is removed when the session is no longer used,
at the latest when this process ends.
"""

import logging
import os
import secrets
import shutil
import tempfile
import weakref
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial, reduce
from importlib import import_module
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema

from pointstamp.arrow.epoch_column import EPOCH_MAX, EpochColumn
from pointstamp.connectors.published.chain import FOLDER, Chain
from pointstamp.connectors.published.reader import published_now
from pointstamp.connectors.published.sink import ParquetSink
from pointstamp.connectors.sink import Staged
from pointstamp.driver.feeder import EpochColumns
from pointstamp.errors import FlowError, PointstampError, StorageError, TransportError
from pointstamp.flow.plan import Plan
from pointstamp.mesh.mesh import SILENCE_SECONDS_MAX
from pointstamp.pushdown.prefix import pushed
from pointstamp.pushdown.steps import KeepRows, MakeColumns, Pushed, PushedPlan, Step, quoted
from pointstamp.query.crew import CrewError
from pointstamp.query.rendezvous import SETTLE_SECONDS
from pointstamp.query.start_checks import check_epochs
from pointstamp.spark.bounded import REPORT, BoundedWork, TaskAlone, collect_files, files_in, run_alone
from pointstamp.spark.crew import SparkCrew, run_description
from pointstamp.spark.errand import fetch
from pointstamp.spark.failures import check_sendable, in_words
from pointstamp.spark.frames import FrameResults, frames_over, spark_schema, use_this_python
from pointstamp.spark.frames import chosen as chosen_columns
from pointstamp.spark.locations import spark_address
from pointstamp.spark.rendezvous import versions
from pointstamp.spark.row_packing import NO_INPUT, PACKED, PACKED_DDL, InputSpec, input_specs, packer
from pointstamp.spark.slots import (
    check_in_driver,
    is_connect,
    is_elastic,
    plan_slots,
    slots_busy,
    slots_now,
    task_failures_max,
)
from pointstamp.spark.worker_formation import FewerSlots, Waiting, Wanted, start_workers
from pointstamp.storage.anywhere import storage_at

_BUSY_SECONDS: Final = 1.0
"""How long tasks of a job that has just ended may take to leave their slots."""
_CAUSE_SECONDS: Final = 2.0
"""How long to wait for what Spark says about a task that was lost."""
_ELASTIC_SETTLE_SECONDS: Final = 60.0
"""How long executors may take to start before a run begins again with fewer workers."""
_MEMORY: Final = (
    " Look at its executor's log; if it ran out of memory, raise spark.executor.memoryOverhead, which is "
    "where the memory of the workers is counted."
)
_log = logging.getLogger("pointstamp.spark")


def run(
    plan: Plan,
    spark: SparkSession,
    frames: Mapping[str, DataFrame],
    *,
    workers: int | None = None,
    min_workers: int | None = None,
    epoch: EpochColumns = None,
    output: str | None = None,
    silence_seconds_max: float = SILENCE_SECONDS_MAX,
    push: bool = True,
    barrier: bool = False,
    in_driver: bool = False,
) -> FrameResults:
    """Run a flow to the end of its inputs; return each output as a DataFrame with the epoch of each row."""
    epochs = check_epochs(plan, frames, epoch)
    declared = input_specs(plan, plan.graph(), epochs)
    outputs = {
        name: spark_schema(schema, f"output '{name}'") for name, schema in plan.output_schemas().items()
    }

    def prepare() -> tuple[dict[str, DataFrame], PushedPlan, _Slots]:
        chosen = {spec.name: chosen_columns(frames[spec.name], spec) for spec in declared}
        left = pushed_into(plan, chosen, epochs) if push else PushedPlan(plan, {})
        for each, steps in left.inputs.items():
            chosen[each] = with_steps(chosen[each], steps, epochs.get(each))
        if output is not None:
            spark_address(output)
            check_unpublished(output)
        use_this_python(spark)
        if in_driver:
            check_in_driver(workers, min_workers, barrier=barrier)
            return chosen, left, _Slots(1, 1, 1)
        return chosen, left, _slots_of_run(spark, workers, min_workers, barrier=barrier)

    # Nothing of Spark is called in this thread, where an interrupt of the keyboard may come (``errand``).
    chosen, left, slots = fetch(spark, prepare)
    specs = input_specs(left.plan, left.plan.graph(), epochs)
    folder = output or _temporary_folder(spark)
    attempt = _Attempt(spark, chosen, specs, outputs, silence_seconds_max, barrier=barrier)
    while True:
        name = new_run_name(plan.name)
        work = BoundedWork(left.plan, specs, slots.workers, folder, name, outputs, slots.failures)
        try:
            if in_driver:
                files = fetch(spark, partial(attempt.in_driver, work))
            else:
                files = fetch(spark, partial(attempt.in_tasks, work, slots.least))
            publish(folder, name, outputs, files)
            break
        except BaseException as error:
            with suppress(StorageError):  # what stays is never read
                discard(folder, name, outputs)
            slots = slots.after(error, plan.name)
    # The files have just been looked for.
    return fetch(
        spark, partial(frames_over, spark, spark_address(folder), published_now(folder, check_files=False))
    )


@dataclass(frozen=True, slots=True)
class _Slots:
    """With how many workers a run is tried, and how often it may fail."""

    workers: int
    least: int
    failures_max: int
    failures: int = 0

    def after(self, error: BaseException, flow: str) -> "_Slots":
        """The next try after a failure, which is raised if there is none."""
        if isinstance(error, FewerSlots):
            _log.warning(
                "flow '%s' restarts with %d workers instead of %d: %s",
                flow,
                error.tasks,
                self.workers,
                error,
            )
            return replace(self, workers=error.tasks)
        if isinstance(error, _WorkerLost):
            if self.failures + 1 < self.failures_max:
                _log.warning(
                    "flow '%s' restarts from the beginning, as failure %d of at most %d "
                    "(spark.task.maxFailures): %s",
                    flow,
                    self.failures + 1,
                    self.failures_max,
                    error,
                )
                return replace(self, failures=self.failures + 1)
            raise error.cause from None
        raise error


class _WorkerLost(Exception):  # noqa: N818 - the error is its cause
    """A worker was lost after the workers had met; the same work may succeed elsewhere."""

    def __init__(self, cause: PointstampError) -> None:
        super().__init__(str(cause))
        self.cause = cause


def _slots_of_run(
    spark: SparkSession, workers: int | None, min_workers: int | None, *, barrier: bool
) -> _Slots:
    """Decide how many workers a run begins with: of the free slots, unless they are given."""
    plan = plan_slots(spark, workers, least=workers if barrier else min_workers, barrier=barrier)
    slots = slots_now(spark)
    if slots is not None and workers is None and not barrier:
        slots = max(plan.least, slots - slots_busy(spark, wait_seconds=_BUSY_SECONDS))
    count = plan.capped(slots)
    return _Slots(count, count if barrier else plan.least, task_failures_max(spark))


@dataclass(frozen=True, slots=True)
class _Attempt:
    """What all attempts at a run have in common."""

    spark: SparkSession
    frames: Mapping[str, DataFrame]
    specs: list[InputSpec]
    outputs: Mapping[str, pa.Schema]
    silence_seconds_max: float
    barrier: bool

    def in_tasks(self, work: BoundedWork, least: int) -> list[Staged]:
        """Run the flow in Spark tasks; return the files that the workers have written."""
        spark = self.spark
        is_packed = not reads_as_it_is(spark, self.frames, self.specs, work.workers)
        work = replace(work, is_packed=is_packed)
        check_sendable(work.plan, work)

        def rows() -> DataFrame:
            if is_packed:
                return _packed(spark, self.frames, self.specs, work.workers)
            return self.frames[self.specs[0].name]

        description = run_description(work.plan.name, work.workers)
        if work.workers == 1:
            return _run_one_task(spark, work, rows, description)
        wanted = Wanted(
            work,
            rows,
            work.workers,
            least,
            needs_all=True,
            description=description,
            barrier=self.barrier,
            published=" Nothing was published.",
        )
        waiting = Waiting(
            on_waiting=_WaitingLog(work.plan.name),
            settle_seconds=_ELASTIC_SETTLE_SECONDS if is_elastic(spark) else SETTLE_SECONDS,
            has_other_tasks=is_packed,
        )
        try:
            tasks = start_workers(spark, wanted, waiting, silence_seconds_max=self.silence_seconds_max)
        except CrewError as error:
            if isinstance(error.__cause__, PointstampError):
                raise error.__cause__ from None
            raise
        crew = SparkCrew(tasks)
        try:
            return collect_files(crew)
        except CrewError as error:
            cause = tasks.job.cause(_CAUSE_SECONDS)
            if isinstance(cause, FlowError):  # it would come again
                raise cause from None
            raise _WorkerLost(cause or TransportError(f"{error} Nothing was published.{_MEMORY}")) from None
        finally:
            crew.end()

    def in_driver(self, work: BoundedWork) -> list[Staged]:
        """Run the flow in this process, on rows from Spark; return the files."""
        parts = [
            batch
            for spec in self.specs
            for batch in packer(spec, 1)(iter(self.frames[spec.name].toArrow().to_batches()))
        ]
        table = pa.Table.from_batches(parts, PACKED).sort_by("epoch")
        return run_alone(work, iter(table.to_batches()))


class _WaitingLog:
    """Logs what a run waits for, each time that it changes."""

    def __init__(self, flow: str) -> None:
        self._flow = flow
        self._words = ""

    def __call__(self, words: str) -> None:
        """Take note of what is waited for."""
        if words != self._words:
            _log.warning("flow '%s' is %s", self._flow, words)
            self._words = words


def _run_one_task(
    spark: SparkSession, work: BoundedWork, rows: Callable[[], DataFrame], description: str
) -> list[Staged]:
    """Run the flow in one task, without any connection; Spark itself repeats it if it is lost."""
    if not is_connect(spark):
        spark.sparkContext.setJobDescription(description)  # of this thread's jobs
    try:
        found = rows().mapInArrow(TaskAlone(work, versions()), from_arrow_schema(REPORT)).collect()
    except Exception as error:  # Spark's and py4j's errors have no common kind
        # Spark's own error is a Java stack trace; what it says that matters is in these words.
        raise in_words(str(error)) from None
    return files_in([bytes(row.report) for row in found])


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


# How a bounded run publishes: all its output as one commit, marked complete, written last and at once.
#
# Until the commit is there nothing is published; with it everything is. It is the first and only link of the
# chain that unbounded runs write (``sinks.chain``), so a reader of one can read the other. A folder takes one
# publication: a second run is refused. Each run has a name of its own, which is in the names of its files, so
# that a worker that outlives its run writes nothing that is ever read.

_NEWEST: Final = 1_000_000
"""Above the generation of any file: attempts of a run count from 0."""


def new_run_name(flow: str) -> str:
    """A name that no other run has, and that says whose it is."""
    return f"{flow} {secrets.token_hex(8)}"


def check_unpublished(path: str) -> None:
    """Refuse a folder that has been published into."""
    if Chain(storage_at(path)).newest() is not None:
        raise _taken(path)


def publish(path: str, run: str, schemas: Mapping[str, pa.Schema], files: Sequence[Staged]) -> None:
    """Check that all files are there as they were written, then commit."""
    publisher = ParquetSink(path).for_query(run, schemas).publisher()
    epochs_through = max((file.last_epoch for file in files), default=0)
    try:
        publisher.publish(0, epochs_through, files, is_complete=True)
    except StorageError:
        links = Chain(storage_at(path)).links()
        if links and links[0].query != run:  # it was faster
            raise _taken(path) from None
        raise


def discard(path: str, run: str, schemas: Mapping[str, pa.Schema]) -> None:
    """Remove the files of a run that has failed, unless it was interrupted after its commit."""
    ParquetSink(path).for_query(run, schemas).publisher().discard(generation=_NEWEST, keep=())


def _taken(path: str) -> FlowError:
    return FlowError(
        f"'{path}' has the output of another run ({FOLDER} exists), but a folder belongs to one run. Give "
        "another path, or remove the folder."
    )


# The steps of a flow that Spark does itself, before rows are packed: Catalyst plans them with the input.
#
# What may be pushed is decided from the plan alone (``pointstamp.pushdown``), and here from the DataFrame:
# its types must be exactly those that are declared, because rows that would be cast are cast by the workers.
# The epoch of each row goes with it through all steps. A row whose epoch is none is never left out by a
# condition, so that it is refused as it always is.


def pushed_into(plan: Plan, frames: Mapping[str, DataFrame], epochs: Mapping[str, EpochColumn]) -> PushedPlan:
    """What of a plan can be pushed into these DataFrames."""
    found = pushed(plan).inputs
    return pushed(plan, {name for name in found if _fits(found[name], frames[name], epochs.get(name))})


def with_steps(frame: DataFrame, steps: Pushed, epoch: EpochColumn | None) -> DataFrame:
    """A DataFrame after these steps, with the column of epochs last where no step has made it."""
    assert epoch is None or isinstance(epoch, str)
    return reduce(lambda before, step: _with_step(before, step, epoch), steps.steps, frame)


def _expression(frame: DataFrame, text: str) -> Column:
    """An expression for a DataFrame: one of Connect takes a kind of its own, whatever else is there."""
    is_connect = type(frame).__module__.startswith("pyspark.sql.connect")
    made: Column = import_module(f"pyspark.sql{'.connect' if is_connect else ''}.functions").expr(text)
    return made


def _with_step(frame: DataFrame, step: Step, epoch: str | None) -> DataFrame:
    if isinstance(step, KeepRows):
        return frame.where(step.condition if epoch is None else f"{step.condition} OR {_is_none(epoch)}")
    if isinstance(step, MakeColumns):
        beside = [] if epoch is None or epoch in step.schema.names else [quoted(epoch)]
        columns = [_expression(frame, text).alias(name) for name, text in step.columns]
        return frame.select(*columns, *(_expression(frame, text) for text in beside))
    keys = dict.fromkeys((*step.keys, *([] if epoch is None else [epoch])))
    parts = [_expression(frame, text).alias(name) for name, text in step.parts]
    return frame.groupBy(*map(quoted, keys)).agg(*parts)


def _is_none(epoch: str) -> str:
    """That what stands in a column of epochs is none."""
    column = quoted(epoch)
    return f"{column} IS NULL OR {column} < 0 OR {column} > {EPOCH_MAX}"


def _fits(steps: Pushed, frame: DataFrame, epoch: EpochColumn | None) -> bool:
    arrow = to_arrow_schema(frame.schema, timezone="UTC")
    for field in steps.declared:
        if arrow.field(field.name).type != field.type:
            return False
        words = frame.schema[field.name].dataType.simpleString()
        if "collate" in words or "char(" in words:  # texts that are equal there need not be equal here
            return False
    return epoch is None or (isinstance(epoch, str) and all(_keeps(step, epoch) for step in steps.steps))


def _keeps(step: Step, epoch: str) -> bool:
    """Whether the column of epochs goes through a step: as it is, or beside columns with other names."""
    if isinstance(step, KeepRows):
        return True
    made = dict(step.columns if isinstance(step, MakeColumns) else step.parts)
    if made.get(epoch, "") == quoted(epoch):
        return True
    return epoch.lower() not in {name.lower() for name in made}
