"""Flows: built once, run in this process, in processes or on Spark.

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
    """A flow with named inputs and outputs. Building it runs nothing.

    Args:
        name (str): The name of the flow.
        times (TimeOrder, default epochs): The order of the root times.
        broadcast (str, default None): How workers exchange progress: ``"direct"`` to every other worker, or
            ``"accumulating"`` along a tree. Without it, the number of workers decides.
        time_zone (str, default that of the Spark session on Spark, else UTC): The zone in which expressions
            show, truncate and parse timestamps: a region such as ``"Europe/Berlin"`` or an offset such as
            ``"+02:00"``. A query resumes in the zone in which it was started.
        optimize (bool, default True): Optimize the plan before it runs. The environment variable
            ``POINTSTAMP_OPTIMIZE=off`` switches this off for all flows.

    Examples:
        >>> flow = ps.Dataflow("words")
        >>> words = flow.stream_input("words", "word string")
        >>> flow.output("counts", words.count("word"))
        >>> flow.run(words=[[{"word": "so"}], [{"word": "it"}]])["counts"][1].to_pylist()
        [{'word': 'it', 'count': 1}]

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
        """The physical operators, as plain data."""
        return self._record.plan()

    @property
    def logical_plan(self) -> dict[str, LogicalOperator]:
        """The logical operator of each output by name, before optimization."""
        return self._record.logical()

    def describe(self, *, operators: bool = True) -> str:
        """Return the flow as readable text: its logical views and its physical operators.

        Args:
            operators (bool, default True): Include the physical operators.

        Examples:
            >>> flow = ps.Dataflow("words")
            >>> flow.output("counts", flow.table("words", "word string").count("word"))
            >>> flow.describe(operators=False).splitlines()[1:3]
            ['inputs:', "  'words': word string"]

        """
        return describe(self.plan, operators=operators)

    def explain(self, *, format: Literal["text", "json"] = "text") -> str:  # noqa: A002 - as other engines
        """Return the logical plan, the optimized plan, and the physical operators with state and cost.

        Args:
            format (str, default "text"): ``"text"``, or ``"json"`` for the data.

        Examples:
            >>> flow = ps.Dataflow("words")
            >>> flow.output("counts", flow.table("words", "word string").count("word"))
            >>> flow.explain().splitlines()[-2].strip()
            "'count' by word: keeps the sums of each key, and no rows; a change costs its rows"

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
        """Return the flow as a Mermaid flowchart.

        Examples:
            >>> flow = ps.Dataflow("words")
            >>> flow.output("words", flow.stream_input("words", "word string"))
            >>> flow.to_mermaid().splitlines()[0]
            'flowchart LR'

        """
        return mermaid(self.plan)

    def to_html(self) -> str:
        """Return the flow as a self-contained HTML page with an interactive graph.

        Examples:
            >>> flow = ps.Dataflow("words")
            >>> flow.output("words", flow.stream_input("words", "word string"))
            >>> "<script" in flow.to_html()
            True

        """
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
        """Add an input whose rows are a stream.

        Args:
            name: The name of the input.
            schema: The columns, as Spark DDL, ``"src long, dst long"``, or a pyarrow schema. Rows must have
                all of them.
            epochs (EventTime, default None): ``ps.by_event_time(...)`` makes the epochs of rows event time;
                the input then advances by itself.
            late (str, default None): What happens to rows whose epoch column names an epoch before the one
                that the input has advanced to: ``"error"``, ``"output"`` to a separate output, or ``"drop"``.
                Default: ``"error"``, or ``"output"`` if epochs are event time.
            late_output (str, default ``<name>_late``): The name of that output. It has the columns of the
                input and ``late_epoch``; a late row is in the epoch that was open when it arrived.
            extra_columns (str, default "warn"): Columns that are not declared are not read. One that looks
                like the change of a row (``diff``, ``op``, ``_change_type``, ...) raises SchemaError, and
                others warn once; with ``"ignore"`` neither happens.

        Examples:
            >>> flow = ps.Dataflow("words")
            >>> flow.output("words", flow.stream_input("words", "word string"))
            >>> flow.run(words=[[{"word": "so"}]])["words"][0].to_pylist()
            [{'word': 'so'}]

        """
        declared = as_schema(schema)
        return self._stream(lambda: Input(name, declared, epochs, late, late_output, extra_columns))

    def variable(self, schema: str | pa.Schema, summary: Summary, name: str = "variable") -> Stream:
        """Return a stream that is fed back outside of loops: into a later epoch, or along custom times.

        Args:
            schema: The columns of the stream.
            summary: The times at which rows that are fed back arrive: ``ps.timely.delay(1)`` for the next
                epoch.
            name (str, default "variable"): The name of the variable.

        Examples:
            >>> flow = ps.Dataflow("echo")
            >>> words = flow.stream_input("words", "word string, left long")
            >>> again = flow.variable("word string, left long", ps.timely.delay(1))
            >>> rows = words.union(again)
            >>> flow.feedback(again, rows.filter(ps.col("left") > 0).with_columns(left=ps.col("left") - 1))
            >>> flow.output("words", rows)
            >>> flow.run(words=[[{"word": "so", "left": 1}]])["words"].table().to_pylist()
            [{'epoch': 0, 'word': 'so', 'left': 1}, {'epoch': 1, 'word': 'so', 'left': 0}]

        """
        declared = as_schema(schema)
        return self._stream(lambda: FlowVariable(declared, summary, name=name))

    def feedback(self, variable: Stream, stream: Stream) -> None:
        """Feed a stream back into a variable of this flow.

        Args:
            variable: A stream that ``variable`` returned.
            stream: A stream with the same columns.

        Examples:
            >>> flow = ps.Dataflow("count down")
            >>> again = flow.variable("x long", ps.timely.delay(1))
            >>> rows = flow.stream_input("numbers", "x long").union(again)
            >>> flow.feedback(again, rows.filter(ps.col("x") > 0).select(x=ps.col("x") - 1))
            >>> flow.output("out", rows)
            >>> flow.run(numbers=[[{"x": 1}]])["out"].table().to_pylist()
            [{'epoch': 0, 'x': 1}, {'epoch': 1, 'x': 0}]

        """
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
        """Add an input whose rows define a table. By default each row is inserted.

        Args:
            name: The name of the input.
            schema: Its columns; with ``format="debezium"`` those of the table.
            key (str | Iterable[str], default None): The primary key: a row replaces the row that has its key.
            order (str, default None): With a key, as in ``stream.to_table``.
            deleted (str, default None): With a key, as in ``stream.to_table``.
            weight (str, default None): A column with the multiplicity of each row: 1 inserts it, -1 deletes
                it.
            operation (str, default None): A column with the operations of a change feed, as in
                ``stream.to_table``.
            snapshots (bool, default False): Each epoch has all rows of the table.
            empty (str, default None): With snapshots, as in ``stream.to_table``.
            format (str, default None): ``"debezium"``: the input has change events, with the columns ``op``,
                ``before`` and ``after``, or as JSON text in the column ``value``; ``order`` is then a column
                of type long beside them, or a field of the events such as ``source.lsn``.
            value (str, default None): The column of the input that has change events as JSON text.
            trusted (bool, default None): As in ``stream.to_table``.
            lateness (Span, default None): The allowed lateness of ``order``, as in ``stream.with_watermark``.
                The watermark frees tombstones; without it they are kept.
            late (str, default "output"): What happens to late rows: ``"output"``, ``"drop"`` or ``"error"``.
            extra_columns (str, default "warn"): As in ``stream_input``.

        Examples:
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
                raise FlowError(f"{who}: lateness= needs order=. Name the column with order=.")
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
        """Add an output: a stream, or a table, whose changes are sent in each epoch.

        Args:
            name: The name of the output.
            stream: A stream or a table of this flow.

        Examples:
            >>> flow = ps.Dataflow("words")
            >>> flow.output("words", flow.table("words", "word string"))
            >>> flow.run([[{"word": "so"}]])["words"][0].to_pylist()
            [{'word': 'so', 'diff': 1}]

        """
        given = self._record.held(stream)
        self._record.write(lambda: Output(operator_of(given), name), given)

    def add_plan(self, outputs: Mapping[str, LogicalOperator]) -> None:
        """Add the outputs of a logical plan; its scans become inputs of the flow.

        Args:
            outputs: Logical operators (``pointstamp.plan``) by the name of their output.

        Examples:
            >>> flow, other = ps.Dataflow("words"), ps.Dataflow("other")
            >>> other.output("counts", other.table("words", "word string").count("word"))
            >>> flow.add_plan(other.logical_plan)
            >>> flow.run([[{"word": "so"}]]).table("counts").to_pylist()
            [{'word': 'so', 'count': 1}]

        """
        self._record.add([Output(operator, name) for name, operator in outputs.items()])

    def _stream(self, make: Callable[[], LogicalOperator]) -> Stream:
        return Stream._of(self._record, *self._record.write(make))

    def spill_beyond(self, memory_per_worker: int | str, *, folder: Place | None = None) -> None:
        """Limit the memory for state on each worker; state beyond the limit is spilled to disk.

        The results are the same. Spill files have no names and are deleted with the process.

        Args:
            memory_per_worker: A number of bytes, or text such as ``"512MB"`` or ``"2 GB"``.
            folder (path, default None): Where spill files are written; every worker must be able to write to
                it. Default: the local folder of Spark's executors, or the temporary folder of the system.

        Examples:
            >>> flow = ps.Dataflow("words")
            >>> flow.output("counts", flow.table("words", "word string").count("word"))
            >>> flow.spill_beyond("512MB")
            >>> flow.run([[{"word": "so"}]]).table("counts").to_pylist()
            [{'word': 'so', 'count': 1}]

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

        Without ``on`` the flow runs in this process, on Arrow tables. With a SparkSession it runs as a Spark
        job, on DataFrames.

        Args:
            inputs: The inputs by name: ``{"edges": [batch0, batch1]}``. A flow with one input also accepts
                its value alone. In this process item i is epoch i: an Arrow batch or table, a pandas or
                polars frame, or a list of dictionaries; a single table is epoch 0. On Spark, a DataFrame.
            on (SparkSession, default None): The Spark session to run on. Default: this process.
            workers (int, default 1 in this process, the free slots of the session on Spark): The number of
                workers.
            processes (int, default None): In this process: the number of worker processes, instead of
                ``workers``.
            epoch (str | Mapping[str, str], default None): The column that has the epoch of each row. A column
                that the schema declares stays in the rows, any other is removed.
            output (path, default a temporary folder): On Spark, the folder for the Parquet files of the
                outputs, whose first column is ``epoch``. A folder with published output is rejected.
            control (FlowControl, default None): In this process: the limits of data in flight.
            progress (bool, default False): In this process: show the progress of the run.
            on_epoch (function, default None): In this process: called with each epoch and its tables as soon
                as it is complete; with a checkpoint, when the run has ended.
            checkpoint (path, default None): With a checkpoint the run can be killed at any moment. The same
                call with the same inputs resumes from the last saved epoch; other inputs are rejected.
            verify (bool, default False): Verify every step of the workers, as in ``QueryOptions``; on Spark
                this needs a checkpoint.
            options (QueryOptions, default None): On Spark: silence, slots and barriers.
            **streams: Inputs as keywords, if their names are not options.

        Returns:
            ``Results``: for each output its tables by epoch; on Spark, for each output a DataFrame.

        Examples:
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
                f"flow '{self.name}': {'output' if output is not None else 'options'}= needs on=, a "
                "SparkSession. Add on=, or remove it."
            )
        if checkpoint is not None:
            if control is not None or progress:
                raise FlowError(
                    f"flow '{self.name}': checkpoint= cannot be combined with control= or progress=. "
                    "Remove them, or use start()."
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

        Inputs may be infinite: they are read as the results are consumed. The run ends with its inputs, or
        when the loop over it ends, also by ``break``.

        Args:
            inputs: The inputs, as in ``run``; also iterators. On Spark also streaming DataFrames and sources
                such as ``ps.io.files``, as in ``start``.
            on (SparkSession, default None): The Spark session to run on. Without it the flow runs on this
                machine.
            workers (int, default None): The number of workers. Default: 1 on this machine; on Spark, the
                slots of the session.
            processes (int, default None): On this machine, the number of worker processes, instead of
                ``workers``.
            epoch (str | Mapping[str, str], default None): The column that has the epoch of each row.
            control (FlowControl, default None): On this machine, the limits of data in flight.
            progress (bool, default False): On this machine, show the progress of the run.
            verify (bool, default False): Verify every step of the workers before an epoch is yielded; a wrong
                step raises an error. On Spark this needs an input that is not a bounded DataFrame.
            folder (str | Path, default None): On Spark, a folder that this process and the workers reach, for
                the files between them. They are removed at the end. Default: a temporary folder.
            options (QueryOptions, default None): On Spark, the options of the query.
            **streams: Inputs as keywords, if their names are not options.

        Yields:
            An epoch, and the tables of all outputs for it by name. On Spark, columns have Spark's types, and
            epochs without rows in any output are left out.

        Examples:
            >>> flow = ps.Dataflow("words")
            >>> flow.output("counts", flow.stream_input("words", "word string").count("word"))
            >>> for epoch, tables in flow.stream(words=([{"word": word}] for word in ("so", "it"))):
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
                f"flow '{self.name}': verify=True on Spark needs checkpoint=, because workers otherwise "
                "report no events to the driver. Give checkpoint= a path, or remove verify=."
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
        """Start the flow as a query that runs until it is stopped; return the handle of the query.

        Each epoch is published under ``output`` as soon as it is complete and saved. The checkpoint has
        everything that is needed to resume after a failure or with a new driver. It belongs to this flow and
        these sources; others are rejected.

        Args:
            inputs: The inputs by name: sources that workers read (``ps.io.files``), or lists of tables, one
                per epoch; on Spark also streaming DataFrames and DataFrames.
            on (SparkSession, default None): The Spark session to run on. Default: this machine.
            checkpoint: The folder for the checkpoint.
            output: The folder or the sink in which the epochs are published.
            workers (int, default 1 on this machine): The number of workers. Default on Spark: the slots of
                the session less one for other jobs. With fewer slots, the query runs with fewer workers.
            processes (int, default None): On this machine: the number of worker processes, instead of
                ``workers``.
            available_now (bool, default False): End the query when everything that the sources have now is
                published.
            options (QueryOptions, default None): All other options: restarts, snapshots, ticks, the epoch
                column, verification and so on.
            **streams: Inputs as keywords, if their names are not options.

        Examples:
            >>> import tempfile
            >>> folder = tempfile.mkdtemp()
            >>> flow = ps.Dataflow("words")
            >>> flow.output("counts", flow.table("words", "word string").count("word"))
            >>> places = {"checkpoint": f"{folder}/state", "output": f"{folder}/out"}
            >>> query = flow.start(words=[[{"word": "so"}], [{"word": "so"}]], available_now=True, **places)
            >>> query.await_termination()
            >>> ps.read_table(f"{folder}/out", "counts").to_pylist()
            [{'word': 'so', 'count': 2}]

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
                f"flow '{self.name}': processes= cannot be combined with on=. Give workers= instead."
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
                f"flow '{self.name}' has no input 'path'. For the folder of the output, write "
                "run(on=spark, output=path)."
            )
        folder = _path(output)
        if folder is not None and not isinstance(folder, str):
            raise FlowError(
                f"flow '{self.name}': run() needs the path of a folder as output=, got "
                f"{type(folder).__name__}. For a sink, use start(..., available_now=True)."
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
        """The sources of a query on Spark for the inputs that are not given."""
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
                f"flow '{self.name}' has custom times, so it cannot be verified in {processes} processes. "
                "Give workers= instead of processes=."
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
        """Start the flow and return a run that you feed and step by hand.

        Args:
            workers (int, default 1): The number of workers in this process.
            processes (int, default None): The number of worker processes, instead of ``workers``.
            on_result (function, default None): Called with the name of an output, a time, and the complete
                table of that time.

        Examples:
            >>> flow = ps.Dataflow("words")
            >>> flow.output("counts", flow.stream_input("words", "word string").count("word"))
            >>> with flow.open(on_result=lambda name, time, table: print(name, time, table.num_rows)) as run:
            ...     size = run.input("words").send([{"word": "so"}])
            ...     run.input("words").close()
            ...     run.settle()
            counts 0 1

        """
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
                f"flow '{self.name}' got workers={workers} and processes={processes}, but each process "
                "runs one worker. Give only one of them."
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
    """The function to call between steps, which shows the progress of the run."""
    rows = count_rows(run)
    return lambda: display.update(lambda: status_from(run.plan, run.tracker(), rows))
