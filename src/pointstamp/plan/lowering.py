"""Lowering: logical operators to physical ones, and recursions to loops of the flow.

Each logical operator becomes the physical operators that compute it, once, in the loop in which it is. An
operator outside a loop that is read inside enters it, once for each loop. The algorithm that computes an
operator is chosen here and below, and nowhere above.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final, TypeAlias

import numpy as np
import pyarrow as pa

from pointstamp.expressions import functions
from pointstamp.expressions.tree import col, lit
from pointstamp.flow.outlet import add_operator
from pointstamp.plan import logical
from pointstamp.plan.logical import Iterate, LogicalOperator, Recursive, Scan, Variable, loops_of, walk
from pointstamp.reduce.aggregate import Aggregate
from pointstamp.tables.loops import TableLoop
from pointstamp.tables.table import Table, deltas_of
from pointstamp.tables.with_row import WithRow

Scans: TypeAlias = Callable[[Scan], Table]
"""Makes the table of an input."""

_LEFT: Final = "copies on the left"
_RIGHT: Final = "copies on the right"


class Lowering:
    """Builds the tables of a plan; what it has built once it gives again."""

    def __init__(self, roots: Sequence[LogicalOperator], scans: Scans) -> None:
        self._loops = loops_of(roots)
        self._scans = scans
        self._made: dict[tuple[LogicalOperator, tuple[Iterate, ...]], Table] = {}
        """Tables by operator, and by the loops in which they are read."""
        self._opened: dict[Iterate, TableLoop] = {}
        self._results: dict[Iterate, list[Table]] = {}
        self._first_scan = next((each for each in walk(roots) if isinstance(each, Scan)), None)

    def table(self, operator: LogicalOperator, inside: tuple[Iterate, ...] | None = None) -> Table:
        """Return the table of an operator, as it is read inside these loops; default: those it is in."""
        own = self._loops[operator]
        wanted = own if inside is None else inside
        assert wanted[: len(own)] == own, f"{operator} is read outside the loop that it is in"
        known = self._made.get((operator, wanted))
        if known is None:
            if wanted == own:
                known = self._build(operator)
            else:
                known = self._opened[wanted[-1]].enter(self.table(operator, wanted[:-1]))
            self._made[operator, wanted] = known
        return known

    def _build(self, operator: LogicalOperator) -> Table:
        """Return the table of an operator in its own loop."""
        if isinstance(operator, Scan):
            return self._scans(operator)
        if isinstance(operator, logical.Values):
            return self._values(operator)
        if isinstance(operator, Recursive):
            if operator.iterate not in self._opened:
                self._iterate(operator.iterate)
            return self._results[operator.iterate][operator.place]
        assert not isinstance(operator, Variable | Iterate), f"{operator} is read outside its loop"
        loops = self._loops[operator]
        inputs = [self.table(each, loops) for each in operator.inputs]
        return _BUILDERS[type(operator)](operator, *inputs)

    def _iterate(self, iterate: Iterate) -> None:
        """Open the loop of a recursion, build its bodies in it, and take their tables out."""
        outside = self._loops[iterate]
        starts = [None if each is None else self.table(each, outside) for each in iterate.starts]
        first = next(each for each in starts if each is not None)
        inside = (*outside, iterate)
        with first.loop(iterate.name or "iterate", max_rounds=iterate.rounds_max) as loop:
            self._opened[iterate] = loop
            for variable, start in zip(iterate.variables, starts, strict=True):
                begun = variable.schema if start is None else _in_order(start, variable.schema)
                self._made[variable, inside] = loop.variable(begun, variable.name or "variable")
            made = [
                _in_order(self.table(body, inside), variable.schema)
                for variable, body in zip(iterate.variables, iterate.bodies, strict=True)
            ]
            for variable, body in zip(iterate.variables, made, strict=True):
                loop.feedback(self._made[variable, inside], body)
            self._results[iterate] = [loop.leave(body) for body in made]

    def _values(self, operator: logical.Values) -> Table:
        """Return a table that always has some rows: an input without its rows, and these."""
        assert self._first_scan is not None, "a plan without inputs has no epochs"
        nulls = (lit(None).cast(each.type).alias(each.name) for each in operator.schema)
        nothing = deltas_of(self.table(self._first_scan, ()).filter(lit(False)).select(*nulls))
        weights = pa.array([1] * operator.rows.num_rows, pa.int64())
        rows = pa.RecordBatch.from_arrays([*operator.rows.columns, weights], schema=nothing.schema)
        name = operator.name or "values"
        return Table(add_operator(name, partial(WithRow, rows), {"in": nothing}, {"out": nothing.schema})[0])


# What computes each operator.


def _named(operator: LogicalOperator, default: str) -> str:
    return operator.name or default


def _in_order(table: Table, schema: pa.Schema) -> Table:
    """Return a table with its columns in the order of a schema."""
    return table if table.schema.names == schema.names else table.select(*schema.names)


def _project(operator: logical.Project, rows: Table) -> Table:
    columns = (each.alias(name) for name, each in operator.columns)
    return rows.select(*columns, name=_named(operator, "select"))


def _filter(operator: logical.Filter, rows: Table) -> Table:
    return rows.filter(operator.condition, name=_named(operator, "filter"))


def _explode(operator: logical.Explode, rows: Table) -> Table:
    name = _named(operator, "explode")
    return rows.explode(operator.column, outer=operator.is_outer, position=operator.position, name=name)


def _map_batches(operator: logical.MapBatches, rows: Table) -> Table:
    return rows.map_batches(operator.function, operator.declared, name=_named(operator, "map"))


def _time_window(operator: logical.TimeWindow, rows: Table) -> Table:
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
        dict(operator.keys) if operator.keys else (),
        how=operator.kind,
        where=operator.condition,
        suffix=operator.suffix,
        name=_named(operator, "join"),
    )


def _as_of_join(operator: logical.AsOfJoin, left: Table, right: Table) -> Table:
    mine, theirs = operator.at
    return left.join_as_of(
        right,
        dict(operator.keys),
        at={mine: theirs},
        direction=operator.direction,
        how=operator.kind,
        tolerance=operator.tolerance,
        suffix=operator.suffix,
        name=_named(operator, "join as of"),
    )


def _union(operator: logical.Union, *parts: Table) -> Table:
    made = parts[0]
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
        *operator.keys, aggregates=dict(operator.aggregates), name=_named(operator, "aggregate")
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
    )


def _window_functions(operator: logical.WindowFunctions, rows: Table) -> Table:
    return rows.with_order(
        *operator.keys,
        by=operator.by,
        functions=dict(operator.functions),
        name=_named(operator, "window functions"),
    )


_BUILDERS: Final[Mapping[type[LogicalOperator], Callable[..., Table]]] = {
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
    logical.TopK: _top_k,
    logical.WindowFunctions: _window_functions,
}
