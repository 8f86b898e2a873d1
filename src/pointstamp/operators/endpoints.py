"""The endpoints of a flow: inputs for batches, outputs for finished times."""

from collections.abc import Callable, Sequence
from typing import TypeAlias

import pyarrow as pa

from pointstamp.operators.context import Context
from pointstamp.topology.domain import Time

Deliver: TypeAlias = Callable[[str, Time, list[pa.RecordBatch]], None]
"""Takes what one worker has for an output at a time that is complete: the output's name, time, batches."""


class Collect:
    """Gathers what arrives per time, and hands it over when the time is complete.

    Whoever knows that a time is complete on this worker before this operator is told may ask for it
    (``hand_over``); with ``is_asked`` the operator does not wait to be told.
    """

    def __init__(self) -> None:
        self.deliver: Deliver | None = None
        self.is_asked = False
        self._name = ""
        self._batches: dict[Time, list[pa.RecordBatch]] = {}

    def on_receive(self, context: Context, input: str, batch: pa.RecordBatch) -> None:  # noqa: A002
        """Keep the batch until its time is complete."""
        held = self._batches.get(context.time)
        if held is None:
            self._batches[context.time] = [batch]
            self._name = context.operator
            if not self.is_asked:
                context.notify_at()
        else:
            held.append(batch)

    def on_notify(self, context: Context) -> None:
        """Hand over everything of a complete time."""
        # After a restore by another number of workers, one may be told of a time that it has nothing of.
        batches = self._batches.pop(context.time, [])
        if batches and self.deliver is not None:
            self.deliver(context.operator, context.time, batches)

    def hand_over(self, lower: Sequence[Time], less_equal: Callable[[Time, Time], bool]) -> None:
        """Hand over everything of the times that are not at or above one of these."""
        done = [time for time in self._batches if not any(less_equal(each, time) for each in lower)]
        for time in done:
            batches = self._batches.pop(time)
            if self.deliver is not None:
                self.deliver(self._name, time, batches)
