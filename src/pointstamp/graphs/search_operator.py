"""Searches by the array operator, for integer ids outside of loops.

It is one operator in a loop in a loop (``phases``). The outer loop has three rounds, the *phases* of an
epoch, and the inner one a round for each time that workers tell each other.
"""

from collections.abc import Mapping
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import pointstamp as ps
from pointstamp.graphs.arrays.slot_arrays import DIFF, Slots, arrays_of, batch_of
from pointstamp.graphs.edge_tables import DST, ID, SRC
from pointstamp.graphs.search_state import (
    DISTANCE,
    ByDistance,
    ByRank,
    SavedWays,
    StartChanges,
    Told,
    Ways,
    told_of,
)


def searched(
    starts: ps.Table,
    steps: ps.Table,
    *,
    name: str,
    length: int | None = None,
    by_rank: bool = False,
    both_ways: bool = False,
) -> ps.Table:
    """``id`` and least ``distance`` of all that can be reached from ``starts`` by ``steps``.

    Starts have ``id`` and ``distance``, one for each id; steps lead from ``src`` to ``dst``, and have a
    column ``length`` unless all have the one that is given. With ``by_rank`` distances are labels, of which
    the least are passed on first. With ``both_ways`` every step leads back as well; it is given once.
    """
    begun, went = starts.changes().named(f"{name}: starts"), steps.changes().named(f"{name}: steps")
    if both_ways:
        went = went.map_batches(_both_ways).named(f"{name}: both ways")
    search = Search(begun.schema, length, by_rank=by_rank, both_ways=both_ways)
    with begun.loop(f"{name}: phases") as phases:
        begun, went = phases.enter(begun), phases.enter(went)
        with begun.loop(name) as loop:
            told = loop.variable(search.outputs["told"], "told")
            again, found = ps.operator(
                name,
                search,
                starts=loop.enter(begun).exchange(ID),
                steps=loop.enter(went).exchange(DST),
                told=told.broadcast(),
            )
            loop.feedback(told, again)
            found = loop.leave(found)
        return ps.Table(phases.leave(found))


def _both_ways(steps: pa.RecordBatch) -> pa.RecordBatch:
    """Each step and the one back, which is the same from a vertex to itself."""
    back = steps.filter(pc.not_equal(steps.column(SRC), steps.column(DST)))
    ends = {SRC: back.column(DST), DST: back.column(SRC)}
    turned = [ends.get(name, back.column(name)) for name in steps.schema.names]
    return pa.concat_batches([steps, pa.RecordBatch.from_arrays(turned, schema=steps.schema)])


# The search operator: each epoch invalidates, relaxes and reports.
#
# It is one operator in a loop in a loop. The outer loop has three rounds, the *phases* of an epoch: doubt,
# relaxing, and the report. The inner loop has a round for each time that workers tell each other. A phase
# begins when nothing of the one before is in flight any more, which is what it means that its time is
# settled. Each worker has the steps that lead to its vertices, and the keys of all vertices, which are sent
# to all workers when they change; before it tells, it has drawn all conclusions that it can draw alone. A
# single worker has no other worker to inform, and takes all three phases at once.

_DOUBT, _RELAX, _REPORT = range(3)


class Search:
    """Takes changes of steps and starts, epoch by epoch, and sends how distances change."""

    keeps: ClassVar = (
        "the steps by both ends, in arrays, and on what each vertex rests; a change costs whom it reaches"
    )
    takes_times_in_order = True

    def __init__(self, starts: pa.Schema, length: int | None, *, by_rank: bool, both_ways: bool) -> None:
        kind, weight = starts.field(DISTANCE).type, starts.field(DIFF)
        ends = [(ID, pa.int64()), (DISTANCE, kind)]
        self.outputs = {
            "told": pa.schema([*ends, ("steps", pa.int32()), ("worker", pa.int32())]),
            "found": pa.schema([*ends, weight]),
        }
        self._saving = SavedWays(kind, length)
        self._both_ways = both_ways
        pace = ByRank() if by_rank else ByDistance()
        self._ways = Ways(kind.to_pandas_dtype(), kind.to_pandas_dtype() if length is None else np.int8, pace)
        self._waiting: dict[ps.timely.Time, dict[str, list[pa.RecordBatch]]] = {}

    def on_start(self, context: ps.ports.Context) -> None:
        """Begin without steps; a single worker has each step with the one that leads back."""
        if self._both_ways and context.workers == 1:
            self._ways.lead_both_ways()

    def on_receive(self, context: ps.ports.Context, input: str, batch: pa.RecordBatch) -> None:  # noqa: A002
        """Keep received rows until their time is complete, except this worker's own."""
        if input == "told":
            batch = batch.filter(pa.array(batch.column("worker").to_numpy() != context.worker))
        if batch.num_rows:
            self._waiting.setdefault(context.time, {}).setdefault(input, []).append(batch)
            context.notify_at()

    def on_notify(self, context: ps.ports.Context) -> None:
        """Act on what has come for a time, by its phase."""
        epoch, phase, wave = context.time
        waiting = self._waiting.pop(context.time, {})
        come = {name: pa.Table.from_batches(batches) for name, batches in waiting.items()}
        if phase == _DOUBT:
            forgotten = self._ways.doubt(self._suspects(come))
            if context.workers == 1:
                self._ways.relax(self._ways.begin_again())
                self._report(context)
                return
            self._tell(context, forgotten)
            context.notify_at((epoch, _RELAX, wave))
        elif phase == _RELAX:
            changed = self._ways.begin_again()
            heard = self._ways.hear(told_of(come["told"])) if come else changed[:0]
            self._tell(context, self._ways.relax(changed, heard))
            context.notify_at((epoch, _REPORT, wave))
        else:
            self._report(context)

    def _suspects(self, come: Mapping[str, pa.Table]) -> Slots:
        """The vertices that lost their support by these changes."""
        suspects = [np.empty(0, np.intp)]
        if "steps" in come:
            suspects.append(self._ways.change_steps(self._saving.steps_of(come["steps"])))
        if "starts" in come:
            suspects.append(self._ways.change_starts(StartChanges(*arrays_of(come["starts"]))))
        if "told" in come:
            suspects.append(self._ways.hear_forgotten(told_of(come["told"]).ids))
        self._saving.note(come)
        return np.concatenate(suspects)

    def _tell(self, context: ps.ports.Context, told: Told) -> None:
        if len(told.ids):
            context.send(
                batch_of(context.schema("told"), *told, np.full(len(told.ids), context.worker, np.int32)),
                output="told",
            )

    def _report(self, context: ps.ports.Context) -> None:
        before, now = self._ways.take_changes()
        if len(before.ids) or len(now.ids):
            ids, distance = (np.concatenate(both) for both in zip(before[:2], now[:2], strict=True))
            diff = np.repeat(np.array([-1, 1]), [len(before.ids), len(now.ids)])
            context.send(batch_of(context.schema("found"), ids, distance, diff), output="found")

    def save(self, *, changes_only: bool) -> Mapping[str, ps.ports.Piece]:
        """Steps and starts by the vertex to which they lead, and the keys of all vertices."""
        assert not self._waiting, f"times {list(self._waiting)} are open at a snapshot"
        return self._saving.save(self._ways, changes_only=changes_only)

    def restore(self, context: ps.ports.Context, pieces: Mapping[str, pa.Table]) -> None:
        """Continue with the steps and starts of this worker's vertices, and with the keys of all."""
        self.on_start(context)
        self._saving.restore(self._ways, pieces, context.worker, context.workers)
