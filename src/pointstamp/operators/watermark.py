"""The watermark: the event time before which no row is expected.

A user says of a stream how late its rows may be. Then the *bound* after an epoch is the greatest event time
of all rows up to that epoch, less that lateness. It is a function of the rows of complete epochs alone: every
worker tells every other one the greatest event time of what it has read, and when the epoch is complete all
of them know the same. Nobody guesses, no clock is asked, and who reads the rows again comes to the same
bounds.

A row is *late* if its event time lies before the bound of the epochs before its own. A row without an event
time is never late. An operator with several streams uses the least of their watermarks, and there is none
before each of them has had a row.

A stream may be said to be silent in an epoch: that is told in place of a greatest event time, and stands in
the tick of the epoch as its rows do. Then its bound does not count, and where all are silent the greatest of
their bounds does. A bound never goes back: what comes of a stream that was silent is judged by the bound that
the others have reached.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import ClassVar, Final

import pyarrow as pa
import pyarrow.compute as pc

from pointstamp.expressions.time_windows import integers_of
from pointstamp.operators.context import Context
from pointstamp.topology.domain import Time

LATEST: Final = pa.schema({"latest": pa.int64()})
"""The report of a batch: its greatest event time, in the unit of its column; null for an idle stream."""

SILENT_PORT: Final = "silent"
"""The port of an input at which it says that it is silent."""

SILENT: Final = pa.schema({SILENT_PORT: pa.bool_()})
"""A mark of silence."""

# Among what is saved, the bound itself: where streams were silent it does not follow from the rest.
_NOW: Final = ""


class Latest:
    """Sends the greatest event time of each batch."""

    keeps: ClassVar = "nothing; a batch costs its rows"

    def __init__(self, at: str) -> None:
        self._at = at

    def on_receive(self, context: Context, input: str, batch: pa.RecordBatch) -> None:  # noqa: A002
        """Send the greatest event time, if there is one."""
        latest = pc.max(integers_of(batch.column(self._at)))
        if latest.is_valid:
            context.send(pa.RecordBatch.from_arrays([pa.array([latest.as_py()], pa.int64())], schema=LATEST))


class LatestOrSilent(Latest):
    """Sends the greatest event time of each batch, and null in epochs in which all its inputs are silent."""

    def __init__(self, at: str, inputs: Sequence[str]) -> None:
        super().__init__(at)
        self._inputs = frozenset(inputs)
        self._silent: dict[Time, set[str]] = {}

    def on_receive(self, context: Context, input: str, batch: pa.RecordBatch) -> None:  # noqa: A002
        """Send the greatest event time; take note of an input that is silent."""
        if input not in self._inputs:
            super().on_receive(context, input, batch)
            return
        self._silent.setdefault(context.time, set()).add(input)
        context.notify_at()

    def on_notify(self, context: Context) -> None:
        """Say that the stream is silent, if all inputs were."""
        if self._silent.pop(context.time, set()) == self._inputs:
            context.send(pa.RecordBatch.from_arrays([pa.array([None], pa.int64())], schema=LATEST))


class Bounds:
    """The bounds of some streams, by the input at which their greatest event times arrive.

    Changed by the operator that owns it, which takes one epoch after the other.
    """

    def __init__(self, lateness: Mapping[str, int]) -> None:
        self._lateness = lateness
        self._latest: dict[str, int] = {}
        self._open: dict[Time, dict[str, int | None]] = {}
        self.now: int | None = None
        """The least of the bounds after the epochs that were taken; None before each of them has one."""

    def __contains__(self, name: str) -> bool:
        """Return whether this input is one of those that tell event times."""
        return name in self._lateness

    def put(self, time: Time, name: str, batch: pa.RecordBatch) -> None:
        """Take note of what arrived at a time."""
        latest = self._open.setdefault(time, {})
        told = [each for each in (*batch.column(0).to_pylist(), latest.get(name)) if each is not None]
        latest[name] = max(told, default=None)

    def take(self, time: Time) -> bool:
        """Continue to what is known after a time that is settled; whether there was something to know."""
        arrived = self._open.pop(time, {})
        for name, latest in arrived.items():
            if latest is not None:
                self._latest[name] = max(latest, self._latest.get(name, latest))
        self._move({name for name, latest in arrived.items() if latest is None})
        return bool(arrived)

    def _move(self, silent: Collection[str]) -> None:
        counted = self._lateness.keys() - silent
        known = {name: latest - self._lateness[name] for name, latest in self._latest.items()}
        if not counted <= known.keys() or not known:
            return
        bound = min(known[name] for name in counted) if counted else max(known.values())
        self.now = bound if self.now is None else max(self.now, bound)

    def saved(self) -> pa.Table:
        """Return the watermark state as rows that are equal on all workers."""
        assert not self._open, "event times wait at a snapshot"
        known: dict[str, int | None] = {**self._latest, _NOW: self.now}
        told = {name: latest for name, latest in known.items() if latest is not None}
        names, latest = list(told), list(told.values())
        return pa.table({"name": pa.array(names, pa.string()), "latest": pa.array(latest, pa.int64())})

    def load(self, rows: pa.Table) -> None:
        """Continue from what was saved, by one worker or by several that know the same."""
        for row in rows.to_pylist():
            if row["name"] == _NOW:
                self.now = row["latest"]
            else:
                self._latest[row["name"]] = row["latest"]
        self._move(())
