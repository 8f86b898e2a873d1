"""Input handles: send batches and advance times from outside."""

from collections.abc import Callable
from typing import Any

import pyarrow as pa

from pointstamp.arrow.epoch_column import LATE_PORT
from pointstamp.arrow.schema import to_batches
from pointstamp.errors import FlowError
from pointstamp.operators.capability import Capability, hold, move_on
from pointstamp.operators.watermark import SILENT, SILENT_PORT
from pointstamp.progress.pointstamp import Change
from pointstamp.topology.domain import EPOCHS, Time
from pointstamp.worker.instance import Instance


class InputHandle:
    """Sends batches at a current time, which only moves on: ``send``, ``advance_to``, ``close``."""

    def __init__(
        self,
        instance: Instance,
        finish: Callable[[Instance, list[Change]], None],
        *,
        at: Any = None,  # noqa: ANN401 - a root time
    ) -> None:
        self._instance = instance
        self._finish = finish
        self._output = instance.outputs[0]
        self.name = instance.name
        time = self._output.domain.minimum() if at is None else (at,)
        self._capability: Capability | None = hold(self._output, time)
        # For late rows and marks of silence, where these have ports; they are always at the same time.
        self._beside = [hold(output, time) for output in instance.outputs[LATE_PORT:]]

    @property
    def time(self) -> Any:  # noqa: ANN401 - the root time
        """The current time of the input: the epoch, unless the flow has custom times."""
        return self._held("asked for its time").time[0]

    @property
    def is_closed(self) -> bool:
        """Whether nothing can be sent any more."""
        return self._capability is None

    def send(self, data: Any, *, at: Any = None, late: bool = False) -> None:  # noqa: ANN401 - rows, a root time
        """Send rows at the current time, or at a later one: an Arrow batch or table, a frame.

        With ``late`` they go to the port for late rows, and have the column for their epoch.
        """
        capability = self._held("sent to")
        output = self._instance.outputs[LATE_PORT] if late else self._output
        time: Time = capability.time if at is None else (at,)
        if at is not None and not self._output.less_equal(capability.time, time):
            raise FlowError(
                f"input '{self.name}' is at {capability.time[0]}, got rows at {at}. Send rows at its time "
                "or later."
            )
        for batch in to_batches(data, output.schema, f"input '{self.name}'", leaves_others=True):
            if batch.num_rows:
                output.sent.append((time, batch))
        self._finish(self._instance, [])

    def mark_silent(self, *, at: Any) -> None:  # noqa: ANN401 - a root time
        """Report that this input has been silent for too long."""
        for output in self._instance.outputs[LATE_PORT:]:
            if output.name == SILENT_PORT:
                output.sent.append(((at,), pa.RecordBatch.from_pydict({SILENT_PORT: [True]}, SILENT)))
        self._finish(self._instance, [])

    def advance_to(self, time: Any) -> None:  # noqa: ANN401 - a root time
        """Promise that nothing will be sent before this time any more."""
        capability = self._capability
        if capability is None:
            capability = self._held(f"advanced to {time}")
        if self._output.domain.root is EPOCHS and type(time) is not int:
            raise FlowError(
                f"input '{self.name}' can only be advanced to an epoch, got {time!r} of type "
                f"{type(time).__name__}. Give a Python integer."
            )
        later: Time = (time,)
        if not self._output.less_equal(capability.time, later):
            raise FlowError(
                f"input '{self.name}' is at {capability.time[0]} and cannot be advanced to {time}. "
                "Advance it to a greater or equal time."
            )
        if later != capability.time:
            move_on(self._output, capability, later)
            for output, beside in zip(self._instance.outputs[LATE_PORT:], self._beside, strict=True):
                move_on(output, beside, later)
        self._finish(self._instance, [])

    def close(self) -> None:
        """Promise that nothing will be sent any more; closing again does nothing."""
        if self._capability is not None:
            for each in (self._capability, *self._beside):
                each.drop()
            self._capability = None
            self._finish(self._instance, [])

    def _held(self, act: str) -> Capability:
        if self._capability is None:
            raise FlowError(f"input '{self.name}' was {act} after it was closed. Close it last.")
        return self._capability
