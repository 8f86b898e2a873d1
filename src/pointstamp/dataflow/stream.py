"""Streams: what a user chains operations on.

A stream is rows with times. Operations return new streams; nothing runs. Each operation works on whole Arrow
batches unless it says otherwise. What of an epoch is looked at together depends on the rows of that epoch
alone; in a loop the same is true of each round.
"""

from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal, cast

import pyarrow as pa

from pointstamp.dataflow.loops import Loop
from pointstamp.dataflow.record import FlowRecord, Recorded, physical_of, sides
from pointstamp.errors import FlowError
from pointstamp.expressions.selecting import chosen, expressions, operator_name, others, renamed
from pointstamp.expressions.tree import Expression, Value, col
from pointstamp.expressions.windows import Span
from pointstamp.flow.join_kind import How
from pointstamp.flow.other_words import no_such_verb
from pointstamp.flow.pact import ShardFunction
from pointstamp.flow.probe import Probe
from pointstamp.flow.reducing import checked_name, checked_running, reducing, session_options
from pointstamp.operators.condition import Condition
from pointstamp.operators.stateless import BatchFunction, Row
from pointstamp.plan import logical, streams
from pointstamp.plan.logical import LogicalOperator, Variable, unchecked
from pointstamp.reduce.aggregate import Aggregate, Aggregation
from pointstamp.rows.late import LatePolicy
from pointstamp.rows.schema import as_schema
from pointstamp.tables.joining import check_no_key, joining
from pointstamp.tables.kept.ordering import ordering
from pointstamp.tables.lookup import looked_up

if TYPE_CHECKING:
    from pointstamp.dataflow.table import Table
    from pointstamp.tables.in_order import OrderFunction


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

    def select(
        self, *columns: str | Expression, name: str | Expression = "select", **named: Value
    ) -> "Stream":
        """Other columns, by name or by expression: ``select("id", total=ps.col("price") * 2)``."""
        operator, called = operator_name(name, "select", f"select of {self}")
        return self._project(operator, chosen(f"'{operator}' of {self}", columns, called | named))

    def with_columns(self, *, name: str | Expression = "with columns", **named: Value) -> "Stream":
        """All columns, and more or others under these names: ``with_columns(total=ps.col("price") * 2)``."""
        operator, called = operator_name(name, "with columns", f"with_columns of {self}")
        added = expressions(f"'{operator}' of {self}", called | named)
        return self._project(operator, {each: col(each) for each in self.schema.names} | added)

    def drop(self, *columns: str) -> "Stream":
        """Without these columns."""
        return self._project("drop", others(f"drop of {self}", self.schema, columns))

    def rename(self, **new_to_old: str) -> "Stream":
        """With other names for some columns: ``rename(seller="person")`` calls the column person seller."""
        return self._project("rename", renamed(f"rename of {self}", self.schema, new_to_old))

    # All epochs together.

    def running(
        self,
        *,
        weight: str | None = None,
        operation: str | None = None,
        trusted: bool | None = None,
        name: str = "running",
    ) -> "Table":
        """The table that this stream adds up to, over all epochs so far: each of its rows is added.

        With ``weight`` a column says how often each row is added: 1 to insert it, -1 to delete it. With
        ``operation`` a column has the words of Delta's change feed, ``insert``, ``delete``,
        ``update_preimage`` and ``update_postimage``, or Flink's ``+I``, ``-D``, ``-U`` and ``+U``. A row that
        is deleted must be there: what would be there less than no times is an error, with its epoch. Of
        Delta's own feed, ``operation="_change_type"``, ``_commit_version`` and ``_commit_timestamp`` are no
        columns of the table.

        ``trusted`` (bool, default: True for Delta's own feed, False otherwise): rows that are deleted are
        known to be there, so this is not checked, and no rows are kept to check it. If an input breaks this
        promise, a row has a multiplicity below zero. Some operators raise an error then; others give wrong
        results.
        """
        kind: logical.ScanKind = "append"
        if weight is not None or operation is not None:
            kind = "weights" if operation is None else "operations"
        is_trusted = operation == "_change_type" if trusted is None else trusted
        return self._table(
            lambda: streams.ToTable(
                self._operator, kind, weight=weight, operation=operation, trusted=is_trusted, name=name
            )
        )

    def states(self, *, empty: str | None = None, name: str = "states") -> "Table":
        """The table of which each epoch has all rows as they are then: what is no longer there is gone.

        An epoch without rows says nothing, and the table stays as it was: nobody could tell it from an epoch
        in which another input had rows. A table can say that it is empty by a row in which the boolean column
        ``empty`` is true. Such a row is none of the table, and neither is the column.
        """
        return self._table(lambda: streams.ToTable(self._operator, "snapshots", empty=empty, name=name))

    def debezium(
        self,
        schema: str | pa.Schema | None = None,
        *,
        value: str | None = None,
        key: str | Iterable[str] | None = None,
        order: str | None = None,
        trusted: bool = True,
        name: str = "debezium",
    ) -> "Table":
        """The table that Debezium's change events make: ``op`` says what became of ``before``.

        The stream has the columns ``op``, ``before`` and ``after``, the latter two structs; or ``value``
        names a column that holds events as JSON text, and ``schema`` says the columns of the table. With a
        ``key`` an event replaces the row that has its key, or deletes it, so that ``before`` may be missing
        and events may come twice. The event of a key with the greatest ``order`` wins, in whichever epoch it
        arrives: a column of the stream such as Kafka's offset, or a field inside the events such as
        ``source.lsn``. In JSON text such a field is a long, unless a type stands behind it:
        ``source.change_lsn string``. If two events are equal in it, a deletion wins, and otherwise the row
        that is greatest by its columns from left to right. A deleted key leaves a tombstone, which is freed
        by the watermark if ``order`` is the column of an ``event_time`` directly before, and else kept.
        Without a key rows are inserted and deleted as the events say, and ``before`` must be whole. An event
        that comes twice is then counted twice.

        ``trusted`` (bool, default True): as in ``running``; with a key there is nothing to check.
        """
        keys = (key,) if isinstance(key, str) else tuple(key or ())
        return self._table(
            lambda: streams.ToTable(
                self._operator,
                "debezium",
                keys=keys,
                order=order,
                declared=schema,
                value=value,
                trusted=trusted,
                name=name,
            )
        )

    def lookup(
        self,
        table: "Table",
        on: str | Mapping[str, str] | Iterable[str],
        *,
        how: Literal["inner", "left"] = "inner",
        suffix: str = "_right",
        name: str = "lookup",
    ) -> "Stream":
        """Each row beside the rows of a table that have its key, once: as the table is after the row's epoch.

        The answer is never corrected, whatever becomes of the table later, and nothing of the stream is kept.
        With ``how="left"`` a row that finds nothing comes out with nulls. Columns are named as by ``join``.
        """
        given: object = table
        if not isinstance(given, Recorded) or isinstance(on, Expression):
            looked_up(self._physical, physical_of(table), on, how=how, suffix=suffix, name=name)  # rejects it
        keys = sides(on)
        return self._stream(
            lambda: streams.Lookup(self._operator, table._operator, keys, how, suffix, name=name), table
        )

    # Batches in, batches out.

    def map_batches(
        self, function: BatchFunction, schema: str | pa.Schema | None = None, *, name: str = "map"
    ) -> "Stream":
        """Send what a function makes of each batch; the schema stays unless another is given.

        The function is given an Arrow batch and may return rows in any form that an input takes: an Arrow
        batch or table, a pandas or polars frame, or slower a list of dictionaries; None for no rows.
        """
        wanted = self.schema if schema is None else as_schema(schema)
        return self._stream(lambda: logical.MapBatches(self._operator, function, wanted, name=name))

    def filter(self, condition: Condition, *, name: str = "filter") -> "Stream":
        """Keep the rows for which a condition holds.

        The condition is an expression, ``ps.col("age") > 17`` or pyarrow's ``pc.field("age") > 17``, or a
        function from a batch to one boolean per row. Null counts as false.
        """
        if isinstance(condition, Expression):
            return self._stream(lambda: logical.Filter(self._operator, condition, name=name))
        return self._stream(lambda: streams.FilterBatches(self._operator, condition, name=name))

    def branch(self, condition: Condition, *, name: str = "branch") -> "tuple[Stream, Stream]":
        """Split into the rows for which a condition holds and the others."""
        kept, others = ports_of(
            self._record, lambda: streams.Split(self._operator, condition, name=name), self
        )
        return kept, others

    def concat(self, *others: "Stream", name: str = "concat") -> "Stream":
        """Bring this stream and others of the same schema together, in no particular order."""
        parts = (self._operator, *(each._operator for each in others))
        return self._stream(lambda: logical.Union(parts, name=name), *others)

    def inspect(self, function: Callable[[Any, pa.RecordBatch], None], *, name: str = "inspect") -> "Stream":
        """Show each batch with its time to a function; the stream continues unchanged."""
        return self._stream(lambda: streams.Inspect(self._operator, function, name=name))

    def probe(self) -> Probe:
        """A place to ask, while the flow runs, how far this stream has come."""
        _, probe = self._record.write(lambda: streams.Probed(self._operator), self)
        assert isinstance(probe, Probe), "a probe is lowered to itself"
        return probe

    def explode(
        self, column: str, *, outer: bool = False, position: str | None = None, name: str = "explode"
    ) -> "Stream":
        """One row for each element of a list; the column is then the element.

        A row whose list is null or empty is gone, unless ``outer`` keeps it with a null. ``position`` is a
        column for the place of the element in its list, from 0 on.
        """
        return self._stream(lambda: logical.Explode(self._operator, column, position, outer, name=name))

    # One row at a time.

    def map(self, function: Callable[[Row], Row], schema: str | pa.Schema, *, name: str = "map") -> "Stream":
        """Send the row that a function makes of each row, as dictionaries.

        This runs Python once per row: some microseconds each, a hundred times the cost of ``map_batches``.
        """
        wanted = as_schema(schema)
        return self._stream(lambda: streams.MapRows(self._operator, function, wanted, name=name))

    def flat_map(
        self, function: Callable[[Row], Iterable[Row]], schema: str | pa.Schema, *, name: str = "flat map"
    ) -> "Stream":
        """Send the rows that a function yields for each row, as dictionaries.

        This runs Python once per row: some microseconds each, a hundred times the cost of ``map_batches``.
        """
        wanted = as_schema(schema)
        return self._stream(
            lambda: streams.MapRows(self._operator, function, wanted, is_flat=True, name=name)
        )

    # The rows of an epoch together.

    def distinct(self, *keys: str, by: str | Iterable[str] = (), name: str = "distinct") -> "Stream":
        """Every row of an epoch once; with keys one row for each key, the first in an order.

        The order is said as in ``top``; what it leaves open is decided by all columns from left to right.
        ``running().distinct()`` is that of all epochs so far.
        """
        order = listed(f"'{name}' of {self}", self.schema, by, is_needed=False)
        if not keys and not order:
            return self._per_epoch(name, lambda rows: logical.Distinct(rows, name=name))
        return self._per_epoch(name, lambda rows: logical.DistinctOn(rows, keys, order, name=name))

    def top(
        self,
        count: int,
        *keys: str,
        by: str | Iterable[str],
        ties: bool = False,
        rank: str | None = None,
        name: str = "top",
    ) -> "Stream":
        """The first rows of each key in an epoch, or of the whole epoch: ``top(3, "shop", by="price desc")``.

        What ``by`` leaves open is decided by all columns from left to right. With ``ties`` all rows that are
        as good as the last of them come, too. ``rank`` is a column for their places, from 1 on.
        """
        order = listed(f"'{name}' of {self}", self.schema, by)
        return self._per_epoch(
            name, lambda rows: logical.TopK(rows, count, keys, order, ties, rank, name=name)
        )

    def join(
        self,
        other: "Stream",
        on: str | Mapping[str, str] | Iterable[str] = (),
        *,
        how: How = "inner",
        where: Expression | None = None,
        suffix: str = "_right",
        name: str = "join",
    ) -> "Stream":
        """The pairs of rows of both streams in one epoch that have equal keys; a null equals nothing.

        All is as in the join of two tables, which joins all epochs so far. A row of one epoch never meets
        one of another; ``lookup`` asks a table, which remembers.
        """
        if not isinstance(other, Stream):
            raise FlowError(
                f"'{name}' of {self} needs a stream, but was given {type(other).__name__}. To ask a table "
                "there is lookup(table, 'key'), and running().join(table, 'key') joins all epochs so far."
            )
        if isinstance(on, Expression):
            joining(f"'{name}' of {self} and {other}", self.schema, other.schema, on, suffix)
        if how == "cross":
            check_no_key(f"'{name}' of {self} and {other}", on)
        keys = sides(on)
        return self._per_epoch(
            name,
            lambda mine, theirs: logical.Join(mine, theirs, how, keys, where, suffix, name=name),
            other,
            in_parts=how not in ("inner", "cross", "semi"),
        )

    def with_order(
        self,
        *keys: str,
        by: str | Iterable[str],
        functions: "Mapping[str, OrderFunction] | None" = None,
        name: "str | OrderFunction" = "with order",
        **named: "OrderFunction",
    ) -> "Stream":
        """All columns, and what the place of a row among those of its key in its epoch says of it.

        sales.with_order("shop", by="at", before=ps.lag("price"), total=ps.running_sum("price"))
        """
        given = {} if isinstance(name, str) else {"name": name}
        operator = name if isinstance(name, str) else "with order"
        wanted = tuple({**(functions or {}), **named, **given}.items())
        order = listed(f"'{operator}' of {self}", self.schema, by)
        return self._per_epoch(
            operator, lambda rows: logical.WindowFunctions(rows, keys, order, wanted, name=operator)
        )

    # By key.

    def count(self, *keys: str, running: bool = False, name: str = "count") -> "Stream":
        """Count rows per key: in each epoch by itself, or running over all epochs so far.

        Running counts are sent for the keys that changed in an epoch. The result has the key columns and
        ``count``.
        """
        who = f"count of {self}"
        checked_name(who, name)
        checked_running(who, running)
        wanted: tuple[tuple[str, Aggregation], ...] = (("count", Aggregate("count")),)
        return self._stream(lambda: streams.StreamAggregate(self._operator, keys, wanted, running, name=name))

    def reduce(
        self,
        *keys: str,
        aggregates: Mapping[str, Aggregation] | Aggregation | None = None,
        running: bool | Aggregation = False,
        name: str | Aggregation = "reduce",
        **named: Aggregation,
    ) -> "Stream":
        """Aggregate rows per key: in each epoch by itself, or running over all epochs so far.

        ``total=ps.sum("amount"), last=ps.max("at")``: each named column of the result is an aggregate. With
        ``running`` the new value is sent for each key that changed in an epoch; there are running ``sum``,
        ``min``, ``max``, ``mean``, ``count`` and accumulators of your own. Either way, results are sent at
        the end of an epoch. Without keys it is one row for each epoch that has rows.

        What a running reduction sends are updates, and these can be aggregated again only where a row that
        was replaced makes no difference: a running ``min`` by ``min`` of the same column, a running ``max``
        by ``max``, grouped by the same keys or some of them. Everything else is refused
        (``pointstamp.flow.updates`` says exactly what), also through ``map``, ``filter``, ``concat`` and
        loops. An operator of your own (``ps.operator``) may do with updates what it likes.

        A column may have any name: ``aggregates={"name": ps.max("name")}`` takes them all, and what is given
        for ``name`` or ``running`` and is an aggregate is a column, too.
        """
        asked = reducing(
            f"reduce of {self}", "reduce", aggregates=aggregates, running=running, name=name, named=named
        )
        wanted = tuple(asked.aggregates.items())
        return self._stream(
            lambda: streams.StreamAggregate(self._operator, keys, wanted, asked.running, name=asked.name)
        )

    def rolling(
        self,
        *keys: str,
        rows: int,
        by: str | Iterable[str],
        aggregates: Mapping[str, Aggregation] | Aggregation | None = None,
        name: str | Aggregation = "rolling",
        **named: Aggregation,
    ) -> "Stream":
        """Each row with aggregates of the last rows of its key up to it, over all epochs, in an order.

            sales.rolling("shop", rows=10, by="at", typical=ps.mean("price"))

        The order is said as in ``top``, and what it leaves open is decided by all columns. The last rows are
        those of the row's epoch and the last of the epochs before, as many as count; they are all that is
        kept. What was sent stays as it is: a row that comes in a later epoch changes no answer before.
        """
        who = f"rolling of {self}"
        asked = reducing(who, "rolling", aggregates=aggregates, running=False, name=name, named=named)
        order = listed(f"'{asked.name}' of {self}", self.schema, by, is_needed=False)
        wanted = tuple(asked.aggregates.items())
        return self._stream(
            lambda: streams.Rolling(self._operator, keys, rows, order, wanted, name=asked.name)
        )

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
        name: str = "window",
    ) -> "Stream":
        """Each row with the window of event time in which it lies, from ``window_start`` to ``window_end``.

        ``at`` is a column of timestamps, dates or integers, ``size`` a length: "10 minutes", a timedelta, or
        a number. With a ``slide`` a window begins every so often, and a row comes once for each in which it
        lies. Windows begin at multiples after the beginning of 1970, and ``offset`` later. The end is no
        longer in the window. A row whose ``at`` is null is in no window, and does not come.
        """
        return self._stream(
            lambda: logical.TimeWindow(self._operator, at, size, slide, offset, start, end, name=name)
        )

    def event_time(
        self,
        at: str,
        *,
        lateness: Span,
        late: LatePolicy = "output",
        late_output: str | None = None,
        idle: str | timedelta | None = None,
        name: str = "event time",
    ) -> "Stream":
        """The rows that are in time, by a promise how late they may be: ``lateness="2 minutes"``.

        After each epoch the bound of event time is the greatest ``at`` of all rows so far, less the lateness.
        Rows of later epochs before it are late: they go to an output of their own, ``late_output`` or
        ``<input>_late``; with ``late="drop"`` only their number does, and ``late="error"`` ends the run.
        What waits for event time behind this, ``final``, ``keep_until`` and ``delay_until``, goes by the
        bound; of several streams, by the least.

        So one from which nothing comes holds the others back. With ``idle="30 seconds"`` it does not do so
        once a query has had nothing from its inputs for that long, until something comes again; rows that
        are behind the others by then are late.
        """
        return self._stream(
            lambda: streams.Watermark(self._operator, at, lateness, late, late_output, idle, name=name)
        )

    def delay_until(self, when: str | Expression, *, name: str = "delay until") -> "Stream":
        """Each row once, when event time has passed a time that it says: ``delay_until("window_end")``.

        All rows that wait for one time come in one epoch, the first after which the bound of ``event_time``
        is not before it; so ``window("at", "1 hour").delay_until("window_end")`` has all rows of a window in
        one epoch, and a reduction of them is its final result. Where epochs are event time, it is the last
        epoch that begins before it. A row that says null does not come.
        """
        clock = self._record.clock
        time = col(when) if isinstance(when, str) else when
        return self._stream(
            lambda: streams.DelayUntil(
                self._operator, time, tuple(each._operator for each in clock), name=name
            ),
            *clock,
        )

    def sessions(
        self,
        *keys: str,
        at: str,
        gap: Span,
        start: str | Aggregation = "session_start",
        end: str | Aggregation = "session_end",
        aggregates: Mapping[str, Aggregation] | Aggregation | None = None,
        name: str | Aggregation = "sessions",
        **named: Aggregation,
    ) -> "Stream":
        """Each row once, with its session, in the epoch in which event time has passed the session's end.

        Rows of a key that are at most the ``gap`` apart, by their column ``at``, are one session; it ends
        the gap after its last row. All its rows come in one epoch, so that a reduction of them is its final
        result, and nothing of it is kept. It needs ``event_time``, or epochs that are event time. Sessions
        that are corrected by late rows are those of a table: ``running().sessions(...)``.

        With aggregates each session is one row: its keys, where it begins and ends, and what they are.

            clicks.sessions("user", at="at", gap="5 minutes", clicks=ps.count())
        """
        said = session_options(
            f"sessions of {self}", start=start, end=end, aggregates=aggregates, name=name, named=named
        )
        rows = self.running(name=f"{said.asked.name}: rows")
        closed = rows.closed_sessions(
            *keys, at=at, gap=gap, start=said.start, end=said.end, name=said.asked.name
        )
        if not said.asked.aggregates:
            return closed
        own = f"{said.asked.name}: aggregates"
        return closed.reduce(*keys, said.start, said.end, aggregates=said.asked.aggregates, name=own)

    def join_within(
        self,
        other: "Stream",
        on: str | Mapping[str, str] | Iterable[str],
        *,
        at: str | Mapping[str, str],
        within: Span | tuple[Span, Span],
        suffix: str = "_right",
        name: str = "join within",
    ) -> "Stream":
        """The pairs of rows of both streams with equal keys whose event times are close: each pair once.

        ``at`` is the column of event time, one that both have or a mapping from this stream's to the other's.
        ``within="10 minutes"`` is how far apart they may be; a pair of lengths says how much earlier, and how
        much later, the other row may be. Both streams need ``event_time``: rows that can meet nothing any
        more, by the lesser bound, are forgotten. Otherwise it is as a join of tables.
        """
        mine, theirs = (each.running(name=f"{name}: rows") for each in (self, other))
        return mine.join_within(theirs, on, at=at, within=within, suffix=suffix, name=name)

    def delay(self, epochs: int = 1, *, name: str = "delay") -> "Stream":
        """The same batches, that many epochs later."""
        return self._stream(lambda: streams.Delay(self._operator, epochs, name=name))

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
            raise AttributeError(no_such_verb(str(self), name, verbs), name=name, obj=self)

    def __str__(self) -> str:
        return str(self._physical)


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
