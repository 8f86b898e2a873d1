"""Logical operators of tables, independent of their implementation.

A plan is a directed acyclic graph of operators. An operator that two others read is shared by identity, so it
is computed once. An operator is immutable; a rewrite makes a new one with ``with_inputs`` or
``dataclasses.replace``. Schemas are derived from the inputs and checked when an operator is made, so every
operator that exists can be lowered.

Columns are found by name. The schema of an operator has the columns of a row and never its multiplicity: a
table is a multiset of rows, and its changes are the business of the physical operators.

Recursion is an ``Iterate`` with one or more variables. In round 0 a variable is its start, in each following
round what its body made in the round before; ``Recursive`` is the table that a body has made when nothing
changes any more. An operator is inside the loop if it depends on a variable; everything else that a body
reads is computed once, outside.

>>> from pointstamp.expressions.tree import col
>>> orders = Scan("orders", pa.schema({"city": pa.string(), "price": pa.int64()}))
>>> large = Filter(orders, col("price") > 10)
>>> Aggregate(large, ("city",), (("total", Aggregated("sum", "price")),)).schema.names
['city', 'total']
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any, Final, Literal, Self, TypeAlias

import pyarrow as pa

from pointstamp.arrangement.ordering import ordering
from pointstamp.errors import FlowError, SchemaError
from pointstamp.expressions.compiler import compile_condition
from pointstamp.expressions.select_columns import check_columns, selection
from pointstamp.expressions.time_windows import Span
from pointstamp.expressions.tree import Expression
from pointstamp.flow.plan import How
from pointstamp.incremental.asof_join import Direction, Tolerance
from pointstamp.incremental.column_names import check_new_names
from pointstamp.incremental.hash_join import joining
from pointstamp.incremental.requested_aggregates import table_aggregates
from pointstamp.incremental.window_functions import OrderFunction
from pointstamp.incremental.window_operator import place_columns
from pointstamp.operators.stateless import BatchFunction, exploding, windowing
from pointstamp.reduce.aggregate import Aggregate as Aggregated  # noqa: F401 - the example above uses it
from pointstamp.reduce.aggregate import Aggregation
from pointstamp.reduce.binding import Arguments

ScanKind: TypeAlias = Literal["append", "weights", "operations", "upserts", "snapshots", "debezium"]
"""How the rows of an input make a table."""

_DELTA_FEED: Final = ("_change_type", "_commit_version", "_commit_timestamp")


@dataclass(frozen=True, eq=False)
class LogicalOperator:
    """One node of a plan; equal to itself only."""

    name: str | None = field(default=None, kw_only=True)
    """What a user called it, for errors, drawings and status; it means nothing else."""
    origin: str | None = field(default=None, kw_only=True)
    """Where a user wrote it: a file and line, or the text of the SQL."""
    written: int | None = field(default=None, kw_only=True)
    """Which operator of its flow it was, in the order of writing; what a rule adds has no such place."""

    def __post_init__(self) -> None:
        if _is_checked.get():
            assert self.schema is not None, "the schema of an operator is derived when it is made"

    @cached_property
    def inputs(self) -> "tuple[LogicalOperator, ...]":
        """Return the operators that this one reads, in the order of its fields."""
        return tuple(_inputs_of(self))

    def with_inputs(self, inputs: "Sequence[LogicalOperator]") -> Self:
        """Return the same operator over other inputs, given in the order of ``inputs``."""
        if all(new is old for new, old in zip(inputs, self.inputs, strict=True)):
            return self
        given = iter(inputs)
        changed: dict[str, Any] = {}
        for name in _names_of_fields(type(self)):
            value = getattr(self, name)
            if isinstance(value, LogicalOperator):
                changed[name] = next(given)
            elif isinstance(value, tuple) and any(isinstance(part, LogicalOperator) for part in value):
                changed[name] = tuple(
                    next(given) if isinstance(part, LogicalOperator) else part for part in value
                )
        is_recursive = isinstance(self, Iterate | Recursive)  # of which variables decide the columns
        is_alike = (
            not is_recursive
            and "schema" in self.__dict__
            and all(new.schema.equals(old.schema) for new, old in zip(inputs, self.inputs, strict=True))
        )
        if not is_alike:
            return replace(self, **changed)
        # Nothing but the columns of the inputs decides the columns, so they need not be checked again.
        with unchecked():
            made = replace(self, **changed)
        made.__dict__["schema"] = self.schema
        return made

    @property
    def schema(self) -> pa.Schema:
        """Return the columns of a row."""
        raise NotImplementedError

    @property
    def loop_entered(self) -> "LogicalOperator | None":
        """Return the loop into which this operator brings its rows, if it does."""
        return None

    @property
    def loop_left(self) -> "LogicalOperator | None":
        """Return the loop out of which this operator brings its rows, if it does."""
        return None

    def __str__(self) -> str:
        return f"{type(self).__name__} '{self.name}'" if self.name else type(self).__name__


_is_checked: Final = ContextVar("whether the schema of an operator is derived when it is made", default=True)


@contextmanager
def unchecked() -> Iterator[None]:
    """Make operators without deriving their schemas, because something else checks them at once."""
    token = _is_checked.set(False)
    try:
        yield
    finally:
        _is_checked.reset(token)


_NAMES_OF_FIELDS: Final[dict[type, tuple[str, ...]]] = {}


def _names_of_fields(kind: type["LogicalOperator"]) -> tuple[str, ...]:
    names = _NAMES_OF_FIELDS.get(kind)
    if names is None:
        names = _NAMES_OF_FIELDS[kind] = tuple(each.name for each in fields(kind))
    return names


def _inputs_of(operator: LogicalOperator) -> Iterator[LogicalOperator]:
    for name in _names_of_fields(type(operator)):
        value = getattr(operator, name)
        if isinstance(value, LogicalOperator):
            yield value
        elif isinstance(value, tuple):
            yield from (part for part in value if isinstance(part, LogicalOperator))


# Leaves.


@dataclass(frozen=True, eq=False)
class Scan(LogicalOperator):
    """The table that the rows of an input make."""

    input: str
    declared: pa.Schema
    """The columns of the input, those of weights and operations included."""
    kind: ScanKind = "append"
    marker: str | None = None
    """The column of weights, operations, deletions or empty states, as the kind has it."""
    keys: tuple[str, ...] = ()
    order: str | None = None
    """Of upserts: the row of a key with the greatest value of this column wins."""
    trusted: bool = False
    """Whether rows that are deleted are known to be there, so that this is not checked."""
    columns: tuple[str, ...] | None = None
    """The columns that are read; None: all."""
    source: LogicalOperator | None = None
    """The stream of the input, with its options; None: an input without any."""

    @cached_property
    def schema(self) -> pa.Schema:
        """Return the columns of the table, in the order in which they are declared."""
        who = f"input '{self.input}'"
        named = [*self.keys, *(each for each in (self.marker, self.order) if each is not None)]
        check_columns(who, self.declared, named)
        hidden: set[str] = set() if self.marker is None else {self.marker}
        if self.kind == "operations" and self.marker == _DELTA_FEED[0]:
            hidden.update(_DELTA_FEED)
        rows = [each for each in self.declared if each.name not in hidden]
        if self.columns is not None:
            check_columns(who, pa.schema(rows), self.columns)
            rows = [each for each in rows if each.name in self.columns]
        return pa.schema([pa.field(each.name, each.type) for each in rows])


@dataclass(frozen=True, eq=False)
class Values(LogicalOperator):
    """A table that always has these rows."""

    rows: pa.RecordBatch
    anchor: LogicalOperator | None = None
    """A table of the flow whose epochs it has; None: that of any input."""

    @cached_property
    def schema(self) -> pa.Schema:
        """Return the columns of the rows."""
        return self.rows.schema


@dataclass(frozen=True, eq=False)
class Variable(LogicalOperator):
    """A table that an ``Iterate`` computes round by round; it means something in its bodies only."""

    declared: pa.Schema

    @cached_property
    def schema(self) -> pa.Schema:
        """Return the columns that the variable has in every round."""
        return pa.schema([pa.field(each.name, each.type) for each in self.declared])


# Row by row.


@dataclass(frozen=True, eq=False)
class Project(LogicalOperator):
    """Rows with other columns, each an expression over the columns of the input."""

    input: LogicalOperator
    columns: tuple[tuple[str, Expression], ...]

    @cached_property
    def schema(self) -> pa.Schema:
        """Return the new columns."""
        if not self.columns:
            raise FlowError(f"{self}: a table needs at least one column. Select one.")
        check_new_names(str(self), [new for new, _ in self.columns if new not in self.input.schema.names])
        return selection(str(self), self.input.schema, dict(self.columns)).schema


@dataclass(frozen=True, eq=False)
class Filter(LogicalOperator):
    """The rows for which a condition holds; null counts as false."""

    input: LogicalOperator
    condition: Expression

    @cached_property
    def schema(self) -> pa.Schema:
        """Return the columns of the input."""
        compile_condition(self.condition, self.input.schema, str(self))
        return self.input.schema


@dataclass(frozen=True, eq=False)
class Explode(LogicalOperator):
    """One row for each element of a list, which takes the place of the list."""

    input: LogicalOperator
    column: str
    position: str | None = None
    """A column for the place of the element in its list, from 0 on."""
    is_outer: bool = False
    """Whether a row whose list is null or empty stays, with a null."""

    @cached_property
    def schema(self) -> pa.Schema:
        """Return the columns of the input, with the element in place of the list."""
        return exploding(
            str(self), self.input.schema, self.column, self.position, is_outer=self.is_outer
        ).schema


@dataclass(frozen=True, eq=False)
class MapBatches(LogicalOperator):
    """What a user's function makes of each row, the same whenever the row is inserted or deleted."""

    input: LogicalOperator
    function: BatchFunction
    declared: pa.Schema
    version: str | None = None
    """The identity of the function, if the user pins it; default: a digest of its code."""

    @cached_property
    def schema(self) -> pa.Schema:
        """Return the columns that the function is declared to make."""
        return pa.schema([pa.field(each.name, each.type) for each in self.declared])


@dataclass(frozen=True, eq=False)
class TimeWindow(LogicalOperator):
    """Each row with every window of event time in which it lies."""

    input: LogicalOperator
    at: str
    size: Span
    slide: Span | None = None
    offset: Span | None = None
    start: str = "window_start"
    end: str = "window_end"

    @cached_property
    def schema(self) -> pa.Schema:
        """Return the columns of the input, and the start and the end of the window."""
        check_new_names(str(self), (self.start, self.end))
        lengths = (self.size, self.slide, self.offset)
        return windowing(str(self), self.input.schema, self.at, lengths, (self.start, self.end)).schema


# Two tables.


@dataclass(frozen=True, eq=False)
class Join(LogicalOperator):
    """The pairs of rows with equal keys for which a condition holds; null keys equal nothing.

    The key columns of a pair have their names on the left side; the other columns of the right side get the
    suffix where the left side has a column of that name. ``left``, ``right`` and ``full`` add the rows
    without a partner, ``semi`` and ``anti`` are the rows of the left side that have one, or none.
    """

    left: LogicalOperator
    right: LogicalOperator
    kind: How = "inner"
    keys: tuple[tuple[str, str], ...] = ()
    condition: Expression | None = None
    """A condition over the columns of a pair."""
    suffix: str = "_right"

    @cached_property
    def schema(self) -> pa.Schema:
        """Return the columns of a pair, or those of the left side."""
        pair = self.pair
        if self.condition is not None:
            compile_condition(self.condition, pair, str(self))
        return self.left.schema if self.kind in ("semi", "anti") else pair

    @cached_property
    def pair(self) -> pa.Schema:
        """Return the columns of a pair, over which the condition is."""
        if (self.kind == "cross") != (not self.keys):
            raise FlowError(f"{self}: a {self.kind} join takes {len(self.keys)} key columns.")
        if not self.keys:
            names = {name: f"{name}{self.suffix}" for name in self.right.schema.names}
            taken = self.left.schema.names
            own = [
                each.with_name(names[each.name]) if each.name in taken else each for each in self.right.schema
            ]
            return _once(str(self), pa.schema([*self.left.schema, *own]))
        return joining(str(self), self.left.schema, self.right.schema, dict(self.keys), self.suffix).result


@dataclass(frozen=True, eq=False)
class AsOfJoin(LogicalOperator):
    """Each row with the one row of the other table that has its key and the nearest time."""

    left: LogicalOperator
    right: LogicalOperator
    keys: tuple[tuple[str, str], ...]
    at: tuple[str, str]
    direction: Direction = "backward"
    kind: Literal["inner", "left"] = "inner"
    tolerance: Tolerance | None = None
    suffix: str = "_right"

    @cached_property
    def schema(self) -> pa.Schema:
        """Return the columns of a pair."""
        check_columns(str(self), self.left.schema, [self.at[0]])
        check_columns(str(self), self.right.schema, [self.at[1]])
        return joining(str(self), self.left.schema, self.right.schema, dict(self.keys), self.suffix).result


@dataclass(frozen=True, eq=False)
class Union(LogicalOperator):
    """The rows of several tables, with all their copies; columns have the order of the first."""

    parts: tuple[LogicalOperator, ...]

    @cached_property
    def schema(self) -> pa.Schema:
        """Return the columns of the first table."""
        for other in self.parts[1:]:
            _check_like(str(self), self.parts[0].schema, other.schema)
        return self.parts[0].schema


@dataclass(frozen=True, eq=False)
class Except(LogicalOperator):
    """The rows of the left table that the right one does not have: each once, or as many copies more."""

    left: LogicalOperator
    right: LogicalOperator
    keeps_copies: bool = False

    @cached_property
    def schema(self) -> pa.Schema:
        """Return the columns of the left table."""
        _check_like(str(self), self.left.schema, self.right.schema)
        return self.left.schema


@dataclass(frozen=True, eq=False)
class Intersect(LogicalOperator):
    """The rows that both tables have: each once, or as often as the lesser number of copies."""

    left: LogicalOperator
    right: LogicalOperator
    keeps_copies: bool = False

    @cached_property
    def schema(self) -> pa.Schema:
        """Return the columns of the left table."""
        _check_like(str(self), self.left.schema, self.right.schema)
        return self.left.schema


# By key.


@dataclass(frozen=True, eq=False)
class Aggregate(LogicalOperator):
    """One row for each key, with aggregates of its rows; without keys one row, also of no rows."""

    input: LogicalOperator
    keys: tuple[str, ...]
    aggregates: tuple[tuple[str, Aggregation], ...]
    in_parts: bool = False
    """Whether each worker aggregates its own rows, before the parts are brought together by key."""

    @cached_property
    def schema(self) -> pa.Schema:
        """Return the key columns and the aggregates."""
        who, rows = str(self), self.input.schema
        check_columns(who, rows, self.keys)
        check_new_names(who, [column for column, _ in self.aggregates])
        found = table_aggregates(who, rows, dict(self.aggregates), Arguments(self.keys))
        results = [pa.field(column, each.result_type) for column, each in found.items()]
        return _once(who, pa.schema([*map(rows.field, self.keys), *results]))


@dataclass(frozen=True, eq=False)
class Distinct(LogicalOperator):
    """Every row once."""

    input: LogicalOperator

    @cached_property
    def schema(self) -> pa.Schema:
        """Return the columns of the input."""
        return self.input.schema


@dataclass(frozen=True, eq=False)
class DistinctOn(LogicalOperator):
    """One row for each key, the first in an order; all columns decide what it leaves open."""

    input: LogicalOperator
    keys: tuple[str, ...]
    by: tuple[str, ...] = ()
    """As of ``TopK``."""

    @cached_property
    def schema(self) -> pa.Schema:
        """Return the columns of the input."""
        check_columns(str(self), self.input.schema, self.keys)
        if self.by:
            ordering(str(self), self.input.schema, self.by)
        return self.input.schema


@dataclass(frozen=True, eq=False)
class TopK(LogicalOperator):
    """The first rows of each key in an order, or of the table; all columns decide what it leaves open."""

    input: LogicalOperator
    count: int
    keys: tuple[str, ...]
    by: tuple[str, ...]
    """Columns, each with ``asc`` or ``desc`` and ``nulls first`` or ``nulls last``; () is all columns."""
    ties: bool = False
    """Whether rows that are equal to the last of them by the order are in, too."""
    rank: str | None = None
    """A column for the place of a row, from 1 on."""
    in_parts: bool = False
    """Whether each worker chooses among its own rows, before these are brought together by key."""

    @cached_property
    def schema(self) -> pa.Schema:
        """Return the columns of the input, and the rank."""
        who, rows = str(self), self.input.schema
        check_columns(who, rows, self.keys)
        if self.count < 1:
            raise FlowError(f"{who}: the number of rows must be 1 or more, got {self.count!r}.")
        if self.by:
            ordering(who, rows, self.by)
        if self.rank is None:
            return rows
        check_new_names(who, [self.rank])
        return _once(who, pa.schema([*rows, pa.field(self.rank, pa.int64())]))


@dataclass(frozen=True, eq=False)
class WindowFunctions(LogicalOperator):
    """All columns, and functions of a row's place among the rows of its partition, in an order."""

    input: LogicalOperator
    keys: tuple[str, ...]
    by: tuple[str, ...]
    functions: tuple[tuple[str, OrderFunction], ...]

    @cached_property
    def schema(self) -> pa.Schema:
        """Return the columns of the input, and those of the functions."""
        who, rows = str(self), self.input.schema
        check_columns(who, rows, self.keys)
        ordering(who, rows, self.by)
        added = place_columns(who, rows, dict(self.functions), Arguments(rows.names))
        return pa.schema([*rows, *(pa.field(name, each.result_type) for name, each in added.items())])


# Recursion.


@dataclass(frozen=True, eq=False)
class Iterate(LogicalOperator):
    """Variables that are computed round by round until nothing changes; several are mutual recursion.

    It has no rows itself: ``Recursive`` is the result of one of its bodies.
    """

    variables: tuple[Variable, ...]
    starts: tuple[LogicalOperator | None, ...]
    """What each variable is in round 0; None: a table without rows."""
    bodies: tuple[LogicalOperator, ...]
    """What each variable is in the next round."""
    rounds_max: int | None = None
    """A recursion that needs more rounds is an error."""
    results: tuple[LogicalOperator, ...] = ()
    """What leaves the loop besides its bodies."""

    @property
    def loop_left(self) -> LogicalOperator:
        """Return itself: what it is made of is inside, and its results are outside."""
        return self

    @cached_property
    def schema(self) -> pa.Schema:
        """Return no columns; what is wrong with a variable is rejected here."""
        if not self.variables or not len(self.variables) == len(self.starts) == len(self.bodies):
            raise FlowError(f"{self}: each variable needs a start, or None, and a body.")
        for variable, start, body in zip(self.variables, self.starts, self.bodies, strict=True):
            for given in (body,) if start is None else (start, body):
                _check_like(f"{self}: variable '{variable.name}'", variable.schema, given.schema)
        return pa.schema([])


@dataclass(frozen=True, eq=False)
class Recursive(LogicalOperator):
    """What one body of an ``Iterate``, or another result, is when nothing changes any more."""

    iterate: Iterate
    place: int = 0
    """Which body, or behind the bodies which result."""

    @cached_property
    def schema(self) -> pa.Schema:
        """Return the columns of the variable, or of the result."""
        bodies = len(self.iterate.bodies)
        if self.place < bodies:
            return self.iterate.variables[self.place].schema
        return self.iterate.results[self.place - bodies].schema


# Walking plans.


def walk(roots: Sequence[LogicalOperator]) -> Iterator[LogicalOperator]:
    """Yield every operator below these roots once, inputs before those who read them."""
    seen: set[int] = set()
    for root in roots:
        waiting: list[tuple[LogicalOperator, bool]] = [(root, False)]
        while waiting:
            operator, is_ready = waiting.pop()
            if is_ready:
                yield operator
            elif id(operator) not in seen:
                seen.add(id(operator))
                waiting.append((operator, True))
                waiting.extend((each, False) for each in reversed(operator.inputs))


def rewrite(
    roots: Sequence[LogicalOperator], change: Callable[[LogicalOperator], LogicalOperator]
) -> list[LogicalOperator]:
    """Return the roots of a plan in which ``change`` was applied to every operator, inputs first.

    What was shared stays shared, and what nothing has changed is the same object.
    """
    made: dict[int, LogicalOperator] = {}
    for operator in walk(roots):
        made[id(operator)] = change(operator.with_inputs([made[id(each)] for each in operator.inputs]))
    return [made[id(root)] for root in roots]


def loops_of(roots: Sequence[LogicalOperator]) -> Mapping[LogicalOperator, tuple[LogicalOperator, ...]]:
    """Return the loops that each operator is in, outermost first.

    An operator is in a recursion if it depends on one of its variables, and in a loop that is wired by hand
    if it comes from what enters it.
    """
    order = list(walk(roots))
    if not any(isinstance(each, Iterate) or each.loop_entered or each.loop_left for each in order):
        return dict.fromkeys(order, ())
    binder = {id(each): loop for loop in order if isinstance(loop, Iterate) for each in loop.variables}
    loops: dict[int, LogicalOperator] = {}
    free: dict[int, frozenset[int]] = {}
    for operator in order:
        own = frozenset().union(*(free[id(each)] for each in operator.inputs))
        entered = binder.get(id(operator)) or operator.loop_entered
        if entered is not None:
            own |= {id(entered)}
            loops[id(entered)] = entered
        if operator.loop_left is not None:
            own -= {id(operator.loop_left)}
        free[id(operator)] = own
    # A variable depends on the loops around its own, which only its Iterate shows.
    around: dict[int, frozenset[int]] = {name: free[name] for name in loops}
    closed: dict[int, frozenset[int]] = {}

    def close(names: frozenset[int]) -> frozenset[int]:
        found = names
        for name in names:
            if name not in closed:
                closed[name] = close(around[name])
            found |= closed[name]
        return found

    found: dict[LogicalOperator, tuple[LogicalOperator, ...]] = {}
    for operator in order:
        inside = close(free[id(operator)])
        if operator.loop_left is not None:
            inside -= {id(operator.loop_left)}
        found[operator] = tuple(
            sorted((loops[each] for each in inside), key=lambda loop: len(close(around[id(loop)])))
        )
    return found


def _once(who: str, schema: pa.Schema) -> pa.Schema:
    """Return a schema in which no name stands twice."""
    if twice := [name for name in schema.names if schema.names.count(name) > 1]:
        raise SchemaError(f"{who} would have the column '{twice[0]}' twice. Rename one of them.")
    return schema


def _check_like(who: str, one: pa.Schema, other: pa.Schema) -> None:
    if {(each.name, each.type) for each in one} != {(each.name, each.type) for each in other}:
        raise SchemaError(
            f"{who}: both sides must have the same columns, got {one.names} and {other.names}. Select them."
        )
