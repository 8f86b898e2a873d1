"""Streams: what a user chains operations on.

A stream is rows with times. Operations return new streams; nothing runs. Each operation works on whole Arrow
batches unless it says otherwise. What of an epoch is looked at together depends on the rows of that epoch
alone; in a loop the same is true of each round.
"""

from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal, cast

import pyarrow as pa

from pointstamp.arrangement.ordering import ordering
from pointstamp.arrow.epoch_column import LatePolicy
from pointstamp.arrow.schema import as_schema
from pointstamp.dataflow.grouped import RowGroups
from pointstamp.dataflow.loops import Loop
from pointstamp.dataflow.other_words import no_such_verb
from pointstamp.dataflow.record import FlowRecord, Recorded, physical_of, sides
from pointstamp.dataflow.window_columns import ColumnValue, Window, by_window, given_columns
from pointstamp.errors import FlowError
from pointstamp.expressions.select_columns import chosen, expressions, others, renamed
from pointstamp.expressions.time_windows import Span
from pointstamp.expressions.tree import Expression, col
from pointstamp.flow.plan import How, Probe, ShardFunction
from pointstamp.flow.reduction import checked_aggregates, checked_running, session_options
from pointstamp.incremental.hash_join import check_no_key, joining
from pointstamp.incremental.lookup_join import looked_up
from pointstamp.incremental.window_functions import placed
from pointstamp.operators.stateless import BatchFunction, Condition, Row
from pointstamp.plan import logical, streams
from pointstamp.plan.logical import LogicalOperator, Variable, unchecked
from pointstamp.reduce.aggregate import Aggregation
from pointstamp.reduce.over import WindowExpression

if TYPE_CHECKING:
    from pointstamp.dataflow.table import Table


class Stream(Recorded):
    """A stream of Arrow batches with times; made by a flow and by operations on other streams."""

    @classmethod
    def _of(cls, record: FlowRecord, operator: LogicalOperator, physical: Any) -> "Stream":  # noqa: ANN401
        made = object.__new__(cls)
        made._set(record, operator, physical)
        return made

    @property
    def schema(self) -> pa.Schema:
        """The columns of a row."""
        schema: pa.Schema = self._physical.schema
        return schema

    @property
    def loops(self) -> tuple[str, ...]:
        """The names of the loops that this stream is in, outermost first."""
        loops: tuple[str, ...] = self._physical.loops
        return loops

    # How the batches are shared among the workers.

    def exchange(self, *keys: str, by: ShardFunction | None = None) -> "Stream":
        """Bring each row to the worker that owns its key, where the next operation sees all of that key.

        With ``by``, a function, you say yourself where rows meet: it is given a batch, with these columns
        only if some are named, and gives the shard of each row, a whole number from 0 on, as an Arrow or
        numpy array or a list. The worker is ``shard % workers``: rows of one shard meet however many workers
        there are. A row must have the same shard in every batch and in every process.

        State behind it that is saved with keys can continue with another number of workers if the columns are
        named, ``exchange("user", by=function)``, and are the keys of the state; otherwise that is refused.
        """
        return self._stream(lambda: streams.Exchange(self._operator, keys, by))

    def broadcast(self) -> "Stream":
        """Let every worker see every batch."""
        return self._stream(lambda: streams.Broadcast(self._operator))

    # Columns by expressions.

    def select(self, /, *columns: str | Expression, **named: ColumnValue) -> "Stream":
        """Other columns, by name or by expression: ``select("id", total=ps.col("price") * 2)``."""
        who = f"select of {self}"
        if windows := by_window(who, named):
            added = {name: each for window in windows.values() for name, each in window.items()}
            rows = self.with_columns(added)
            kept = {name: col(name) if name in added else value for name, value in named.items()}
            return rows.select(*columns, **kept)
        return self._project("select", chosen(f"'select' of {self}", columns, named))

    def with_columns(self, /, *columns: Mapping[str, ColumnValue], **named: ColumnValue) -> "Stream":
        """All columns, and more or others under these names: ``with_columns(total=ps.col("price") * 2)``.

        A window expression looks at the rows around a row:

            sales.with_columns(
                place=ps.row_number().over(partition_by="shop", order_by="at"),
                before=ps.lag("price").over(partition_by="shop", order_by="at"),
            )

        Without ``rows=`` these are the rows of its epoch. With ``rows=10`` they are the last ten rows of the
        partition over all epochs so far, in the order: each row is answered once, and what was sent stays as
        it is.

        Args:
            *columns: Columns by name, in a mapping.
            **named: The same as keywords.

        """
        who = f"with_columns of {self}"
        wanted = given_columns(who, columns, named)
        rows = self
        windows = by_window(who, wanted)
        for window, functions in windows.items():
            rows = rows._over(window, functions)
        rest = {name: value for name, value in wanted.items() if not isinstance(value, WindowExpression)}
        if windows and not rest and len(windows) == 1:
            return rows
        added = expressions(f"'with columns' of {self}", rest)
        whole = {each: col(each) for each in self.schema.names}
        return rows._project("with columns", whole | {name: added.get(name, col(name)) for name in wanted})

    def drop(self, *columns: str) -> "Stream":
        """Without these columns."""
        return self._project("drop", others(f"drop of {self}", self.schema, columns))

    def rename(self, names: Mapping[str, str]) -> "Stream":
        """Other names for some columns: ``rename({"person": "seller"})`` calls the column person seller."""
        return self._project("rename", renamed(f"rename of {self}", self.schema, names))

    # All epochs together.

    def to_table(
        self,
        *,
        key: str | Iterable[str] | None = None,
        order: str | None = None,
        deleted: str | None = None,
        weight: str | None = None,
        operation: str | None = None,
        snapshots: bool = False,
        empty: str | None = None,
        format: Literal["debezium"] | None = None,  # noqa: A002 - as sources have it
        schema: str | pa.Schema | None = None,
        value: str | None = None,
        trusted: bool | None = None,
    ) -> "Table":
        """The table that this stream makes over all epochs so far; by default each of its rows is added.

        Args:
            key: With a key a row replaces the one that has its key.
            order: With a key, the row with the greatest value in this column wins, in whichever epoch it
                arrives. Null is the least value. If two rows are equal in it, a deletion wins, and otherwise
                the row that is greatest by its columns from left to right. Default: the row of the latest
                epoch wins, and two rows of a key in one epoch raise FlowError.
            deleted: With a key, a boolean column that marks the rows that delete their key; it is not a
                column of the table. With ``order`` a deleted key leaves a tombstone, its key and order value,
                so that an older row does not bring it back. The tombstone is freed by the watermark if
                ``order`` is the column of a ``with_watermark`` directly before, and kept otherwise.
            weight: A column that says how often each row is added: 1 to insert it, -1 to delete it.
            operation: A column with the words of Delta's change feed, ``insert``, ``delete``,
                ``update_preimage`` and ``update_postimage``, or Flink's ``+I``, ``-D``, ``-U`` and ``+U``. A
                row that is deleted must be there: what would be there less than no times is an error, with
                its epoch. Of Delta's own feed, ``operation="_change_type"``, ``_commit_version`` and
                ``_commit_timestamp`` are no columns of the table.
            snapshots: Each epoch has all rows as they are then. An epoch without rows leaves the table as it
                was: it cannot be told from an epoch in which another input had rows.
            empty: With snapshots, a boolean column whose true marks that the table has no rows. Such a row is
                not in the table, and neither is the column.
            format: ``"debezium"``: the rows are change events, in which ``op`` says what became of
                ``before``. The stream has the columns ``op``, ``before`` and ``after``, the latter two
                structs; or ``value`` names a column that holds events as JSON text. With a ``key`` an event
                replaces the row that has its key, or deletes it, so that ``before`` may be missing and events
                may come twice; ``order`` is then a column of the stream such as Kafka's offset, or a field
                inside the events such as ``source.lsn``, which in JSON text is a long unless a type stands
                behind it: ``source.change_lsn string``. Without a key ``before`` must be whole, and an event
                that comes twice is counted twice.
            schema: Of events in JSON text, the columns of the table.
            value: The column that holds events as JSON text.
            trusted: Rows that are deleted are known to be there, so this is not checked, and no rows are kept
                to check it. If an input breaks this promise, a row has a multiplicity below zero; some
                operators raise an error then, others give wrong results. Default: True for Delta's own feed
                and for Debezium's events, False otherwise.

        """
        who = f"to_table of {self}"
        keys = key_columns(who, key)
        check_column_names(
            who, order=order, deleted=deleted, weight=weight, operation=operation, empty=empty, value=value
        )
        if format is not None:
            if format != "debezium":
                raise FlowError(f"{who}: the format is {format!r}, and only 'debezium' is known. Use that.")
            _check_alone(who, "format='debezium'", deleted, weight, operation, snapshots or None, empty)
            is_trusted = trusted is not False
            return self._table(
                lambda: streams.ToTable(
                    self._operator,
                    "debezium",
                    keys=keys,
                    order=order,
                    declared=schema,
                    value=value,
                    trusted=is_trusted,
                    name="debezium",
                )
            )
        _check_alone(who, "no format", schema, value)
        if keys:
            _check_alone(who, f"key={key!r}", weight, operation, snapshots or None, empty, trusted)
            by_time = isinstance(self._operator, streams.Watermark) and self._operator.at == order
            return self._table(
                lambda: streams.ToTable(
                    self._operator,
                    "upserts",
                    keys=keys,
                    order=order,
                    deleted=deleted,
                    is_event_time=by_time,
                    name=_input_of(self._operator) or "upserts",
                )
            )
        _check_alone(who, "no key", order, deleted)
        if snapshots:
            _check_alone(who, "snapshots=True", weight, operation, trusted)
            return self._table(
                lambda: streams.ToTable(self._operator, "snapshots", empty=empty, name="states")
            )
        _check_alone(who, "snapshots=False", empty)
        kind: logical.ScanKind = "append"
        if weight is not None or operation is not None:
            kind = "weights" if operation is None else "operations"
        is_known = operation == "_change_type" if trusted is None else trusted
        return self._table(
            lambda: streams.ToTable(
                self._operator, kind, weight=weight, operation=operation, trusted=is_known, name="running"
            )
        )

    def lookup(
        self,
        table: "Table",
        on: str | Mapping[str, str] | Iterable[str],
        *,
        how: Literal["inner", "left"] = "inner",
        suffix: str = "_right",
    ) -> "Stream":
        """Each row beside the rows of a table that have its key, once: as the table is after the row's epoch.

        The answer is never corrected, whatever becomes of the table later, and nothing of the stream is kept.
        With ``how="left"`` a row that finds nothing comes out with nulls. Columns are named as by ``join``.
        """
        given: object = table
        if not isinstance(given, Recorded) or isinstance(on, Expression):
            looked_up(
                self._physical, physical_of(table), on, how=how, suffix=suffix, name="lookup"
            )  # rejects it
        keys = sides(on)
        return self._stream(
            lambda: streams.Lookup(self._operator, table._operator, keys, how, suffix, name="lookup"), table
        )

    # Batches in, batches out.

    def map_batches(self, function: BatchFunction, schema: str | pa.Schema | None = None) -> "Stream":
        """Send what a function makes of each batch; the schema stays unless another is given.

        The function is given an Arrow batch and may return rows in any form that an input takes: an Arrow
        batch or table, a pandas or polars frame, or slower a list of dictionaries; None for no rows.
        """
        wanted = self.schema if schema is None else as_schema(schema)
        return self._stream(lambda: logical.MapBatches(self._operator, function, wanted, name="map"))

    def filter(self, condition: Condition) -> "Stream":
        """Keep the rows for which a condition holds.

        The condition is an expression, ``ps.col("age") > 17`` or pyarrow's ``pc.field("age") > 17``, or a
        function from a batch to one boolean per row. Null counts as false.
        """
        if isinstance(condition, Expression):
            return self._stream(lambda: logical.Filter(self._operator, condition, name="filter"))
        return self._stream(lambda: streams.FilterBatches(self._operator, condition, name="filter"))

    def split(self, condition: Condition) -> "tuple[Stream, Stream]":
        """The rows for which a condition holds and the others."""
        kept, others = ports_of(
            self._record, lambda: streams.Split(self._operator, condition, name="split"), self
        )
        return kept, others

    def union(self, *others: "Stream") -> "Stream":
        """The rows of this stream and of others with the same schema, in no particular order."""
        parts = (self._operator, *(each._operator for each in others))
        return self._stream(lambda: logical.Union(parts, name="union"), *others)

    def inspect(self, function: Callable[[Any, pa.RecordBatch], None]) -> "Stream":
        """Show each batch with its time to a function; the stream continues unchanged."""
        return self._stream(lambda: streams.Inspect(self._operator, function, name="inspect"))

    def probe(self) -> Probe:
        """A place to ask, while the flow runs, how far this stream has come."""
        _, probe = self._record.write(lambda: streams.Probed(self._operator), self)
        assert isinstance(probe, Probe), "a probe is lowered to itself"
        return probe

    def explode(self, column: str, *, outer: bool = False, position: str | None = None) -> "Stream":
        """One row for each element of a list; the column is then the element.

        A row whose list is null or empty is gone, unless ``outer`` keeps it with a null. ``position`` is a
        column for the place of the element in its list, from 0 on.
        """
        return self._stream(lambda: logical.Explode(self._operator, column, position, outer, name="explode"))

    # One row at a time.

    def map(self, function: Callable[[Row], Row], schema: str | pa.Schema) -> "Stream":
        """Send the row that a function makes of each row, as dictionaries.

        This runs Python once per row: some microseconds each, a hundred times the cost of ``map_batches``.
        """
        wanted = as_schema(schema)
        return self._stream(lambda: streams.MapRows(self._operator, function, wanted, name="map"))

    def flat_map(self, function: Callable[[Row], Iterable[Row]], schema: str | pa.Schema) -> "Stream":
        """Send the rows that a function yields for each row, as dictionaries.

        This runs Python once per row: some microseconds each, a hundred times the cost of ``map_batches``.
        """
        wanted = as_schema(schema)
        return self._stream(
            lambda: streams.MapRows(self._operator, function, wanted, is_flat=True, name="flat map")
        )

    # The rows of an epoch together.

    def distinct(self, *keys: str, by: str | Iterable[str] = ()) -> "Stream":
        """Every row of an epoch once; with keys one row for each key, the first in an order.

        The order is said as in ``top``; what it leaves open is decided by all columns from left to right.
        ``to_table().distinct()`` is that of all epochs so far.
        """
        order = listed(f"'distinct' of {self}", self.schema, by, is_needed=False)
        if not keys and not order:
            return self._per_epoch("distinct", lambda rows: logical.Distinct(rows, name="distinct"))
        return self._per_epoch(
            "distinct", lambda rows: logical.DistinctOn(rows, keys, order, name="distinct")
        )

    def top(
        self, count: int, *keys: str, by: str | Iterable[str], ties: bool = False, rank: str | None = None
    ) -> "Stream":
        """The first rows of each key in an epoch, or of the whole epoch: ``top(3, "shop", by="price desc")``.

        What ``by`` leaves open is decided by all columns from left to right. With ``ties`` all rows that are
        as good as the last of them come, too. ``rank`` is a column for their places, from 1 on.
        """
        order = listed(f"'top' of {self}", self.schema, by)
        return self._per_epoch(
            "top", lambda rows: logical.TopK(rows, count, keys, order, ties, rank, name="top")
        )

    def join(
        self,
        other: "Stream",
        on: str | Mapping[str, str] | Iterable[str] = (),
        *,
        how: How = "inner",
        where: Expression | None = None,
        suffix: str = "_right",
    ) -> "Stream":
        """The pairs of rows of both streams in one epoch that have equal keys; a null equals nothing.

        All is as in the join of two tables, which joins all epochs so far. A row of one epoch never meets
        one of another; ``lookup`` asks a table, which remembers.
        """
        if not isinstance(other, Stream):
            raise FlowError(
                f"'join' of {self} needs a stream, but was given {type(other).__name__}. To ask a table "
                "there is lookup(table, 'key'), and to_table().join(table, 'key') joins all epochs so far."
            )
        if isinstance(on, Expression):
            joining(f"'join' of {self} and {other}", self.schema, other.schema, on, suffix)
        if how == "cross":
            check_no_key(f"'join' of {self} and {other}", on)
        keys = sides(on)
        return self._per_epoch(
            "join",
            lambda mine, theirs: logical.Join(mine, theirs, how, keys, where, suffix, name="join"),
            other,
            in_parts=how not in ("inner", "cross", "semi"),
        )

    # By key.

    def group_by(self, *keys: str, running: bool = False) -> "RowGroups[Stream]":
        """The rows of each key in an epoch, to aggregate: ``group_by("shop").agg(total=ps.sum("price"))``.

        Without keys ``agg`` makes one row for each epoch that has rows. Results are sent at the end of an
        epoch. Aggregates over all epochs so far are those of a table, ``to_table().group_by(...)``.

        With ``running`` they are over all epochs so far, too, and the new row is sent for each key that
        changed in an epoch; there are running ``sum``, ``min``, ``max``, ``mean``, ``count`` and custom
        accumulators. These rows are updates, and can be aggregated again only where a row that was replaced
        makes no difference: a running ``min`` by ``min`` of the same column, a running ``max`` by ``max``,
        grouped by the same keys or some of them. Everything else is rejected (``pointstamp.flow.updates``
        says exactly what), also through ``map``, ``filter``, ``union`` and loops. A custom operator
        (``ps.operator``) may do with updates what it likes.
        """
        checked_running(f"group_by of {self}", running)

        def aggregated(wanted: dict[str, Aggregation], name: str) -> "Stream":
            asked = checked_aggregates(f"agg of {self}", wanted)
            return self._stream(
                lambda: streams.StreamAggregate(
                    self._operator, keys, tuple(asked.items()), running, name=name
                )
            )

        return RowGroups(aggregated)

    def agg(self, aggregates: Mapping[str, Aggregation] | None = None, /, **named: Aggregation) -> "Stream":
        """One row for each epoch that has rows, with aggregates of them: ``agg(total=ps.sum("price"))``."""
        return self.group_by().agg(aggregates, **named)

    def count(self, *keys: str) -> "Stream":
        """Count the rows of each key in an epoch: ``group_by(...).count()``."""
        return self.group_by(*keys).count()

    # Time.

    def window(
        self,
        at: str,
        size: Span,
        *,
        slide: Span | None = None,
        offset: Span | None = None,
        start: str = "window_start",
        end: str = "window_end",
    ) -> "Stream":
        """Each row with the window of event time in which it lies, from ``window_start`` to ``window_end``.

        ``at`` is a column of timestamps, dates or integers, ``size`` a length: "10 minutes", a timedelta, or
        a number. With a ``slide`` a window begins every so often, and a row comes once for each in which it
        lies. Windows begin at multiples after the beginning of 1970, and ``offset`` later. The end is no
        longer in the window. A row whose ``at`` is null is in no window, and does not come.
        """
        return self._stream(
            lambda: logical.TimeWindow(self._operator, at, size, slide, offset, start, end, name="window")
        )

    def with_watermark(
        self,
        at: str,
        lateness: Span,
        *,
        late: LatePolicy = "output",
        late_output: str | None = None,
        idle: str | timedelta | None = None,
    ) -> "Stream":
        """The rows that are in time, by a promise of lateness: ``with_watermark("at", "2 minutes")``.

        After each epoch the bound of event time is the greatest ``at`` of all rows so far, less the lateness.
        Rows of later epochs before it are late: they go to an output of their own, ``late_output`` or
        ``<input>_late``; with ``late="drop"`` only their number does, and ``late="error"`` ends the run.
        What waits for event time behind this, ``emit_on_close`` and ``retain_until``, goes by the
        bound; of several streams, by the least.

        So one from which nothing comes holds the others back. With ``idle="30 seconds"`` it does not do so
        once a query has had nothing from its inputs for that long, until something comes again; rows that
        are behind the others by then are late.
        """
        return self._stream(
            lambda: streams.Watermark(self._operator, at, lateness, late, late_output, idle, name="watermark")
        )

    def emit_on_close(self, when: str | Expression | None = None) -> "Stream":
        """Each row once, when event time has passed a time that it says: ``emit_on_close("window_end")``.

        Default: the column ``window_end``, or ``session_end`` if there is no such column. All rows that wait
        for one time come in one epoch, the first after which the bound of ``with_watermark`` is not before
        it; so ``window("at", "1 hour").emit_on_close()`` has all rows of a
        window in one epoch, and a reduction of them is its final result. Where epochs are event time, it is
        the last epoch that begins before it. A row that says null does not come.
        """
        clock = self._record.clock
        time = timed(closing_time(self.schema) if when is None else when)
        return self._stream(
            lambda: streams.DelayUntil(
                self._operator, time, tuple(each._operator for each in clock), name="emit on close"
            ),
            *clock,
        )

    def session_window(
        self,
        *keys: str,
        at: str,
        gap: Span,
        start: str | Aggregation = "session_start",
        end: str | Aggregation = "session_end",
        aggregates: Mapping[str, Aggregation] | Aggregation | None = None,
        **named: Aggregation,
    ) -> "Stream":
        """Each row once, with its session, in the epoch in which event time has passed the session's end.

        Rows of a key that are at most the ``gap`` apart, by their column ``at``, are one session; it ends
        the gap after its last row. All its rows come in one epoch, so that an aggregation of them is its
        final result, and nothing of it is kept. It needs ``with_watermark``, or epochs that are event time.
        Sessions that are corrected by late rows are those of a table: ``to_table().session_window(...)``.

        With aggregates each session is one row: its keys, where it begins and ends, and what they are.

            clicks.session_window("user", at="at", gap="5 minutes", clicks=ps.count())
        """
        said = session_options(
            f"session_window of {self}", start=start, end=end, aggregates=aggregates, named=named
        )
        return self.to_table().named("sessions: rows")._closed_sessions(keys, at, gap, said)

    def join_interval(
        self,
        other: "Stream",
        on: str | Mapping[str, str] | Iterable[str],
        *,
        at: str | Mapping[str, str],
        within: Span | tuple[Span, Span],
        suffix: str = "_right",
    ) -> "Stream":
        """The pairs of rows of both streams with equal keys whose event times are close: each pair once.

        ``at`` is the column of event time, one that both have or a mapping from this stream's to the other's.
        ``within="10 minutes"`` is how far apart they may be; a pair of lengths says how much earlier, and how
        much later, the other row may be. Both streams need ``with_watermark``: rows that can meet nothing any
        more, by the lesser bound, are forgotten. Otherwise it is as a join of tables.
        """
        mine, theirs = (each.to_table().named("join interval: rows") for each in (self, other))
        return mine.join_interval(theirs, on, at=at, within=within, suffix=suffix)

    def delay(self, epochs: int = 1) -> "Stream":
        """The same batches, that many epochs later."""
        return self._stream(lambda: streams.Delay(self._operator, epochs, name="delay"))

    def loop(self, name: str = "loop", *, max_rounds: int | None = None, at_limit: str = "error") -> "Loop":
        """Open a loop in this stream's scope: ``with stream.loop("labels") as loop``.

        With ``max_rounds``, a row that would go into a later round is an error; with ``at_limit="stop"`` it
        is dropped instead, and the loop returns what there is.
        """
        return Loop._of(
            *self._record.write(
                lambda: streams.LoopScope(self._operator, max_rounds, at_limit, name=name), self
            ),
            self._record,
            Stream,
        )

    def _stream(self, make: Callable[[], LogicalOperator], *others: Recorded) -> "Stream":
        return Stream._of(self._record, *self._record.write(make, self, *others))

    def _table(self, make: Callable[[], LogicalOperator]) -> "Table":
        made = object.__new__(self._record.table)
        made._set(self._record, *self._record.write(make, self))
        return cast("Table", made)

    def _project(self, name: str, wanted: Mapping[str, Expression]) -> "Stream":
        return self._stream(lambda: logical.Project(self._operator, tuple(wanted.items()), name=name))

    def _over(self, window: Window, functions: Mapping[str, WindowExpression]) -> "Stream":
        keys, by, rows = window
        if rows is not None:
            order = listed(f"'rolling' of {self}", self.schema, by, is_needed=False)
            given = {name: each.function for name, each in functions.items()}
            asked = tuple(checked_aggregates(f"over of {self}", given).items())
            return self._stream(
                lambda: streams.Rolling(self._operator, keys, rows, order, asked, name="rolling")
            )
        who = f"with_columns of {self}"
        wanted = tuple((name, placed(who, name, each)) for name, each in functions.items())
        order = listed(f"'over' of {self}", self.schema, by)
        return self._per_epoch(
            "over", lambda each: logical.WindowFunctions(each, keys, order, wanted, name="over")
        )

    def _per_epoch(
        self,
        name: str,
        body: Callable[..., LogicalOperator],
        *others: "Stream",
        in_parts: bool = False,
    ) -> "Stream":
        """Return what a body makes of the tables that each epoch is by itself, as a stream."""
        with unchecked():
            variables = tuple(Variable(each.schema, name=each._operator.name) for each in (self, *others))
            made = body(*variables)
        parts = tuple(each._operator for each in (self, *others))
        return self._stream(lambda: streams.PerEpoch(parts, variables, made, in_parts, name=name), *others)

    if not TYPE_CHECKING:  # to a type checker, a name that is not there is a mistake

        def __getattr__(self, name: str) -> object:
            if name.startswith("_"):
                raise AttributeError(f"'Stream' object has no attribute '{name}'", name=name, obj=self)
            verbs = [each for each, of in vars(Stream).items() if not each.startswith("_") and callable(of)]
            raise AttributeError(no_such_verb(str(self), name, verbs, "Stream"), name=name, obj=self)

    def __str__(self) -> str:
        return str(self._physical)


def timed(when: str | Expression) -> Expression:
    """Return the time that rows say, by a column or an expression."""
    return col(when) if isinstance(when, str) else when


def closing_time(schema: pa.Schema) -> str:
    """Return the column that says when a row is closed: the end of its window, or of its session."""
    has_session = "session_end" in schema.names and "window_end" not in schema.names
    return "session_end" if has_session else "window_end"


def key_columns(who: str, key: object) -> tuple[str, ...]:
    """Return the columns of a key; FlowError for what does not name columns."""
    if key is None or isinstance(key, str):
        return () if key is None else (key,)
    if isinstance(key, type) or not isinstance(key, Iterable):
        raise FlowError(f"{who}: key= must be a column or a list of columns, got {key!r}. Give their names.")
    keys = tuple(key)
    for each in keys:
        check_column_names(who, key=each)
    return keys


def check_column_names(who: str, **options: object) -> None:
    """Reject options that must be the name of a column and are not."""
    for option, value in options.items():
        if value is not None and not isinstance(value, str):
            raise FlowError(f"{who}: {option}= must be the name of a column, got {value!r}. Give a string.")


def _input_of(operator: LogicalOperator) -> str | None:
    """The input whose rows these are, as they came; None if something was made of them."""
    while isinstance(operator, streams.Watermark):
        operator = operator.input
    return operator.input if isinstance(operator, streams.Input) else None


def _check_alone(who: str, beside: str, *others: object) -> None:
    """Reject options that mean nothing beside another one."""
    if given := [each for each in others if each is not None]:
        raise FlowError(f"{who}: {given[0]!r} was given with {beside}, where it means nothing. Remove it.")


def ports_of(record: FlowRecord, make: Callable[[], LogicalOperator], *parts: Recorded) -> tuple[Stream, ...]:
    """Return all results of an operator that has several."""
    operator, results = record.write(make, *parts)
    whole = Recorded()
    whole._set(record, operator, results)
    return tuple(
        Stream._of(record, *record.write(lambda: streams.Port(operator, number, each.schema), whole))  # noqa: B023 - called at once
        for number, each in enumerate(results)
    )


def listed(who: str, schema: pa.Schema, by: Any, *, is_needed: bool = True) -> tuple[str, ...]:  # noqa: ANN401
    """Return what ``by=`` says as a tuple; FlowError where it can say nothing."""
    if isinstance(by, str):
        return (by,)
    if isinstance(by, Expression):
        return tuple(ordering(who, schema, by))  # type: ignore[arg-type] # which says what to give
    order = tuple(by)
    if is_needed and not order:
        ordering(who, schema, order)  # which says what to give
    return order
