"""Lowering: logical operators to physical ones, and recursions to loops of the flow.

Each logical operator becomes the physical operators that compute it, once, in the loop in which it is. An
operator outside a loop that is read inside enters it, once for each loop. The algorithm that computes an
operator is chosen here and below, and nowhere above.

``lower`` makes one operator of inputs that were lowered already: a flow that is being written lowers each
operator when it is written, so that what cannot work is rejected there. ``Lowering`` builds a complete plan.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa

from pointstamp.errors import FlowError
from pointstamp.expressions import functions
from pointstamp.expressions.tree import col, lit
from pointstamp.flow.builder import PlanBuilder
from pointstamp.flow.custom_operator import add_custom
from pointstamp.flow.event_epochs import epochs_above, sent_ahead
from pointstamp.flow.outlet import add_operator, wiring
from pointstamp.flow.physical_stream import (
    PhysicalLoop as Loop,
)
from pointstamp.flow.physical_stream import (
    PhysicalStream as Stream,
)
from pointstamp.flow.physical_stream import (
    add_input,
    add_output,
    add_variable,
    feed_variable,
    needs_groups,
)
from pointstamp.flow.watermarks import has_promise, one_clock
from pointstamp.incremental.aggregation import WithRow
from pointstamp.incremental.debezium import Events
from pointstamp.incremental.inputs import TableWay, table_of, upserted
from pointstamp.incremental.lookup_join import looked_up
from pointstamp.incremental.operations import summed
from pointstamp.incremental.physical_table import PhysicalTable as Table
from pointstamp.incremental.physical_table import PhysicalTableLoop as TableLoop
from pointstamp.incremental.physical_table import deltas_of, within_times
from pointstamp.incremental.rolling_aggregates import Rolls, rolled
from pointstamp.operators.spec import spec
from pointstamp.plan import logical, streams
from pointstamp.plan.logical import Iterate, LogicalOperator, Recursive, Scan, loops_of, walk
from pointstamp.reduce.aggregate import Aggregate

Scans: TypeAlias = Callable[[Scan], Any]
"""Makes the table of an input."""

Physical: TypeAlias = Any
"""What an operator is lowered to: a stream, a table, a loop, a probe, several streams, or nothing."""

_LEFT: Final = "copies on the left"
_RIGHT: Final = "copies on the right"


def read_by(operator: LogicalOperator) -> tuple[LogicalOperator, ...]:
    """Return the operators that are lowered before this one; a body is lowered with its own."""
    return operator.parts if isinstance(operator, streams.PerEpoch) else operator.inputs


def lower(operator: LogicalOperator, values: Sequence[Physical], builder: PlanBuilder) -> Physical:
    """Return what an operator is lowered to, over what those that it reads were lowered to."""
    with builder.adding_to(operator):
        return _lower(operator, values, builder)


def _lower(operator: LogicalOperator, values: Sequence[Physical], builder: PlanBuilder | None) -> Physical:
    if (end := _ENDS.get(type(operator))) is not None:
        return end(operator, builder, *values)
    return _BUILDERS[type(operator)](operator, *values)


def lower_written(operators: Sequence[LogicalOperator], builder: PlanBuilder) -> None:
    """Lower the operators of a flow in the order in which they were written."""
    made: dict[LogicalOperator, Physical] = {}
    for operator in operators:
        made[operator] = lower(operator, [made[each] for each in read_by(operator)], builder)


class Lowering:
    """Builds the streams and tables of a plan; what it has built once it gives again."""

    def __init__(
        self,
        roots: Sequence[LogicalOperator],
        scans: Scans | None = None,
        builder: PlanBuilder | None = None,
    ) -> None:
        """Lower a plan into a flow: its scans are made by a function, or by a builder its inputs."""
        self._roots = roots
        self._loops = loops_of(roots)
        self._scans = scans
        self._builder = builder
        self._made: dict[tuple[LogicalOperator, tuple[LogicalOperator, ...]], Physical] = {}
        """What operators were lowered to, by the loops in which they are read."""
        self._opened: dict[LogicalOperator, TableLoop] = {}
        self._results: dict[Iterate, list[Table]] = {}
        self._inputs: dict[str, Stream] = {}
        self._first_scan = next((each for each in walk(roots) if isinstance(each, Scan)), None)

    def lower_all(self) -> None:
        """Lower everything, in the order in which a user wrote it as far as that is known."""
        order = in_order_of_writing(self._roots)
        # What is inside a recursion is built with it, so what is outside comes first.
        depths = {each: sum(isinstance(loop, Iterate) for loop in self._loops[each]) for each in order}
        for operator in sorted(order, key=lambda each: depths[each]):
            if isinstance(operator, Iterate):
                self._open(operator)
            elif not isinstance(operator, logical.Variable):
                self.table(operator)

    def table(self, operator: LogicalOperator, inside: tuple[LogicalOperator, ...] | None = None) -> Physical:
        """Return what an operator was lowered to, as it is read inside these loops; default: its own."""
        own = self._loops[operator]
        wanted = own if inside is None else inside
        assert wanted[: len(own)] == own, f"{operator} is read outside the loop that it is in"
        if (operator, wanted) not in self._made:
            self._made[operator, wanted] = (
                self._build(operator)
                if wanted == own
                else self._entered(operator, self.table(operator, wanted[:-1]), wanted[-1])
            )
        return self._made[operator, wanted]

    def _adding_to(self, operator: LogicalOperator) -> AbstractContextManager[None]:
        return nullcontext() if self._builder is None else self._builder.adding_to(operator)

    def _entered(self, operator: LogicalOperator, value: Physical, loop: LogicalOperator) -> Physical:
        opened = self._open(loop) if isinstance(loop, Iterate) else self.table(loop)
        with self._adding_to(operator):
            return _enter(loop, value, opened)

    def _build(self, operator: LogicalOperator) -> Physical:
        """Return what an operator is lowered to in its own loop."""
        if isinstance(operator, Scan):
            return self._scan(operator)
        if isinstance(operator, logical.Values) and operator.anchor is None:
            return self._values(operator)
        if isinstance(operator, Recursive):
            self._open(operator.iterate)
            return self._results[operator.iterate][operator.place]
        assert not isinstance(operator, Iterate), f"{operator} is read outside its loop"
        loops = self._loops[operator]
        values = [self.table(each, self._reading(operator, each, loops)) for each in read_by(operator)]
        assert self._builder is not None or type(operator) not in _ENDS, f"{operator} needs a flow"
        with self._adding_to(operator):
            return _lower(operator, values, self._builder)

    def _reading(
        self, operator: LogicalOperator, read: LogicalOperator, loops: tuple[LogicalOperator, ...]
    ) -> tuple[LogicalOperator, ...]:
        """Return the loops inside which an operator reads another one."""
        if isinstance(read, streams.LoopScope):
            return self._loops[read]
        if isinstance(operator, streams.EnterLoop):
            return loops[:-1]
        if isinstance(operator, streams.LeaveLoop):
            return (*loops, operator.loop)
        if isinstance(operator, streams.LoopVariable):
            return loops[:-1]
        if isinstance(operator, streams.Feedback):
            return self._loops[operator.variable]
        return loops

    def _scan(self, operator: Scan) -> Physical:
        if self._scans is not None:
            made = self._scans(operator)
            return getattr(made, "_physical", made)
        assert self._builder is not None, f"{operator} needs a flow"
        if operator.source is not None:
            rows = self.table(operator.source)
        elif operator.input in self._inputs:
            rows = self._inputs[operator.input]
        else:
            given = streams.Input(operator.input, operator.declared)
            rows = self._inputs[operator.input] = lower(given, [], self._builder)
        with self._adding_to(operator):
            return self._scanned(operator, rows)

    def _scanned(self, operator: Scan, rows: Stream) -> Table:
        if operator.columns is not None:
            kept = {*operator.columns, *operator.keys, operator.marker, operator.order}
            rows = rows.project("columns", {each: col(each) for each in rows.schema.names if each in kept})
        made = _to_table(_way_of(operator), rows)
        if operator.columns is None or made.schema.names == list(operator.schema.names):
            return made
        return made.project("columns", {each: col(each) for each in operator.schema.names})

    def _open(self, iterate: Iterate) -> TableLoop:
        """Return the loop of a recursion, which is built when it is first asked for."""
        if iterate not in self._opened:
            self._iterate(iterate)
        return self._opened[iterate]

    def _beside(self, iterate: Iterate) -> Table:
        """Return any table where a recursion stands that begins without rows."""
        outside = self._loops[iterate]
        around = (each for each in walk(iterate.bodies) if self._loops[each] == outside)
        for each in around:
            made = None if isinstance(each, streams.LoopScope) else self.table(each)
            if isinstance(made, Table):
                return made
        raise FlowError(f"{iterate} begins without rows and reads no table, so it has none. Read a table.")

    def _iterate(self, iterate: Iterate) -> None:
        """Open the loop of a recursion, build its bodies in it, and take their tables out."""
        outside = self._loops[iterate]
        starts = [None if each is None else self.table(each, outside) for each in iterate.starts]
        first = next((each for each in starts if each is not None), None) or self._beside(iterate)
        inside = (*outside, iterate)
        with first.loop(iterate.name or "iterate", max_rounds=iterate.rounds_max) as loop:
            self._opened[iterate] = loop
            for variable, start in zip(iterate.variables, starts, strict=True):
                with self._adding_to(iterate):
                    begun = variable.schema if start is None else _in_order(start, variable.schema)
                    self._made[variable, inside] = loop.variable(begun, variable.name or "variable")
            bodies = [self.table(body, inside) for body in iterate.bodies]
            with self._adding_to(iterate):
                made = [
                    _in_order(body, variable.schema)
                    for variable, body in zip(iterate.variables, bodies, strict=True)
                ]
                for variable, body in zip(iterate.variables, made, strict=True):
                    loop.feedback(self._made[variable, inside], body)
            made += [self.table(each, inside) for each in iterate.results]
            with self._adding_to(iterate):
                self._results[iterate] = [loop.leave(each) for each in made]

    def _values(self, operator: logical.Values) -> Table:
        """Return a table that always has some rows: an input without its rows, and these."""
        assert self._first_scan is not None, "a plan without inputs has no epochs"
        anchor = self.table(self._first_scan, ())
        with self._adding_to(operator):
            return _beside(operator, anchor, operator.name or "values")


def in_order_of_writing(roots: Sequence[LogicalOperator]) -> list[LogicalOperator]:
    """Return the operators of a plan in the order of writing; what a rule added stands behind its inputs.

    The bodies of ``PerEpoch`` are parts of it, and no operators of their own.
    """
    latest: dict[LogicalOperator, int] = {}
    seen: set[LogicalOperator] = set()
    for root in roots:
        waiting: list[tuple[LogicalOperator, bool]] = [(root, False)]
        while waiting:
            operator, is_ready = waiting.pop()
            if is_ready:
                below = max((latest.get(each, -1) for each in read_by(operator)), default=-1)
                latest[operator] = below if operator.written is None else max(below, operator.written)
            elif operator not in seen:
                seen.add(operator)
                waiting.append((operator, True))
                waiting.extend((each, False) for each in reversed(read_by(operator)))
    return sorted(latest, key=lambda each: latest[each])


# What computes each operator.


def _named(operator: LogicalOperator, default: str) -> str:
    return default if operator.name is None else operator.name


def _on(keys: Sequence[tuple[str, str]]) -> Any:  # noqa: ANN401 - as joins take it
    """Return what a join is on: names where both sides have the same, so that none of them is lost."""
    return tuple(mine for mine, _ in keys) if all(one == other for one, other in keys) else dict(keys)


def _in_order(table: Table, schema: pa.Schema) -> Table:
    """Return a table with its columns in the order of a schema."""
    return table if table.schema.names == schema.names else table.select(*schema.names)


def _project(operator: logical.Project, rows: Physical) -> Physical:
    return rows.project(_named(operator, "select"), dict(operator.columns))


def _filter(operator: logical.Filter, rows: Physical) -> Physical:
    return rows.filter(operator.condition, name=_named(operator, "filter"))


def _explode(operator: logical.Explode, rows: Physical) -> Physical:
    name = _named(operator, "explode")
    return rows.explode(operator.column, outer=operator.is_outer, position=operator.position, name=name)


def _map_batches(operator: logical.MapBatches, rows: Physical) -> Physical:
    return rows.map_batches(operator.function, operator.declared, name=_named(operator, "map"))


def _time_window(operator: logical.TimeWindow, rows: Physical) -> Physical:
    return rows.window(
        operator.at,
        operator.size,
        slide=operator.slide,
        offset=operator.offset,
        start=operator.start,
        end=operator.end,
        name=_named(operator, "window"),
    )


def _join(operator: logical.Join, left: Table, right: Table) -> Table:
    return left.join(
        right,
        _on(operator.keys),
        how=operator.kind,
        where=operator.condition,
        suffix=operator.suffix,
        name=_named(operator, "join"),
    )


def _as_of_join(operator: logical.AsOfJoin, left: Table, right: Table) -> Table:
    mine, theirs = operator.at
    return left.join_as_of(
        right,
        _on(operator.keys),
        at={mine: theirs},
        direction=operator.direction,
        how=operator.kind,
        tolerance=operator.tolerance,
        suffix=operator.suffix,
        name=_named(operator, "join as of"),
    )


def _union(operator: logical.Union, *parts: Physical) -> Physical:
    made = parts[0]
    if isinstance(made, Stream):
        return made.concat(*parts[1:], name=_named(operator, "concat"))
    for part in parts[1:]:
        made = made.union(part, name=_named(operator, "union"))
    return made


def _except(operator: logical.Except, left: Table, right: Table) -> Table:
    if operator.keeps_copies:
        return _with_copies(operator, left, right, is_except=True)
    return left.minus(right, name=_named(operator, "except"))


def _intersect(operator: logical.Intersect, left: Table, right: Table) -> Table:
    if operator.keeps_copies:
        return _with_copies(operator, left, right, is_except=False)
    return left.intersect(right, name=_named(operator, "intersect"))


def _with_copies(operator: LogicalOperator, left: Table, right: Table, *, is_except: bool) -> Table:
    """Return each row as often as it is left over, or as it is in both."""
    rows = left.schema
    one, none = lit(1).cast("long"), lit(0).cast("long")
    mine = left.select(*rows.names, one.alias(_LEFT), none.alias(_RIGHT))
    theirs = right.select(*rows.names, none.alias(_LEFT), one.alias(_RIGHT))
    sums = {_LEFT: Aggregate("sum", _LEFT), _RIGHT: Aggregate("sum", _RIGHT)}
    counted = mine.union(theirs).reduce(*rows.names, aggregates=sums)
    times = col(_LEFT) - col(_RIGHT) if is_except else functions.least(_LEFT, _RIGHT)
    found = counted.select(*rows.names, times.alias(_LEFT)).filter(col(_LEFT) > 0)
    return found.map_batches(_repeat_rows, rows, name=_named(operator, "copies"))


def _repeat_rows(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return each row as often as its last column says."""
    times = batch.column(batch.num_columns - 1).to_numpy()
    return batch.select(batch.schema.names[:-1]).take(pa.array(np.repeat(np.arange(len(times)), times)))


def _aggregate(operator: logical.Aggregate, rows: Table) -> Table:
    return rows.reduce(
        *operator.keys,
        aggregates=dict(operator.aggregates),
        name=_named(operator, "aggregate"),
        in_parts=operator.in_parts,
    )


def _distinct(operator: logical.Distinct, rows: Table) -> Table:
    return rows.distinct(name=_named(operator, "distinct"))


def _top_k(operator: logical.TopK, rows: Table) -> Table:
    return rows.top(
        operator.count,
        *operator.keys,
        by=operator.by or rows.schema.names,
        ties=operator.ties,
        rank=operator.rank,
        name=_named(operator, "top"),
        in_parts=operator.in_parts,
    )


def _window_functions(operator: logical.WindowFunctions, rows: Table) -> Table:
    return rows.with_order(
        *operator.keys,
        by=operator.by,
        functions=dict(operator.functions),
        name=_named(operator, "window functions"),
    )


def _distinct_on(operator: logical.DistinctOn, rows: Table) -> Table:
    return rows.distinct(*operator.keys, by=operator.by, name=_named(operator, "distinct"))


def _values_beside(operator: logical.Values, anchor: Table) -> Table:
    return _beside(operator, anchor, _named(operator, "rows of the text"))


def _beside(operator: logical.Values, anchor: Table, name: str) -> Table:
    """Return rows that are always there, in a flow that a table belongs to."""
    nulls = (lit(None).cast(each.type).alias(each.name) for each in operator.rows.schema)
    nothing = deltas_of(anchor.filter(lit(False), name="nothing").select(*nulls, name="no rows"))
    weights = pa.array([1] * operator.rows.num_rows, pa.int64())
    rows = pa.RecordBatch.from_arrays([*operator.rows.columns, weights], schema=nothing.schema)
    return Table(add_operator(name, spec(WithRow, rows), {"in": nothing}, {"out": nothing.schema})[0])


# Streams.


def _input(operator: streams.Input, builder: PlanBuilder) -> Stream:
    return add_input(
        builder,
        operator.input,
        operator.declared,
        epoch=operator.epoch,
        late=operator.late,
        late_output=operator.late_output,
        extra_columns=operator.extra_columns,
    )


def _output(operator: streams.Output, builder: PlanBuilder, result: Physical) -> None:
    changes = result.changes(name=f"changes of {operator.output}") if isinstance(result, Table) else result
    add_output(builder, operator.output, changes)


def _port(operator: streams.Port, results: Sequence[Stream]) -> Stream:
    return results[operator.number]


def _custom(operator: streams.Custom, *parts: Stream) -> list[Stream]:
    inputs = dict(zip(operator.ports, parts, strict=True))
    return add_custom(
        _named(operator, "operator"), operator.logic, inputs, operator.outputs, operator.summaries
    )


def _exchange(operator: streams.Exchange, rows: Stream) -> Stream:
    return rows.exchange(*operator.keys, by=operator.by)


def _broadcast(operator: streams.Broadcast, rows: Stream) -> Stream:
    return rows.broadcast()


def _map_rows(operator: streams.MapRows, rows: Physical) -> Physical:
    name = _named(operator, "flat map" if operator.is_flat else "map")
    verb = rows.flat_map if operator.is_flat else rows.map
    return verb(operator.function, operator.declared, name=name)


def _filter_batches(operator: streams.FilterBatches, rows: Stream) -> Stream:
    return rows.filter(operator.condition, name=_named(operator, "filter"))


def _split(operator: streams.Split, rows: Stream) -> tuple[Stream, Stream]:
    return rows.branch(operator.condition, name=_named(operator, "branch"))


def _inspect(operator: streams.Inspect, rows: Stream) -> Stream:
    return rows.inspect(operator.function, name=_named(operator, "inspect"))


def _probed(operator: streams.Probed, rows: Stream) -> Physical:
    return rows.probe()


def _delay(operator: streams.Delay, rows: Stream) -> Stream:
    return rows.delay(operator.epochs, name=_named(operator, "delay"))


def _per_epoch(operator: streams.PerEpoch, *parts: Stream) -> Stream:
    builder = wiring(parts[0]).builder

    def body(*tables: Table) -> Table:
        made: dict[LogicalOperator, Physical] = dict(zip(operator.variables, tables, strict=True))
        for each in walk([operator.body]):
            if each not in made:
                made[each] = lower(each, [made[read] for read in read_by(each)], builder)
        table: Table = made[operator.body]
        return table

    return within_times(_named(operator, "epoch"), parts, body, in_parts=operator.in_parts)


def _stream_aggregate(operator: streams.StreamAggregate, rows: Stream) -> Stream:
    keys, name = operator.keys, _named(operator, "reduce")
    aggregates = dict(operator.aggregates)
    if operator.is_running or not needs_groups(keys, aggregates):
        return rows.reduce(*keys, aggregates=aggregates, running=operator.is_running, name=name)
    rows.check_columns(name, keys)
    return within_times(
        name, (rows,), lambda table: table.reduce(*keys, aggregates=aggregates, name=name), in_parts=False
    )


def _rolling(operator: streams.Rolling, rows: Stream) -> Stream:
    name, aggregates = _named(operator, "rolling"), dict(operator.aggregates)
    return rolled(rows, Rolls(operator.keys, operator.rows, operator.by, aggregates, name))


def _lookup(operator: streams.Lookup, rows: Stream, table: Table) -> Stream:
    name = _named(operator, "lookup")
    return looked_up(rows, table, _on(operator.keys), how=operator.kind, suffix=operator.suffix, name=name)


# From streams to tables, and back.


def _way_of(scan: Scan) -> streams.ToTable:
    """Return how the rows of an input make the table of a scan."""
    with logical.unchecked():
        return streams.ToTable(
            scan,
            scan.kind,
            weight=scan.marker if scan.kind == "weights" else None,
            operation=scan.marker if scan.kind == "operations" else None,
            empty=scan.marker if scan.kind == "snapshots" else None,
            keys=scan.keys,
            order=scan.order,
            deleted=scan.marker if scan.kind == "upserts" else None,
            trusted=scan.trusted,
            name=scan.name,
        )


def _to_table(operator: streams.ToTable, rows: Stream) -> Table:
    if operator.kind == "upserts":
        return upserted(
            rows,
            operator.keys,
            operator.order,
            operator.deleted,
            _named(operator, "upserts"),
            is_event_time=operator.is_event_time,
        )
    if operator.kind == "snapshots":
        return table_of(rows, TableWay(is_whole=True, empty=operator.empty), _named(operator, "states"))
    if operator.kind == "debezium":
        events = Events(operator.declared, operator.value, operator.keys, operator.order)
        return table_of(rows, TableWay(events=events, trusted=operator.trusted), _named(operator, "debezium"))
    trusted = operator.trusted if operator.kind != "append" else operator.trusted or None
    way = TableWay(operator.weight, operator.operation, trusted=trusted)
    return table_of(rows, way, _named(operator, "running"))


def _from_changes(operator: streams.FromChanges, changes: Stream) -> Table:
    return Table(changes)


def _consolidate(operator: streams.Consolidate, rows: Table) -> Table:
    return Table(summed(deltas_of(rows), _named(operator, "consolidated")))


def _changes(operator: streams.TableChanges, rows: Table) -> Stream:
    return rows.changes(name=_named(operator, "changes"))


def _upserts_of(operator: streams.UpsertsOf, rows: Table) -> Stream:
    return rows.upserts(*operator.keys, deleted=operator.deleted, name=_named(operator, "upserts"))


def _appended(operator: streams.AppendedRows, rows: Table) -> Stream:
    return rows.appended(name=_named(operator, "appended"))


# Event time.


@contextmanager
def _by_clock(clock: Sequence[Table]) -> Iterator[None]:
    if clock:
        with one_clock([deltas_of(each) for each in clock]):
            yield
    else:
        yield


def _watermark(operator: streams.Watermark, rows: Stream) -> Stream:
    return rows.event_time(
        operator.at,
        lateness=operator.lateness,
        late=operator.late,
        late_output=operator.late_output,
        idle=operator.idle,
        name=_named(operator, "event time"),
    )


def _temporal_filter(operator: streams.TemporalFilter, rows: Table, *clock: Table) -> Table:
    with _by_clock(clock):
        return rows.keep_until(operator.when, name=_named(operator, "keep until"))


def _emit_on_close(operator: streams.EmitOnClose, rows: Table, *clock: Table) -> Stream:
    with _by_clock(clock):
        return rows.final(operator.when, name=_named(operator, "final"))


def _delay_until(operator: streams.DelayUntil, rows: Stream, *clock: Table) -> Stream:
    name = _named(operator, "delay until")
    epochs = None if has_promise(rows) else epochs_above(rows)
    if epochs is not None:
        return sent_ahead(rows, operator.when, epochs, name)
    with _by_clock(clock):
        return table_of(rows, TableWay(), f"{name}: rows").final(operator.when, name=name)


def _session_window(operator: streams.SessionWindow, rows: Table, *clock: Table) -> Physical:
    name, ends = _named(operator, "sessions"), {"start": operator.start, "end": operator.end}
    with _by_clock(clock):
        if operator.emits == "once":
            return rows.closed_sessions(*operator.keys, at=operator.at, gap=operator.gap, name=name, **ends)
        while_open = operator.emits == "while open"
        return rows.in_sessions(
            *operator.keys, at=operator.at, gap=operator.gap, while_open=while_open, name=name, **ends
        )


def _interval_join(operator: streams.IntervalJoin, left: Table, right: Table) -> Stream:
    mine, theirs = operator.at
    return left.join_within(
        right,
        _on(operator.keys),
        at={mine: theirs},
        within=operator.within,
        suffix=operator.suffix,
        name=_named(operator, "join within"),
    )


# Loops that are wired by hand.


def _loop_scope(operator: streams.LoopScope, at: Physical) -> Physical:
    name = _named(operator, "loop")
    if isinstance(at, Table):
        return at.loop(name, max_rounds=operator.rounds_max)
    return at.loop(name, max_rounds=operator.rounds_max, at_limit=operator.at_limit)


def _enter(operator: LogicalOperator, value: Physical, loop: Loop | TableLoop) -> Physical:
    return value.enter(loop) if isinstance(value, Table) else loop.enter(value)


def _loop_variable(operator: streams.LoopVariable, loop: Physical, start: Table | None = None) -> Physical:
    return loop.variable(operator.declared if start is None else start, _named(operator, "variable"))


def _flow_variable(operator: streams.FlowVariable, builder: PlanBuilder) -> Stream:
    return add_variable(builder, operator.declared, operator.summary, _named(operator, "variable"))


def _feedback(
    operator: streams.Feedback,
    builder: PlanBuilder,
    variable: Physical,
    value: Physical,
    loop: Physical = None,
) -> None:
    if loop is None:
        feed_variable(builder, variable, value)
    else:
        loop.feedback(variable, value)


def _leave(operator: streams.LeaveLoop, value: Physical, loop: Physical) -> Physical:
    return loop.leave(value)


_ENDS: Final[Mapping[type[LogicalOperator], Callable[..., Physical]]] = {
    streams.Input: _input,
    streams.Output: _output,
    streams.FlowVariable: _flow_variable,
    streams.Feedback: _feedback,
}
"""What is added to a flow as a whole."""

_BUILDERS: Final[Mapping[type[LogicalOperator], Callable[..., Physical]]] = {
    logical.Project: _project,
    logical.Filter: _filter,
    logical.Explode: _explode,
    logical.MapBatches: _map_batches,
    logical.TimeWindow: _time_window,
    logical.Join: _join,
    logical.AsOfJoin: _as_of_join,
    logical.Union: _union,
    logical.Except: _except,
    logical.Intersect: _intersect,
    logical.Aggregate: _aggregate,
    logical.Distinct: _distinct,
    logical.DistinctOn: _distinct_on,
    logical.Values: _values_beside,
    logical.TopK: _top_k,
    logical.WindowFunctions: _window_functions,
    streams.AppendedRows: _appended,
    streams.Broadcast: _broadcast,
    streams.TableChanges: _changes,
    streams.Consolidate: _consolidate,
    streams.Custom: _custom,
    streams.Delay: _delay,
    streams.DelayUntil: _delay_until,
    streams.EmitOnClose: _emit_on_close,
    streams.EnterLoop: _enter,
    streams.Exchange: _exchange,
    streams.FilterBatches: _filter_batches,
    streams.FromChanges: _from_changes,
    streams.Inspect: _inspect,
    streams.IntervalJoin: _interval_join,
    streams.LeaveLoop: _leave,
    streams.Lookup: _lookup,
    streams.LoopScope: _loop_scope,
    streams.LoopVariable: _loop_variable,
    streams.MapRows: _map_rows,
    streams.PerEpoch: _per_epoch,
    streams.Port: _port,
    streams.Probed: _probed,
    streams.Rolling: _rolling,
    streams.SessionWindow: _session_window,
    streams.Split: _split,
    streams.StreamAggregate: _stream_aggregate,
    streams.TemporalFilter: _temporal_filter,
    streams.ToTable: _to_table,
    streams.UpsertsOf: _upserts_of,
    streams.Watermark: _watermark,
}
