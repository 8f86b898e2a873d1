"""Streams: what a user chains operations on.

A stream is one output of a node of the plan, with its schema and the scope it stands in. Operations add nodes
and return new streams; nothing runs. Each operation works on whole Arrow batches unless it says otherwise.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from pointstamp.errors import FlowError, SchemaError
from pointstamp.expressions.selecting import (
    chosen,
    expressions,
    operator_name,
    others,
    renamed,
    selection,
)
from pointstamp.expressions.tree import Expression, Value, col
from pointstamp.flow.builder import PlanBuilder, Scope, TableWay, wired
from pointstamp.flow.key_kinds import check_keys_meet
from pointstamp.flow.marking import check_reduces
from pointstamp.flow.other_words import no_such_verb
from pointstamp.flow.pact import (
    EVERYWHERE,
    STAY,
    ExchangeBy,
    ExchangeByFunction,
    Pact,
    ShardFunction,
    ToEveryWorker,
)
from pointstamp.flow.plan import NodeKind
from pointstamp.flow.probe import Probe
from pointstamp.flow.reducing import Reducing, checked_name, checked_running, reducing
from pointstamp.flow.updates import Passes, Reduces
from pointstamp.operators.condition import Condition, checked_condition
from pointstamp.operators.stateless import (
    BatchFunction,
    Concat,
    Filter,
    FlatMapRows,
    Inspect,
    MapBatches,
    MapRows,
    Project,
    Row,
)
from pointstamp.reduce.reductions import Aggregate, Aggregation, RunningReduce, WindowedReduce, reduced_schema
from pointstamp.rows.schema import as_schema
from pointstamp.topology.ports import Source
from pointstamp.topology.summary import Summary, delay

if TYPE_CHECKING:
    from pointstamp.flow.loop import Loop
    from pointstamp.tables.table import Table


class Stream:
    """A stream of Arrow batches with times; made by a flow and by operations on other streams."""

    def __init__(
        self, builder: PlanBuilder, source: Source, schema: pa.Schema, scope: Scope, pact: Pact = STAY
    ) -> None:
        self.builder = builder
        self.source = source
        self.schema = schema
        self.scope = scope
        self.pact = pact

    # How the batches are shared among the workers.

    def exchange(self, *keys: str, by: ShardFunction | None = None) -> "Stream":
        """Bring each row to the worker that owns its key, where the next operation sees all of that key.

        With ``by``, a function, you say yourself where rows meet: it is given a batch, with these columns
        only if some are named, and gives the shard of each row, a whole number from 0 on, as an Arrow or
        numpy array or a list. The worker is ``shard % workers``: rows of one shard meet however many workers
        there are. A row must have the same shard in every batch and in every process.

        State behind it that is saved with keys goes on on another number of workers if the columns are named,
        ``exchange("user", by=function)``, and are the keys of the state; otherwise that is refused.
        """
        for key in keys:
            if not isinstance(key, str):
                raise FlowError(
                    f"{self}: exchange takes names of columns, and was given {type(key).__name__}. A "
                    "function that says the shard of each row is given as exchange(by=function)."
                )
        self._check_columns("exchange", keys)
        if by is not None:
            if not callable(by):
                raise FlowError(
                    f"{self}: exchange(by=) takes a function from a batch to the shard of each row, and was "
                    f"given {type(by).__name__} {by!r}. Columns are given without by: exchange('id')."
                )
            columns = pa.schema([self.schema.field(key) for key in keys]) if keys else None
            return self._with(ExchangeByFunction(by, columns))
        if not keys:
            raise FlowError(
                f"{self}: exchange needs at least one key column, for example exchange('id'), or a function "
                "that says the shard of each row: exchange(by=function)."
            )
        return self._with(ExchangeBy(keys))

    def broadcast(self) -> "Stream":
        """Let every worker see every batch."""
        return self._with(EVERYWHERE)

    # Columns by expressions.

    def select(
        self, *columns: str | Expression, name: str | Expression = "select", **named: Value
    ) -> "Stream":
        """Other columns, by name or by expression: ``select("id", total=ps.col("price") * 2)``."""
        operator, called = operator_name(name, "select", f"select of {self}")
        wanted = chosen(f"'{operator}' of {self}", columns, called | named)
        return self._selected(operator, wanted)

    def with_columns(self, *, name: str | Expression = "with columns", **named: Value) -> "Stream":
        """All columns, and more or others under these names: ``with_columns(total=ps.col("price") * 2)``."""
        operator, called = operator_name(name, "with columns", f"with_columns of {self}")
        added = expressions(f"'{operator}' of {self}", called | named)
        return self._selected(operator, {each: col(each) for each in self.schema.names} | added)

    def drop(self, *columns: str) -> "Stream":
        """Without these columns."""
        return self._selected("drop", others(f"drop of {self}", self.schema, columns))

    def rename(self, **new_to_old: str) -> "Stream":
        """With other names for some columns: ``rename(seller="person")`` calls the column person seller."""
        return self._selected("rename", renamed(f"rename of {self}", self.schema, new_to_old))

    # All epochs together.

    def running(
        self, *, weight: str | None = None, operation: str | None = None, name: str = "running"
    ) -> "Table":
        """The table that this stream adds up to, over all epochs so far: each of its rows is added.

        With ``weight`` a column says how often each row is added: 1 to insert it, -1 to delete it. With
        ``operation`` a column has the words of Delta's change feed, ``insert``, ``delete``,
        ``update_preimage`` and ``update_postimage``, or Flink's ``+I``, ``-D``, ``-U`` and ``+U``. A row that
        is deleted must be there: what would be there less than no times is an error, with its epoch.
        """
        return self.builder.table_of(self, TableWay(weight, operation), name)

    def states(self, *, name: str = "states") -> "Table":
        """The table of which each epoch has all rows as they are then: what is no longer there is gone.

        An epoch without rows says nothing, and the table stays as it was.
        """
        return self.builder.table_of(self, TableWay(is_whole=True), name)

    # Batches in, batches out.

    def map_batches(
        self, function: BatchFunction, schema: str | pa.Schema | None = None, *, name: str = "map"
    ) -> "Stream":
        """Send what a function makes of each batch; the schema stays unless another is given.

        The function is given an Arrow batch and may return rows in any form that an input takes: an Arrow
        batch or table, a pandas or polars frame, or slower a list of dictionaries; None for no rows.
        """
        wanted = self.schema if schema is None else as_schema(schema)
        return self._add(name, partial(MapBatches, function), wanted, Passes.MADE)

    def filter(self, condition: Condition, *, name: str = "filter") -> "Stream":
        """Keep the rows for which a condition holds.

        The condition is an expression, ``ps.col("age") > 17`` or pyarrow's ``pc.field("age") > 17``, or a
        function from a batch to one boolean per row. Null counts as false.
        """
        checked = checked_condition(condition, self.schema, f"'{name}' of {self}")
        return self._add(name, partial(Filter, checked), self.schema)

    def branch(self, condition: Condition, *, name: str = "branch") -> "tuple[Stream, Stream]":
        """Split into the rows for which a condition holds and the others."""
        checked = checked_condition(condition, self.schema, f"'{name}' of {self}")
        outputs = {"true": self.schema, "false": self.schema}
        logic = partial(Filter, checked)
        kept, others = add_operator(name, logic, {"in": self}, outputs, sends=Passes.ROWS)
        return kept, others

    def concat(self, *others: "Stream", name: str = "concat") -> "Stream":
        """Bring this stream and others of the same schema together, in no particular order."""
        for other in others:
            if other.schema != self.schema:
                raise SchemaError(
                    f"concat of {self} and {other}: both need the same schema; the first has "
                    f"{_columns(self.schema)} and the second {_columns(other.schema)}."
                )
        inputs = {f"in {number}": stream for number, stream in enumerate((self, *others))}
        return add_operator(name, Concat, inputs, {"out": self.schema}, sends=Passes.ROWS)[0]

    def inspect(self, function: Callable[[Any, pa.RecordBatch], None], *, name: str = "inspect") -> "Stream":
        """Show each batch with its time to a function; the stream goes on unchanged."""
        return self._add(name, partial(Inspect, function), self.schema)

    def probe(self) -> Probe:
        """A place to ask, while the flow runs, how far this stream has come."""
        return Probe(self.source)

    # One row at a time.

    def map(self, function: Callable[[Row], Row], schema: str | pa.Schema, *, name: str = "map") -> "Stream":
        """Send the row that a function makes of each row, as dictionaries.

        This runs Python once per row: some microseconds each, a hundred times the cost of ``map_batches``.
        """
        return self._add(name, partial(MapRows, function), as_schema(schema), Passes.MADE)

    def flat_map(
        self, function: Callable[[Row], Iterable[Row]], schema: str | pa.Schema, *, name: str = "flat map"
    ) -> "Stream":
        """Send the rows that a function yields for each row, as dictionaries.

        This runs Python once per row: some microseconds each, a hundred times the cost of ``map_batches``.
        """
        return self._add(name, partial(FlatMapRows, function), as_schema(schema), Passes.MADE)

    # By key.

    def count(self, *keys: str, running: bool = False, name: str = "count") -> "Stream":
        """Count rows per key: in each epoch by itself, or running over all epochs so far.

        Running counts are sent for the keys that changed in an epoch. The result has the key columns and
        ``count``.
        """
        who = f"count of {self}"
        wanted: dict[str, Aggregation] = {"count": Aggregate("count")}
        return self._reduce(keys, Reducing(checked_name(who, name), checked_running(who, running), wanted))

    def reduce(
        self,
        *keys: str,
        aggregates: Mapping[str, Aggregation] | Aggregation | None = None,
        running: bool | Aggregation = False,
        name: str | Aggregation = "reduce",
        **named: Aggregation,
    ) -> "Stream":
        """Aggregate rows per key: in each epoch by itself, or running over all epochs so far.

        ``total=ps.sum("amount"), last=ps.max("at")``: each named column of the result is an aggregate,
        ``sum``, ``min``, ``max``, ``mean``, ``count`` or one of your own. With ``running`` the new value is
        sent for each key that changed in an epoch; at the end of an epoch in either case.

        What a running reduction sends are updates, and these can be aggregated again only where a row that
        was replaced makes no difference: a running ``min`` by ``min`` of the same column, a running ``max``
        by ``max``, grouped by the same keys or some of them. Everything else is refused
        (``pointstamp.flow.updates`` says exactly what), also through ``map``, ``filter``, ``concat`` and
        loops. An operator of your own (``ps.operator``) may do with updates what it likes.

        A column may have any name: ``aggregates={"name": ps.max("name")}`` takes them all, and what is given
        for ``name`` or ``running`` and is an aggregate is a column, too.
        """
        return self._reduce(
            keys,
            reducing(
                f"reduce of {self}",
                "reduce",
                aggregates=aggregates,
                running=running,
                name=name,
                named=named,
            ),
        )

    def _reduce(self, keys: tuple[str, ...], asked: Reducing) -> "Stream":
        name, aggregates = asked.name, asked.aggregates
        if not keys:
            raise FlowError(f"{self}: '{name}' needs at least one key column.")
        self._check_columns(name, keys)
        schema = reduced_schema(f"'{name}' of {self}", self.schema, keys, aggregates)
        logic = RunningReduce if asked.running else WindowedReduce
        reduces = Reduces(keys, aggregates, asked.running)
        check_reduces(self.builder.plan, self.source, reduces, f"'{name}' of {self}")
        return add_operator(
            name,
            partial(logic, self.schema, keys, aggregates),
            {"in": self.exchange(*keys)},
            {"out": schema},
            in_order=asked.running,
            sends=reduces,
        )[0]

    # Time.

    def delay(self, epochs: int = 1, *, name: str = "delay") -> "Stream":
        """The same batches, that many epochs later."""
        if epochs < 1:
            raise FlowError(f"{self}: delay needs at least one epoch, and was given {epochs}.")
        summary = delay(epochs, len(self.scope))
        return add_door(NodeKind.DELAY, name, self, self.scope, summary, delay_epochs=epochs)

    def loop(self, name: str = "loop", *, max_rounds: int | None = None, at_limit: str = "error") -> "Loop":
        """Open a loop in this stream's scope: ``with stream.loop("labels") as loop``.

        With ``max_rounds`` what would go into a later round is an error, or with ``at_limit="stop"`` it is
        dropped, and the loop returns what there is.
        """
        from pointstamp.flow.loop import Loop  # a loop is made of streams, and a stream opens one

        return Loop(self.builder, name, self.scope, max_rounds=max_rounds, at_limit=at_limit)

    def _add(
        self, name: str, logic: Callable[[], Any], schema: pa.Schema, passes: Passes = Passes.ROWS
    ) -> "Stream":
        return add_operator(name, logic, {"in": self}, {"out": schema}, sends=passes)[0]

    def _selected(self, name: str, wanted: Mapping[str, Expression]) -> "Stream":
        made = selection(f"'{name}' of {self}", self.schema, wanted)
        return self._add(name, partial(Project, made), made.schema, Passes.MADE)

    def _with(self, pact: Pact) -> "Stream":
        stream = self
        if isinstance(self.pact, ToEveryWorker):
            # Copies were asked for first, so they must be made before they are shared anew.
            stream = self._add("copies", Concat, self.schema)
        return Stream(self.builder, stream.source, stream.schema, stream.scope, pact)

    def _check_columns(self, act: str, columns: Iterable[str]) -> None:
        for column in columns:
            if column not in self.schema.names:
                raise SchemaError(
                    f"{act} of {self} needs the column '{column}'; it has {_columns(self.schema)}."
                )

    if not TYPE_CHECKING:  # to a type checker, a name that is not there is a mistake

        def __getattr__(self, name: str) -> object:
            if name.startswith("_"):
                raise AttributeError(f"'Stream' object has no attribute '{name}'", name=name, obj=self)
            verbs = [each for each, of in vars(Stream).items() if not each.startswith("_") and callable(of)]
            raise AttributeError(no_such_verb(str(self), name, verbs), name=name, obj=self)

    def __str__(self) -> str:
        return f"stream '{self.builder.describe(self.source)}'"


def add_operator(
    name: str,
    logic: Callable[[], Any],
    inputs: Mapping[str, Stream],
    outputs: Mapping[str, pa.Schema],
    summaries: Mapping[tuple[int, int], Sequence[Summary]] | None = None,
    declared: Mapping[tuple[str, str], Sequence[Summary]] | None = None,
    *,
    in_order: bool = False,
    sends: Passes | Reduces | None = None,
) -> list[Stream]:
    """Add an operator that reads these streams; return its outputs as streams."""
    first = next(iter(inputs.values()))
    for other in inputs.values():
        if other.builder is not first.builder:
            raise FlowError(f"operator '{name}' reads {first} and {other}, which belong to different flows.")
        if other.scope != first.scope:
            raise FlowError(
                f"operator '{name}' reads {first} in {scope_name(first.scope)} and {other} in "
                f"{scope_name(other.scope)}; its inputs must stand in one scope. Enter or leave the loops "
                "first."
            )
    ports = [wired(port, stream.source, stream.pact) for port, stream in inputs.items()]
    check_keys_meet(first.builder.plan, name, ports)
    node = first.builder.add(
        NodeKind.OPERATOR,
        name,
        first.scope,
        ports,
        outputs,
        summaries=summaries,
        logic=logic,
        in_order=in_order,
        sends=sends,
        declared=declared,
    )
    return [
        Stream(first.builder, Source(node.index, number), schema, first.scope)
        for number, schema in enumerate(outputs.values())
    ]


def add_door(
    kind: NodeKind, name: str, stream: Stream, scope: Scope, summary: Summary, *, delay_epochs: int = 0
) -> Stream:
    """Add a node that only changes times; how its batches are shared is left to whoever reads them."""
    node = stream.builder.add(
        kind,
        name,
        scope,
        [wired("in", stream.source)],
        {"out": stream.schema},
        input_rounds=len(stream.scope),
        summaries={(0, 0): (summary,)},
        delay_epochs=delay_epochs,
    )
    return Stream(stream.builder, Source(node.index, 0), stream.schema, scope, stream.pact)


def scope_name(scope: Scope) -> str:
    """A scope in words."""
    return "the flow, outside all loops" if not scope else "loop '" + "' in '".join(reversed(scope)) + "'"


def _columns(schema: pa.Schema) -> str:
    return ", ".join(f"'{field.name}' {field.type}" for field in schema) or "no columns"
