"""Streams: what a user chains operations on.

A stream is rows with times. Operations return new streams; nothing runs. Each operation works on complete
Arrow batches unless documented otherwise. What of an epoch is looked at together depends on the rows of that
epoch alone; in a loop the same is true of each round.
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
from pointstamp.dataflow.window_columns import ColumnValue, RecordedColumns, Window
from pointstamp.errors import FlowError
from pointstamp.expressions.select_columns import others, renamed
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


class Stream(RecordedColumns):
    """A stream of Arrow batches with times; made by a flow and by operations on other streams.

    Examples:
        >>> flow = ps.Dataflow("words")
        >>> words = flow.stream_input("words", "word string")
        >>> flow.output("counts", words.count("word"))
        >>> flow.run(words=[[{"word": "so"}, {"word": "so"}], [{"word": "so"}]])["counts"].table().to_pylist()
        [{'epoch': 0, 'word': 'so', 'count': 2}, {'epoch': 1, 'word': 'so', 'count': 1}]

    """

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
        """The names of the loops that contain the stream, outermost first."""
        loops: tuple[str, ...] = self._physical.loops
        return loops

    # How the batches are shared among the workers.

    def exchange(self, *keys: str, by: ShardFunction | None = None) -> "Stream":
        """Send each row to the worker that owns its key, so that the next operation sees all rows of a key.

        Args:
            *keys: The key columns.
            by (function, default None): Computes the shard of each row, a non-negative integer, as an Arrow
                or numpy array or a list; the worker is ``shard % workers``. The function is called with a
                batch, which has the key columns only if keys are given. It must return the same shard for a
                row in every batch and process.

        Downstream state that is saved by key can be redistributed to another number of workers only if the
        columns are named, ``exchange("user", by=function)``, and are the keys of the state. Otherwise a
        restart with another number of workers raises FlowError.

        Examples:
            >>> flow = ps.Dataflow("exchange")
            >>> flow.output("out", flow.stream_input("clicks", "user string, at long").exchange("user"))
            >>> flow.run(clicks=[[{"user": "ann", "at": 1}]], workers=2)["out"][0].to_pylist()
            [{'user': 'ann', 'at': 1}]

        """
        return self._stream(lambda: streams.Exchange(self._operator, keys, by))

    def broadcast(self) -> "Stream":
        """Send every batch to every worker.

        Examples:
            >>> flow = ps.Dataflow("broadcast")
            >>> flow.output("out", flow.stream_input("rates", "rate long").broadcast())
            >>> flow.run(rates=[[{"rate": 3}]], workers=2)["out"][0].to_pylist()
            [{'rate': 3}, {'rate': 3}]

        """
        return self._stream(lambda: streams.Broadcast(self._operator))

    # Columns by expressions.

    def select(self, /, *columns: str | Expression, **named: ColumnValue) -> "Stream":
        """Select columns by name or by expression.

        Args:
            *columns: Names of columns, or expressions with a name.
            **named: Expressions by the name of their column; window expressions as in ``with_columns``.

        Examples:
            >>> flow = ps.Dataflow("select")
            >>> sales = flow.stream_input("sales", "id long, price long")
            >>> flow.output("out", sales.select("id", gross=ps.col("price") * 2))
            >>> flow.run(sales=[[{"id": 1, "price": 5}]])["out"][0].to_pylist()
            [{'id': 1, 'gross': 10}]

        """
        return self._selected(columns, named)

    def with_columns(self, /, *columns: Mapping[str, ColumnValue], **named: ColumnValue) -> "Stream":
        """Add columns, or replace columns of the same name.

        A window expression is computed from the rows of a partition: the rows of the same epoch, or with
        ``rows=10`` the last ten rows of all epochs so far. With ``rows=`` a row that was sent is not
        corrected later.

        Args:
            *columns: Expressions by name, in a mapping.
            **named: The same as keywords.

        Examples:
            >>> flow = ps.Dataflow("rolling")
            >>> sales = flow.stream_input("sales", "at long, price long")
            >>> typical = ps.mean("price").over(order_by="at", rows=2)
            >>> flow.output("out", sales.with_columns(typical=typical).drop("price"))
            >>> flow.run(sales=[[{"at": 1, "price": 5}], [{"at": 2, "price": 7}]])["out"][1].to_pylist()
            [{'at': 2, 'typical': 6.0}]

        """
        return self._with_columns(columns, named)

    def drop(self, *columns: str) -> "Stream":
        """Remove columns.

        Args:
            *columns: Names of the columns to remove.

        Examples:
            >>> flow = ps.Dataflow("drop")
            >>> flow.stream_input("sales", "id long, price long").drop("id").schema.names
            ['price']

        """
        return self._project("drop", others(f"drop of {self}", self.schema, columns))

    def rename(self, names: Mapping[str, str]) -> "Stream":
        """Rename columns.

        Args:
            names: New names by old name.

        Examples:
            >>> flow = ps.Dataflow("rename")
            >>> flow.stream_input("bids", "person long").rename({"person": "buyer"}).schema.names
            ['buyer']

        """
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
        """Return the table that the rows of all epochs so far define. By default each row is inserted.

        Args:
            key (str | Iterable[str], default None): The primary key: a row replaces the row that has its key.
            order (str, default None): With a key, the row with the greatest value in this column wins, in
                whichever epoch it arrives. Null is the least value. If two rows are equal in it, a deletion
                wins, and otherwise the row that is greatest by its columns from left to right. Without it,
                the row of the latest epoch wins, and two rows of a key in one epoch raise FlowError.
            deleted (str, default None): With a key, a boolean column that marks rows that delete their key;
                it is not a column of the table. With ``order`` a deleted key leaves a tombstone, its key and
                order value, so that an older row does not insert it again. The watermark frees the tombstone
                if ``order`` is the column of a ``with_watermark`` directly upstream; otherwise it is kept.
            weight (str, default None): A column with the multiplicity of each row: 1 inserts it, -1 deletes
                it.
            operation (str, default None): A column with the operations of Delta's change feed, ``insert``,
                ``delete``, ``update_preimage`` and ``update_postimage``, or Flink's ``+I``, ``-D``, ``-U``
                and ``+U``. Deleting a row that the table does not contain raises FlowError, with the epoch.
                With Delta's ``operation="_change_type"``, ``_commit_version`` and ``_commit_timestamp`` are
                not columns of the table.
            snapshots (bool, default False): Each epoch has all rows of the table. An epoch without rows
                leaves the table as it was, because it cannot be distinguished from an epoch in which only
                another input had rows.
            empty (str, default None): With snapshots, a boolean column that marks an empty table. A row with
                true is not in the table, and neither is the column.
            format (str, default None): ``"debezium"``: the rows are change events, with the columns ``op``,
                ``before`` and ``after`` (the latter two are structs), or as JSON text in the column
                ``value``. With a ``key`` an event replaces or deletes the row that has its key, so ``before``
                may be missing and events may be duplicated; ``order`` is then a column of the stream, such as
                Kafka's offset, or a field of the events, such as ``source.lsn`` (in JSON text a long, unless
                a type follows it: ``source.change_lsn string``). Without a key ``before`` must be complete,
                and a duplicate event counts twice.
            schema (str | pyarrow.Schema, default None): For events in JSON text, the columns of the table.
            value (str, default None): The column that has events as JSON text.
            trusted (bool, default None): Deleted rows are known to be in the table, so this is not checked,
                and no state is kept to check it. If an input breaks this promise, a multiplicity is negative;
                some operators then raise an error, others return wrong results. Without it: True for Delta's
                change feed and for Debezium events, False otherwise.

        Examples:
            >>> flow = ps.Dataflow("people")
            >>> events = flow.stream_input("events", "id long, name string, at long")
            >>> flow.output("people", events.to_table(key="id", order="at"))
            >>> newer, older = {"id": 1, "name": "Bea", "at": 2}, {"id": 1, "name": "Ann", "at": 1}
            >>> flow.run(events=[[newer], [older]]).table("people").to_pylist()
            [{'id': 1, 'name': 'Bea', 'at': 2}]

        """
        who = f"to_table of {self}"
        keys = key_columns(who, key)
        check_column_names(
            who, order=order, deleted=deleted, weight=weight, operation=operation, empty=empty, value=value
        )
        if format is not None:
            if format != "debezium":
                raise FlowError(f"{who}: format must be 'debezium', got {format!r}. Use that.")
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
        """Match each row once with the rows of a table that have its key.

        The table is as it is after the row's epoch. The result is not corrected when the table changes later,
        and no rows of the stream are kept.

        Args:
            table: The table to look up in.
            on: A column that both have, several, or a mapping from columns of the stream to those of the
                table.
            how (str, default "inner"): With ``"left"``, an unmatched row is returned with nulls.
            suffix (str, default "_right"): Suffix of the table's columns whose name is taken.

        Examples:
            >>> flow = ps.Dataflow("lookup")
            >>> cities = flow.table("cities", "city string, country string")
            >>> flow.output("out", flow.stream_input("sales", "city string").lookup(cities, "city"))
            >>> rome = {"city": "Rome", "country": "IT"}
            >>> flow.run(sales=[[], [{"city": "Rome"}]], cities=[[rome], []])["out"][1].to_pylist()
            [{'city': 'Rome', 'country': 'IT'}]

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
        """Apply a function to each Arrow batch.

        Args:
            function: Takes a ``pyarrow.RecordBatch`` and returns rows: an Arrow batch or table, a pandas or
                polars frame, or a list of dictionaries (slower); None for no rows.
            schema (str | pyarrow.Schema, default None): The columns of the result; without it, they stay as
                they are.

        Examples:
            >>> flow = ps.Dataflow("map batches")
            >>> words = flow.stream_input("words", "word string")
            >>> def lengths(batch):
            ...     return pa.record_batch({"n": pc.utf8_length(batch["word"])})
            >>> flow.output("lengths", words.map_batches(lengths, "n int"))
            >>> flow.run(words=[[{"word": "so"}, {"word": "ever"}]])["lengths"][0].to_pylist()
            [{'n': 2}, {'n': 4}]

        """
        wanted = self.schema if schema is None else as_schema(schema)
        return self._stream(lambda: logical.MapBatches(self._operator, function, wanted, name="map"))

    def filter(self, condition: Condition) -> "Stream":
        """Keep the rows for which a condition is true. Null counts as false.

        Args:
            condition: An expression, ``ps.col("age") > 17`` or pyarrow's ``pc.field("age") > 17``, or a
                function from a batch to one boolean per row.

        Examples:
            >>> flow = ps.Dataflow("filter")
            >>> flow.output("adults", flow.stream_input("people", "age long").filter(ps.col("age") > 17))
            >>> flow.run(people=[[{"age": 16}, {"age": 18}]])["adults"][0].to_pylist()
            [{'age': 18}]

        """
        if isinstance(condition, Expression):
            return self._stream(lambda: logical.Filter(self._operator, condition, name="filter"))
        return self._stream(lambda: streams.FilterBatches(self._operator, condition, name="filter"))

    def split(self, condition: Condition) -> "tuple[Stream, Stream]":
        """Split the stream into the rows for which a condition is true, and the others.

        Args:
            condition: As in ``filter``.

        Examples:
            >>> flow = ps.Dataflow("split")
            >>> adults, minors = flow.stream_input("people", "age long").split(ps.col("age") > 17)
            >>> flow.output("minors", minors)
            >>> flow.run(people=[[{"age": 16}, {"age": 18}]])["minors"][0].to_pylist()
            [{'age': 16}]

        """
        kept, others = ports_of(
            self._record, lambda: streams.Split(self._operator, condition, name="split"), self
        )
        return kept, others

    def union(self, *others: "Stream") -> "Stream":
        """Merge this stream with others of the same schema, in no particular order.

        Args:
            *others: Streams with the same schema.

        Examples:
            >>> flow = ps.Dataflow("union")
            >>> old, new = flow.stream_input("old", "id long"), flow.stream_input("new", "id long")
            >>> flow.output("all", old.union(new))
            >>> flow.run(old=[[{"id": 1}]], new=[[{"id": 1}]])["all"][0].to_pylist()
            [{'id': 1}, {'id': 1}]

        """
        parts = (self._operator, *(each._operator for each in others))
        return self._stream(lambda: logical.Union(parts, name="union"), *others)

    def inspect(self, function: Callable[[Any, pa.RecordBatch], None]) -> "Stream":
        """Call a function with each batch and its time; the stream continues unchanged.

        Args:
            function: Takes the time, a tuple of the epoch and the rounds of loops, and the batch.

        Examples:
            >>> flow = ps.Dataflow("inspect")
            >>> words = flow.stream_input("words", "word string")
            >>> flow.output("words", words.inspect(lambda time, batch: print(time, batch.num_rows)))
            >>> results = flow.run(words=[[{"word": "so"}], [{"word": "it"}]])
            (0,) 1
            (1,) 1

        """
        return self._stream(lambda: streams.Inspect(self._operator, function, name="inspect"))

    def probe(self) -> Probe:
        """Return a probe: a running flow tells whether all rows up to a time have passed it.

        Examples:
            >>> flow = ps.Dataflow("probe")
            >>> words = flow.stream_input("words", "word string")
            >>> probe = words.probe()
            >>> flow.output("words", words)
            >>> with flow.open() as run:
            ...     run.input("words").advance_to(2)
            ...     run.settle()
            ...     print(run.is_done(probe, 1), run.is_done(probe, 2))
            True False

        """
        _, probe = self._record.write(lambda: streams.Probed(self._operator), self)
        assert isinstance(probe, Probe), "a probe is lowered to itself"
        return probe

    def explode(self, column: str, *, outer: bool = False, position: str | None = None) -> "Stream":
        """Return one row for each element of a list column; the column then has the element.

        Args:
            column: A list column.
            outer (bool, default False): Keep a row whose list is null or empty, with a null element.
            position (str, default None): Name of a column for the position of the element, from 0.

        Examples:
            >>> flow = ps.Dataflow("explode")
            >>> posts = flow.stream_input("posts", "tags array<string>")
            >>> flow.output("tags", posts.explode("tags", position="n"))
            >>> flow.run(posts=[[{"tags": ["a", "b"]}]])["tags"][0].to_pylist()
            [{'tags': 'a', 'n': 0}, {'tags': 'b', 'n': 1}]

        """
        return self._stream(lambda: logical.Explode(self._operator, column, position, outer, name="explode"))

    # One row at a time.

    def map(self, function: Callable[[Row], Row], schema: str | pa.Schema) -> "Stream":
        """Apply a Python function to each row.

        This calls Python once per row, at some microseconds each: about a hundred times the cost of
        ``map_batches``.

        Args:
            function: Takes a row as a dictionary and returns a dictionary.
            schema: The columns of the result.

        Examples:
            >>> flow = ps.Dataflow("map")
            >>> words = flow.stream_input("words", "word string")
            >>> flow.output("out", words.map(lambda row: {"word": row["word"].upper()}, "word string"))
            >>> flow.run(words=[[{"word": "so"}]])["out"][0].to_pylist()
            [{'word': 'SO'}]

        """
        wanted = as_schema(schema)
        return self._stream(lambda: streams.MapRows(self._operator, function, wanted, name="map"))

    def flat_map(self, function: Callable[[Row], Iterable[Row]], schema: str | pa.Schema) -> "Stream":
        """Apply a Python function to each row; it yields any number of rows.

        This calls Python once per row, at some microseconds each: about a hundred times the cost of
        ``map_batches``.

        Args:
            function: Takes a row as a dictionary and returns an iterable of dictionaries.
            schema: The columns of the result.

        Examples:
            >>> flow = ps.Dataflow("flat map")
            >>> words = flow.stream_input("words", "word string")
            >>> flow.output("out", words.flat_map(lambda row: [{"x": x} for x in row["word"]], "x string"))
            >>> flow.run(words=[[{"word": "so"}]])["out"][0].to_pylist()
            [{'x': 's'}, {'x': 'o'}]

        """
        wanted = as_schema(schema)
        return self._stream(
            lambda: streams.MapRows(self._operator, function, wanted, is_flat=True, name="flat map")
        )

    # The rows of an epoch together.

    def distinct(self, *keys: str, by: str | Iterable[str] = ()) -> "Stream":
        """Return each row of an epoch once; with keys, one row for each key: the first in an order.

        For the distinct rows of all epochs so far, use ``to_table().distinct()``.

        Args:
            *keys: The key columns. Default: all columns.
            by (str | Iterable[str], default ()): The order, as in ``top``. Ties are broken by all columns
                from left to right.

        Examples:
            >>> flow = ps.Dataflow("distinct")
            >>> flow.output("out", flow.stream_input("words", "word string").distinct())
            >>> flow.run(words=[[{"word": "so"}, {"word": "so"}]])["out"][0].to_pylist()
            [{'word': 'so'}]

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
        """Return the first rows of each key in an epoch, or of the complete epoch, in an order.

        Ties in the order are broken by all columns from left to right.

        Args:
            count: The number of rows for each key.
            *keys: The key columns.
            by: The order: names of columns, with ``desc`` for descending order.
            ties (bool, default False): Also return all rows that tie with the last one.
            rank (str, default None): Name of a column for the place of a row, from 1.

        Examples:
            >>> flow = ps.Dataflow("top")
            >>> flow.output("out", flow.stream_input("sales", "price long").top(1, by="price desc"))
            >>> flow.run(sales=[[{"price": 3}, {"price": 5}]])["out"][0].to_pylist()
            [{'price': 5}]

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
        """Join two streams on equal keys, within each epoch. A null key matches nothing.

        Rows of different epochs do not match. Use ``lookup`` to match with a table, or
        ``to_table().join(...)`` to join all epochs so far.

        Args:
            other: The right stream.
            on: A column that both have, several, or a mapping from columns of this stream to those of the
                other.
            how (str, default "inner"): ``"inner"``, ``"left"``, ``"right"``, ``"full"``, ``"semi"``,
                ``"anti"`` or ``"cross"``, as in the join of tables.
            where (Expression, default None): A further condition on the columns of a pair.
            suffix (str, default "_right"): Suffix of right columns whose name is taken.

        Examples:
            >>> flow = ps.Dataflow("join")
            >>> sales = flow.stream_input("sales", "id long, price long")
            >>> names = flow.stream_input("names", "id long, name string")
            >>> flow.output("out", sales.join(names, "id"))
            >>> results = flow.run(sales=[[{"id": 1, "price": 5}]], names=[[{"id": 1, "name": "pen"}]])
            >>> results["out"][0].to_pylist()
            [{'id': 1, 'price': 5, 'name': 'pen'}]

        """
        if not isinstance(other, Stream):
            raise FlowError(
                f"'join' of {self} needs a stream, got {type(other).__name__}. To match with a table, use "
                "lookup(table, 'key'), or to_table().join(table, 'key') for all epochs so far."
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
        """Group the rows of each epoch by key columns, to aggregate them with ``agg`` or ``count``.

        Results are sent at the end of an epoch. For aggregates over all epochs so far, use
        ``to_table().group_by(...)``.

        Args:
            *keys: The key columns. Without keys, all rows of an epoch are one group.
            running (bool, default False): Aggregate over all epochs so far, and send the new row of each key
                that changed in an epoch. The aggregates are ``sum``, ``min``, ``max``, ``mean``, ``count``
                and custom accumulators.

        The rows of a running aggregate are updates. They can be aggregated again only if a replaced row makes
        no difference: a running ``min`` by ``min`` of the same column, a running ``max`` by ``max``, grouped
        by some of the same keys. Everything else raises FlowError, also downstream of ``map``, ``filter``,
        ``union`` and loops (``pointstamp.flow.updates`` has the rules). A custom operator (``ps.operator``)
        may use updates without restriction.

        Examples:
            >>> flow = ps.Dataflow("group by")
            >>> words = flow.stream_input("words", "word string")
            >>> flow.output("out", words.group_by("word", running=True).agg(n=ps.count()))
            >>> flow.run(words=[[{"word": "so"}], [{"word": "so"}]])["out"].table().to_pylist()
            [{'epoch': 0, 'word': 'so', 'n': 1}, {'epoch': 1, 'word': 'so', 'n': 2}]

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
        """Aggregate each epoch that has rows into one row.

        Args:
            aggregates: Aggregates by the names of their columns.
            **named: The same as keywords.

        Examples:
            >>> flow = ps.Dataflow("agg")
            >>> flow.output("out", flow.stream_input("sales", "price long").agg(total=ps.sum("price")))
            >>> flow.run(sales=[[{"price": 3}, {"price": 5}]])["out"][0].to_pylist()
            [{'total': 8}]

        """
        return self.group_by().agg(aggregates, **named)

    def count(self, *keys: str) -> "Stream":
        """Count the rows of each key in an epoch; the column is ``count``.

        Args:
            *keys: The key columns.

        Examples:
            >>> flow = ps.Dataflow("count")
            >>> flow.output("out", flow.stream_input("words", "word string").count("word"))
            >>> flow.run(words=[[{"word": "so"}, {"word": "so"}]])["out"][0].to_pylist()
            [{'word': 'so', 'count': 2}]

        """
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
        """Add the tumbling or sliding window of event time in which a row lies.

        Windows begin at multiples of ``size`` (or ``slide``) after 1970-01-01, plus ``offset``. The end is
        exclusive. A row whose ``at`` is null is in no window and is dropped.

        Args:
            at: A column of timestamps, dates or integers.
            size: The length of a window: ``"10 minutes"``, a timedelta, or a number for integers.
            slide (Span, default ``size``): The distance between windows; a row is returned once for each
                window.
            offset (Span, default None): Shifts all windows.
            start (str, default "window_start"): Name of the column for the start.
            end (str, default "window_end"): Name of the column for the end.

        Examples:
            >>> flow = ps.Dataflow("window")
            >>> flow.output("out", flow.stream_input("bids", "at long").window("at", 10))
            >>> flow.run(bids=[[{"at": 12}]])["out"][0].to_pylist()
            [{'at': 12, 'window_start': 10, 'window_end': 20}]

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
        """Declare a watermark: the greatest event time so far, less an allowed lateness.

        The watermark is computed after each epoch. Rows of later epochs before it are late, and do not
        continue. Downstream operators that wait for event time (``emit_on_close``, ``retain_until``) use the
        watermark; with several streams, the least.

        Args:
            at: A column of timestamps, dates or integers.
            lateness: The allowed lateness: ``"2 minutes"``, a timedelta, or a number for integers.
            late (str, default "output"): ``"output"`` sends late rows to a separate output, ``"drop"`` only
                counts them, ``"error"`` ends the run.
            late_output (str, default ``<input>_late``): The name of that output.
            idle (str | timedelta, default None): A stream without rows holds the watermark of the others
                back. With ``idle="30 seconds"`` it does so no longer once a query has received nothing from
                its inputs for that time, until a row arrives. Rows that are behind the others by then are
                late.

        Examples:
            >>> flow = ps.Dataflow("watermark")
            >>> flow.output("in_time", flow.stream_input("clicks", "at long").with_watermark("at", 2))
            >>> results = flow.run(clicks=[[{"at": 9}], [{"at": 5}, {"at": 8}]])
            >>> results["in_time"][1].to_pylist(), results["clicks_late"][1].to_pylist()
            ([{'at': 8}], [{'at': 5}])

        """
        return self._stream(
            lambda: streams.Watermark(self._operator, at, lateness, late, late_output, idle, name="watermark")
        )

    def emit_on_close(self, when: str | Expression | None = None) -> "Stream":
        """Emit each row once, when the watermark has passed its time.

        All rows that wait for the same time are emitted in one epoch: the first after which the watermark is
        at or after that time. So all rows of a window are in one epoch, and their aggregate is final. If
        epochs are event time, it is the last epoch that begins before the time. A row whose time is null is
        dropped.

        Args:
            when (str | Expression, default None): A column or an expression: the time to wait for.
                Default: the column ``window_end``, or ``session_end`` if there is no such column.

        Examples:
            >>> flow = ps.Dataflow("closed windows")
            >>> bids = flow.stream_input("bids", "at long").with_watermark("at", 0)
            >>> flow.output("out", bids.window("at", 5).emit_on_close().count("window_start"))
            >>> flow.run(bids=[[{"at": 1}], [{"at": 3}], [{"at": 5}]])["out"].table().to_pylist()
            [{'epoch': 2, 'window_start': 0, 'count': 2}]

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
        """Add the session of each row, and emit it once, when the watermark has passed the session's end.

        Rows of a key within ``gap`` of each other are one session; it ends ``gap`` after its last row. All
        rows of a session are in one epoch, so their aggregate is final, and their state is freed. This needs
        ``with_watermark``, or epochs that are event time. For sessions that late rows correct, use
        ``to_table().session_window(...)``.

        Args:
            *keys: The key columns.
            at: A column of timestamps, dates or integers.
            gap: The maximum distance between rows of a session: ``"5 minutes"``, a timedelta, or a number.
            start (str, default "session_start"): Name of the column for the start.
            end (str, default "session_end"): Name of the column for the end.
            aggregates: Aggregates by the names of their columns; with them, each session is one row.
            **named: The same as keywords.

        Examples:
            >>> flow = ps.Dataflow("sessions")
            >>> clicks = flow.stream_input("clicks", "user string, at long").with_watermark("at", 0)
            >>> flow.output("out", clicks.session_window("user", at="at", gap=5, clicks=ps.count()))
            >>> rows = [[{"user": "ann", "at": 1}], [{"user": "ann", "at": 4}], [{"user": "bob", "at": 20}]]
            >>> flow.run(clicks=rows)["out"][2].to_pylist()
            [{'user': 'ann', 'session_start': 1, 'session_end': 9, 'clicks': 2}]

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
        """Join two streams on equal keys and close event times; each pair is emitted once.

        Both streams need ``with_watermark``. Rows that can match nothing any more, by the lesser watermark,
        are freed.

        Args:
            other: The right stream.
            on: The key, as in ``join``.
            at: The column of event time; a mapping if its name differs in the other stream.
            within: The maximum distance, ``"10 minutes"``; or a pair, how much earlier and how much later the
                other row may be.
            suffix (str, default "_right"): Suffix of right columns whose name is taken.

        Examples:
            >>> flow = ps.Dataflow("join interval")
            >>> sent = flow.stream_input("sent", "id long, at long").with_watermark("at", 2)
            >>> paid = flow.stream_input("paid", "id long, at long").with_watermark("at", 2)
            >>> flow.output("pairs", sent.join_interval(paid, "id", at="at", within=5))
            >>> flow.run(sent=[[{"id": 1, "at": 1}]], paid=[[{"id": 1, "at": 4}]])["pairs"][0].to_pylist()
            [{'id': 1, 'at': 1, 'at_right': 4}]

        """
        mine, theirs = (each.to_table().named("join interval: rows") for each in (self, other))
        return mine.join_interval(theirs, on, at=at, within=within, suffix=suffix)

    def delay(self, epochs: int = 1) -> "Stream":
        """Delay the batches by a number of epochs.

        Args:
            epochs (int, default 1): The number of epochs.

        Examples:
            >>> flow = ps.Dataflow("delay")
            >>> flow.output("out", flow.stream_input("words", "word string").delay(1))
            >>> flow.run(words=[[{"word": "so"}]])["out"].table().to_pylist()
            [{'epoch': 1, 'word': 'so'}]

        """
        return self._stream(lambda: streams.Delay(self._operator, epochs, name="delay"))

    def loop(self, name: str = "loop", *, max_rounds: int | None = None, at_limit: str = "error") -> "Loop":
        """Open a loop of streams, as a context manager, in the scope of this stream.

        In the block, ``loop.enter(stream)`` brings a stream into round 0, ``loop.variable(schema)`` is a
        stream that is fed back, ``loop.feedback(variable, stream)`` sets its rows of the next round, and
        ``loop.leave(stream)`` takes a stream out of the loop.

        Args:
            name (str, default "loop"): The name of the loop.
            max_rounds (int, default None): The maximum number of rounds.
            at_limit (str, default "error"): A row that would enter a later round raises FlowError; with
                ``"stop"`` it is dropped, and the loop returns the rows that it has.

        Examples:
            >>> flow = ps.Dataflow("halve")
            >>> numbers = flow.stream_input("numbers", "x long")
            >>> with numbers.loop("halve") as loop:
            ...     again = loop.variable("x long")
            ...     done, rest = loop.enter(numbers).union(again).split(ps.col("x") <= 1)
            ...     loop.feedback(again, rest.select(x=F.floor(ps.col("x") / 2)))
            ...     flow.output("done", loop.leave(done))
            >>> flow.run(numbers=[[{"x": 12}]])["done"][0].to_pylist()
            [{'x': 1}]

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
        raise FlowError(f"{who}: {given[0]!r} has no effect with {beside}. Remove it.")


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
