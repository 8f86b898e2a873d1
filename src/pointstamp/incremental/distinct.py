"""Distinct, intersect and except of tables, outside loops.

How often a row is there on both sides says all, before and after a change, so that what was sent need not be
kept. What is kept of each side is what ``distinct`` and the border of the same table keep, once for all. In
loops, where a row is there in other rounds, ``pointstamp.incremental.physical_table`` makes the same of
joins.

Invariant: what was sent up to an epoch, consolidated, is every row that is wanted, once.
"""

from collections.abc import Mapping
from typing import ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pointstamp.arrangement.arrangement import Arrangement
from pointstamp.arrangement.consolidate import Integers, columns_without_weight
from pointstamp.arrangement.open_changes import OpenChanges, added_up
from pointstamp.arrangement.run import Run
from pointstamp.flow.outlet import add_operator
from pointstamp.flow.physical_stream import PhysicalStream
from pointstamp.incremental.shared_arrangements import Arrangements, TableByKey, arranged_by
from pointstamp.operators.context import Context
from pointstamp.operators.spec import spec
from pointstamp.state.pieces import Piece


class InBoth:
    """Sends how the rows that both sides have change when an epoch is settled."""

    keeps: ClassVar = "every row of both sides once, with how often it is there; a change costs its rows"
    wants_other: ClassVar = True

    def __init__(self, schema: pa.Schema, *, arranged: Mapping[str, TableByKey]) -> None:
        names = columns_without_weight(schema)
        self._sides = {side: Arrangement(schema, names) for side in ("left", "right")}
        self._layouts = {side: each.layout for side, each in self._sides.items()}
        self._arrangements = Arrangements(self._sides, arranged)
        self._open = OpenChanges()

    def share_with(self, others: dict[TableByKey, Arrangement]) -> None:
        """Keep in one place what other operators of the worker keep, too."""
        self._arrangements.share_with(others)

    def on_receive(self, context: Context, input: str, batch: pa.RecordBatch) -> None:  # noqa: A002
        """Keep the change until its epoch is settled."""
        self._open.put(context.time, input, batch)
        context.notify_at()

    def on_notify(self, context: Context) -> None:
        """Send the rows that are wanted from now on, or no longer."""
        changes = self._open.take_runs(context.time, self._layouts)
        made = [self._changed(side, change) for side, change in changes.items()]
        sent = [each for each in made if each is not None]
        if sent:
            # A row that changes on both sides may come and go.
            context.send(sent[0] if len(sent) == 1 else added_up(sent))

    def _changed(self, side: str, change: Run) -> pa.RecordBatch | None:
        """What the change of one side changes, which is kept then."""
        own, other = self._sides[side], self._sides["right" if side == "left" else "left"]
        before, beside = own.weights_of(change), other.weights_of(change) > 0
        had, has = before > 0, before + change.weights > 0
        own.add_run(change)
        was, now = (
            self._wanted(each, beside) if side == "left" else self._wanted(beside, each)
            for each in (had, has)
        )
        return change.with_weights(now.astype(np.int64) - was)

    def _wanted(self, left: npt.NDArray[np.bool_], right: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
        """Which rows come out, by whether they are on each side."""
        return left & right if self.wants_other else left & ~right

    def save(self, *, changes_only: bool) -> Mapping[str, Piece]:
        """The rows of both sides, with their copies, if no other operator keeps them."""
        assert not len(self._open), "changes wait at a snapshot"
        return self._arrangements.save(changes_only=changes_only)

    def restore(self, context: Context, pieces: Mapping[str, pa.Table]) -> None:
        """Continue with the rows of this worker."""
        self._arrangements.load(context.operator, pieces)


class OnlyInFirst(InBoth):
    """Sends how the rows change that the left side has and the right side has not."""

    wants_other: ClassVar = False


def in_both(left: PhysicalStream, right: PhysicalStream, name: str, *, wanted: bool) -> PhysicalStream:
    """The rows of a side that the other has, or those that it has not, each once; not for loops."""
    assert not left.loops
    names = tuple(columns_without_weight(left.schema))
    sides = {"left": left, "right": right}
    arranged = {side: arranged_by(each, names, has_nulls=True) for side, each in sides.items()}
    logic = spec(InBoth if wanted else OnlyInFirst, left.schema, arranged=arranged)
    inputs = {side: each.exchange(*names) for side, each in sides.items()}
    return add_operator(name, logic, inputs, {"out": left.schema}, in_order=True)[0]


# Every row once, outside loops: a row comes out when its first copy appears and goes with its last one.
#
# How often a row is there says all, before and after a change, so that what was sent need not be kept. In
# loops it is: ``OnGroups`` does that with the function ``Once``.
#
# Invariant: what was sent up to an epoch, consolidated, is every row that is there, once.


class OnRows:
    """Sends the rows that appear and disappear when an epoch is settled; keeps how often each is there."""

    keeps: ClassVar = "every row once, with how often it is there; a change costs its rows"

    def __init__(self, schema: pa.Schema, *, arranged: Mapping[str, TableByKey]) -> None:
        self._rows = Arrangement(schema, columns_without_weight(schema))
        self._arrangements = Arrangements({"rows": self._rows}, arranged)
        self._open = OpenChanges()

    def share_with(self, others: dict[TableByKey, Arrangement]) -> None:
        """Keep in one place what other operators of the worker keep, too."""
        self._arrangements.share_with(others)

    def on_receive(self, context: Context, input: str, batch: pa.RecordBatch) -> None:  # noqa: A002
        """Keep the change until its epoch is settled."""
        self._open.put(context.time, "in", batch)
        context.notify_at()

    def on_notify(self, context: Context) -> None:
        """Send the rows of which the first copy has come, or the last one has gone."""
        for change in self._open.take_runs(context.time, {"in": self._rows.layout}).values():
            before = self._rows.weights_of(change)
            self._rows.add_run(change)
            sent = change.with_weights(self._sent(before, before + change.weights))
            if sent is not None:
                context.send(sent)

    def _sent(self, before: Integers, after: Integers) -> Integers:
        """What is sent for rows that were there so often, and are now."""
        return (after > 0).astype(np.int64) - (before > 0)

    def save(self, *, changes_only: bool) -> Mapping[str, Piece]:
        """The rows, with their copies, if no other operator keeps them."""
        assert not len(self._open), "changes wait at a snapshot"
        return self._arrangements.save(changes_only=changes_only)

    def restore(self, context: Context, pieces: Mapping[str, pa.Table]) -> None:
        """Continue with the rows of this worker."""
        self._arrangements.load(context.operator, pieces)
