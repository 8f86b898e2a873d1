"""Streams: what a user chains operations on.

A stream is one output of a node of the plan, with its schema and the scope it stands in. Operations add nodes
and return new streams; nothing runs. Each operation works on whole Arrow batches unless it says otherwise.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from pointstamp.dataflow.builder import PlanBuilder, Scope, wired
from pointstamp.dataflow.keyed import Aggregate, Aggregation, RunningReduce, WindowedReduce, reduced_schema
from pointstamp.dataflow.pact import EVERYWHERE, STAY, ExchangeBy, Pact, ToEveryWorker
from pointstamp.dataflow.plan import Kind
from pointstamp.dataflow.probe import Probe
from pointstamp.dataflow.schema import as_schema
from pointstamp.dataflow.stateless import (
    BatchFunction,
    Concat,
    Condition,
    Filter,
    FlatMapRows,
    Inspect,
    MapBatches,
    MapRows,
    Row,
)
from pointstamp.errors import FlowError, SchemaError
from pointstamp.topology.ports import Source
from pointstamp.topology.summary import Summary, delay

if TYPE_CHECKING:
    from pointstamp.dataflow.loop import Loop


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

    def exchange(self, *keys: str) -> "Stream":
        """Bring each row to the worker that owns its key, where the next operation sees all of that key."""
        if not keys:
            raise FlowError(f"{self}: exchange needs at least one key column, for example exchange('id').")
        self._check_columns("exchange", keys)
        return self._with(ExchangeBy(keys))

    def broadcast(self) -> "Stream":
        """Let every worker see every batch."""
        return self._with(EVERYWHERE)

    # Batches in, batches out.

    def map_batches(
        self, function: BatchFunction, schema: str | pa.Schema | None = None, *, name: str = "map"
    ) -> "Stream":
        """Send what a function makes of each batch; the schema stays unless another is given."""
        wanted = self.schema if schema is None else as_schema(schema)
        return self._add(name, partial(MapBatches, function), wanted)

    def filter(self, condition: Condition, *, name: str = "filter") -> "Stream":
        """Keep the rows for which a condition holds.

        The condition is a pyarrow expression, ``pc.field("age") > 17``, or a function from a batch to one
        boolean per row. Null counts as false.
        """
        return self._add(name, partial(Filter, condition), self.schema)

    def branch(self, condition: Condition, *, name: str = "branch") -> "tuple[Stream, Stream]":
        """Split into the rows for which a condition holds and the others."""
        outputs = {"true": self.schema, "false": self.schema}
        kept, others = add_operator(name, partial(Filter, condition), {"in": self}, outputs)
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
        return add_operator(name, Concat, inputs, {"out": self.schema})[0]

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
        return self._add(name, partial(MapRows, function), as_schema(schema))

    def flat_map(
        self, function: Callable[[Row], Iterable[Row]], schema: str | pa.Schema, *, name: str = "flat map"
    ) -> "Stream":
        """Send the rows that a function yields for each row, as dictionaries.

        This runs Python once per row: some microseconds each, a hundred times the cost of ``map_batches``.
        """
        return self._add(name, partial(FlatMapRows, function), as_schema(schema))

    # By key.

    def count(self, *keys: str, running: bool = False, name: str = "count") -> "Stream":
        """Count rows per key: in each epoch by itself, or running over all epochs so far.

        Running counts are sent for the keys that changed in an epoch. The result has the key columns and
        ``count``.
        """
        return self.reduce(*keys, running=running, name=name, count=Aggregate("count"))

    def reduce(
        self, *keys: str, running: bool = False, name: str = "reduce", **aggregates: Aggregation
    ) -> "Stream":
        """Aggregate rows per key: in each epoch by itself, or running over all epochs so far.

        ``total=ps.sum("amount"), last=ps.max("at")``: each named column of the result is an aggregate,
        ``sum``, ``min``, ``max``, ``mean``, ``count`` or one of your own. With ``running`` the new value is
        sent for each key that changed in an epoch; at the end of an epoch in either case.
        """
        if not keys:
            raise FlowError(f"{self}: '{name}' needs at least one key column.")
        self._check_columns(name, keys)
        schema = reduced_schema(f"'{name}' of {self}", self.schema, keys, aggregates)
        logic = RunningReduce if running else WindowedReduce
        keyed = self.exchange(*keys)
        folded = partial(logic, self.schema, keys, dict(aggregates))
        return add_operator(name, folded, {"in": keyed}, {"out": schema})[0]

    # Time.

    def delay(self, epochs: int = 1, *, name: str = "delay") -> "Stream":
        """The same batches, that many epochs later."""
        if epochs < 1:
            raise FlowError(f"{self}: delay needs at least one epoch, and was given {epochs}.")
        summary = delay(epochs, len(self.scope))
        return add_door(Kind.DELAY, name, self, self.scope, summary, delay_epochs=epochs)

    def loop(self, name: str = "loop", *, max_rounds: int | None = None, at_limit: str = "error") -> "Loop":
        """Open a loop in this stream's scope: ``with stream.loop("labels") as loop``.

        With ``max_rounds`` what would go into a later round is an error, or with ``at_limit="stop"`` it is
        dropped, and the loop returns what there is.
        """
        from pointstamp.dataflow.loop import Loop  # a loop is made of streams, and a stream opens one

        return Loop(self.builder, name, self.scope, max_rounds=max_rounds, at_limit=at_limit)

    def _add(self, name: str, logic: Callable[[], Any], schema: pa.Schema) -> "Stream":
        return add_operator(name, logic, {"in": self}, {"out": schema})[0]

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

    def __str__(self) -> str:
        return f"stream '{self.builder.describe(self.source)}'"


def add_operator(
    name: str,
    logic: Callable[[], Any],
    inputs: Mapping[str, Stream],
    outputs: Mapping[str, pa.Schema],
    summaries: Mapping[tuple[int, int], Sequence[Summary]] | None = None,
    declared: Mapping[tuple[str, str], Sequence[Summary]] | None = None,
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
    node = first.builder.add(
        Kind.OPERATOR,
        name,
        first.scope,
        [wired(port, stream.source, stream.pact) for port, stream in inputs.items()],
        outputs,
        summaries=summaries,
        logic=logic,
        declared=declared,
    )
    return [
        Stream(first.builder, Source(node.index, number), schema, first.scope)
        for number, schema in enumerate(outputs.values())
    ]


def add_door(
    kind: Kind, name: str, stream: Stream, scope: Scope, summary: Summary, *, delay_epochs: int = 0
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
