"""Tables: what a user chains operations on, where a stream is what happens and a table what there is.

A table is a stream of changes, rows with a weight, and its value at a time is the sum of all changes up to
it. Every operation keeps the law: what it has emitted up to an epoch, added up, is what the same query gives
for its inputs, added up to that epoch.
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
from pointstamp.dataflow.window_columns import ColumnValue, Window, by_window, given_columns
from pointstamp.errors import FlowError
from pointstamp.expressions.select_columns import chosen, expressions, others, renamed
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


class Table(Recorded):
    """Rows that appear and disappear; made by ``stream.to_table()`` and by operations on other tables."""

    _sessions: "_Sessions | None" = None
    """Of a table of sessions: how to write it if they are freed when event time has passed them."""

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
        """The table as a stream of its changes: each row that changed in an epoch once, with ``diff``."""
        return self._stream(lambda: streams.TableChanges(self._operator, name="changes"))

    def upserts(self, *keys: str, deleted: str = "deleted") -> Stream:
        """The table as a stream of its newest rows: for each key that changed in an epoch, its row.

        Where a key is gone the column ``deleted`` is true, and all columns but the key are null. A key has at
        most one row; two are refused, with their epoch, before anything of the epoch continues.
        """
        return self._stream(lambda: streams.UpsertsOf(self._operator, keys, deleted, name="upserts"))

    # Row by row.

    def select(self, /, *columns: str | Expression, **named: ColumnValue) -> "Table":
        """Other columns, by name or by expression: ``select("id", total=ps.col("price") * 2)``."""
        who = f"select of {self}"
        if windows := by_window(who, named):
            added = {name: each for window in windows.values() for name, each in window.items()}
            rows = self.with_columns(added)
            kept = {name: col(name) if name in added else value for name, value in named.items()}
            return rows.select(*columns, **kept)
        return self._project("select", chosen(f"'select' of {self}", columns, named))

    def with_columns(self, /, *columns: Mapping[str, ColumnValue], **named: ColumnValue) -> "Table":
        """All columns, and more or others under these names: ``with_columns(total=ps.col("price") * 2)``.

        A window expression looks at the rows around a row:

            sales.with_columns(
                place=ps.row_number().over(partition_by="shop", order_by="at"),
                before=ps.lag("price").over(partition_by="shop", order_by="at"),
            )

        What the order leaves open is decided by all columns from left to right; every copy of a row has a
        place of its own. When a row changes, all rows of its partition are looked at again, and those that
        differ are sent. ``rows=10`` looks at the last ten rows only.

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

    def drop(self, *columns: str) -> "Table":
        """Without these columns; rows that are equal without them are added up."""
        return self._project("drop", others(f"drop of {self}", self.schema, columns))

    def rename(self, names: Mapping[str, str]) -> "Table":
        """Other names for some columns: ``rename({"person": "seller"})`` calls the column person seller."""
        return self._project("rename", renamed(f"rename of {self}", self.schema, names))

    def filter(self, condition: Expression) -> "Table":
        """The rows for which a condition holds; null counts as false."""
        return self._table(lambda: logical.Filter(self._operator, condition, name="filter"))

    def explode(self, column: str, *, outer: bool = False, position: str | None = None) -> "Table":
        """One row for each element of a list; the column is then the element.

        A row whose list is null or empty is gone, unless ``outer`` keeps it with a null. ``position`` is a
        column for the place of the element in its list, from 0 on.
        """
        return self._table(lambda: logical.Explode(self._operator, column, position, outer, name="explode"))

    def map_batches(self, function: BatchFunction, schema: str | pa.Schema | None = None) -> "Table":
        """What a function makes of rows; the columns stay unless others are given.

        The function is given an Arrow batch of rows, and makes none, one or several of each. It must make the
        same of a row whenever it comes, whatever rows stand beside it: what it makes of one that disappears
        is taken away.
        """
        wanted = self.schema if schema is None else as_schema(schema)
        return self._table(lambda: logical.MapBatches(self._operator, function, wanted, name="map"))

    def flat_map(self, function: Callable[[Row], Iterable[Row]], schema: str | pa.Schema) -> "Table":
        """The rows that a function yields for each row, as dictionaries: the same whenever the row comes.

        This runs Python once per row: some microseconds each, a hundred times the cost of ``map_batches``.
        """
        wanted = as_schema(schema)
        return self._table(lambda: streams.MapRows(self._operator, function, wanted, True, name="flat map"))

    def union(self, *others: "Table") -> "Table":
        """The rows of this table and of others, with all their copies (SQL's ``union all``)."""
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
        """Each row with the window of event time in which it lies, from ``window_start`` to ``window_end``.

        ``at`` is a column of timestamps, dates or integers, ``size`` a length: "10 minutes", a timedelta, or
        a number. With a ``slide`` a window begins every so often, and a row comes once for each in which it
        lies. Windows begin at multiples after the beginning of 1970, and ``offset`` later. The end is no
        longer in the window. A row whose ``at`` is null is in no window, and does not come.

            bids.window("at", "10 minutes").group_by("window_start", "window_end").agg(bids=ps.count())
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
        """The pairs of rows of both tables that have equal keys; a null equals nothing.

        ``on`` is a column that both have, several, or a mapping from columns of this table to those of the
        other. The key comes out once, under its name here; another column that both have gets the ``suffix``
        on the right side. ``where`` is a condition besides, over the columns of a pair. With ``how`` rows
        without a partner come out, too, with nulls: those of the ``left`` side, the ``right``, or both
        (``full``); ``semi`` gives the rows of this table that have a partner, ``anti`` the others.
        ``cross`` takes no ``on`` and gives all pairs; the other table should be a small one.
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
        """Each row beside one row of the other table that has its key: the last one that is not later.

        ``at`` is the column of times, one that both have or a mapping from this table's to the other's.
        ``direction`` may be ``forward``, for the first that is not earlier, or ``nearest``; ``tolerance`` is
        how far away it may be, a number or a length of time such as ``"10 minutes"``. Of several rows with
        one time all columns decide, from left to right: backward takes the last of them, forward the first.
        With ``how="left"`` a row without a partner comes out with nulls.
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
        """The rows of this table that the other does not have, each once (SQL's ``except``)."""
        theirs = self._given("except_", other)
        return self._table(lambda: logical.Except(self._operator, theirs, name="except"), other)

    def except_all(self, other: "Table") -> "Table":
        """The rows of this table, each as often as it has more copies here (SQL's ``except all``)."""
        theirs = self._given("except_all", other)
        return self._table(lambda: logical.Except(self._operator, theirs, True, name="except"), other)

    def intersect(self, other: "Table") -> "Table":
        """The rows that both tables have, each once."""
        theirs = self._given("intersect", other)
        return self._table(lambda: logical.Intersect(self._operator, theirs, name="intersect"), other)

    def intersect_all(self, other: "Table") -> "Table":
        """The rows that both tables have, with the lesser number of copies (SQL's ``intersect all``)."""
        theirs = self._given("intersect_all", other)
        return self._table(lambda: logical.Intersect(self._operator, theirs, True, name="intersect"), other)

    # By key.

    def distinct(self, *keys: str, by: str | Iterable[str] = ()) -> "Table":
        """Every row once; with keys one row for each key, the first in an order.

        The order is said as in ``top``; what it leaves open is decided by all columns from left to right, as
        it is without ``by``. So it is always the same row, whatever the order in which rows came.
        """
        order = listed(f"'distinct' of {self}", self.schema, by, is_needed=False)
        if not keys and not order:
            return self._table(lambda: logical.Distinct(self._operator, name="distinct"))
        return self._table(lambda: logical.DistinctOn(self._operator, keys, order, name="distinct"))

    def group_by(self, *keys: str) -> "RowGroups[Table]":
        """The rows of each key, to aggregate: ``group_by("city").agg(people=ps.count())``."""

        def aggregated(wanted: dict[str, Aggregation], name: str) -> "Table":
            asked = checked_aggregates(f"agg of {self}", wanted)
            return self._table(
                lambda: logical.Aggregate(self._operator, keys, tuple(asked.items()), name=name)
            )

        return RowGroups(aggregated)

    def agg(self, aggregates: Mapping[str, Aggregation] | None = None, /, **named: Aggregation) -> "Table":
        """One row for the whole table, with aggregates of its rows: ``agg(people=ps.count())``.

        As in SQL it is there from epoch 0 on, and also where there are no rows or none any more. Then counts
        are 0, collections empty and other aggregates null.
        """
        return self.group_by().agg(aggregates, **named)

    def count(self, *keys: str) -> "Table":
        """How many rows there are of each key, or in all: ``group_by(...).count()``."""
        return self.group_by(*keys).count()

    def top(
        self, count: int, *keys: str, by: str | Iterable[str], ties: bool = False, rank: str | None = None
    ) -> "Table":
        """The first rows of each key, or of the whole table: ``top(3, "shop", by="price desc")``.

        What ``by`` leaves open is decided by all columns from left to right. Null comes before all values, or
        with ``desc`` after them, unless ``by="price desc nulls first"`` says otherwise. With ``ties`` all
        rows that are as good as the last of them come, too. ``rank`` is a column for their places, from 1 on.
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
        """Each row with its session, from ``session_start`` to ``session_end``: rows of a key close in time.

        A row that comes at most the ``gap`` after another one of its key, by their column ``at``, is in the
        same session. The session ends the gap after its last row; as in Spark, a row at the end itself is
        still in it. Sessions grow together and fall apart as rows come and go. A row whose ``at`` is null is
        in none, and does not come.

        With ``retain_until("session_end")`` sessions leave the table, and are freed, when the watermark has
        passed their end. With ``emit_on_close("session_end")`` each is then emitted once.

        With aggregates each session is one row: its keys, where it begins and ends, and what they are.

            clicks.session_window("user", at="at", gap="5 minutes", clicks=ps.count())
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
        """The rows whose time has not been passed by event time: ``retain_until("window_end")``.

        A row leaves the table when the bound of ``with_watermark`` is not before its time any more, in the
        next epoch that has event times; and everything that is made of the table forgets it. A row that says
        null is not there.
        """
        if (sessions := self._sessions_until(when)) is not None:
            return sessions.retained(self._operator.name)
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
        """As ``stream.join_interval``, for tables to which rows are only added."""
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
        """Each row once, as it is when event time has passed its time; nothing that happens to it later.

        Default: the column ``window_end``, or ``session_end`` if there is no such column. A row comes in the
        first epoch after which the bound of ``with_watermark`` is not before the time that it says. What is
        before this in the flow must let such rows go, with ``retain_until``, or it would keep them for ever;
        directly after ``session_window`` sessions are freed without it.

            windows = bids.to_table().window("at", "10 minutes").retain_until("window_end")
            highest = windows.group_by("window_start",
            "window_end").agg(price=ps.max("price")).emit_on_close()
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
        """What comes of a body that is applied to its own result again and again, until nothing changes.

        The body is given this table and the others, and makes a table like this one of them. In round 0 it is
        given this table as it is, in each following round what it made in the one before; the others stay.

            reached = starts.iterate(
                lambda x, starts, edges: x.join(edges, {"node": "src"}).select(node=ps.col("dst"))
                .union(starts).distinct(),
                starts, edges)
        """
        with self.loop(name, max_rounds=max_rounds) as loop:
            start = loop.variable(self)
            made = self._alike(f"{name}: the body", body(start, *(loop.enter(other) for other in others)))
            loop.feedback(start, made)
            return loop.leave(made)

    def loop(self, name: str = "loop", *, max_rounds: int | None = None) -> TableLoop:
        """Open a loop of tables where this one stands: ``with table.loop("reach") as loop``.

        In the block ``loop.enter(table)`` brings tables in, ``loop.variable(start)`` is one that comes round
        again, ``loop.feedback(variable, table)`` says what it is in the next round, and ``loop.leave(table)``
        takes a result out. With ``max_rounds`` a loop that continues further is an error, which shows what
        went round in the last two rounds.
        """
        return TableLoop._of(
            *self._record.write(
                lambda: streams.LoopScope(self._operator, max_rounds, of_tables=True, name=name), self
            ),
            self._record,
            Table,
        )

    def enter(self, loop: Loop | TableLoop) -> "Table":
        """The same table inside a loop, the same in every round."""
        if isinstance(loop, TableLoop):
            return loop.enter(self)
        return self._table(lambda: streams.EnterLoop(self._operator, loop._operator), loop)

    @property
    def loops(self) -> tuple[str, ...]:
        """The names of the loops in which the table stands, outermost first."""
        loops: tuple[str, ...] = self._physical.loops
        return loops

    # What only grows.

    @property
    def is_append_only(self) -> bool:
        """Whether rows are only added: no operation that it is made of can take one away."""
        return bool(self._physical.only_appends)

    def to_stream(self) -> Stream:
        """The rows as a stream, as they are added; for tables that only grow, and refused for others."""
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
    """Return a table whose changes of an epoch are added up before they are sent."""
    return table._table(lambda: streams.Consolidate(table._operator, name=name))


@contextmanager
def one_clock(tables: Sequence[Table]) -> Iterator[None]:
    """Let all that is written meanwhile go by the least watermark of these tables, besides its own."""
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
    """Tables that a body makes of each other again and again, until nothing changes.

    Args:
        starts: What each table is in round 0, by name: a table, or the columns of one without rows.
        body: It is called once, with the tables of ``starts`` in their order and then the others, and returns
            by name what each table is in the next round.
        others: Tables that the body reads and that stay as they are.
        max_rounds: A recursion that needs more rounds is an error. Default: no limit.
        name: The name of the loop.

    Returns:
        The tables after the last round, by name.

    Who may read a document, by groups that contain users and groups, and by folders that contain documents:

        found = ps.iterate(
            {"members": "grp string, user string", "viewers": "item string, user string"},
            lambda members, viewers, direct, nested, grants, parents: {
                "members": direct.union(
                    nested.join(members, {"sub": "grp"}).select("grp", "user")
                ).distinct(),
                "viewers": grants.join(members, "grp").select("item", "user").union(
                    parents.join(viewers, {"folder": "item"}).select("item", "user")
                ).distinct(),
            },
            direct, nested, grants, parents,
        )

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
            f"{who} begins without rows and reads no table. Give it a table to start with, or to read."
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
            f"{who}: the body returned tables for {sorted(map(str, made))}, and the tables of the recursion "
            f"are {sorted(variables)}. Return one for each."
        )
