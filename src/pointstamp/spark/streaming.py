"""An unbounded run on Spark: streams in, published epochs out, workers in ordinary tasks between.

Each input is a streaming DataFrame (Structured Streaming owns the source, its micro-batches go into the input
log), a DataFrame (written into the log once), or a source that the workers read themselves. The gang is
started first, because it holds its slots as long as it runs; Structured Streaming needs at least one more
slot.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from pointstamp.arrow.epoch_column import EpochColumn
from pointstamp.connectors.sink import Sink
from pointstamp.connectors.source import (
    Identity,
    Part,
    Position,
    Source,
    SourceBase,
    Unit,
    Watch,
    complete_source,
    identity_of_source,
    is_source,
    moved_from_of,
)
from pointstamp.driver.feeder import EpochColumns
from pointstamp.errors import FlowError
from pointstamp.flow.plan import Plan
from pointstamp.journal.flow_shape import shape_of
from pointstamp.journal.history import Ticked
from pointstamp.mesh.mesh import SILENCE_SECONDS_MAX
from pointstamp.query.crew import InProcessLauncher, Launcher
from pointstamp.query.mission import QuerySpec
from pointstamp.query.observation import Judge
from pointstamp.query.policy import RestartPolicy, SnapshotPolicy
from pointstamp.query.query import Companion, Query, begin_query
from pointstamp.query.start_checks import (
    check_epochs,
    check_resumable,
    check_sink,
    check_sources,
    query_id_at,
    savepoint_at,
    sink_at,
    tick_seconds,
)
from pointstamp.query.supervisor import Supervisor
from pointstamp.spark.crew import SparkLauncher, UiLink
from pointstamp.spark.failures import check_sendable
from pointstamp.spark.frames import FrameResults, chosen, read, spark_schema, use_this_python
from pointstamp.spark.input_log import StreamLog, frame_identity, static_log
from pointstamp.spark.locations import spark_address
from pointstamp.spark.row_packing import input_specs
from pointstamp.spark.slots import SlotPlan, check_in_driver, is_connect, is_local, plan_slots
from pointstamp.spark.spare import SpareKeeper
from pointstamp.spark.warm_up import WarmUp
from pointstamp.storage.anywhere import storage_at

_RESCALES: Final = ("restart", "eager")


def start(
    plan: Plan,
    spark: SparkSession,
    streams: Mapping[str, Any],
    *,
    checkpoint: str,
    output: str | Sink,
    workers: int | None = None,
    epoch: EpochColumns = None,
    snapshots: SnapshotPolicy | None = None,
    restarts: RestartPolicy | None = None,
    available_now: bool = False,
    closes: bool = False,
    accept_changes: bool = False,
    savepoint: tuple[str, str] | None = None,
    silence_seconds_max: float = SILENCE_SECONDS_MAX,
    judge: Judge | None = None,
    tick_every: str | timedelta | None = None,
    has_dashboard: bool = False,
    spare_crew: bool = False,
    min_workers: int | None = None,
    rescale: str = "restart",
    barrier: bool = False,
    in_driver: bool = False,
) -> Query:
    """Start a flow on streams; it runs until it is stopped, or with ``available_now`` until all is read.

    ``has_dashboard`` says that a dashboard will be opened at once, so that Spark's UI may link to it.
    """
    columns = check_epochs(plan, streams, epoch)
    check_sendable(plan, plan)
    schemas = {
        name: spark_schema(schema, f"output '{name}'") for name, schema in plan.output_schemas().items()
    }
    streaming = _checked_streams(streams, begins_with_savepoint=savepoint is not None)
    if rescale not in _RESCALES:
        raise FlowError(f"rescale={rescale!r} is not known. Give one of {', '.join(map(repr, _RESCALES))}.")
    if in_driver:
        check_in_driver(workers, min_workers, barrier=barrier, spare_crew=spare_crew)
        slots = SlotPlan(1)
    else:
        slots = plan_slots(
            spark,
            workers,
            least=workers if barrier else min_workers,
            reserve=1 if streaming else 0,
            stays=not available_now,
            crews=2 if spare_crew else 1,
            barrier=barrier,
        )
        slots = replace(slots, is_eager=rescale == "eager")
    use_this_python(spark)
    folder = spark_address(checkpoint)
    storage = storage_at(checkpoint)
    # Rows of DataFrames are written into the checkpoint, so its flow is compared before.
    known = {name: _Frame(each) if _is_frame(each) else each for name, each in streams.items()}
    shape = shape_of(plan, "", known, columns, schemas)
    moved = {name: place for name, each in known.items() if (place := moved_from_of(each)) is not None}
    check_resumable(storage, shape, accept_changes=accept_changes, moved_from=moved)
    sources, logs = _sources(plan, streams, columns, folder, available_now=available_now)
    spec = QuerySpec(
        plan,
        sources,
        sink_at(_everywhere(output)),
        storage,
        slots.wish,
        query_id_at(storage),
        snapshots or SnapshotPolicy(),
        restarts or RestartPolicy(),
        columns,
        accept_changes=accept_changes,
        grows=rescale == "eager",
        closes=closes or not available_now,
        savepoint=savepoint_at(savepoint),
        tick_every_seconds=tick_seconds(plan, tick_every, columns),
        schemas=schemas,
        judge=judge,
        forget=lambda ticks: _forget(ticks, logs),
    )
    link = UiLink(spark, spec.query_id)
    launcher: Launcher = InProcessLauncher()
    if not in_driver:
        launcher = SparkLauncher(spark, slots=slots, silence_seconds_max=silence_seconds_max, barrier=barrier)
        launcher.link = link if has_dashboard else None
    supervisor = Supervisor(check_sink(spec), launcher)
    companions: list[Companion] = [_AfterWorkers(log, supervisor) for log in logs.values()]
    if isinstance(launcher, SparkLauncher):
        launcher.on_waiting = supervisor.wait_for
        launcher.is_wanted = lambda: not supervisor.is_dropped
        if spare_crew:
            companions.append(SpareKeeper(launcher))
        elif not (is_connect(spark) or is_local(spark)):
            companions.append(WarmUp(spark, plan.name, launcher.is_at_work))
    return begin_query(supervisor, companions, on_dashboard=link.lead_to)


def _sources(
    plan: Plan,
    streams: Mapping[str, Any],
    columns: dict[str, EpochColumn],
    folder: str,
    *,
    available_now: bool,
) -> tuple[dict[str, Source], dict[str, StreamLog]]:
    """The source of each input, and for streaming DataFrames the log that Structured Streaming writes."""
    sources: dict[str, Source] = {}
    logs: dict[str, StreamLog] = {}
    specs = {spec.name: spec for spec in input_specs(plan, plan.graph(), columns)}
    for name, each in streams.items():
        if not _is_frame(each):
            sources[name] = _UpToNow(each) if available_now else each
            continue
        frame = chosen(each, specs[name])
        if each.isStreaming:
            logs[name] = StreamLog(name, frame, folder, available_now=available_now)
            sources[name] = logs[name].source()
        else:
            sources[name] = static_log(name, frame, folder)
    return sources, logs


def _checked_streams(streams: Mapping[str, Any], *, begins_with_savepoint: bool) -> list[str]:
    """The inputs that are streaming DataFrames; FlowError for a value that cannot be an input here."""
    for name, each in streams.items():
        if not _is_frame(each) and not is_source(each):
            raise FlowError(
                f"input '{name}' must be a DataFrame, streaming or not, or a source such as "
                f"ps.io.files(path), got {_kind(each)}."
            )
    check_sources({name: each for name, each in streams.items() if not _is_frame(each)})
    streaming = [name for name, each in streams.items() if _is_frame(each) and each.isStreaming]
    if streaming and begins_with_savepoint:
        raise FlowError(
            f"input '{streaming[0]}' is a streaming DataFrame, but a savepoint has no offsets of it. To "
            "start with a savepoint, give sources that workers read, such as ps.io.files."
        )
    return streaming


def run_to_end(
    plan: Plan,
    spark: SparkSession,
    frames: Mapping[str, DataFrame],
    *,
    checkpoint: str,
    output: str | None = None,
    workers: int | None = None,
    epoch: EpochColumns = None,
    silence_seconds_max: float = SILENCE_SECONDS_MAX,
    judge: Judge | None = None,
    min_workers: int | None = None,
    barrier: bool = False,
    in_driver: bool = False,
) -> FrameResults:
    """Run a flow to the end of its inputs, and continue where an earlier run with this checkpoint stopped."""
    folder = output or f"{checkpoint.rstrip('/')}/output"
    query = start(
        plan,
        spark,
        frames,
        checkpoint=checkpoint,
        output=folder,
        workers=workers,
        epoch=epoch,
        available_now=True,
        closes=True,
        silence_seconds_max=silence_seconds_max,
        judge=judge,
        min_workers=min_workers,
        barrier=barrier,
        in_driver=in_driver,
    )
    try:
        query.await_termination()
    finally:
        query.stop(finish=False)
    return read(spark, folder)


class _AfterWorkers:
    """A log that begins to be written when the workers have their slots."""

    def __init__(self, log: StreamLog, supervisor: Supervisor) -> None:
        self._log = log
        self._supervisor = supervisor
        log.when_failed = lambda: supervisor.stop(finish=True)
        self.failure = log.failure
        self.drain = log.drain
        self.stop = log.stop

    def start(self) -> None:
        """Wait until the workers run, then let Structured Streaming write."""
        self._supervisor.wait_until_ready()
        self._log.start()


@dataclass(frozen=True, slots=True)
class _UpToNow(SourceBase):
    """A source from which only the units that are there now are taken.

    Logs of streaming DataFrames must not be cut off like this: Structured Streaming says what is there now.
    """

    inner: Source

    @property
    def units_per_tick(self) -> int | None:
        return self.inner.units_per_tick

    def watch(self, position: Position, *, available_now: bool = False) -> Watch:
        return self.inner.watch(position, available_now=True)

    def read(self, part: Part, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        return self.inner.read(part, schema)

    def after(self, position: Position, unit: Unit) -> Position:
        return self.inner.after(position, unit)

    def renewed(self, unit: Unit) -> Unit | None:
        return complete_source(self.inner).renewed(unit)

    def share_of_tick(self, unit: Unit) -> float:
        return complete_source(self.inner).share_of_tick(unit)

    def describe(self) -> str:
        return self.inner.describe()

    def identity(self) -> Identity:
        return identity_of_source(self.inner)

    @property
    def moved_from(self) -> str | None:
        return moved_from_of(self.inner)


@dataclass(frozen=True, slots=True)
class _Frame:
    """A DataFrame that is an input, known by what it reads."""

    frame: DataFrame

    def identity(self) -> Identity:
        return frame_identity(self.frame)


def _is_frame(value: Any) -> bool:  # noqa: ANN401 - whatever the user gave
    return isinstance(value, DataFrame)  # also Connect's, whose module needs packages of its own


def check_frames(plan: Plan, frames: Mapping[str, Any]) -> None:
    """Refuse inputs that are not DataFrames of Spark, and streams, which have no end."""
    for name, each in frames.items():
        if not _is_frame(each):
            raise FlowError(
                f"flow '{plan.name}', input '{name}': run() on Spark needs a Spark DataFrame, got "
                f"{_kind(each)}. Make one with spark.createDataFrame(), or use run() without on=."
            )
        if each.isStreaming:
            raise FlowError(
                f"flow '{plan.name}', input '{name}' is a streaming DataFrame, but run() needs inputs with "
                "an end. Use start(), with available_now=True for the current rows."
            )


def _kind(value: object) -> str:
    return f"{type(value).__module__}.{type(value).__qualname__}".removeprefix("builtins.")


def _everywhere(output: str | Sink) -> str | Sink:
    """A path that means the same folder in the tasks, which run in separate folders."""
    return spark_address(output) if isinstance(output, str) else output


def _forget(ticks: list[Ticked], logs: Mapping[str, StreamLog]) -> None:
    for name, log in logs.items():
        units: list[Unit] = [unit for tick in ticks for unit in tick.units.get(name, [])]
        log.forget(units)
