"""Flows: what a user writes once and runs in this process, in several processes, or on Spark.

import pointstamp as ps

flow = ps.Dataflow("words")
words = flow.input("words", "word string")
flow.output("counts", words.count("word", running=True))
flow.run_local(words=[first_batch, second_batch])["counts"][1]    # the counts after epoch 1
"""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, nullcontext
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

import pyarrow as pa

from pointstamp.dashboard.server import chosen_token
from pointstamp.dataflow.record import FlowRecord, operator_of
from pointstamp.dataflow.stream import Stream
from pointstamp.dataflow.table import Table, table_of
from pointstamp.errors import FlowError
from pointstamp.expressions.windows import Span
from pointstamp.expressions.zones import check_time_zone
from pointstamp.flow.builder import PlanBuilder
from pointstamp.flow.event_epochs import EventTime
from pointstamp.flow.in_zone import with_time_zone
from pointstamp.flow.plan import NodeKind, Plan
from pointstamp.mesh.mesh import SILENCE_SECONDS_MAX
from pointstamp.plan.explain import explain_plan
from pointstamp.plan.logical import LogicalOperator
from pointstamp.plan.streams import Feedback, FlowVariable, Input, Output, ToTable
from pointstamp.progress.choosing import BroadcastKind, check_broadcast
from pointstamp.query import local_query
from pointstamp.rows.late import LatePolicy
from pointstamp.rows.schema import as_schema
from pointstamp.rows.undeclared import ExtraColumns
from pointstamp.running.counting import count_rows
from pointstamp.running.driving import Collector, drive
from pointstamp.running.feeding import EpochColumns, FlowControl, OnResult, feeder
from pointstamp.running.given_inputs import given_inputs
from pointstamp.running.local import LocalRun
from pointstamp.running.processes import ProcessRun
from pointstamp.running.results import Results
from pointstamp.running.status import describe_interruption, status_from
from pointstamp.show.describe import describe
from pointstamp.show.explaining import physical_plan
from pointstamp.show.live import LiveDisplay
from pointstamp.show.mermaid import mermaid
from pointstamp.show.page import frame, page
from pointstamp.state.memory import memory_limit
from pointstamp.storage.places import absolute_place
from pointstamp.topology.domain import EPOCHS, TimeOrder
from pointstamp.topology.summary import Summary

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from pointstamp.judge.bounded import BoundedJudge
    from pointstamp.query.observing import Judge
    from pointstamp.query.policy import RestartPolicy, SnapshotPolicy
    from pointstamp.query.query import Query
    from pointstamp.sinks.port import Sink
    from pointstamp.spark.frame_results import FrameResults

Place: TypeAlias = str | os.PathLike[str]
"""A folder: its path, or an address such as s3://bucket/folder."""

OnEpoch: TypeAlias = Callable[[Any, dict[str, pa.Table]], None]
"""Takes an epoch and the tables of all outputs for it."""


class KnownInput(Protocol):
    """An input whose rows are found without being given."""

    def to_follow(self) -> Any:  # noqa: ANN401 - a source or a streaming DataFrame
        """Return what a query reads; FlowError if the rows cannot be followed."""
        ...

    def to_read(self) -> Any:  # noqa: ANN401 - a DataFrame
        """Return the rows that are there now; FlowError if they have no end."""
        ...


class Dataflow:
    """A flow with named inputs and outputs; writing it runs nothing.

    ``times`` is the order of the root times, epochs unless a flow brings its own. ``broadcast`` says how
    workers tell each other their progress: "direct" to every other worker, or "accumulating" along a tree;
    None leaves it to their number.

    ``time_zone`` (str, default: that of the Spark session on Spark, UTC elsewhere): the zone in which
    expressions show, cut and read timestamps, a region such as "Europe/Berlin" or an offset such as "+02:00".
    A query resumes in the zone that it was started in.

    ``optimize`` (bool, default True): whether the plan is optimized before it runs. The environment variable
    POINTSTAMP_OPTIMIZE switches that off for all flows, with ``off``.
    """

    def __init__(
        self,
        name: str,
        *,
        times: TimeOrder[Any] = EPOCHS,
        broadcast: BroadcastKind | None = None,
        time_zone: str | None = None,
        optimize: bool = True,
    ) -> None:
        self.name = name
        self._record = FlowRecord(
            lambda: PlanBuilder(name, times),
            Table,
            is_optimized=optimize,
        )
        self._known_inputs: Mapping[str, KnownInput] = {}
        """Inputs that ``start`` and ``run`` on Spark find themselves, by name."""
        plan = self._record.builder.plan
        plan.broadcast = check_broadcast(broadcast, name)
        if time_zone is not None:
            plan.time_zone = check_time_zone(time_zone, f"flow '{name}'")

    @property
    def plan(self) -> Plan:
        """The operators that run, as plain data."""
        return self._record.plan()

    @property
    def logical_plan(self) -> dict[str, LogicalOperator]:
        """What was written, before optimization: the logical operator of each output, by name."""
        return self._record.logical()

    def describe(self, *, operators: bool = True) -> str:
        """Return the flow as readable text: its views as they were written, and the operators that run.

        Args:
            operators: Whether the operators are shown, too. Default: True.

        """
        return describe(self.plan, operators=operators)

    def explain(self, *, format: Literal["text", "json"] = "text") -> str:  # noqa: A002 - as other engines
        """Return the plan: as written, after optimization, and the operators that run with state and cost.

        Args:
            format: ``"text"``, or ``"json"`` for the data. Default: ``"text"``.

        """
        found = self._record.optimized()
        outputs = (
            None
            if found is None
            else {each.output: each.input for each in found.roots if isinstance(each, Output)}
        )
        fired = () if found is None else found.fired
        return explain_plan(self.logical_plan, outputs, fired, physical_plan(self.plan), format)

    def to_mermaid(self) -> str:
        """The flow as a Mermaid flowchart."""
        return mermaid(self.plan)

    def to_html(self) -> str:
        """The flow as a self-contained HTML page with an interactive graph."""
        return page(self.plan)

    def __repr__(self) -> str:
        return f"Dataflow('{self.name}', {len(self.plan.nodes)} operators)"

    def _repr_html_(self) -> str:
        """The graph that a notebook shows of a flow."""
        return frame(self.plan)

    def input(
        self,
        name: str,
        schema: str | pa.Schema,
        *,
        epoch: EventTime | None = None,
        late: LatePolicy | None = None,
        late_output: str | None = None,
        extra_columns: ExtraColumns = "warn",
    ) -> Stream:
        """A stream that comes from outside; the schema is Spark DDL, "src long, dst long", or pyarrow's.

        All declared columns must be there. Other columns are not read, wherever the flow runs: one that looks
        like the change of a row (``diff``, ``op``, ``_change_type``, ...) is an error, and others are a
        warning, once. With ``extra_columns="ignore"`` they are neither.

        With ``epoch=ps.event_time("at", every="1 second", lateness="3 seconds")`` the epochs of its rows are
        their event time, and the input advances by itself.

        ``late`` says what becomes of rows whose epoch column names an epoch before the one that the input was
        advanced to: they are an ``"error"``, or go to an ``"output"`` of their own, or ``"drop"`` drops them.
        Where epochs are event time they go to an output unless something else is said. That output is named
        ``late_output``, or ``<name>_late``; it has the columns of the input and ``late_epoch``, and the rows
        are in the epoch that was open when they arrived.
        """
        declared = as_schema(schema)
        return self._stream(lambda: Input(name, declared, epoch, late, late_output, extra_columns))

    def variable(self, schema: str | pa.Schema, summary: Summary, name: str = "variable") -> Stream:
        """A stream that is fed later, with ``feedback``, and comes out at the times that the summary says.

        This is a cycle outside loops: into the next epoch with ``ps.delay(1)``, or along a flow's own times.
        """
        declared = as_schema(schema)
        return self._stream(lambda: FlowVariable(declared, summary, name=name))

    def feedback(self, variable: Stream, stream: Stream) -> None:
        """Let a stream come out of a variable of this flow."""
        self._record.write(lambda: Feedback(operator_of(variable), operator_of(stream)), *(variable, stream))

    def table(
        self,
        name: str,
        schema: str | pa.Schema,
        *,
        key: str | Iterable[str],
        order: str | None = None,
        deleted: str | None = None,
        lateness: Span | None = None,
        late: LatePolicy = "output",
        extra_columns: ExtraColumns = "warn",
    ) -> Table:
        """A table that comes from outside as upserts: a row replaces the one that has its key.

        Args:
            name: The name of the input.
            schema: Its columns.
            key: The column or columns by which a row replaces another.
            order: The row with the greatest value in this column wins, in whichever epoch it arrives. Null is
                the least value. If two rows are equal in it, a deletion wins, and otherwise the row that is
                greatest by its columns from left to right. Default: the row of the latest epoch wins, and
                two rows of a key in one epoch raise FlowError.
            deleted: A boolean column that marks the rows that delete their key; it is not a column of the
                table. With ``order`` a deleted key leaves a tombstone, its key and order value, so that an
                older row does not bring it back.
            lateness: How much less than the greatest value so far ``order`` may be, as in
                ``stream.event_time``. Tombstones are freed when the watermark has passed them; without it
                they are kept.
            late: What becomes of rows that are later: ``output``, ``drop`` or ``error``.
            extra_columns: What becomes of columns that are not declared, as in ``input``.

        """
        rows = self.input(name, schema, extra_columns=extra_columns)
        if lateness is not None:
            if order is None:
                raise FlowError(
                    f"table '{name}': lateness= is that of order=, which is missing. Name the column order=."
                )
            rows = rows.event_time(order, lateness=lateness, late=late, name=f"{name}: event time")
        keys = (key,) if isinstance(key, str) else tuple(key)
        made = self._record.write(
            lambda: ToTable(
                operator_of(rows),
                "upserts",
                keys=keys,
                order=order,
                deleted=deleted,
                is_event_time=lateness is not None,
                name=name,
            ),
            rows,
        )
        return table_of(self._record, *made)

    def output(self, name: str, stream: Stream | Table) -> None:
        """Let a stream be a result of the flow, under a name; of a table, its changes in each epoch."""
        given = self._record.held(stream)
        self._record.write(lambda: Output(operator_of(given), name), given)

    def add_plan(self, outputs: Mapping[str, LogicalOperator]) -> None:
        """Add outputs of a plan of logical operators; its scans are inputs of the flow."""
        self._record.add([Output(operator, name) for name, operator in outputs.items()])

    def _stream(self, make: Callable[[], LogicalOperator]) -> Stream:
        return Stream._of(self._record, *self._record.write(make))

    def spill_beyond(self, memory_per_worker: int | str, *, folder: Place | None = None) -> None:
        """Let tables take so much memory on each worker, "512MB" or "2 GB", and go to disk beyond that.

        What joins, groups, distinct rows and other operations of tables keep is then mapped from files in
        ``folder``, which every worker must be able to write to; without one it is where Spark's executors
        write, or the system's temporary folder. What comes out is the same. The files have no names, and are
        gone with the process.
        """
        limit = memory_limit(memory_per_worker, folder, self.name)
        for plan in (self._record.builder.plan, self.plan):
            plan.memory = limit

    def run_local(
        self,
        inputs: Mapping[str, Any] | None = None,
        *,
        workers: int = 1,
        processes: int | None = None,
        epoch: EpochColumns = None,
        control: FlowControl | None = None,
        progress: bool = False,
        on_epoch: OnEpoch | None = None,
        checkpoint: Place | None = None,
        verify: bool = False,
        **streams: Any,  # noqa: ANN401 - anything that holds rows
    ) -> Results:
        """Run the flow on this machine to the end of its inputs and return every output, by epoch.

        Inputs are given by name: ``run_local(edges=[batch0, batch1])``; item i is epoch i, an Arrow batch or
        table, a pandas or polars frame. A single table is epoch 0, unless ``epoch`` names a column of it that
        holds the epoch of each row; a column that the schema declares stays in the rows, any other is
        removed. ``on_epoch`` is called with each epoch and its tables as soon as it is complete.

        With a ``checkpoint``, a path, the run can be killed at any moment: called again with the same data,
        it resumes from the last epoch that was saved there; other data is refused. ``on_epoch`` is then
        called when everything is done.

        With ``verify`` everything that the workers do is judged, as ``start`` says; an epoch is handed over
        after it was found right, and a wrong step raises an InternalError.
        """
        data = given_inputs(self.plan, self.run_local, inputs, streams)
        if checkpoint is not None:
            if control is not None or progress:
                raise FlowError(
                    f"flow '{self.name}' was given a checkpoint together with control or progress, which a "
                    "run with snapshots does not take. Leave them out, or use start_local()."
                )
            judge = self._judge() if verify else None
            return self._run_with_checkpoint(
                data, absolute_place(checkpoint), workers, processes, epoch, on_epoch, judge
            )
        results = Results(self.plan.output_schemas())
        for time, tables in self.stream_local(
            data,
            workers=workers,
            processes=processes,
            epoch=epoch,
            control=control,
            progress=progress,
            verify=verify,
        ):
            for name, table in tables.items():
                results[name].add(time, table)
            if on_epoch is not None:
                on_epoch(time, tables)
        return results

    def stream_local(
        self,
        inputs: Mapping[str, Any] | None = None,
        *,
        workers: int = 1,
        processes: int | None = None,
        epoch: EpochColumns = None,
        control: FlowControl | None = None,
        progress: bool = False,
        verify: bool = False,
        **streams: Any,  # noqa: ANN401 - anything that holds rows
    ) -> Iterator[tuple[Any, dict[str, pa.Table]]]:
        """Run the flow on this machine and yield each epoch with its tables as soon as it is complete.

        It runs on one or several workers in this process, or on one worker in each of ``processes``
        processes. Inputs may be endless: they are read as the results are taken. ``progress`` shows how far
        it is. With ``verify`` everything that the workers do is judged before an epoch is yielded; a wrong
        step raises.
        """
        data = given_inputs(self.plan, self.stream_local, inputs, streams)
        self.plan.check_outputs()
        collector = Collector(self.plan.output_schemas())
        judge = self._run_judge(workers, processes) if verify else None
        judging = nullcontext() if judge is None else closing(judge)
        with judging, self._open(workers, processes, collector.on_result, judge) as run:
            try:
                with LiveDisplay.for_stream(silent=not progress) as display:
                    watch = _watch(run, display) if progress else None
                    fed = feeder(run, data, epoch=epoch, control=control)
                    ahead = processes is not None
                    yield from drive(run, fed, collector, reads_ahead=ahead, after_step=watch)
                if judge is not None:
                    judge.end()
            except KeyboardInterrupt as interrupt:
                if isinstance(run, LocalRun):
                    interrupt.add_note(describe_interruption(run))
                raise

    def run(
        self,
        spark: "SparkSession",
        inputs: "Mapping[str, DataFrame] | None" = None,
        *,
        workers: int | None = None,
        epoch: EpochColumns = None,
        output: Place | None = None,
        checkpoint: Place | None = None,
        silence_seconds_max: float = SILENCE_SECONDS_MAX,
        verify: bool = False,
        push: bool = True,
        min_workers: int | None = None,
        barrier: bool = False,
        in_driver: bool = False,
        **streams: "DataFrame",
    ) -> "FrameResults":
        """Run the flow as a Spark job to the end of its inputs; DataFrames in, DataFrames out.

        Without ``epoch`` everything is epoch 0; with it, a column holds the epoch of each row, in any order.
        Of an output that is a table, ``.table(name)`` of the result is the table as it is at the end.
        The outputs have the column ``epoch`` first, lie as Parquet files under ``output`` (a temporary folder
        unless given), and can be read again and again; a folder that holds published output is rejected.

        ``workers`` (default: the free slots of the session) is the number of workers that the run is to have,
        ``min_workers`` (default: 1) the number with which it runs. Workers are ordinary Spark tasks, so
        dynamic allocation may be on. With ``workers=1`` the flow runs in one task without connections to
        others, with ``in_driver=True`` in this process. A worker that is silent for ``silence_seconds_max``
        is taken for dead. A run that loses a worker starts again, at most ``spark.task.maxFailures`` times.
        With ``barrier=True`` the workers are one barrier stage, all or none.

        With a ``checkpoint``, a path, workers may die, and so may the driver: called again with the same
        inputs, the run resumes from the last epoch that was saved there. Such a run can be judged while it
        continues, with ``verify``, as ``start`` says; without a checkpoint the driver hears nothing of the
        workers until they are done.

        Without a checkpoint, Spark itself does what stands directly behind an input and means the same there:
        ``describe`` shows it. With ``push=False`` the workers do everything.
        """
        if verify and checkpoint is None:
            raise FlowError(
                f"flow '{self.name}' cannot be verified without a checkpoint: the workers of such a run tell "
                "the driver nothing before they are done. Give checkpoint= a path, or leave verify out."
            )
        from pointstamp.spark import job, streaming  # pyspark is loaded by those who use it

        frames = given_inputs(self.plan, self.run, inputs, streams)
        frames |= {name: each.to_read() for name, each in self._not_given(frames).items()}
        folder = self._folder(output, frames)
        streaming.check_frames(self.plan, frames)
        if checkpoint is not None:
            return streaming.run_to_end(
                _in_session_zone(self.plan, spark),
                spark,
                frames,
                checkpoint=absolute_place(checkpoint),
                output=folder,
                workers=workers,
                epoch=epoch,
                silence_seconds_max=silence_seconds_max,
                judge=self._judge() if verify else None,
                min_workers=min_workers,
                barrier=barrier,
                in_driver=in_driver,
            )
        return job.run(
            _in_session_zone(self.plan, spark),
            spark,
            frames,
            workers=workers,
            epoch=epoch,
            output=folder,
            silence_seconds_max=silence_seconds_max,
            push=push,
            min_workers=min_workers,
            barrier=barrier,
            in_driver=in_driver,
        )

    def start(
        self,
        spark: "SparkSession",
        inputs: Mapping[str, Any] | None = None,
        *,
        checkpoint: Place,
        output: "Place | Sink",
        workers: int | None = None,
        epoch: EpochColumns = None,
        snapshots: "SnapshotPolicy | None" = None,
        restarts: "RestartPolicy | None" = None,
        available_now: bool = False,
        accept_changes: bool = False,
        savepoint: tuple[Place, str] | None = None,
        silence_seconds_max: float = SILENCE_SECONDS_MAX,
        verify: bool = False,
        tick_every: str | timedelta | None = None,
        dashboard: bool | int = False,
        dashboard_token: str | None = None,
        spare_crew: bool = False,
        min_workers: int | None = None,
        rescale: Literal["restart", "eager"] = "restart",
        barrier: bool = False,
        in_driver: bool = False,
        **streams: Any,  # noqa: ANN401 - DataFrames and sources
    ) -> "Query":
        """Start the flow as a Spark job that keeps running; return the query that watches and stops it.

        Inputs are streaming DataFrames, DataFrames, and sources that the workers read themselves
        (``ps.files``). Each epoch is published under ``output`` as soon as it is complete and saved; what is
        needed to continue after a failure, or with a new driver, lies under ``checkpoint``. It belongs to
        this flow and these sources; others are rejected. ``accept_changes`` accepts that outputs were
        dropped, and that functions have changed. A new checkpoint may begin with a ``savepoint`` of another
        one, given as (its path, the savepoint's name).

        ``workers`` (default: the slots of the session less one for other jobs) is the number of workers that
        the query is to have, ``min_workers`` (default: 1) the number with which it runs. Workers are ordinary
        Spark tasks, so dynamic allocation may be on. If Spark has fewer slots, or executors are lost, the
        query runs with fewer workers; more executors are used when it restarts, or at once with
        ``rescale="eager"``. With ``barrier=True`` the workers are one barrier stage, all or none. With
        ``workers=1`` the flow runs in one task without connections to other executors, with
        ``in_driver=True`` in this process; the checkpoint is the same.

        With ``tick_every="1 second"`` epochs are ticks of a clock: one every second, with everything that
        came since the last one, and also where nothing came. They are recorded as any tick is.

        With ``verify`` everything that the workers do is judged while they do it, against the models that the
        runtime implements; an epoch is published after it was found right, and a wrong step ends the query.

        With ``dashboard``, True or a port, the driver serves a page that shows the query, and its address is
        printed; ``query.dashboard()`` does the same at any later time. ``dashboard_token`` sets the token of
        that address, which is random by default.

        With ``spare_crew`` a second crew stands by, which takes the place of one that has lost a worker. It
        takes as many slots again, as long as the query runs, whoever else waits for them.
        """
        from pointstamp.spark import streaming  # pyspark is loaded by those who use it

        _check_dashboard(self.name, dashboard, dashboard_token)
        data = given_inputs(self.plan, self.start, inputs, streams)
        data |= self._followed(
            spark, data, checkpoint=absolute_place(checkpoint), available_now=available_now
        )
        query = streaming.start(
            _in_session_zone(self.plan, spark),
            spark,
            data,
            checkpoint=absolute_place(checkpoint),
            output=_path(output),
            workers=workers,
            epoch=epoch,
            snapshots=snapshots,
            restarts=restarts,
            available_now=available_now,
            accept_changes=accept_changes,
            savepoint=None if savepoint is None else (absolute_place(savepoint[0]), savepoint[1]),
            silence_seconds_max=silence_seconds_max,
            judge=self._judge() if verify else None,
            tick_every=tick_every,
            has_dashboard=dashboard is not False,
            spare_crew=spare_crew,
            min_workers=min_workers,
            rescale=rescale,
            barrier=barrier,
            in_driver=in_driver,
        )
        self._started(query)
        return _shown(query, dashboard, dashboard_token)

    def start_local(
        self,
        inputs: Mapping[str, Any] | None = None,
        *,
        checkpoint: Place,
        output: "Place | Sink",
        workers: int = 1,
        processes: int | None = None,
        epoch: EpochColumns = None,
        snapshots: "SnapshotPolicy | None" = None,
        restarts: "RestartPolicy | None" = None,
        available_now: bool = False,
        accept_changes: bool = False,
        savepoint: tuple[Place, str] | None = None,
        silence_seconds_max: float = SILENCE_SECONDS_MAX,
        verify: bool = False,
        tick_every: str | timedelta | None = None,
        dashboard: bool | int = False,
        dashboard_token: str | None = None,
        **streams: Any,  # noqa: ANN401 - sources
    ) -> "Query":
        """Start the flow on this machine as a query that keeps running, as ``start`` does on Spark.

        Inputs are sources (``ps.files``), or lists of tables, each an epoch. It runs on ``workers`` in this
        process, or on one worker in each of ``processes`` processes.
        """
        _check_dashboard(self.name, dashboard, dashboard_token)
        query = local_query.start(
            with_time_zone(self.plan),
            given_inputs(self.plan, self.start_local, inputs, streams),
            checkpoint=absolute_place(checkpoint),
            output=_path(output),
            workers=workers,
            processes=processes,
            epoch=epoch,
            snapshots=snapshots,
            restarts=restarts,
            available_now=available_now,
            accept_changes=accept_changes,
            savepoint=None if savepoint is None else (absolute_place(savepoint[0]), savepoint[1]),
            silence_seconds_max=silence_seconds_max,
            judge=self._judge() if verify else None,
            tick_every=tick_every,
        )
        return _shown(query, dashboard, dashboard_token)

    def _folder(self, output: Any, frames: Mapping[str, Any]) -> str | None:  # noqa: ANN401 - whatever came
        if "path" in frames and "path" not in self.plan.named(NodeKind.INPUT):
            raise FlowError(
                f"flow '{self.name}' was given path=, but has no input of that name. Give the folder of the "
                "output with output=, as for a query: run(spark, ..., output=path)."
            )
        folder = _path(output)
        if folder is not None and not isinstance(folder, str):
            raise FlowError(
                f"flow '{self.name}': a run to the end of its inputs needs a folder's path as output=, but "
                f"was given {type(folder).__name__}. For a sink, use start(..., available_now=True)."
            )
        return folder

    def _followed(
        self,
        spark: "SparkSession",
        data: Mapping[str, Any],
        *,
        checkpoint: str,
        available_now: bool,
    ) -> dict[str, Any]:
        """What a query on Spark reads of the inputs that are not given."""
        del spark, checkpoint, available_now
        return {name: each.to_follow() for name, each in self._not_given(data).items()}

    def _started(self, query: "Query") -> None:
        """Called with each query on Spark that was started."""

    def _not_given(self, data: Mapping[str, Any]) -> "dict[str, KnownInput]":
        names = self.plan.named(NodeKind.INPUT)
        return {name: each for name, each in self._known_inputs.items() if name in names and name not in data}

    def _judge(self) -> "Judge":
        from pointstamp.judge.online_process import JudgeProcess  # loaded by those who use it

        return JudgeProcess(self.plan)

    def _run_judge(self, workers: int, processes: int | None) -> "BoundedJudge":
        from pointstamp.judge.bounded import BoundedJudge  # loaded by those who use it

        if processes is not None and self.plan.root is not EPOCHS:
            raise FlowError(
                f"flow '{self.name}' has times of its own, so it cannot be verified in {processes} "
                "processes: events with such times are judged where they happen. Give workers in place of "
                "processes."
            )
        return BoundedJudge(self.plan, processes or workers)

    def open_local(self, workers: int = 1, *, on_result: OnResult | None = None) -> LocalRun:
        """Start the flow in this process, to be fed and stepped by hand."""
        return LocalRun(with_time_zone(self.plan), workers, on_result=on_result)

    def open_processes(self, processes: int = 2, *, on_result: OnResult | None = None) -> ProcessRun:
        """Start the flow in processes of their own, one worker in each, to be fed and stepped by hand."""
        return ProcessRun(with_time_zone(self.plan), processes, on_result=on_result)

    def _run_with_checkpoint(
        self,
        data: Mapping[str, Any],
        checkpoint: str,
        workers: int,
        processes: int | None,
        epoch: EpochColumns,
        on_epoch: OnEpoch | None,
        judge: "Judge | None",
    ) -> Results:
        results = local_query.run_to_end(
            with_time_zone(self.plan),
            data,
            checkpoint=checkpoint,
            workers=workers,
            processes=processes,
            epoch=epoch,
            judge=judge,
        )
        if on_epoch is not None:
            for time in dict.fromkeys(time for output in results.values() for time in output):
                on_epoch(time, {name: output[time] for name, output in results.items() if time in output})
        return results

    def _open(
        self, workers: int, processes: int | None, on_result: OnResult, judge: "BoundedJudge | None"
    ) -> LocalRun | ProcessRun:
        if processes is None:
            return LocalRun(with_time_zone(self.plan), workers, on_result=on_result, log=judge)
        if workers != 1:
            raise FlowError(
                f"flow '{self.name}' was given {workers} workers and {processes} processes; each process "
                "runs one worker, so give one of the two."
            )
        return ProcessRun(with_time_zone(self.plan), processes, on_result=on_result, judge=judge)


def _in_session_zone(plan: Plan, spark: "SparkSession") -> Plan:
    """The plan in its own time zone, or in that of the session."""
    if plan.time_zone is not None:
        return with_time_zone(plan)
    session_zone = check_time_zone(
        spark.conf.get("spark.sql.session.timeZone"), f"flow '{plan.name}' on Spark"
    )
    return with_time_zone(plan, session_zone)


def _path(given: Any) -> Any:  # noqa: ANN401 - a path in any form, or something that is none
    return absolute_place(given) if isinstance(given, str | os.PathLike) else given


def _check_dashboard(flow: str, dashboard: bool | int, dashboard_token: str | None) -> None:
    """Reject a token that cannot be used before the query starts."""
    if dashboard is not False:
        chosen_token(dashboard_token)
    elif dashboard_token is not None:
        raise FlowError(
            f"flow '{flow}': dashboard_token= is set, but dashboard= is not. Set dashboard=True, or a port."
        )


def _shown(query: "Query", dashboard: bool | int, dashboard_token: str | None) -> "Query":
    """The query, with a dashboard if one was asked for."""
    if dashboard is not False:
        try:
            query.dashboard(port=0 if dashboard is True else dashboard, token=dashboard_token)
        except BaseException:
            query.stop(finish=False)
            raise
    return query


def _watch(run: LocalRun | ProcessRun, display: LiveDisplay) -> Callable[[], None]:
    """What to call between steps so that the display shows how far the run is."""
    rows = count_rows(run)
    return lambda: display.update(lambda: status_from(run.plan, run.tracker(), rows))
