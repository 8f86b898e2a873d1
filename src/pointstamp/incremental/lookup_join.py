"""The lookup join: a stream with a table, without later corrections.

A join of two tables keeps both sides, because a change of either changes the answer. A flow that enriches
events with what is known now wants neither: each row is answered once, by the table as it is when the row's
epoch is complete, and is gone. What is sent is a function of the epochs so far, so it is the same in every
schedule and after every failure.

Invariant: a row is answered by the sum of all changes at times less or equal to its own, in the product order
of epochs and rounds.
"""

from collections.abc import Iterable, Mapping
from typing import ClassVar

import numpy as np
import pyarrow as pa

from pointstamp.arrangement.arrangement import Arrangement
from pointstamp.arrangement.column_arrays import arrow_column
from pointstamp.arrangement.consolidate import DIFF, Positions
from pointstamp.arrangement.groups import distinct
from pointstamp.arrangement.loop_times import Rounds, counted_at, stored_schema, up_to
from pointstamp.arrangement.open_changes import OpenChanges
from pointstamp.arrangement.run import Layout
from pointstamp.errors import FlowError
from pointstamp.flow.outlet import add_operator
from pointstamp.flow.physical_stream import PhysicalStream, kind_of
from pointstamp.flow.updates import Passes
from pointstamp.incremental.hash_join import Joining, joining, without_null_keys
from pointstamp.incremental.physical_table import PhysicalTable, deltas_of
from pointstamp.incremental.shared_arrangements import Arrangements, TableByKey, arranged_by
from pointstamp.operators.context import Context
from pointstamp.operators.spec import spec
from pointstamp.state.pieces import Piece
from pointstamp.topology.domain import Time


class LookUp:
    """Sends each row beside what it finds in a table when its time is settled; keeps the table."""

    keeps: ClassVar = "the table, by key; a row costs its matches, and a change of the table its rows"

    def __init__(
        self,
        asked: Joining,
        schema: pa.Schema,
        rounds: int,
        *,
        keeps_all: bool,
        arranged: Mapping[str, TableByKey],
    ) -> None:
        self._asked = asked
        self._schema = schema
        self._keeps_all = keeps_all
        self._theirs = tuple(asked.pairs.values())
        self._added = [schema.get_field_index(name) for name in asked.added]
        self._layout = Layout(schema, self._theirs)
        """Of changes; what is stored has the rounds besides."""
        self._table = Arrangement(stored_schema(schema, rounds), self._theirs)
        self._arrangements = Arrangements({"table": self._table}, arranged)
        self._changes = OpenChanges()
        self._rows: dict[Time, list[pa.RecordBatch]] = {}

    def share_with(self, others: dict[TableByKey, Arrangement]) -> None:
        """Keep in one place what other operators of the worker keep, too."""
        self._arrangements.share_with(others)

    def on_receive(self, context: Context, input: str, batch: pa.RecordBatch) -> None:  # noqa: A002
        """Keep what arrives until its time is settled."""
        if input == "table":
            batch = without_null_keys(batch, self._layout.keys)
            if not batch.num_rows:
                return
            self._changes.put(context.time, "table", batch)
        else:
            self._rows.setdefault(context.time, []).append(batch)
        context.notify_at()

    def on_notify(self, context: Context) -> None:
        """Bring the table up to the time, and answer the rows of the time."""
        rounds = context.time[1:]
        for change in self._changes.take_runs(context.time, {"table": self._layout}).values():
            if rounds:
                self._table.add(counted_at(change.batch, rounds))
            else:
                self._table.add_run(change)
        rows = self._rows.pop(context.time, [])
        if rows:
            context.send(self._answered(rows[0] if len(rows) == 1 else pa.concat_batches(rows), rounds))

    def _answered(self, rows: pa.RecordBatch, rounds: Rounds) -> pa.RecordBatch:
        which, added = self._found_in_loop(rows, rounds) if rounds else self._found(rows)
        is_each_once = len(which) == rows.num_rows and bool((which == np.arange(len(which))).all())
        own = rows.columns if is_each_once else rows.take(pa.array(which)).columns
        answered = pa.RecordBatch.from_arrays([*own, *added], schema=self._asked.result)
        if not self._keeps_all:
            return answered
        lacks = np.setdiff1d(np.arange(rows.num_rows), which)
        if not len(lacks):
            return answered
        alone = rows.take(pa.array(lacks))
        nulls = [pa.nulls(alone.num_rows, self._schema.field(name).type) for name in self._asked.added]
        lacking = pa.RecordBatch.from_arrays([*alone.columns, *nulls], schema=self._asked.result)
        return pa.concat_batches([answered, lacking])

    def _found(self, rows: pa.RecordBatch) -> tuple[Positions, list[pa.Array]]:
        """Which rows find something, once for each copy of what they find, and the columns of that."""
        found = self._table.summed_matches(rows, list(self._asked.pairs)).copies()
        kinds = self._schema.types
        return found.group, [arrow_column(found.columns[number], kinds[number]) for number in self._added]

    def _found_in_loop(self, rows: pa.RecordBatch, rounds: Rounds) -> tuple[Positions, list[pa.Array]]:
        """The same where stored rows have rounds."""
        mine = list(self._asked.pairs)
        keys = without_null_keys(rows.select(mine), mine)
        # Equal rows of several runs are one row, so they are consolidated before they are counted.
        there = Arrangement(self._schema, self._theirs)
        there.add(up_to(self._table.rows_of(distinct(keys), mine), rounds))
        which, found = _copies(list(there.matches(rows, mine)), self._schema)
        return which, [found.column(name) for name in self._asked.added]

    def save(self, *, changes_only: bool) -> Mapping[str, Piece]:
        """The table, if no other operator keeps it."""
        assert not self._rows, "rows wait at a snapshot"
        assert not len(self._changes), "changes wait at a snapshot"
        return self._arrangements.save(changes_only=changes_only)

    def restore(self, context: Context, pieces: Mapping[str, pa.Table]) -> None:
        """Continue with the rows of this worker's keys."""
        self._arrangements.load(context.operator, pieces)


def _copies(
    found: list[tuple[Positions, pa.RecordBatch]], schema: pa.Schema
) -> tuple[Positions, pa.RecordBatch]:
    """Matches as often as their rows are there."""
    if not found:
        return np.empty(0, np.intp), pa.RecordBatch.from_pylist([], schema)
    assert len(found) == 1, "what was added at once is one run"
    which, matches = found[0]
    weights = matches.column(DIFF).to_numpy()
    repeated = np.repeat(np.arange(len(which)), np.maximum(weights, 0))
    return which[repeated], matches.take(pa.array(repeated))


def looked_up(
    stream: PhysicalStream,
    table: PhysicalTable,
    on: str | Mapping[str, str] | Iterable[str],
    *,
    how: str,
    suffix: str,
    name: str,
) -> PhysicalStream:
    """A stream beside a table; FlowError and SchemaError say what does not fit."""
    who = f"'{name}' of {stream}"
    if not isinstance(table, PhysicalTable):
        raise FlowError(
            f"{who}: expected a table to look rows up in, got {kind_of(table)}. Make a table of a "
            "stream with to_table()."
        )
    if how not in ("inner", "left"):
        raise FlowError(
            f"{who}: how must be 'inner' or 'left', got {how!r}. For other joins use two tables: "
            "stream.to_table().join(table, ...)."
        )
    changes = deltas_of(table)
    asked = joining(f"{who} in {table}", stream.schema, table.schema, on, suffix)
    inputs = {"rows": stream.exchange(*asked.pairs), "table": changes.exchange(*asked.pairs.values())}
    logic = spec(
        LookUp,
        asked,
        changes.schema,
        len(stream.loops),
        keeps_all=how == "left",
        arranged={"table": arranged_by(changes, tuple(asked.pairs.values()))},
    )
    outputs = {"out": asked.result}
    return add_operator(name, logic, inputs, outputs, in_order=True, sends=Passes.MADE)[0]
