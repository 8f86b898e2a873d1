"""Physical tables: operations of tables lowered to streams of changes.

A table is a stream of changes, rows with a weight as their last column, and its value at a time is the sum of
all changes up to it. Every operation keeps the law: what it has emitted up to an epoch, consolidated, is what
the same query gives for its inputs, consolidated to that epoch.

Joins other than the inner one, and the operations on sets, are made of inner joins, distinct and negation, so
that what holds of these in loops holds of them.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Literal, Self

import pyarrow as pa

from pointstamp.arrangement.consolidate import DIFF
from pointstamp.arrangement.ordering import Ordered, ordering
from pointstamp.arrow.schema import as_schema
from pointstamp.errors import FlowError, SchemaError
from pointstamp.expressions.select_columns import check_columns, chosen, others
from pointstamp.expressions.time_windows import Span
from pointstamp.expressions.tree import Expression, Value, col
from pointstamp.flow.event_epochs import epochs_above
from pointstamp.flow.outlet import Outlet, add_operator, check_adds_up, wiring
from pointstamp.flow.physical_stream import PhysicalLoop, PhysicalStream, kind_of
from pointstamp.flow.plan import How
from pointstamp.flow.updates import Passes
from pointstamp.flow.watermarks import has_promise
from pointstamp.incremental import operations
from pointstamp.incremental.aggregation import ALL, in_one_group, reduced
from pointstamp.incremental.append_only import only_appends
from pointstamp.incremental.asof_join import Direction, Tolerance, as_of, joined_as_of
from pointstamp.incremental.changes_by_key import newest_rows
from pointstamp.incremental.column_names import check_new_names, weighed, weighed_columns
from pointstamp.incremental.distinct import in_both
from pointstamp.incremental.hash_join import check_no_key, checked_how, joining
from pointstamp.incremental.interval_join import pairs_within
from pointstamp.incremental.iterate import GoingRound
from pointstamp.incremental.joins import all_pairs, joined
from pointstamp.incremental.session_windows import sessions
from pointstamp.incremental.stateless import Appended, Repeated
from pointstamp.incremental.top_k import First
from pointstamp.incremental.window_functions import OrderFunction
from pointstamp.incremental.window_operator import ordered
from pointstamp.operators.spec import Label, spec
from pointstamp.operators.stateless import BatchFunction, Row, rows_of_rows, windowing
from pointstamp.reduce.aggregate import Aggregation
from pointstamp.topology.ports import OperatorIndex


class PhysicalTable:
    """Rows that appear and disappear; made by ``stream.to_table()`` and by operations on other tables."""

    def __init__(self, changes: PhysicalStream) -> None:
        assert changes.schema.names[-1] == DIFF
        self._deltas = changes
        """The changes in parts, as operations make them: weights of one row may come one by one."""
        self.schema = operations.rows_schema(changes)

    def changes(self, *, name: str = "changes") -> PhysicalStream:
        """The table as a stream of its changes: each row that changed in an epoch once, with ``diff``."""
        return operations.summed(self._deltas, name, None if self.only_appends else Passes.CHANGES)

    def upserts(self, *keys: str, deleted: str = "deleted", name: str = "upserts") -> PhysicalStream:
        """The table as a stream of its newest rows: for each key that changed in an epoch, its row."""
        return newest_rows(self._deltas, keys, deleted, name, f"'{name}' of {self}")

    # Row by row.

    def select(self, *columns: str | Expression, name: str = "select", **named: Value) -> "PhysicalTable":
        """Other columns, by name or by expression: ``select("id", total=ps.col("price") * 2)``."""
        return self.project(name, chosen(f"'{name}' of {self}", columns, named))

    def drop(self, *columns: str) -> "PhysicalTable":
        """Without these columns; rows that are equal without them are consolidated."""
        return self.project("drop", others(f"drop of {self}", self.schema, columns))

    def filter(self, condition: Expression, *, name: str = "filter") -> "PhysicalTable":
        """The rows for which a condition holds; null counts as false."""
        if not isinstance(condition, Expression):
            raise FlowError(
                f"'{name}' of {self} needs an expression such as ps.col('price') > 1, got "
                f"{type(condition).__name__}. Write one."
            )
        return PhysicalTable(operations.filtered(self._deltas, name, condition, f"'{name}' of {self}"))

    def explode(
        self, column: str, *, outer: bool = False, position: str | None = None, name: str = "explode"
    ) -> "PhysicalTable":
        """One row for each element of a list; the column is then the element."""
        return PhysicalTable(
            operations.exploded(self._deltas, column, position, name, outer, f"'{name}' of {self}")
        )

    def map_batches(
        self, function: BatchFunction, schema: str | pa.Schema | None = None, *, name: str = "map"
    ) -> "PhysicalTable":
        """What a function makes of rows; the columns stay unless others are given."""
        wanted = self.schema if schema is None else as_schema(schema)
        return PhysicalTable(operations.mapped(self._deltas, function, wanted, name, f"'{name}' of {self}"))

    def flat_map(
        self, function: Callable[[Row], Iterable[Row]], schema: str | pa.Schema, *, name: str = "flat map"
    ) -> "PhysicalTable":
        """The rows that a function yields for each row, as dictionaries: the same whenever the row comes."""
        who = Label(name)
        return self.map_batches(lambda batch: rows_of_rows(function, batch, who), schema, name=name)

    def union(self, other: "PhysicalTable", *, name: str = "union") -> "PhysicalTable":
        """The rows of both, with all their copies (SQL's ``union all``)."""
        return PhysicalTable(operations.union_all(self._deltas, self._like(name, other), name))

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
    ) -> "PhysicalTable":
        """Each row with the windows of event time in which it lies."""
        check_new_names(f"'{name}' of {self}", (start, end))
        asked = windowing(f"'{name}' of {self}", self.schema, at, (size, slide, offset), (start, end))
        return PhysicalTable(operations.in_windows(self._deltas, name, asked))

    # Two tables.

    def join(
        self,
        other: "PhysicalTable",
        on: str | Mapping[str, str] | Iterable[str] = (),
        *,
        how: How = "inner",
        where: Expression | None = None,
        suffix: str = "_right",
        name: str = "join",
    ) -> "PhysicalTable":
        """The pairs of rows of both tables that have equal keys; a null equals nothing."""
        self._check_table(name, other)
        who = f"'{name}' of {self} and {other}"
        kind = checked_how(who, how)
        if kind == "cross":
            check_no_key(who, on)
            return PhysicalTable(all_pairs(self._deltas, deltas_of(other), suffix, where, name, who))
        asked = joining(who, self.schema, other.schema, on, suffix)
        return PhysicalTable(joined(self._deltas, deltas_of(other), asked, kind, where, name))

    def join_as_of(
        self,
        other: "PhysicalTable",
        on: str | Mapping[str, str] | Iterable[str],
        *,
        at: str | Mapping[str, str],
        direction: Direction = "backward",
        how: Literal["inner", "left"] = "inner",
        tolerance: Tolerance | None = None,
        suffix: str = "_right",
        name: str = "join as of",
    ) -> "PhysicalTable":
        """Each row beside one row of the other table that has its key: the last one that is not later."""
        self._check_table(name, other)
        who = f"'{name}' of {self} and {other}"
        joined_on = joining(who, self.schema, other.schema, on, suffix)
        asked = as_of(who, joined_on, at, direction=direction, how=how, tolerance=tolerance)
        return PhysicalTable(joined_as_of(self._deltas, deltas_of(other), asked, name, who))

    def minus(self, other: "PhysicalTable", *, name: str = "minus") -> "PhysicalTable":
        """The rows of this table that the other has not, each once (SQL's ``except``)."""
        theirs = self._like(name, other)
        if not self._deltas.loops:
            return PhysicalTable(in_both(self._deltas, theirs, name, wanted=False))
        own = operations.distinct(self._deltas, f"{name}: left")
        both = operations.semi_join_rows(own, operations.distinct(theirs, f"{name}: right"), f"{name}: both")
        return PhysicalTable(operations.subtract(own, both, name))

    def intersect(self, other: "PhysicalTable", *, name: str = "intersect") -> "PhysicalTable":
        """The rows that both tables have, each once."""
        theirs = self._like(name, other)
        if not self._deltas.loops:
            return PhysicalTable(in_both(self._deltas, theirs, name, wanted=True))
        own = operations.distinct(self._deltas, f"{name}: left")
        return PhysicalTable(
            operations.semi_join_rows(own, operations.distinct(theirs, f"{name}: right"), name)
        )

    # By key.

    def distinct(self, *keys: str, by: str | Iterable[str] = (), name: str = "distinct") -> "PhysicalTable":
        """Every row once; with keys one row for each key, the first in an order."""
        if not keys and not by:
            return PhysicalTable(operations.distinct(self._deltas, name))
        return PhysicalTable(one_of_each(self._deltas, keys, by, name, f"'{name}' of {self}"))

    def reduce(
        self,
        *keys: str,
        aggregates: Mapping[str, Aggregation],
        name: str = "reduce",
        in_parts: bool = False,
    ) -> "PhysicalTable":
        """One row for each key, with aggregates of its rows; in parts each worker begins with its own."""
        who = f"'{name}' of {self}"
        return PhysicalTable(reduced(self._deltas, keys, aggregates, name, who, in_parts=in_parts))

    def top(
        self,
        count: int,
        *keys: str,
        by: str | Iterable[str],
        ties: bool = False,
        rank: str | None = None,
        name: str = "top",
        in_parts: bool = False,
    ) -> "PhysicalTable":
        """The first rows of each key, or of the complete table: ``top(3, "shop", by="price desc")``.

        In parts each worker begins with its own rows, if the table never loses one.
        """
        who = f"'{name}' of {self}"
        check_columns(who, self.schema, keys)
        if count < 1:
            raise FlowError(
                f"{who}: the number of rows must be 1 or more, got {count!r}. Give a larger number."
            )
        check_new_names(who, [] if rank is None else [rank])
        if rank is not None and rank in self.schema.names:
            raise SchemaError(f"{who}: the column '{rank}' already exists. Give the rank another name.")
        # Rows of a key are told apart by another column, so that there must be one.
        is_only_keys = set(self.schema.names) <= set(keys)
        changes = in_one_group(self._deltas, who) if is_only_keys or not keys else self._deltas
        extra = [] if rank is None else [pa.field(rank, pa.int64())]
        result = pa.schema([*operations.rows_schema(changes), *extra])
        order = ordering(who, self.schema, by)
        function = First(count, order, ties, rank, weighed(who, result))
        grows = self.only_appends
        own = keys or (ALL,)
        made = PhysicalTable(
            operations.on_top(changes, name, own, function, result, only_grows=grows, in_parts=in_parts)
        )
        return made.drop(ALL) if is_only_keys or not keys else made

    def with_order(
        self, *keys: str, by: str | Iterable[str], functions: Mapping[str, OrderFunction], name: str = "over"
    ) -> "PhysicalTable":
        """All columns, and what the place of a row among the rows of its key says of it, in an order."""
        return PhysicalTable(ordered(self._deltas, keys, by, functions, name, f"'{name}' of {self}"))

    def in_sessions(
        self, *keys: str, at: str, gap: Span, start: str, end: str, while_open: bool, name: str
    ) -> "PhysicalTable":
        """Each row with its session."""
        who = f"'{name}' of {self}"
        check_columns(who, self.schema, keys)
        asked = sessions(who, self.schema, at, gap, (start, end))
        if not keys:
            whole = PhysicalTable(in_one_group(self._deltas, who))
            made = whole.in_sessions(
                ALL, at=at, gap=gap, start=start, end=end, while_open=while_open, name=name
            )
            return made.drop(ALL)
        timed = self.filter(col(at).is_not_null(), name=f"{name}: with event time")
        rows = pa.schema(list(asked.result)[:-1])
        if while_open:
            return PhysicalTable(operations.open_sessions(deltas_of(timed), name, keys, asked, rows, who))
        return PhysicalTable(operations.on_groups(deltas_of(timed), name, keys, asked, rows))

    # Event time.

    def keep_until(self, when: str | Expression, *, name: str = "keep until") -> "PhysicalTable":
        """The rows whose time has not been passed by event time: ``retain_until("window_end")``."""
        who, grows = f"'{name}' of {self}", self.only_appends
        return PhysicalTable(operations.kept_until(self._deltas, name, _timed(when), who, only_grows=grows))

    def closed_sessions(
        self,
        *keys: str,
        at: str,
        gap: Span,
        start: str = "session_start",
        end: str = "session_end",
        name: str = "sessions",
    ) -> PhysicalStream:
        """Each row once, with its session, when event time has passed its end."""
        epochs = None if has_promise(self._deltas) else epochs_above(self._deltas)
        if epochs is None:
            made = self.in_sessions(*keys, at=at, gap=gap, start=start, end=end, while_open=True, name=name)
            return made.final(end, name=f"{name}: closed")
        who = f"'{name}' of {self}"
        check_columns(who, self.schema, keys)
        table, by = (self, keys) if keys else (PhysicalTable(in_one_group(self._deltas, who)), (ALL,))
        asked = sessions(who, table.schema, at, gap, (start, end))
        if at != epochs.at:
            raise FlowError(
                f"{who} uses '{at}', but the epochs are of the event time '{epochs.at}'. Use that column."
            )
        closed = operations.epoch_sessions(deltas_of(table), name, by, asked, epochs.every)
        return closed if keys else closed.drop(ALL)

    def join_within(
        self,
        other: "PhysicalTable",
        on: str | Mapping[str, str] | Iterable[str],
        *,
        at: str | Mapping[str, str],
        within: Span | tuple[Span, Span],
        suffix: str = "_right",
        name: str = "join within",
    ) -> PhysicalStream:
        """As ``stream.join_interval``, for tables to which rows are only added."""
        self._check_table(name, other)
        for side in (self, other):
            if not side.only_appends:
                raise FlowError(
                    f"'{name}' needs append-only tables, but rows of {side} can be deleted. Use join with "
                    "where=, with both sides downstream of retain_until."
                )
        return pairs_within(self._deltas, deltas_of(other), on, at, within, suffix, name)

    def final(self, when: str | Expression = "window_end", *, name: str = "final") -> PhysicalStream:
        """Each row once, as it is when event time has passed its time; nothing that happens to it later."""
        who = f"'{name}' of {self}"
        return operations.final(self._deltas, name, _timed(when), who, only_grows=self.only_appends)

    # Loops.

    def loop(self, name: str = "loop", *, max_rounds: int | None = None) -> "PhysicalTableLoop":
        """Open a loop of tables where this one stands: ``with table.loop("reach") as loop``."""
        return PhysicalTableLoop(self._deltas.loop(name, max_rounds=max_rounds), max_rounds)

    def enter(self, loop: "PhysicalLoop | PhysicalTableLoop") -> "PhysicalTable":
        """The same table inside a loop, the same in every round."""
        return (
            loop.enter(self)
            if isinstance(loop, PhysicalTableLoop)
            else PhysicalTable(loop.enter(self._deltas))
        )

    @property
    def loops(self) -> tuple[str, ...]:
        """The names of the loops in which the table stands, outermost first."""
        return self._deltas.loops

    # What only grows.

    @property
    def only_appends(self) -> bool:
        """Whether rows are only added: no operation that it is made of can take one away."""
        return only_appends(wiring(self._deltas).builder.plan, wiring(self._deltas).source)

    def appended(self, *, name: str = "appended") -> PhysicalStream:
        """The rows as a stream, as they are added; for tables that only grow, and refused for others."""
        if not self.only_appends:
            raise FlowError(
                f"'{name}' of {self}: rows of this table can be deleted, which a stream of rows cannot "
                "express. Use changes(), which has the weight of each, or upserts(*keys)."
            )
        return operations.expand_multiplicity(self._deltas, name)

    def project(self, name: str, wanted: Mapping[str, Expression]) -> "PhysicalTable":
        """Other columns, each an expression."""
        check_new_names(f"'{name}' of {self}", [new for new in wanted if new not in self.schema.names])
        return PhysicalTable(operations.selected(self._deltas, name, wanted, f"'{name}' of {self}"))

    def _check_table(self, name: str, other: "PhysicalTable") -> None:
        if not isinstance(other, PhysicalTable):
            raise FlowError(
                f"'{name}' of {self} needs a table, got {kind_of(other)}. Make a table "
                "of a stream with to_table()."
            )

    def _like(self, name: str, other: "PhysicalTable") -> PhysicalStream:
        """The changes of a table that has the columns of this one, in the same order."""
        self._check_table(name, other)
        return operations.in_order_of(deltas_of(other), self.schema, f"'{name}' of {self} and {other}")

    def __str__(self) -> str:
        return str(self._deltas).replace("stream", "table", 1)


def _timed(when: str | Expression) -> Expression:
    return col(when) if isinstance(when, str) else when


def deltas_of(table: PhysicalTable) -> PhysicalStream:
    """The changes of a table as they are sent; for those who write tables, and not for users."""
    return table._deltas  # noqa: SLF001 - this function is the one way to it


# One row of each key, the first in an order: SQL's ``row_number() = 1``, here ``distinct`` with keys.


def one_of_each(
    changes: PhysicalStream, keys: tuple[str, ...], by: str | Iterable[str], name: str, who: str
) -> PhysicalStream:
    """The first row of each key; what the order leaves open is decided by all columns from left to right."""
    schema = operations.rows_schema(changes)
    check_columns(who, schema, keys)
    wanted = (by,) if isinstance(by, str) else tuple(by)
    if not keys:
        raise FlowError(f"{who}: by= chooses a row of a key, but no key was given. Name one.")
    # All rows of a key are equal in the key, so that the other columns alone put them in order.
    others = tuple(Ordered(column) for column in schema.names if column not in keys)
    order = ordering(who, schema, wanted) if wanted else others
    if not order:
        return operations.distinct(changes, name)
    function = First(1, order, ties=False, rank=None, result=changes.schema)
    return operations.on_top(changes, name, keys, function, schema)


class PhysicalTableLoop:
    """An open loop of tables, for what ``iterate`` cannot say; made by ``table.loop(...)``.

        with edges.loop("reach") as loop:
            inner = loop.enter(edges)
            reached = loop.variable(starts)                     # in round 0 it is this table
            further = reached.join(inner, {"node": "src"}).select(node=ps.col("dst"))
            now = further.union(loop.enter(starts)).distinct()
            loop.feedback(reached, now)                         # in the next round it is what the body made
            result = loop.leave(now)

    The value of a variable in round i + 1 is what was fed back in round i, and in round 0 its start. Tables
    flow as changes, and the start is there in every round already. So only what the body made without the
    start goes round: with the start in it, every round would count the start once more.

    Several variables in one block are recursion by turns. A block in a block has rounds of its own.
    """

    def __init__(self, loop: PhysicalLoop, rounds_max: int | None) -> None:
        self._loop = loop
        self._rounds_max = rounds_max
        self._variables: dict[OperatorIndex, tuple[PhysicalStream, PhysicalStream | None]] = {}
        """By where a variable comes out: what comes round, and the start."""

    @property
    def name(self) -> str:
        """What the loop is called."""
        return self._loop.name

    def enter(self, table: PhysicalTable) -> PhysicalTable:
        """The same table inside the loop, the same in every round."""
        return PhysicalTable(self._loop.enter(self._changes("enter", table)))

    def variable(self, start: PhysicalTable | str | pa.Schema, name: str = "variable") -> PhysicalTable:
        """A table that is this one in round 0, and what is fed back later; a schema begins without rows."""
        who = f"loop '{self.name}': the variable '{name}'"
        if not isinstance(start, PhysicalTable):
            if not isinstance(start, str | pa.Schema):
                raise FlowError(
                    f"{who} needs its table in round 0, or the columns of an empty one, got "
                    f"{kind_of(start)}. Give one of these."
                )
            made = again = self._loop.variable(weighed_columns(who, as_schema(start)), name)
            initial = None
        else:
            initial = self._loop.enter(deltas_of(start))
            again = self._loop.variable(initial.schema, name)
            made = operations.union_all(initial, again, "so far")
        self._variables[wiring(made).source.operator] = again, initial
        return PhysicalTable(made)

    def feedback(self, variable: PhysicalTable, table: PhysicalTable) -> None:
        """Let the variable be this table in the next round."""
        source = wiring(self._changes("feedback", variable)).source.operator
        if source not in self._variables:
            raise FlowError(
                f"loop '{self.name}': feedback needs a variable of this loop, got {variable}. Use one of "
                "loop.variable()."
            )
        again, initial = self._variables[source]
        who = f"loop '{self.name}': the feedback of {variable} with {table}"
        fed = operations.in_order_of(self._changes("feedback", table), variable.schema, who)
        # The start is in every round already, so only what the body adds to it goes round.
        added = fed if initial is None else operations.subtract(fed, initial, "without the start")
        logic = spec(GoingRound, Label(self.name), self._rounds_max)
        by = {"in": added.exchange(*operations.rows_schema(added).names)}
        round_again = add_operator("what goes round", logic, by, {"out": added.schema})[0]
        self._loop.feedback(again, round_again)

    def leave(self, table: PhysicalTable) -> PhysicalTable:
        """The table outside the loop, as it is after the last round."""
        return PhysicalTable(self._loop.leave(self._changes("leave", table)))

    def _changes(self, act: str, table: PhysicalTable) -> PhysicalStream:
        if not isinstance(table, PhysicalTable):
            raise FlowError(
                f"loop '{self.name}': {act} of a loop of tables needs a table, got "
                f"{kind_of(table)}. Make a table of a stream with to_table()."
            )
        return deltas_of(table)

    def __enter__(self) -> Self:
        self._loop.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.__exit__(kind, error, trace)


# Streams as tables of one time: what an operation on tables makes of the rows of each epoch by itself.
#
# The operations are those of tables, and they restart from scratch at every time
# (``pointstamp.flow.outlet``). What comes of them are changes from nothing, so rows that are there: each is
# sent as often as it is there.


class OneTime(PhysicalStream):
    """The changes of a table that is there for one time only."""

    _begins_anew = True


def within_times(
    name: str, streams: Sequence[Outlet], body: Callable[..., PhysicalTable], *, in_parts: bool
) -> PhysicalStream:
    """What a body makes of the tables that the rows of a time are, as a stream.

    ``in_parts`` says that it comes in parts that must be consolidated, such as rows that another part takes
    away.
    """
    tables = [PhysicalTable(_rows_of(stream, name)) for stream in streams]
    made = deltas_of(body(*tables))
    made = operations.summed(made, f"{name}: consolidated") if in_parts else made
    sent = add_operator(f"{name}: rows", Repeated, {"in": made}, {"out": operations.rows_schema(made)})[0]
    at = wiring(sent)
    return PhysicalStream(at.builder, at.source, sent.schema, at.scope)


def _rows_of(stream: Outlet, name: str) -> OneTime:
    who = f"'{name}' of {stream}"
    check_adds_up(wiring(stream).builder.plan, wiring(stream).source, who)
    schema = weighed_columns(who, list(stream.schema))
    logic = spec(Appended, schema, None)
    added = add_operator(f"{name}: epoch", logic, {"in": stream}, {"out": schema}, sends=Passes.ADDED)[0]
    at = wiring(added)
    return OneTime(at.builder, at.source, schema, at.scope)
