"""The bound of event time: up to where no row is expected any more, by what a user has promised.

A user says of a stream how late its rows may be. Then the *bound* after an epoch is the greatest event time
of all rows up to that epoch, less that lateness. It is a function of the rows of complete epochs alone: every
worker tells every other one the greatest event time of what it has read, and when the epoch is complete all
of them know the same. Nobody guesses, no clock is asked, and who reads the rows again comes to the same
bounds.

A row is *late* if its event time lies before the bound of the epochs before its own. A row without an event
time is never late. Whoever waits for several streams goes by the least of their bounds, and there is none
before each of them has had a row.
"""

from collections.abc import Mapping
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from pointstamp.expressions.windows import integers_of
from pointstamp.operators.context import Context
from pointstamp.topology.domain import Time

LATEST: Final = pa.schema({"latest": pa.int64()})
"""What is told about a batch: its greatest event time, in the unit of its column."""


class Latest:
    """Sends the greatest event time of each batch."""

    def __init__(self, at: str) -> None:
        self._at = at

    def on_receive(self, context: Context, input: str, batch: pa.RecordBatch) -> None:  # noqa: A002
        """Send the greatest event time, if there is one."""
        latest = pc.max(integers_of(batch.column(self._at)))
        if latest.is_valid:
            context.send(pa.RecordBatch.from_arrays([pa.array([latest.as_py()], pa.int64())], schema=LATEST))


class Bounds:
    """The bounds of some streams, by the input at which their greatest event times arrive.

    Changed by the operator that owns it, which takes one epoch after the other.
    """

    def __init__(self, lateness: Mapping[str, int]) -> None:
        self._lateness = lateness
        self._latest: dict[str, int] = {}
        self._open: dict[Time, dict[str, int]] = {}

    def __contains__(self, name: str) -> bool:
        """Whether this input is one of those that tell event times."""
        return name in self._lateness

    def put(self, time: Time, name: str, batch: pa.RecordBatch) -> None:
        """Take note of what arrived at a time."""
        latest = self._open.setdefault(time, {})
        latest[name] = max([*batch.column(0).to_pylist(), *([latest[name]] if name in latest else [])])

    def take(self, time: Time) -> bool:
        """Go on to what is known after a time that is settled; whether there was something to know."""
        arrived = self._open.pop(time, {})
        for name, latest in arrived.items():
            self._latest[name] = max(latest, self._latest.get(name, latest))
        return bool(arrived)

    @property
    def now(self) -> int | None:
        """The least of the bounds after the epochs that were taken; None as long as one of them has none."""
        if len(self._latest) < len(self._lateness):
            return None
        return min(latest - self._lateness[name] for name, latest in self._latest.items())

    def saved(self) -> pa.Table:
        """What is known, as rows that every worker has alike."""
        assert not self._open, "event times wait at a snapshot"
        names, latest = list(self._latest), list(self._latest.values())
        return pa.table({"name": pa.array(names, pa.string()), "latest": pa.array(latest, pa.int64())})

    def load(self, rows: pa.Table) -> None:
        """Go on from what was saved, by one worker or by several that know the same."""
        for row in rows.to_pylist():
            self._latest[row["name"]] = row["latest"]
