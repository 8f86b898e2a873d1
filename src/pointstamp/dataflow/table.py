"""Tables: the class that users chain incremental operations on.

A table is a stream of changes, rows with a weight, and its value at a time is the sum of all changes up to
it. Every operation keeps the law: the accumulated output up to an epoch is the result of the same query on
the accumulated inputs up to that epoch.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa

from pointstamp.arrow.schema import as_schema
from pointstamp.dataflow.grouped import RowGroups
from pointstamp.dataflow.loops import Loop, TableLoop
from pointstamp.dataflow.other_words import no_such_verb
from pointstamp.dataflow.record import FlowRecord, Recorded, physical_of, sides
from pointstamp.dataflow.stream import Stream, closing_time, listed, timed
from pointstamp.dataflow.window_columns import ColumnValue, RecordedColumns, Window
from pointstamp.errors import FlowError
from pointstamp.expressions.select_columns import others, renamed
from pointstamp.expressions.time_windows import Span
from pointstamp.expressions.tree import Column, Expression, col
from pointstamp.flow.plan import How
from pointstamp.flow.reduction import SessionOptions, checked_aggregates, session_options
from pointstamp.flow.watermarks import one_clock as physical_clock
from pointstamp.incremental.asof_join import Direction, Tolerance, one_pair
from pointstamp.incremental.hash_join import check_no_key, joining
from pointstamp.incremental.interval_join import pair_of_times
from pointstamp.incremental.physical_table import deltas_of
from pointstamp.incremental.window_functions import placed
from pointstamp.operators.stateless import BatchFunction, Row
from pointstamp.plan import logical, streams
from pointstamp.plan.logical import LogicalOperator
from pointstamp.reduce.aggregate import Aggregation
from pointstamp.reduce.over import WindowExpression


class Table(RecordedColumns):
    """A table of rows that are inserted and deleted; made by ``stream.to_table()`` and by other tables.

    After each epoch an output of a table has the changes of that epoch, with their multiplicity in the column
    ``diff``: 1 for an inserted row, -1 for a deleted one.

    Examples:
        >>> flow = ps.Dataflow("sales")
        >>> sales = flow.table("sales", "city string, price long")
        >>> flow.output("totals", sales.group_by("city").agg(total=ps.sum("price")))
        >>> results = flow.run(sales=[[{"city": "Rome", "price": 5}], [{"city": "Rome", "price": 2}]])
        >>> results["totals"][1].to_pylist()
        [{'city': 'Rome', 'total': 5, 'diff': -1}, {'city': 'Rome', 'total': 7, 'diff': 1}]
        >>> results.table("totals").to_pylist()
        [{'city': 'Rome', 'total': 7}]

    """

    _sessions: "_Sessions | None" = None
    """The alternative form of a table of sessions, which frees sessions that event time has passed."""

    def __init__(self, changes: Stream) -> None:
        """Make a table of a stream of changes, rows with their weight as the last column ``diff``."""
        record = changes._record
        self._set(record, *record.write(lambda: streams.FromChanges(changes._operator), changes))

    @property
    def schema(self) -> pa.Schema:
        """The columns of a row."""
        schema: pa.Schema = self._physical.schema
        return schema

    def changes(self) -> Stream:
        """Return the changes of the table as a stream: each row that changed in an epoch once, with ``diff``.

        Returns:
            A stream with the columns of the table and ``diff`` (long): 1 for an insertion, -1 for a deletion.

        Examples:
            >>> flow = ps.Dataflow("removed")
            >>> orders = flow.table("orders", "id long, w long", weight="w")
            >>> flow.output("removed", orders.changes().filter(ps.col("diff") < 0))
            >>> results = flow.run(orders=[[{"id": 1, "w": 1}, {"id": 2, "w": 1}], [{"id": 1, "w": -1}]])
            >>> results["removed"][1].to_pylist()
            [{'id': 1, 'diff': -1}]

        """
        return self._stream(lambda: streams.TableChanges(self._operator, name="changes"))

    def upserts(self, *keys: str, deleted: str = "deleted") -> Stream:
        """Return the latest row of each key as a stream: one row for each key that changed in an epoch.

        Args:
            *keys: The key columns. A key must have at most one row; two raise FlowError, with their epoch.
            deleted (str, default "deleted"): Name of a boolean column that is true if the key was deleted.
                The other columns of such a row are null.

        Examples:
            >>> flow = ps.Dataflow("prices")
            >>> prices = flow.table("prices", "id long, price long, w long", weight="w")
            >>> flow.output("latest", prices.upserts("id"))
            >>> inserted, updated = {"id": 1, "price": 5, "w": 1}, {"id": 1, "price": 7, "w": 1}
            >>> flow.run(prices=[[inserted], [{**inserted, "w": -1}, updated]])["latest"][1].to_pylist()
            [{'id': 1, 'price': 7, 'deleted': False}]

        """
        return self._stream(lambda: streams.UpsertsOf(self._operator, keys, deleted, name="upserts"))

    # Row by row.

    def select(self, /, *columns: str | Expression, **named: ColumnValue) -> "Table":
        """Select columns by name or by expression.

        Args:
            *columns: Names of columns, or expressions with a name.
            **named: Expressions by the name of their column; window expressions as in ``with_columns``.

        Examples:
            >>> flow = ps.Dataflow("select")
            >>> sales = flow.table("sales", "id long, price long, city string")
            >>> flow.output("gross", sales.select("id", gross=ps.col("price") * 2))
            >>> flow.run(sales=[[{"id": 1, "price": 5, "city": "Rome"}]]).table("gross").to_pylist()
            [{'id': 1, 'gross': 10}]

        """
        return self._selected(columns, named)

    def with_columns(self, /, *columns: Mapping[str, ColumnValue], **named: ColumnValue) -> "Table":
        """Add columns, or replace columns of the same name.

        A window expression is computed from the rows of a partition, in an order. Ties in the order are
        broken by all columns from left to right, and each copy of a row has a separate place. If a row
        changes, its partition is recomputed, and the rows that differ are sent.

        Args:
            *columns: Expressions by name, in a mapping.
            **named: The same as keywords.

        Examples:
            >>> flow = ps.Dataflow("with columns")
            >>> sales = flow.table("sales", "at long, price long")
            >>> earlier = ps.lag("price").over(order_by="at")
            >>> added = sales.with_columns(twice=ps.col("price") * 2, earlier=earlier)
            >>> flow.output("out", added.drop("price"))
            >>> rows = [{"at": 1, "price": 5}, {"at": 2, "price": 7}]
            >>> flow.run(sales=[rows]).table("out").sort_by("at").to_pylist()
            [{'at': 1, 'twice': 10, 'earlier': None}, {'at': 2, 'twice': 14, 'earlier': 5}]

        """
        return self._with_columns(columns, named)

    def drop(self, *columns: str) -> "Table":
        """Remove columns. Rows that are equal without them are consolidated.

        Args:
            *columns: Names of the columns to remove.

        Examples:
            >>> flow = ps.Dataflow("drop")
            >>> flow.output("cities", flow.table("sales", "id long, city string").drop("id"))
            >>> rows = [{"id": 1, "city": "Rome"}, {"id": 2, "city": "Rome"}]
            >>> flow.run(sales=[rows])["cities"][0].to_pylist()
            [{'city': 'Rome', 'diff': 2}]

        """
        return self._project("drop", others(f"drop of {self}", self.schema, columns))

    def rename(self, names: Mapping[str, str]) -> "Table":
        """Rename columns.

        Args:
            names: New names by old name.

        Examples:
            >>> flow = ps.Dataflow("rename")
            >>> flow.table("bids", "person long, price long").rename({"person": "buyer"}).schema.names
            ['buyer', 'price']

        """
        return self._project("rename", renamed(f"rename of {self}", self.schema, names))

    def filter(self, condition: Expression) -> "Table":
        """Keep the rows for which a condition is true. Null counts as false.

        Args:
            condition: A boolean expression.

        Examples:
            >>> flow = ps.Dataflow("filter")
            >>> flow.output("dear", flow.table("sales", "id long, price long").filter(ps.col("price") > 4))
            >>> flow.run(sales=[[{"id": 1, "price": 5}, {"id": 2, "price": 3}]]).table("dear").to_pylist()
            [{'id': 1, 'price': 5}]

        """
        return self._table(lambda: logical.Filter(self._operator, condition, name="filter"))

    def explode(self, column: str, *, outer: bool = False, position: str | None = None) -> "Table":
        """Return one row for each element of a list column; the column then has the element.

        Args:
            column: A list column.
            outer (bool, default False): Keep a row whose list is null or empty, with a null element.
            position (str, default None): Name of a column for the position of the element, from 0.

        Examples:
            >>> flow = ps.Dataflow("explode")
            >>> flow.output("tags", flow.table("posts", "id long, tags array<string>").explode("tags"))
            >>> flow.run(posts=[[{"id": 1, "tags": ["a", "b"]}]]).table("tags").to_pylist()
            [{'id': 1, 'tags': 'a'}, {'id': 1, 'tags': 'b'}]

        """
        return self._table(lambda: logical.Explode(self._operator, column, position, outer, name="explode"))

    def map_batches(self, function: BatchFunction, schema: str | pa.Schema | None = None) -> "Table":
        """Apply a function to Arrow batches of rows.

        The function must be deterministic and must treat each row independently of the other rows in its
        batch: when a row is deleted, the function is called again to retract its results.

        Args:
            function: Takes a ``pyarrow.RecordBatch`` and returns rows: an Arrow batch or table, a pandas or
                polars frame, or a list of dictionaries; None for no rows.
            schema (str | pyarrow.Schema, default None): The columns of the result; without it, they stay as
                they are.

        Examples:
            >>> flow = ps.Dataflow("map batches")
            >>> words = flow.table("words", "word string")
            >>> def lengths(batch):
            ...     return pa.record_batch({"n": pc.utf8_length(batch["word"])})
            >>> flow.output("lengths", words.map_batches(lengths, "n int"))
            >>> flow.run(words=[[{"word": "so"}, {"word": "ever"}]]).table("lengths").to_pylist()
            [{'n': 2}, {'n': 4}]

        """
        wanted = self.schema if schema is None else as_schema(schema)
        return self._table(lambda: logical.MapBatches(self._operator, function, wanted, name="map"))

    def flat_map(self, function: Callable[[Row], Iterable[Row]], schema: str | pa.Schema) -> "Table":
        """Apply a Python function to each row; it yields any number of rows.

        This calls Python once per row, at some microseconds each: about a hundred times the cost of
        ``map_batches``. The function must be deterministic.

        Args:
            function: Takes a row as a dictionary and returns an iterable of dictionaries.
            schema: The columns of the result.

        Examples:
            >>> flow = ps.Dataflow("flat map")
            >>> words = flow.table("words", "word string")
            >>> flow.output("letters", words.flat_map(lambda r: [{"x": x} for x in r["word"]], "x string"))
            >>> flow.run(words=[[{"word": "so"}]]).table("letters").to_pylist()
            [{'x': 's'}, {'x': 'o'}]

        """
        wanted = as_schema(schema)
        return self._table(lambda: streams.MapRows(self._operator, function, wanted, True, name="flat map"))

    def union(self, *others: "Table") -> "Table":
        """Return the rows of this table and of others, with all copies (SQL's ``UNION ALL``).

        Args:
            *others: Tables with the same schema.

        Examples:
            >>> flow = ps.Dataflow("union")
            >>> old, new = flow.table("old", "id long"), flow.table("new", "id long")
            >>> flow.output("all", old.union(new))
            >>> flow.run(old=[[{"id": 1}]], new=[[{"id": 1}]]).table("all").to_pylist()
            [{'id': 1}, {'id': 1}]

        """
        parts = (self._operator, *(self._given("union", each) for each in others))
        return self._table(lambda: logical.Union(parts, name="union"), *others)

    def window(
        self,
        at: str,
        size: Span,
        *,
        slide: Span | None = None,
        offset: Span | None = None,
        start: str = "window_start",
        end: str = "window_end",
    ) -> "Table":
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
            >>> bids = flow.table("bids", "at long")
            >>> flow.output("bids", bids.window("at", 10).group_by("window_start").agg(bids=ps.count()))
            >>> results = flow.run(bids=[[{"at": 3}, {"at": 8}, {"at": 12}]])
            >>> results.table("bids").sort_by("window_start").to_pylist()
            [{'window_start': 0, 'bids': 2}, {'window_start': 10, 'bids': 1}]

        """
        return self._table(
            lambda: logical.TimeWindow(self._operator, at, size, slide, offset, start, end, name="window")
        )

    # Two tables.

    def join(
        self,
        other: "Table",
        on: str | Mapping[str, str] | Iterable[str] = (),
        *,
        how: How = "inner",
        where: Expression | None = None,
        suffix: str = "_right",
    ) -> "Table":
        """Join two tables on equal keys. A null key matches nothing.

        The key columns are in the result once, under their names in this table. Another column that both
        tables have gets the suffix on the right side.

        Args:
            other: The right table.
            on: A column that both tables have, several, or a mapping from columns of this table to columns of
                the other.
            how (str, default "inner"): ``"inner"``; ``"left"``, ``"right"`` or ``"full"``, which also return
                unmatched rows, with nulls; ``"semi"`` or ``"anti"``, which return the rows of this table with
                or without a match; or ``"cross"``, which takes no ``on`` and returns all pairs (keep the
                other table small).
            where (Expression, default None): A further condition on the columns of a pair.
            suffix (str, default "_right"): Suffix of right columns whose name is taken.

        Examples:
            >>> flow = ps.Dataflow("join")
            >>> orders = flow.table("orders", "id long, city string")
            >>> cities = flow.table("cities", "city string, country string")
            >>> flow.output("joined", orders.join(cities, "city", how="left"))
            >>> orders, cities = [{"id": 1, "city": "Rome"}], [{"city": "Rome", "country": "IT"}]
            >>> flow.run(orders=[orders], cities=[cities]).table("joined").to_pylist()
            [{'id': 1, 'city': 'Rome', 'country': 'IT'}]

        """
        theirs = self._given("join", other)
        who = f"'join' of {self} and {other}"
        if how == "cross":
            check_no_key(who, on)
        keys = self._keys(who, other.schema, on, suffix)
        return self._table(
            lambda: logical.Join(self._operator, theirs, how, keys, where, suffix, name="join"), other
        )

    def join_asof(
        self,
        other: "Table",
        on: str | Mapping[str, str] | Iterable[str],
        *,
        at: str | Mapping[str, str],
        direction: Direction = "backward",
        how: Literal["inner", "left"] = "inner",
        tolerance: Tolerance | None = None,
        suffix: str = "_right",
    ) -> "Table":
        """Match each row with the latest row of the other table that has its key and is not later.

        Args:
            other: The right table.
            on: The key, as in ``join``.
            at: The time column; a mapping if its name differs in the other table.
            direction (str, default "backward"): ``"backward"``; ``"forward"``, the first row that is not
                earlier; or ``"nearest"``. Ties are broken by all columns from left to right: backward takes
                the last row, forward the first.
            how (str, default "inner"): With ``"left"``, an unmatched row is returned with nulls.
            tolerance (int | float | str | timedelta, default None): The maximum distance, a number or a
                length of time such as ``"10 minutes"``.
            suffix (str, default "_right"): Suffix of right columns whose name is taken.

        Examples:
            >>> flow = ps.Dataflow("as of")
            >>> orders = flow.table("orders", "city string, at long")
            >>> rates = flow.table("rates", "city string, at long, rate long")
            >>> flow.output("rated", orders.join_asof(rates, "city", at="at").select("at", "rate"))
            >>> rate = {"city": "Rome", "at": 4, "rate": 1}
            >>> results = flow.run(orders=[[{"city": "Rome", "at": 5}]], rates=[[rate, {**rate, "at": 6}]])
            >>> results.table("rated").to_pylist()
            [{'at': 5, 'rate': 1}]

        """
        theirs = self._given("join as of", other)
        who = f"'join as of' of {self} and {other}"
        keys = self._keys(who, other.schema, on, suffix)
        ((one, another),) = one_pair(who, at).items()
        return self._table(
            lambda: logical.AsOfJoin(
                self._operator,
                theirs,
                keys,
                (one, another),
                direction,
                how,
                tolerance,
                suffix,
                name="join asof",
            ),
            other,
        )

    def except_(self, other: "Table") -> "Table":
        """Return the distinct rows of this table that the other does not contain (SQL's ``EXCEPT``).

        Args:
            other: A table with the same columns.

        Examples:
            >>> flow = ps.Dataflow("except")
            >>> flow.output("out", flow.table("a", "x long").except_(flow.table("b", "x long")))
            >>> flow.run(a=[[{"x": 1}, {"x": 2}, {"x": 2}]], b=[[{"x": 1}]]).table("out").to_pylist()
            [{'x': 2}]

        """
        theirs = self._given("except_", other)
        return self._table(lambda: logical.Except(self._operator, theirs, name="except"), other)

    def except_all(self, other: "Table") -> "Table":
        """Subtract the copies of each row in the other table (SQL's ``EXCEPT ALL``).

        Args:
            other: A table with the same columns.

        Examples:
            >>> flow = ps.Dataflow("except all")
            >>> flow.output("out", flow.table("a", "x long").except_all(flow.table("b", "x long")))
            >>> flow.run(a=[[{"x": 1}, {"x": 2}, {"x": 2}]], b=[[{"x": 2}]]).table("out").to_pylist()
            [{'x': 1}, {'x': 2}]

        """
        theirs = self._given("except_all", other)
        return self._table(lambda: logical.Except(self._operator, theirs, True, name="except"), other)

    def intersect(self, other: "Table") -> "Table":
        """Return the distinct rows that both tables contain (SQL's ``INTERSECT``).

        Args:
            other: A table with the same columns.

        Examples:
            >>> flow = ps.Dataflow("intersect")
            >>> flow.output("out", flow.table("a", "x long").intersect(flow.table("b", "x long")))
            >>> flow.run(a=[[{"x": 1}, {"x": 2}]], b=[[{"x": 2}, {"x": 3}]]).table("out").to_pylist()
            [{'x': 2}]

        """
        theirs = self._given("intersect", other)
        return self._table(lambda: logical.Intersect(self._operator, theirs, name="intersect"), other)

    def intersect_all(self, other: "Table") -> "Table":
        """Return the rows of both tables, with the lesser number of copies (SQL's ``INTERSECT ALL``).

        Args:
            other: A table with the same columns.

        Examples:
            >>> flow = ps.Dataflow("intersect all")
            >>> flow.output("out", flow.table("a", "x long").intersect_all(flow.table("b", "x long")))
            >>> flow.run(a=[[{"x": 1}] * 3], b=[[{"x": 1}] * 2]).table("out").to_pylist()
            [{'x': 1}, {'x': 1}]

        """
        theirs = self._given("intersect_all", other)
        return self._table(lambda: logical.Intersect(self._operator, theirs, True, name="intersect"), other)

    # By key.

    def distinct(self, *keys: str, by: str | Iterable[str] = ()) -> "Table":
        """Return each row once; with keys, one row for each key: the first in an order.

        Args:
            *keys: The key columns. Default: all columns.
            by (str | Iterable[str], default ()): The order, as in ``top``. Ties are broken by all columns
                from left to right, so the result does not depend on the order of arrival.

        Examples:
            >>> flow = ps.Dataflow("distinct")
            >>> sales = flow.table("sales", "city string, price long")
            >>> flow.output("cheapest", sales.distinct("city", by="price"))
            >>> rows = [{"city": "Rome", "price": 5}, {"city": "Rome", "price": 3}]
            >>> flow.run(sales=[rows]).table("cheapest").to_pylist()
            [{'city': 'Rome', 'price': 3}]

        """
        order = listed(f"'distinct' of {self}", self.schema, by, is_needed=False)
        if not keys and not order:
            return self._table(lambda: logical.Distinct(self._operator, name="distinct"))
        return self._table(lambda: logical.DistinctOn(self._operator, keys, order, name="distinct"))

    def group_by(self, *keys: str) -> "RowGroups[Table]":
        """Group the rows by key columns, to aggregate them with ``agg`` or ``count``.

        Args:
            *keys: The key columns. Without keys, all rows are one group.

        Examples:
            >>> flow = ps.Dataflow("group by")
            >>> sales = flow.table("sales", "city string, price long")
            >>> flow.output("totals", sales.group_by("city").agg(total=ps.sum("price")))
            >>> rows = [{"city": "Rome", "price": 5}, {"city": "Rome", "price": 3}]
            >>> flow.run(sales=[rows]).table("totals").to_pylist()
            [{'city': 'Rome', 'total': 8}]

        """

        def aggregated(wanted: dict[str, Aggregation], name: str) -> "Table":
            asked = checked_aggregates(f"agg of {self}", wanted)
            return self._table(
                lambda: logical.Aggregate(self._operator, keys, tuple(asked.items()), name=name)
            )

        return RowGroups(aggregated)

    def agg(self, aggregates: Mapping[str, Aggregation] | None = None, /, **named: Aggregation) -> "Table":
        """Aggregate the complete table into one row.

        As in SQL, the row exists from epoch 0, even if the table is empty. Then counts are 0, collections are
        empty and other aggregates are null.

        Args:
            aggregates: Aggregates by the names of their columns.
            **named: The same as keywords.

        Examples:
            >>> flow = ps.Dataflow("agg")
            >>> flow.output("most", flow.table("sales", "price long").agg(most=ps.max("price"), n=ps.count()))
            >>> flow.run(sales=[[{"price": 5}, {"price": 3}]]).table("most").to_pylist()
            [{'most': 5, 'n': 2}]

        """
        return self.group_by().agg(aggregates, **named)

    def count(self, *keys: str) -> "Table":
        """Count the rows of each key, or of the complete table; the column is ``count``.

        Args:
            *keys: The key columns.

        Examples:
            >>> flow = ps.Dataflow("count")
            >>> flow.output("counts", flow.table("words", "word string").count("word"))
            >>> flow.run(words=[[{"word": "so"}], [{"word": "so"}]]).table("counts").to_pylist()
            [{'word': 'so', 'count': 2}]

        """
        return self.group_by(*keys).count()

    def top(
        self, count: int, *keys: str, by: str | Iterable[str], ties: bool = False, rank: str | None = None
    ) -> "Table":
        """Return the first rows of each key, or of the complete table, in an order.

        Ties in the order are broken by all columns from left to right.

        Args:
            count: The number of rows for each key.
            *keys: The key columns.
            by: The order: names of columns, with ``desc`` for descending order. Null sorts first, with
                ``desc`` last; ``"price desc nulls first"`` sets it.
            ties (bool, default False): Also return all rows that tie with the last one.
            rank (str, default None): Name of a column for the place of a row, from 1.

        Examples:
            >>> flow = ps.Dataflow("top")
            >>> sales = flow.table("sales", "city string, price long")
            >>> flow.output("dearest", sales.top(1, "city", by="price desc"))
            >>> rows = [{"city": "Rome", "price": 5}, {"city": "Rome", "price": 3}]
            >>> flow.run(sales=[rows]).table("dearest").to_pylist()
            [{'city': 'Rome', 'price': 5}]

        """
        order = listed(f"'top' of {self}", self.schema, by)
        return self._table(lambda: logical.TopK(self._operator, count, keys, order, ties, rank, name="top"))

    def session_window(
        self,
        *keys: str,
        at: str,
        gap: Span,
        start: str | Aggregation = "session_start",
        end: str | Aggregation = "session_end",
        aggregates: Mapping[str, Aggregation] | Aggregation | None = None,
        **named: Aggregation,
    ) -> "Table":
        """Add the session of each row (rows of a key close in time); with aggregates, one row per session.

        A row within ``gap`` after another row of its key is in the same session. A session ends ``gap`` after
        its last row; as in Spark, a row exactly at the end belongs to it. Sessions merge and split as rows
        are inserted and deleted. A row whose ``at`` is null is in no session and is dropped.

        With ``retain_until("session_end")`` sessions leave the table, and are freed, when the watermark has
        passed their end. With ``emit_on_close("session_end")`` each is then emitted once.

        Args:
            *keys: The key columns.
            at: A column of timestamps, dates or integers.
            gap: The maximum distance between rows of a session: ``"5 minutes"``, a timedelta, or a number.
            start (str, default "session_start"): Name of the column for the start.
            end (str, default "session_end"): Name of the column for the end.
            aggregates: Aggregates by the names of their columns.
            **named: The same as keywords.

        Examples:
            >>> flow = ps.Dataflow("sessions")
            >>> clicks = flow.table("clicks", "user string, at long")
            >>> flow.output("sessions", clicks.session_window("user", at="at", gap=5, clicks=ps.count()))
            >>> rows = [{"user": "ann", "at": 1}, {"user": "ann", "at": 4}]
            >>> flow.run(clicks=[rows]).table("sessions").to_pylist()
            [{'user': 'ann', 'session_start': 1, 'session_end': 9, 'clicks': 2}]

        """
        said = session_options(
            f"session_window of {self}", start=start, end=end, aggregates=aggregates, named=named
        )

        def table(emits: Literal["always", "while open"], name: str | None) -> Table:
            own = (name or "sessions") if not said.aggregates else "sessions"
            rows = self._table(
                lambda: streams.SessionWindow(
                    self._operator, keys, at, gap, said.start, said.end, emits, self._clock(), name=own
                ),
                *self._record.clock,
            )
            if not said.aggregates:
                return rows
            made = rows.group_by(*keys, said.start, said.end).agg(said.aggregates)
            return made.named(name or "sessions: aggregates")

        made = table("always", None)
        made._sessions = _Sessions(
            said.end,
            lambda name: table("while open", name),
            lambda: self._closed_sessions(keys, at, gap, said),
        )
        return made

    # Event time.

    def retain_until(self, when: str | Expression) -> "Table":
        """Retain each row until the watermark has passed its time; then delete it and free its state.

        The row is deleted in the next epoch that has event times. A row whose time is null is dropped.

        Args:
            when: A column or an expression: the time until which a row is retained.

        Examples:
            >>> flow = ps.Dataflow("retain")
            >>> clicks = flow.stream_input("clicks", "at long").with_watermark("at", 2).to_table()
            >>> flow.output("recent", clicks.retain_until(ps.col("at") + 5))
            >>> results = flow.run(clicks=[[{"at": 1}], [{"at": 9}], [{"at": 10}]])
            >>> results.table("recent").sort_by("at").to_pylist()
            [{'at': 9}, {'at': 10}]

        """
        if (sessions := self._sessions_until(when)) is not None:
            return sessions.retained(self._operator.name or "sessions")
        return self._table(
            lambda: streams.TemporalFilter(self._operator, timed(when), self._clock(), name="retain until"),
            *self._record.clock,
        )

    def _closed_sessions(self, keys: tuple[str, ...], at: str, gap: Span, said: SessionOptions) -> Stream:
        """Each row once, with its session, or each session once, when event time has passed its end."""
        closed = self._stream(
            lambda: streams.SessionWindow(
                self._operator, keys, at, gap, said.start, said.end, "once", self._clock(), name="sessions"
            ),
            *self._record.clock,
        )
        if not said.aggregates:
            return closed
        return closed.group_by(*keys, said.start, said.end).agg(said.aggregates).named("sessions: aggregates")

    def _sessions_until(self, when: str | Expression) -> "_Sessions | None":
        """The sessions that this table has, if this is the column of their ends; others take their place."""
        end = when.column if isinstance(when, Column) else when
        if self._sessions is None or not isinstance(end, str) or end != self._sessions.end:
            return None
        self._record.replaced.add(self._operator)
        return self._sessions

    def join_interval(
        self,
        other: "Table",
        on: str | Mapping[str, str] | Iterable[str],
        *,
        at: str | Mapping[str, str],
        within: Span | tuple[Span, Span],
        suffix: str = "_right",
    ) -> Stream:
        """Match rows with equal keys that are close in event time, as ``stream.join_interval``.

        Args:
            other: An append-only table.
            on: The key, as in ``join``.
            at: The column of event time; a mapping if its name differs in the other table.
            within: The maximum distance, ``"10 minutes"``; or a pair, how much earlier and how much later the
                other row may be.
            suffix (str, default "_right"): Suffix of right columns whose name is taken.

        Returns:
            A stream that has each pair once. Both tables must be append-only, and need a watermark.

        Examples:
            >>> flow = ps.Dataflow("join interval")
            >>> sent = flow.stream_input("sent", "id long, at long").with_watermark("at", 2).to_table()
            >>> paid = flow.stream_input("paid", "id long, at long").with_watermark("at", 2).to_table()
            >>> flow.output("pairs", sent.join_interval(paid, "id", at="at", within=5))
            >>> flow.run(sent=[[{"id": 1, "at": 1}]], paid=[[{"id": 1, "at": 4}]])["pairs"][0].to_pylist()
            [{'id': 1, 'at': 1, 'at_right': 4}]

        """
        theirs = self._given("join within", other)
        keys = self._keys("'join within'", other.schema, on, suffix)
        times = pair_of_times("'join within'", at)
        return self._stream(
            lambda: streams.IntervalJoin(
                self._operator, theirs, keys, times, within, suffix, name="join interval"
            ),
            other,
        )

    def emit_on_close(self, when: str | Expression | None = None) -> Stream:
        """Emit each row once, as it is when the watermark has passed its time; later changes are ignored.

        A row is emitted in the first epoch after which the watermark is at or after its time. The operators
        upstream must free such rows, with ``retain_until``; otherwise their state grows without bound.
        Directly after ``session_window`` sessions are freed without it.

        Args:
            when (str | Expression, default None): A column or an expression: the time to wait for.
                Default: the column ``window_end``, or ``session_end`` if there is no such column.

        Examples:
            >>> flow = ps.Dataflow("closed windows")
            >>> bids = flow.stream_input("bids", "at long").with_watermark("at", 0).to_table()
            >>> windows = bids.window("at", 5).retain_until("window_end")
            >>> flow.output("counts", windows.count("window_start", "window_end").emit_on_close())
            >>> flow.run(bids=[[{"at": 1}, {"at": 3}], [{"at": 5}]])["counts"].table().to_pylist()
            [{'epoch': 1, 'window_start': 0, 'window_end': 5, 'count': 2}]

        """
        closing = closing_time(self.schema) if when is None else when
        if (sessions := self._sessions_until(closing)) is not None:
            return sessions.closed()
        return self._stream(
            lambda: streams.EmitOnClose(self._operator, timed(closing), self._clock(), name="emit on close"),
            *self._record.clock,
        )

    # Loops.

    def iterate(
        self,
        body: Callable[..., "Table"],
        *others: "Table",
        max_rounds: int | None = None,
        name: str = "iterate",
    ) -> "Table":
        """Apply a body to its own result until nothing changes (a fixed point).

        Round 0 starts with this table; each later round starts with the result of the round before it. The
        other tables stay the same in all rounds.

        Args:
            body: Takes this table and the others, inside the loop, and returns a table with the same columns.
            *others: Tables that the body reads.
            max_rounds (int, default None): A loop that needs more rounds raises FlowError.
            name (str, default "iterate"): The name of the loop.

        Examples:
            >>> flow = ps.Dataflow("reach")
            >>> starts, edges = flow.table("starts", "node long"), flow.table("edges", "src long, dst long")
            >>> def body(reached, starts, edges):
            ...     further = reached.join(edges, {"node": "src"}).select(node=ps.col("dst"))
            ...     return further.union(starts).distinct()
            >>> flow.output("reached", starts.iterate(body, starts, edges))
            >>> pairs = [{"src": 1, "dst": 2}, {"src": 2, "dst": 3}]
            >>> flow.run(starts=[[{"node": 1}]], edges=[pairs]).table("reached").sort_by("node").to_pylist()
            [{'node': 1}, {'node': 2}, {'node': 3}]

        """
        with self.loop(name, max_rounds=max_rounds) as loop:
            start = loop.variable(self)
            made = self._alike(f"{name}: the body", body(start, *(loop.enter(other) for other in others)))
            loop.feedback(start, made)
            return loop.leave(made)

    def loop(self, name: str = "loop", *, max_rounds: int | None = None) -> TableLoop:
        """Open a loop of tables, as a context manager, in the scope of this table.

        In the block, ``loop.enter(table)`` brings a table in, ``loop.variable(start)`` is a table that is fed
        back, ``loop.feedback(variable, table)`` sets its value in the next round, and ``loop.leave(table)``
        returns the result after the last round.

        Args:
            name (str, default "loop"): The name of the loop.
            max_rounds (int, default None): A loop that needs more rounds raises FlowError, which shows the
                changes of the last two rounds.

        Examples:
            >>> flow = ps.Dataflow("reach")
            >>> starts, edges = flow.table("starts", "node long"), flow.table("edges", "src long, dst long")
            >>> with starts.loop("reach") as loop:
            ...     reached = loop.variable(starts)
            ...     further = reached.join(loop.enter(edges), {"node": "src"}).select(node=ps.col("dst"))
            ...     loop.feedback(reached, further.union(loop.enter(starts)).distinct())
            ...     flow.output("reached", loop.leave(reached))
            >>> pairs = [{"src": 1, "dst": 2}, {"src": 2, "dst": 1}]
            >>> flow.run(starts=[[{"node": 1}]], edges=[pairs]).table("reached").sort_by("node").to_pylist()
            [{'node': 1}, {'node': 2}]

        """
        return TableLoop._of(
            *self._record.write(
                lambda: streams.LoopScope(self._operator, max_rounds, of_tables=True, name=name), self
            ),
            self._record,
            Table,
        )

    def enter(self, loop: Loop | TableLoop) -> "Table":
        """Bring the table into a loop, where it is the same in every round.

        Args:
            loop: An open loop.

        Examples:
            >>> flow = ps.Dataflow("enter")
            >>> edges = flow.table("edges", "src long, dst long")
            >>> with flow.table("starts", "node long").loop("reach") as loop:
            ...     print(edges.enter(loop).loops)
            ('reach',)

        """
        if isinstance(loop, TableLoop):
            return loop.enter(self)
        return self._table(lambda: streams.EnterLoop(self._operator, loop._operator), loop)

    @property
    def loops(self) -> tuple[str, ...]:
        """The names of the loops that contain the table, outermost first."""
        loops: tuple[str, ...] = self._physical.loops
        return loops

    # What only grows.

    @property
    def is_append_only(self) -> bool:
        """Whether rows are only inserted: no upstream operator can delete one."""
        return bool(self._physical.only_appends)

    def to_stream(self) -> Stream:
        """Return the inserted rows of an append-only table as a stream.

        Raises:
            FlowError: Rows of the table can be deleted.

        Examples:
            >>> flow = ps.Dataflow("to stream")
            >>> visits = flow.table("visits", "page string")
            >>> flow.output("visits", visits.filter(ps.col("page") != "b").to_stream())
            >>> flow.run(visits=[[{"page": "a"}, {"page": "b"}]])["visits"][0].to_pylist()
            [{'page': 'a'}]

        """
        return self._stream(lambda: streams.AppendedRows(self._operator, name="to stream"))

    def _table(self, make: Callable[[], LogicalOperator], *others: Recorded) -> "Table":
        return table_of(self._record, *self._record.write(make, self, *others))

    def _stream(self, make: Callable[[], LogicalOperator], *others: Recorded) -> Stream:
        return Stream._of(self._record, *self._record.write(make, self, *others))

    def _project(self, name: str, wanted: Mapping[str, Expression]) -> "Table":
        return self._table(lambda: logical.Project(self._operator, tuple(wanted.items()), name=name))

    def _over(self, window: Window, functions: Mapping[str, WindowExpression]) -> "Table":
        keys, by, rows = window
        who = f"with_columns of {self}"
        wanted = tuple((name, placed(who, name, each)) for name, each in functions.items())
        order = listed(f"'over' of {self}", self.schema, by, is_needed=rows is not None)
        return self._table(lambda: logical.WindowFunctions(self._operator, keys, order, wanted, name="over"))

    def _given(self, name: str, other: object) -> LogicalOperator:
        """Return the operator of another table; FlowError if it is none."""
        if not isinstance(other, Table):
            raise FlowError(
                f"'{name}' of {self} needs a table, got {type(other).__name__}. Make a table "
                "of a stream with to_table()."
            )
        return other._operator

    def _alike(self, name: str, other: "Table") -> "Table":
        """Return a table with the columns of this one in the same order; SchemaError if it has others."""
        self._given(name, other)
        if other.schema == self.schema:
            return other
        if {(each.name, each.type) for each in other.schema} != {
            (each.name, each.type) for each in self.schema
        }:
            self._physical._like(name, other._physical)  # which says what differs
        return other._project("select", {each: col(each) for each in self.schema.names})

    def _keys(self, who: str, other: pa.Schema, on: Any, suffix: str) -> tuple[tuple[str, str], ...]:  # noqa: ANN401
        if isinstance(on, Expression):
            joining(who, self.schema, other, on, suffix)  # which says what to give
        return sides(on)

    def _clock(self) -> tuple[LogicalOperator, ...]:
        return tuple(each._operator for each in self._record.clock)

    if not TYPE_CHECKING:  # to a type checker, a name that is not there is a mistake

        def __getattr__(self, name: str) -> object:
            if name.startswith("_"):
                raise AttributeError(f"'Table' object has no attribute '{name}'", name=name, obj=self)
            verbs = [each for each, of in vars(Table).items() if not each.startswith("_") and callable(of)]
            raise AttributeError(no_such_verb(str(self), name, verbs, "Table"), name=name, obj=self)

    def __str__(self) -> str:
        return str(self._physical)


def table_of(record: FlowRecord, operator: LogicalOperator, physical: Any) -> Table:  # noqa: ANN401 - as lowered
    """Return the table that an operator was lowered to; for those who write plans, and not for users."""
    made = object.__new__(Table)
    made._set(record, operator, physical)
    return made


def in_order_of(first: Table, other: Table, name: str) -> Table:
    """Return a table with the columns of another one in the same order; SchemaError if it has others."""
    return first._alike(name, other)


def values_beside(anchor: Table, rows: pa.RecordBatch, name: str) -> Table:
    """Return a table that always has these rows, in the flow of another table."""
    return anchor._table(lambda: logical.Values(rows, anchor._operator, name=name))


def consolidated(table: Table, name: str) -> Table:
    """Return a table whose changes of an epoch are consolidated before they are sent."""
    return table._table(lambda: streams.Consolidate(table._operator, name=name))


@contextmanager
def one_clock(tables: Sequence[Table]) -> Iterator[None]:
    """Let all operators that are added meanwhile also wait for the least watermark of these tables."""
    records = {id(each._record): each._record for each in tables}.values()
    before = [each.clock for each in records]
    for each in records:
        each.clock = tuple(dict.fromkeys(tables))
    try:
        with physical_clock([deltas_of(physical_of(each)) for each in tables]):
            yield
    finally:
        for each, clock in zip(records, before, strict=True):
            each.clock = clock


@dataclass(frozen=True, slots=True)
class _Sessions:
    """Sessions that were written to stay, and how else they can be written."""

    end: str
    retained: Callable[[str], Table]
    closed: Callable[[], Stream]


# Mutual recursion: several tables, each of which is made of all of them, until nothing changes.


def iterate(
    starts: Mapping[str, Table | str | pa.Schema],
    body: Callable[..., Mapping[str, Table]],
    *others: Table,
    max_rounds: int | None = None,
    name: str = "iterate",
) -> dict[str, Table]:
    """Iterate several tables that depend on each other until nothing changes (mutual recursion).

    Args:
        starts: The tables in round 0, by name: a table, or the schema of an empty one.
        body: Called once, with the tables of ``starts`` in their order and then the others; it returns, by
            name, each table of the next round.
        *others: Tables that the body reads and that stay the same.
        max_rounds (int, default None): A recursion that needs more rounds raises FlowError.
        name (str, default "iterate"): The name of the loop.

    Returns:
        The tables after the last round, by name.

    Examples:
        Nodes at an even and at an odd distance from a start:

        >>> flow = ps.Dataflow("parity")
        >>> starts, edges = flow.table("starts", "node long"), flow.table("edges", "src long, dst long")
        >>> def body(even, odd, starts, edges):
        ...     def step(nodes):
        ...         return nodes.join(edges, {"node": "src"}).select(node=ps.col("dst"))
        ...     return {"even": step(odd).union(starts).distinct(), "odd": step(even).distinct()}
        >>> found = ps.iterate({"even": starts, "odd": "node long"}, body, starts, edges)
        >>> flow.output("odd", found["odd"])
        >>> pairs = [{"src": 1, "dst": 2}, {"src": 2, "dst": 3}, {"src": 3, "dst": 4}]
        >>> flow.run(starts=[[{"node": 1}]], edges=[pairs]).table("odd").sort_by("node").to_pylist()
        [{'node': 2}, {'node': 4}]

    """
    who = f"'{name}'"
    given: object = starts
    if not isinstance(given, Mapping) or not starts:
        raise FlowError(
            f"{who} needs starts by name, iterate({{'a': table, 'b': 'id long'}}, ...), got {starts!r}."
        )
    anchor = next((each for each in (*starts.values(), *others) if isinstance(each, Table)), None)
    if anchor is None:
        raise FlowError(
            f"{who} starts without rows and reads no table. Give it a table to start with, or to read."
        )
    with anchor.loop(name, max_rounds=max_rounds) as loop:
        variables = {each: loop.variable(start, each) for each, start in starts.items()}
        made = body(*variables.values(), *(loop.enter(other) for other in others))
        _check_made(who, variables, made)
        alike = {
            each: in_order_of(variable, made[each], f"{name}: {each}") for each, variable in variables.items()
        }
        for each, variable in variables.items():
            loop.feedback(variable, alike[each])
        return {each: loop.leave(table) for each, table in alike.items()}


def _check_made(who: str, variables: Mapping[str, Table], made: object) -> None:
    """Reject anything but a mapping with a table for each variable."""
    if not isinstance(made, Mapping):
        raise FlowError(
            f"{who}: the body must return tables by name, got {type(made).__name__}. Return a dictionary."
        )
    if set(made) != set(variables):
        raise FlowError(
            f"{who}: the body returned tables for {sorted(map(str, made))}, expected {sorted(variables)}. "
            "Return one for each."
        )
