"""Aggregates of the last rows of each key, for every row that comes: over all epochs, in an order.

Every row is answered once, when its epoch is complete, with aggregates of the last rows up to it: those of
its own epoch, and those that are remembered of the epochs before, which are as many as can still count. What
was sent stays: a row that comes later and stands earlier in the order changes no answer.

Invariant: of every key those rows are kept that are the last in the order, one less than an answer looks at.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pointstamp.errors import FlowError, SchemaError
from pointstamp.expressions.selecting import check_columns
from pointstamp.expressions.tree import Expression, lit
from pointstamp.flow.builder import Rolls
from pointstamp.flow.marking import check_adds_up
from pointstamp.flow.outlet import add_operator, wiring
from pointstamp.flow.stream import Stream
from pointstamp.flow.updates import Passes
from pointstamp.keyed.index import KeyIndex
from pointstamp.operators.context import Context
from pointstamp.reduce.arguments import Arguments
from pointstamp.state.pieces import Piece
from pointstamp.tables.aggregates.aggregating import Aggregating
from pointstamp.tables.aggregates.asked_aggregates import table_aggregates
from pointstamp.tables.aggregates.group_values import Places, firsts_of
from pointstamp.tables.column_names import weighed_columns
from pointstamp.tables.deltas import weighed
from pointstamp.tables.kept.arrangement import Arrangement
from pointstamp.tables.kept.groups import Grouped, distinct
from pointstamp.tables.kept.open_changes import added_up
from pointstamp.tables.kept.ordering import Ordered, ordering, ranks
from pointstamp.tables.kept.run import expanded
from pointstamp.tables.kept.weights import DIFF, with_weights
from pointstamp.tables.reducing import ALL
from pointstamp.topology.domain import Time


@dataclass(frozen=True, slots=True)
class RollingPlan:
    """Which rows are looked at, in which order, and what comes out."""

    schema: pa.Schema
    """Of the rows that are kept: the columns of a row, the arguments, and the weight."""
    keys: tuple[str, ...]
    order: tuple[Ordered, ...]
    """A total one: it ends with all columns."""
    rows: int
    columns: tuple[str, ...]
    """What comes out of a row, before its aggregates."""
    function: Aggregating


class Rolling:
    """Sends each row with aggregates of the last rows of its key when an epoch is settled; keeps these."""

    keeps: ClassVar = "the last rows of each key; a row costs the last rows of its key"

    def __init__(self, plan: RollingPlan) -> None:
        self._plan = plan
        self._kept = Arrangement(plan.schema, plan.keys)
        self._open: dict[Time, list[pa.RecordBatch]] = {}

    def on_receive(self, context: Context, input: str, batch: pa.RecordBatch) -> None:  # noqa: A002
        """Keep the rows until their epoch is settled."""
        self._open.setdefault(context.time, []).append(batch)
        context.notify_at()

    def on_notify(self, context: Context) -> None:
        """Answer the rows of the epoch, and keep the last ones."""
        new = pa.concat_batches(self._open.pop(context.time))
        new = with_weights(new, np.ones(new.num_rows, np.int64))
        keys = list(self._plan.keys)
        old = added_up([self._kept.rows_of(distinct(new.select(keys)), keys)])
        copies = np.repeat(np.arange(old.num_rows), old.column(DIFF).to_numpy())
        both = pa.concat_batches([old.take(pa.array(copies)), new])
        both = with_weights(both, np.ones(both.num_rows, np.int64))
        order, group = self._ordered(both)
        both = both.take(pa.array(order))
        context.send(self._answered(both, np.flatnonzero(order >= len(copies)), group))
        gone = with_weights(old, -old.column(DIFF).to_numpy())
        self._kept.add(pa.concat_batches([gone, both.filter(pa.array(self._can_count(group)))]))

    def _ordered(self, rows: pa.RecordBatch) -> tuple[Places, Places]:
        """The rows by key and in their order, and the group of each; of equal rows the older comes first."""
        own = rows.select(list(self._plan.keys))
        group = KeyIndex(own.schema).slots(own)
        order = np.lexsort([*reversed(ranks(rows, self._plan.order)), group])
        return order, group[order]

    def _answered(self, rows: pa.RecordBatch, these: Places, group: Places) -> pa.RecordBatch:
        """These rows with the aggregates of the last rows up to each."""
        first = np.maximum(_sizes(group)[0][these], these - self._plan.rows + 1)
        _, positions = expanded(first, these + 1)
        sizes = these + 1 - first
        own = rows.select(list(self._plan.columns)).take(pa.array(these))
        made = self._plan.function(Grouped(rows.take(pa.array(positions)), np.cumsum(sizes) - sizes, own))
        return made.select([name for name in made.schema.names if name != DIFF])

    def _can_count(self, group: Places) -> npt.NDArray[np.bool_]:
        """Which rows are among the last ones of a row that comes behind them."""
        return np.asarray(_sizes(group)[1] - np.arange(len(group)) < self._plan.rows)

    def save(self, *, changes_only: bool) -> Mapping[str, Piece]:
        """The rows that are kept."""
        assert not self._open, f"epochs {list(self._open)} are open at a snapshot"
        return {"rows": self._kept.save(changes_only=changes_only)}

    def restore(self, context: Context, pieces: Mapping[str, pa.Table]) -> None:
        """Go on with the rows of this worker's keys."""
        self._kept.load(pieces["rows"])


def _sizes(group: Places) -> tuple[Places, Places]:
    """For rows by group: where the group of each begins, and where it ends."""
    firsts = firsts_of(group)
    sizes = np.diff(firsts, append=len(group))
    return np.repeat(firsts, sizes), np.repeat(firsts + sizes, sizes)


def rolled(stream: Stream, asked: Rolls) -> Stream:
    """Every row of a stream with aggregates of the last rows of its key."""
    name, who = asked.name, f"'{asked.name}' of {stream}"
    _check(stream, asked, who)
    columns = tuple(stream.schema.names)
    arguments = Arguments(columns)
    found = table_aggregates(who, stream.schema, asked.aggregates, arguments)
    if twice := [column for column in found if column in columns]:
        raise SchemaError(f"{who}: there is a column '{twice[0]}' already. Call the aggregate differently.")
    order = (*ordering(who, stream.schema, asked.by), *map(Ordered, columns))
    one_key: dict[str, Expression] = {} if asked.keys else {ALL: lit(0, pa.int8())}
    wanted = [each.alias(column) for column, each in {**arguments.columns, **one_key}.items()]
    looked_at = stream.select(*wanted, name=f"{name}: arguments")
    fields = [pa.field(column, each.result_type) for column, each in found.items()]
    result = pa.schema([*(looked_at.schema.field(column) for column in columns), *fields])
    keys = asked.keys or (ALL,)
    plan = RollingPlan(
        weighed(looked_at.schema), keys, order, asked.rows, columns, Aggregating(found, weighed(result))
    )
    inputs, outputs = {"in": looked_at.exchange(*keys)}, {"out": result}
    return add_operator(name, partial(Rolling, plan), inputs, outputs, in_order=True, sends=Passes.ADDED)[0]


def _check(stream: Stream, asked: Rolls, who: str) -> None:
    rows: object = asked.rows
    if not isinstance(rows, int) or rows < 1:
        raise FlowError(f"{who} needs how many rows are looked at, rows=1 or more, but was given {rows!r}.")
    if stream.loops:
        raise FlowError(
            f"{who} stands in a loop, where no row is the last one. Take it out of the loop first."
        )
    check_columns(who, stream.schema, asked.keys)
    weighed_columns(who, list(stream.schema))
    if not asked.aggregates:
        raise FlowError(f"{who} adds no column. Name one, for example typical=ps.mean('price').")
    check_adds_up(wiring(stream).builder.plan, wiring(stream).source, who)
