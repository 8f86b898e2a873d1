"""Flows: what a user writes once and runs in this process, in several processes, or on Spark.

import pointstamp as ps

flow = ps.Dataflow("words")
words = flow.stream_input("words", "word string")
flow.output("counts", words.count("word"))
flow.run([first_batch, second_batch])["counts"][1]    # the counts after epoch 1
"""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, overload

import pyarrow as pa

from pointstamp.arrow.epoch_column import LatePolicy
from pointstamp.arrow.schema import ExtraColumns, as_schema
from pointstamp.dataflow.record import FlowRecord, operator_of
from pointstamp.dataflow.stream import Stream, check_column_names, key_columns
from pointstamp.dataflow.table import Table
from pointstamp.driver.feeder import EpochColumns, FlowControl, OnResult, feeder
from pointstamp.driver.local_run import LocalRun
from pointstamp.driver.processes import ProcessRun
from pointstamp.driver.results import Results
from pointstamp.driver.run_loop import Collector, count_rows, drive, given_inputs
from pointstamp.driver.status import describe_interruption, status_from
from pointstamp.errors import FlowError
from pointstamp.expressions.time_windows import Span
from pointstamp.expressions.zones import check_time_zone
from pointstamp.flow.builder import PlanBuilder
from pointstamp.flow.event_epochs import EventTime
from pointstamp.flow.plan import NodeKind, Plan, with_time_zone
from pointstamp.plan.explain import explain_plan
from pointstamp.plan.logical import LogicalOperator
from pointstamp.plan.streams import Feedback, FlowVariable, Input, Output
from pointstamp.progress.choosing import BroadcastKind, check_broadcast
from pointstamp.query import local_query
from pointstamp.query.options import QueryOptions
from pointstamp.show.describe import describe, physical_plan
from pointstamp.show.live import LiveDisplay
from pointstamp.show.mermaid import frame, mermaid, page
from pointstamp.state.memory_budget import memory_limit
from pointstamp.storage.anywhere import absolute_place
from pointstamp.topology.domain import EPOCHS, TimeOrder
from pointstamp.topology.summary import Summary

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from pointstamp.connectors.sink import Sink
    from pointstamp.query.observation import Judge
    from pointstamp.query.query import Query
    from pointstamp.spark.frames import FrameResults
    from pointstamp.verify.verifier import BoundedJudge

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

    def stream_input(
        self,
        name: str,
        schema: str | pa.Schema,
        *,
        epochs: EventTime | None = None,
        late: LatePolicy | None = None,
        late_output: str | None = None,
        extra_columns: ExtraColumns = "warn",
    ) -> Stream:
        """A stream that comes from outside; the schema is Spark DDL, "src long, dst long", or pyarrow's.

        All declared columns must be there. Other columns are not read, wherever the flow runs: one that looks
        like the change of a row (``diff``, ``op``, ``_change_type``, ...) is an error, and others are a
        warning, once. With ``extra_columns="ignore"`` they are neither.

        With ``epochs=ps.by_event_time("at", every="1 second", lateness="3 seconds")`` the epochs of its rows
        are their event time, and the input advances by itself.

        ``late`` says what becomes of rows whose epoch column names an epoch before the one that the input was
        advanced to: they are an ``"error"``, or go to an ``"output"`` of their own, or ``"drop"`` drops them.
        Where epochs are event time they go to an output unless something else is said. That output is named
        ``late_output``, or ``<name>_late``; it has the columns of the input and ``late_epoch``, and the rows
        are in the epoch that was open when they arrived.
        """
        declared = as_schema(schema)
        return self._stream(lambda: Input(name, declared, epochs, late, late_output, extra_columns))

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
        key: str | Iterable[str] | None = None,
        order: str | None = None,
        deleted: str | None = None,
        weight: str | None = None,
        operation: str | None = None,
        snapshots: bool = False,
        empty: str | None = None,
        format: Literal["debezium"] | None = None,  # noqa: A002 - as sources have it
        value: str | None = None,
        trusted: bool | None = None,
        lateness: Span | None = None,
        late: LatePolicy = "output",
        extra_columns: ExtraColumns = "warn",
    ) -> Table:
        """A table that comes from outside: rows that are added, or what an option says of them.

        Args:
            name: The name of the input.
            schema: Its columns; with ``format="debezium"`` those of the table.
            key: The column or columns by which a row replaces another; with it, ``order`` and ``deleted``.
            order: As in ``stream.to_table``.
            deleted: As in ``stream.to_table``.
            weight: A column that says how often each row is added, 1 to insert it and -1 to delete it.
            operation: A column with the words of a change feed, as in ``stream.to_table``.
            snapshots: Each epoch has all rows as they are then; with it, ``empty``.
            empty: As in ``stream.to_table``.
            format: ``"debezium"``: the input has change events, with the columns ``op``, ``before`` and
                ``after``, or with ``value`` as JSON text in that column; ``order`` is then a column of type
                long beside them, or a field inside the events such as ``source.lsn``.
            value: The column of the input that holds change events as JSON text.
            trusted: As in ``stream.to_table``.
            lateness: How much less than the greatest value so far ``order`` may be, as in
                ``stream.with_watermark``. Tombstones are freed when the watermark has passed them; without it
                they are kept.
            late: What becomes of rows that are later: ``output``, ``drop`` or ``error``.
            extra_columns: What becomes of columns that are not declared, as in ``stream_input``.

        >>> import pointstamp as ps
        >>> flow = ps.Dataflow("people")
        >>> people = flow.table("people", "id long, name string", key="id")
        >>> flow.output("people", people)
        >>> flow.run([[{"id": 1, "name": "Ann"}], [{"id": 1, "name": "Bea"}]]).table("people").to_pylist()
        [{'id': 1, 'name': 'Bea'}]

        """
        who = f"table '{name}'"
        key_columns(who, key)
        check_column_names(
            who, order=order, deleted=deleted, weight=weight, operation=operation, empty=empty, value=value
        )
        columns = as_schema(schema) if format is None else _event_columns(as_schema(schema), value, order)
        rows = self.stream_input(name, columns, extra_columns=extra_columns)
        if lateness is not None:
            if order is None or key is None:
                raise FlowError(
                    f"{who}: lateness= is that of order=, which is missing. Name the column order=."
                )
            rows = rows.with_watermark(order, lateness, late=late).named(f"{name}: event time")
        return rows.to_table(
            key=key,
            order=order,
            deleted=deleted,
            weight=weight,
            operation=operation,
            snapshots=snapshots,
            empty=empty,
            format=format,
            schema=None if value is None else schema,
            value=value,
            trusted=trusted,
        ).named(name if key is not None and format is None else "running")

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

    @overload
    def run(
        self,
        inputs: Any = None,  # noqa: ANN401 - a mapping, or anything that holds rows
        *,
        on: None = None,
        workers: int = 1,
        processes: int | None = None,
        epoch: EpochColumns = None,
        control: FlowControl | None = None,
        progress: bool = False,
        on_epoch: OnEpoch | None = None,
        checkpoint: Place | None = None,
        verify: bool = False,
        **streams: Any,  # noqa: ANN401 - anything that holds rows
    ) -> Results: ...

    @overload
    def run(
        self,
        inputs: Any = None,  # noqa: ANN401 - a mapping, or anything that holds rows
        *,
        on: "SparkSession",
        workers: int | None = None,
        epoch: EpochColumns = None,
        output: Place | None = None,
        checkpoint: Place | None = None,
        verify: bool = False,
        options: QueryOptions = ...,
        **streams: Any,  # noqa: ANN401 - anything that holds rows
    ) -> "FrameResults": ...

    def run(
        self,
        inputs: Any = None,
        *,
        on: "SparkSession | None" = None,
        workers: int | None = None,
        processes: int | None = None,
        epoch: EpochColumns = None,
        output: Place | None = None,
        control: FlowControl | None = None,
        progress: bool = False,
        on_epoch: OnEpoch | None = None,
        checkpoint: Place | None = None,
        verify: bool = False,
        options: QueryOptions | None = None,
        **streams: Any,
    ) -> "Results | FrameResults":
        """Run the flow to the end of its inputs and return every output.

        Without ``on`` the flow runs in this process, with tables in and tables by epoch out. With a
        SparkSession it runs as a Spark job, with DataFrames in and DataFrames out.

        Args:
            inputs: The inputs by name: ``{"edges": [batch0, batch1]}``; a flow with one input takes its value
                itself. In this process item i is epoch i, an Arrow batch or table, a pandas or polars frame,
                and a single table is epoch 0; on Spark it is a DataFrame.
            on: The Spark session to run on. Default: this process.
            workers: The number of workers. Default: 1 in this process; on Spark, the free slots of the
                session.
            processes: In this process: one worker in each of so many processes, in place of ``workers``.
            epoch: The column that holds the epoch of each row. A column that the schema declares stays in the
                rows, any other is removed.
            output: On Spark, the folder for the Parquet files of the outputs, which have the column ``epoch``
                first. A folder that holds published output is rejected. Default: a temporary folder.
            control: In this process: how much may be on its way.
            progress: In this process: show how far the run is.
            on_epoch: In this process: called with each epoch and its tables as soon as it is complete, and
                with a checkpoint when everything is done.
            checkpoint: A path; the run can then be killed at any moment. Called again with the same inputs,
                it resumes from the last epoch that was saved there; other inputs are rejected.
            verify: Judge everything that the workers do, as ``QueryOptions`` says; on Spark this needs a
                checkpoint.
            options: On Spark: silence, slots and barriers, as ``QueryOptions`` has them.
            **streams: Inputs as keywords, where they do not have the name of an option.

        Returns:
            ``Results``: for each output its tables by epoch; on Spark, for each output a DataFrame.

        >>> import pointstamp as ps
        >>> flow = ps.Dataflow("words")
        >>> words = flow.stream_input("words", "word string")
        >>> flow.output("counts", words.count("word"))
        >>> flow.run([[{"word": "so"}, {"word": "so"}]])["counts"][0].to_pylist()
        [{'word': 'so', 'count': 2}]

        """
        data = given_inputs(self.plan, self.run, inputs, streams)
        if on is not None:
            self._check_not_local(
                processes=processes, control=control, progress=progress or None, on_epoch=on_epoch
            )
            return self._run_on(
                on,
                data,
                workers=workers,
                epoch=epoch,
                output=output,
                checkpoint=checkpoint,
                verify=verify,
                options=options or QueryOptions(),
            )
        if output is not None or options is not None:
            raise FlowError(
                f"flow '{self.name}': {'output' if output is not None else 'options'}= was given to a run "
                "without on=, which returns its results. Remove it, or give on= a SparkSession."
            )
        if checkpoint is not None:
            if control is not None or progress:
                raise FlowError(
                    f"flow '{self.name}' was given a checkpoint together with control or progress, which a "
                    "run with snapshots does not take. Leave them out, or use start()."
                )
            judge = self._judge() if verify else None
            return self._run_with_checkpoint(
                data, absolute_place(checkpoint), workers or 1, processes, epoch, on_epoch, judge
            )
        results = Results(self.plan.output_schemas())
        for time, tables in self._stream_epochs(data, workers, processes, epoch, control, progress, verify):
            for name, table in tables.items():
                results[name].add(time, table)
            if on_epoch is not None:
                on_epoch(time, tables)
        return results

    def stream(
        self,
        inputs: Any = None,  # noqa: ANN401 - a mapping, or anything that holds rows
        *,
        on: "SparkSession | None" = None,
        workers: int | None = None,
        processes: int | None = None,
        epoch: EpochColumns = None,
        control: FlowControl | None = None,
        progress: bool = False,
        verify: bool = False,
        folder: Place | None = None,
        options: QueryOptions | None = None,
        **streams: Any,  # noqa: ANN401 - anything that holds rows
    ) -> Iterator[tuple[Any, dict[str, pa.Table]]]:
        """Run the flow and yield each epoch with its tables as soon as it is complete.

        Without ``on`` the flow runs on this machine. With a SparkSession its workers run on Spark. Inputs may
        be endless: they are read as the epochs are taken. The run ends with its inputs, or when the loop over
        it ends, also by ``break``.

        Args:
            inputs: As in ``run``; on Spark also streaming DataFrames and sources such as ``ps.io.files``, as
                in ``start``.
            on: The Spark session to run on. Default: this machine.
            workers: The number of workers. Default: 1 on this machine; on Spark, the slots of the session.
            processes: On this machine: one worker in each of so many processes, in place of ``workers``.
            epoch: The column that holds the epoch of each row, as in ``run``.
            control: On this machine: how much may be in flight.
            progress: On this machine: show how far the run is.
            verify: Verify everything that the workers do before an epoch is yielded; a wrong step raises. On
                Spark this needs an input that is not a DataFrame with an end.
            folder: On Spark, a folder that this process and the workers reach, for the files between them;
                they are removed at the end. Default: a temporary folder.
            options: On Spark: the options of the query, or of the run where all inputs are DataFrames that
                end.
            **streams: Inputs as keywords, where they do not have the name of an option.

        Yields:
            The epoch, and for each output its rows. On Spark, the columns have Spark's types, and epochs in
            which no output has rows are left out.

        >>> import pointstamp as ps
        >>> flow = ps.Dataflow("words")
        >>> words = flow.stream_input("words", "word string")
        >>> flow.output("counts", words.count("word"))
        >>> for epoch, tables in flow.stream([[{"word": "so"}], [{"word": "it"}]]):
        ...     print(epoch, tables["counts"].to_pylist())
        0 [{'word': 'so', 'count': 1}]
        1 [{'word': 'it', 'count': 1}]

        """
        data = given_inputs(self.plan, self.stream, inputs, streams)
        if on is not None:
            self._check_not_local(processes=processes, control=control, progress=progress or None)
            return self._stream_on(on, data, workers, epoch, verify, folder, options or QueryOptions())
        if folder is not None or options is not None:
            raise FlowError(
                f"flow '{self.name}': {'folder' if folder is not None else 'options'}= is for streams on "
                "Spark, and on= is missing. Remove it, or give on= a SparkSession."
            )
        return self._stream_epochs(data, workers, processes, epoch, control, progress, verify)

    def _stream_on(
        self,
        spark: "SparkSession",
        data: dict[str, Any],
        workers: int | None,
        epoch: EpochColumns,
        verify: bool,
        folder: Place | None,
        options: QueryOptions,
    ) -> Iterator[tuple[Any, dict[str, pa.Table]]]:
        from pointstamp.spark import epoch_stream  # pyspark is loaded by those who use it

        self.plan.check_outputs()
        place = None if folder is None else absolute_place(folder)
        if epoch_stream.is_bounded(data) and not self._not_given(data):
            if verify:
                raise FlowError(
                    f"flow '{self.name}': a stream whose inputs are all DataFrames with an end cannot be "
                    "verified. Leave verify= out, or use run(on=spark, checkpoint=path, verify=True)."
                )
            return epoch_stream.epochs_of_run(
                self.plan,
                spark,
                lambda output: self._run_on(
                    spark,
                    data,
                    workers=workers,
                    epoch=epoch,
                    output=output,
                    checkpoint=None,
                    verify=False,
                    options=options,
                ),
                place,
            )
        options = replace(options, epoch=options.epoch if epoch is None else epoch)
        options = replace(options, verify=options.verify or verify)
        return epoch_stream.epochs_of_query(
            self.plan,
            spark,
            lambda checkpoint, sink: self.start(
                data, on=spark, checkpoint=checkpoint, output=sink, workers=workers, options=options
            ),
            place,
        )

    def _check_not_local(self, **options: object) -> None:
        """Reject options of runs on this machine, which were given with a SparkSession."""
        if wrong := [name for name, value in options.items() if value is not None]:
            raise FlowError(
                f"flow '{self.name}': {wrong[0]}= was given with on=, but it is for runs without Spark. "
                "Remove one of them."
            )

    def _stream_epochs(
        self,
        data: Mapping[str, Any],
        workers: int | None,
        processes: int | None,
        epoch: EpochColumns,
        control: FlowControl | None,
        progress: bool,
        verify: bool,
    ) -> Iterator[tuple[Any, dict[str, pa.Table]]]:
        self.plan.check_outputs()
        collector = Collector(self.plan.output_schemas())
        judge = self._run_judge(workers or 1, processes) if verify else None
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

    def _run_on(
        self,
        spark: "SparkSession",
        frames: dict[str, Any],
        *,
        workers: int | None,
        epoch: EpochColumns,
        output: Place | None,
        checkpoint: Place | None,
        verify: bool,
        options: QueryOptions,
    ) -> "FrameResults":
        if verify and checkpoint is None:
            raise FlowError(
                f"flow '{self.name}' cannot be verified without a checkpoint: the workers of such a run tell "
                "the driver nothing before they are done. Give checkpoint= a path, or leave verify out."
            )
        options.check_run(self.name)
        from pointstamp.spark import job, streaming  # pyspark is loaded by those who use it

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
                silence_seconds_max=options.silence_seconds_max,
                judge=self._judge() if verify else None,
                min_workers=options.min_workers,
                barrier=options.barrier,
                in_driver=options.in_driver,
            )
        return job.run(
            _in_session_zone(self.plan, spark),
            spark,
            frames,
            workers=workers,
            epoch=epoch,
            output=folder,
            silence_seconds_max=options.silence_seconds_max,
            push=options.pushdown,
            min_workers=options.min_workers,
            barrier=options.barrier,
            in_driver=options.in_driver,
        )

    def start(
        self,
        inputs: Any = None,  # noqa: ANN401 - a mapping, or anything that holds rows
        *,
        on: "SparkSession | None" = None,
        checkpoint: Place,
        output: "Place | Sink",
        workers: int | None = None,
        processes: int | None = None,
        available_now: bool = False,
        options: QueryOptions | None = None,
        **streams: Any,  # noqa: ANN401 - anything that holds rows
    ) -> "Query":
        """Start the flow as a query that keeps running; return the query that watches and stops it.

        Each epoch is published under ``output`` as soon as it is complete and saved; what is needed to
        continue after a failure, or with a new driver, lies under ``checkpoint``. It belongs to this flow and
        these sources; others are rejected.

        Args:
            inputs: The inputs by name; a flow with one input takes its value itself. They are sources that
                the workers read themselves (``ps.io.files``) and lists of tables, each an epoch; on Spark,
                streaming DataFrames and DataFrames, too.
            on: The Spark session to run on. Default: this machine.
            checkpoint: The folder that holds what is needed to continue.
            output: The folder or the sink that the epochs are published in.
            workers: The number of workers. Default: 1 on this machine; on Spark, the slots of the session
                less one for other jobs. With fewer slots, the query runs with fewer workers.
            processes: On this machine: one worker in each of so many processes, in place of ``workers``.
            available_now: Whether the query ends when everything that the sources have now is published.
            options: Everything else: restarts, snapshots, ticks, the epoch column, verification and so on.
            **streams: Inputs as keywords, where they do not have the name of an option.

        """
        said = options or QueryOptions()
        data = given_inputs(self.plan, self.start, inputs, streams)
        said.check_dashboard(self.name)
        common: dict[str, Any] = {
            "checkpoint": absolute_place(checkpoint),
            "output": _path(output),
            "workers": workers,
            "epoch": said.epoch,
            "snapshots": said.snapshots,
            "restarts": said.restarts,
            "available_now": available_now,
            "accept_changes": said.accept_changes,
            "savepoint": None
            if said.savepoint is None
            else (absolute_place(said.savepoint[0]), said.savepoint[1]),
            "silence_seconds_max": said.silence_seconds_max,
            "tick_every": said.tick_every,
        }
        if on is None:
            said.check_local(self.name)
            query = local_query.start(
                with_time_zone(self.plan),
                data,
                **{**common, "workers": workers or 1},
                processes=processes,
                judge=self._judge() if said.verify else None,
            )
            return _shown(query, said)
        if processes is not None:
            raise FlowError(
                f"flow '{self.name}': processes= was given with on=, but it is for queries without Spark. "
                "Give workers= in its place."
            )
        from pointstamp.spark import streaming  # pyspark is loaded by those who use it

        data |= self._followed(on, data, checkpoint=absolute_place(checkpoint), available_now=available_now)
        query = streaming.start(
            _in_session_zone(self.plan, on),
            on,
            data,
            **common,
            judge=self._judge() if said.verify else None,
            has_dashboard=said.dashboard is not False,
            spare_crew=said.spare_crew,
            min_workers=said.min_workers,
            rescale=said.rescale,
            barrier=said.barrier,
            in_driver=said.in_driver,
        )
        self._started(query)
        return _shown(query, said)

    def _folder(self, output: Any, frames: Mapping[str, Any]) -> str | None:  # noqa: ANN401 - whatever came
        if "path" in frames and "path" not in self.plan.named(NodeKind.INPUT):
            raise FlowError(
                f"flow '{self.name}' was given path=, but has no input of that name. Give the folder of the "
                "output with output=, as for a query: run(on=spark, output=path)."
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
        from pointstamp.verify.verifier import JudgeProcess  # loaded by those who use it

        return JudgeProcess(self.plan)

    def _run_judge(self, workers: int, processes: int | None) -> "BoundedJudge":
        from pointstamp.verify.verifier import BoundedJudge  # loaded by those who use it

        if processes is not None and self.plan.root is not EPOCHS:
            raise FlowError(
                f"flow '{self.name}' has times of its own, so it cannot be verified in {processes} "
                "processes: events with such times are judged where they happen. Give workers in place of "
                "processes."
            )
        return BoundedJudge(self.plan, processes or workers)

    @overload
    def open(
        self, workers: int = 1, *, processes: None = None, on_result: OnResult | None = None
    ) -> LocalRun: ...

    @overload
    def open(
        self, workers: None = None, *, processes: int, on_result: OnResult | None = None
    ) -> ProcessRun: ...

    def open(
        self, workers: int | None = None, *, processes: int | None = None, on_result: OnResult | None = None
    ) -> LocalRun | ProcessRun:
        """Start the flow, to be fed and stepped by hand: in this process, or in processes of their own."""
        return self._open(workers, processes, on_result, None)

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
        self,
        workers: int | None,
        processes: int | None,
        on_result: OnResult | None,
        judge: "BoundedJudge | None",
    ) -> LocalRun | ProcessRun:
        if processes is None:
            each = 1 if workers is None else workers
            return LocalRun(with_time_zone(self.plan), each, on_result=on_result, log=judge)
        if workers not in (None, 1):
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


def _shown(query: "Query", options: QueryOptions) -> "Query":
    """The query, with a dashboard if one was asked for."""
    if options.dashboard is not False:
        try:
            port = 0 if options.dashboard is True else options.dashboard
            query.dashboard(port=port, token=options.dashboard_token)
        except BaseException:
            query.stop(finish=False)
            raise
    return query


def _event_columns(row: pa.Schema, value: str | None, order: str | None) -> pa.Schema:
    """Return the columns of an input of Debezium's change events for a table with these columns."""
    path, _, inside = (order or "").partition(".")
    if value is not None:
        fields = [pa.field(value, pa.string())]
    else:
        each = pa.struct(list(row))
        fields = [pa.field("op", pa.string()), pa.field("before", each), pa.field("after", each)]
        if inside:
            fields.append(pa.field(path, pa.struct([pa.field(inside, pa.int64())])))
    if path and not inside and path not in [field.name for field in fields]:
        fields.append(pa.field(path, pa.int64()))
    return pa.schema(fields)


def _watch(run: LocalRun | ProcessRun, display: LiveDisplay) -> Callable[[], None]:
    """What to call between steps so that the display shows how far the run is."""
    rows = count_rows(run)
    return lambda: display.update(lambda: status_from(run.plan, run.tracker(), rows))
