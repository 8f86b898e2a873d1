"""Rolling aggregates of the last rows of each key, over all epochs.

Every row is answered once, when its epoch is complete, with aggregates of the last rows up to it: those of
its own epoch, and those that are remembered of the epochs before, which are as many as can still count. What
was sent stays: a row that comes later and stands earlier in the order changes no answer.

Invariant: of every key those rows are kept that are the last in the order, one less than an answer looks at.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pointstamp.arrangement.arrangement import Arrangement, SummedRows
from pointstamp.arrangement.column_arrays import KeptColumn, as_batch, taken, together
from pointstamp.arrangement.consolidate import DIFF, with_weights
from pointstamp.arrangement.groups import Grouped, groups_of
from pointstamp.arrangement.ordering import Ordered, ordering, ranks
from pointstamp.arrangement.run import Run, run_of, run_of_words
from pointstamp.arrow import runs as kernels
from pointstamp.arrow.row_hashing import Hashes
from pointstamp.errors import FlowError, SchemaError
from pointstamp.expressions.select_columns import check_columns
from pointstamp.expressions.tree import Expression, lit
from pointstamp.flow.outlet import add_operator, check_adds_up, wiring
from pointstamp.flow.physical_stream import PhysicalStream
from pointstamp.flow.updates import Passes
from pointstamp.incremental.aggregation import ALL
from pointstamp.incremental.column_names import check_new_names, weighed, weighed_columns
from pointstamp.incremental.group_aggregates import Aggregating
from pointstamp.incremental.group_values import Places, firsts_of
from pointstamp.incremental.requested_aggregates import table_aggregates
from pointstamp.operators.context import Context
from pointstamp.operators.spec import spec
from pointstamp.reduce.aggregate import Aggregation
from pointstamp.reduce.binding import Arguments
from pointstamp.state.pieces import Piece
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


class PhysicalRolling:
    """Sends each row with aggregates of the last rows of its key when an epoch is settled; keeps these."""

    keeps: ClassVar = "the last rows of each key; a row costs the last rows of its key"

    def __init__(self, plan: RollingPlan) -> None:
        self._plan = plan
        self._kept = Arrangement(plan.schema, plan.keys)
        self._own = _Columns.of(plan.schema, plan.columns)
        self._looked_at = _Columns.of(plan.schema, (*plan.function.looked_at, DIFF))
        self._sent = plan.function.result.names[:-1]
        self._open: dict[Time, list[pa.RecordBatch]] = {}

    def on_receive(self, context: Context, input: str, batch: pa.RecordBatch) -> None:  # noqa: A002
        """Keep the rows until their epoch is settled."""
        self._open.setdefault(context.time, []).append(batch)
        context.notify_at()

    def on_notify(self, context: Context) -> None:
        """Answer the rows of the epoch, and keep the last ones."""
        batches = self._open.pop(context.time)
        new = batches[0] if len(batches) == 1 else pa.concat_batches(batches)
        change = run_of(with_weights(new, np.ones(new.num_rows, np.int64)), self._kept.layout)
        both = _both(self._kept, change)
        order = self._ordered(both)
        group, is_new = both.group.take(order), order >= both.old
        starts, ends = _sizes(group)
        context.send(self._answered(both, order, is_new.nonzero()[0], starts))
        # A new row that a later one can look at comes, and an old one at which none can look goes.
        at = order.take((self._can_count(ends) == is_new).nonzero()[0])
        if len(at):
            columns = [taken(column, at) for column in both.columns]
            weights = np.where(at >= both.old, 1, -1)
            words = tuple(word.take(at) for word in both.words)
            self._kept.add_run(run_of_words(self._kept.layout, words, [*columns, weights]))

    def _ordered(self, both: "_Both") -> Places:
        """The rows by key and in their order; of equal rows the older comes first."""
        rows = as_batch(both.columns, self._kept.layout.identity_schema)
        wanted = ranks(rows, self._plan.order[:1])
        order = np.lexsort([*wanted, both.group])
        by = [each.take(order) for each in (both.group, *wanted)]
        if ((by[0][1:] == by[0][:-1]) & (by[1][1:] == by[1][:-1])).any():
            rest = ranks(rows, self._plan.order[1:])
            order = np.lexsort([*reversed(rest), *wanted, both.group])
        return order

    def _answered(self, both: "_Both", order: Places, these: Places, starts: Places) -> pa.RecordBatch:
        """These rows, by their places in the order, with the aggregates of the last rows up to each."""
        first = np.maximum(starts.take(these), these - (self._plan.rows - 1))
        _, positions = kernels.expanded(first, these + 1)
        sizes = these + 1 - first
        columns = [*both.columns, np.ones(len(order), np.int64)]
        rows = self._looked_at.taken(columns, order.take(positions))
        own = self._own.taken(columns, order.take(these))
        return self._plan.function(Grouped(rows, np.cumsum(sizes) - sizes, own)).select(self._sent)

    def _can_count(self, ends: Places) -> npt.NDArray[np.bool_]:
        """Which rows are among the last ones of a row that comes behind them, by where their keys end."""
        return np.asarray(ends - np.arange(len(ends)) < self._plan.rows)

    def save(self, *, changes_only: bool) -> Mapping[str, Piece]:
        """The rows that are kept."""
        assert not self._open, f"epochs {list(self._open)} are open at a snapshot"
        return {"rows": self._kept.save(changes_only=changes_only)}

    def restore(self, context: Context, pieces: Mapping[str, pa.Table]) -> None:
        """Continue with the rows of this worker's keys."""
        self._kept.load(pieces["rows"])


@dataclass(frozen=True, slots=True)
class _Columns:
    """Some columns of what is kept: where they stand, and their schema."""

    at: tuple[int, ...]
    schema: pa.Schema

    @staticmethod
    def of(schema: pa.Schema, names: Iterable[str]) -> "_Columns":
        at = tuple(map(schema.get_field_index, names))
        return _Columns(at, pa.schema([schema.field(each) for each in at]))

    def taken(self, columns: Sequence[KeptColumn], rows: Places) -> pa.RecordBatch:
        return as_batch([taken(columns[each], rows) for each in self.at], self.schema)


@dataclass(frozen=True, slots=True)
class _Both:
    """Each copy of the rows that are kept of some keys, and behind them each copy of the new ones."""

    columns: Sequence[KeptColumn]
    """Without weights."""
    words: tuple[Hashes, ...]
    """What each row is sorted by in a run."""
    group: Places
    """Of which key each is."""
    old: int
    """How many of them are kept."""


def _both(kept: Arrangement, change: Run) -> _Both:
    """The rows that are kept of the keys of a change, and those of the change."""
    firsts, group = groups_of(change)
    old = kept.summed_of(change, firsts).copies()
    new = SummedRows(change.identity, change.weights, group, change.words).copies()
    both = zip(old.columns, new.columns, kept.layout.identity_types, strict=True)
    columns = [together((one, other), kind) for one, other, kind in both]
    words = tuple(np.concatenate(each) for each in zip(old.words, new.words, strict=True))
    return _Both(columns, words, np.concatenate((old.group, new.group)), len(old.group))


def _sizes(group: Places) -> tuple[Places, Places]:
    """For rows by group: where the group of each begins, and where it ends."""
    firsts = firsts_of(group)
    sizes = np.diff(firsts, append=len(group))
    return np.repeat(firsts, sizes), np.repeat(firsts + sizes, sizes)


@dataclass(frozen=True, slots=True)
class Rolls:
    """What is asked of the last rows of each key, for every row of a stream."""

    keys: tuple[str, ...]
    rows: int
    by: str | Iterable[str]
    aggregates: Mapping[str, Aggregation]
    name: str


def rolled(stream: PhysicalStream, asked: Rolls) -> PhysicalStream:
    """Every row of a stream with aggregates of the last rows of its key."""
    name, who = asked.name, f"'{asked.name}' of {stream}"
    _check(stream, asked, who)
    columns = tuple(stream.schema.names)
    arguments = Arguments(columns)
    found = table_aggregates(who, stream.schema, asked.aggregates, arguments)
    if twice := [column for column in found if column in columns]:
        raise SchemaError(f"{who}: the column '{twice[0]}' already exists. Give the aggregate another name.")
    order = (*ordering(who, stream.schema, asked.by), *map(Ordered, columns))
    one_key: dict[str, Expression] = {} if asked.keys else {ALL: lit(0, pa.int8())}
    wanted = [each.alias(column) for column, each in {**arguments.columns, **one_key}.items()]
    looked_at = stream.select(*wanted, name=f"{name}: arguments")
    fields = [pa.field(column, each.result_type) for column, each in found.items()]
    result = pa.schema([*(looked_at.schema.field(column) for column in columns), *fields])
    keys = asked.keys or (ALL,)
    plan = RollingPlan(
        weighed(who, looked_at.schema),
        keys,
        order,
        asked.rows,
        columns,
        Aggregating(found, weighed(who, result)),
    )
    inputs, outputs = {"in": looked_at.exchange(*keys)}, {"out": result}
    return add_operator(
        name, spec(PhysicalRolling, plan), inputs, outputs, in_order=True, sends=Passes.ADDED
    )[0]


def _check(stream: PhysicalStream, asked: Rolls, who: str) -> None:
    rows: object = asked.rows
    if not isinstance(rows, int) or rows < 1:
        raise FlowError(f"{who}: rows must be 1 or more, got {rows!r}. Give a number of rows.")
    if stream.loops:
        raise FlowError(
            f"{who} cannot be used in a loop, where no row is the last one. Leave the loop first."
        )
    check_columns(who, stream.schema, asked.keys)
    weighed_columns(who, list(stream.schema))
    check_new_names(who, asked.aggregates)
    if not asked.aggregates:
        raise FlowError(f"{who}: no aggregate was given. Name one, for example typical=ps.mean('price').")
    check_adds_up(wiring(stream).builder.plan, wiring(stream).source, who)
