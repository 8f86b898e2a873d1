"""Capabilities: the right to send at a time, held by an operator (Brun et al. 2021, section 4).

While a capability for a time is held, nobody downstream is told that the time is complete. It can be cloned,
delayed to a later time, downgraded (made later in place) and dropped. One that is garbage-collected while
held is released, and reported once per operator, because a flow that depends on the garbage collector
completes when it pleases.
"""

import warnings
from types import TracebackType

from pointstamp.dataflow.portstate import OutputState
from pointstamp.errors import CapabilityError, PointstampWarning
from pointstamp.topology.domain import Time


class Capability:
    """The right to send on one output at ``time`` or later; changed by the operator that holds it.

    As a context manager it drops itself at the end of the block.
    """

    __slots__ = ("_output", "_time")

    def __init__(self, output: OutputState, time: Time) -> None:
        self._output: OutputState | None = output
        self._time = time
        output.count(time, 1)

    @property
    def time(self) -> Time:
        """The earliest time at which this capability can send."""
        return self._time

    @property
    def output(self) -> str:
        """The name of the output on which it can send."""
        return self._held("asked for its output").name

    @property
    def is_held(self) -> bool:
        """Whether it can still be used."""
        return self._output is not None

    def clone(self) -> "Capability":
        """A second capability for the same time."""
        return Capability(self._held("cloned"), self._time)

    def delayed(self, time: Time) -> "Capability":
        """A second capability for a later time."""
        output = self._held(f"delayed to {time}")
        self._check_not_before(output, time, "delayed to")
        return Capability(output, time)

    def downgrade(self, time: Time) -> None:
        """Give up the times before a later one."""
        output = self._held(f"downgraded to {time}")
        self._check_not_before(output, time, "downgraded to")
        if time != self._time:
            output.count(time, 1)
            output.count(self._time, -1)
            self._time = time

    def drop(self) -> None:
        """Give up the capability; dropping it again does nothing."""
        if self._output is not None:
            self._output.count(self._time, -1)
            self._output = None

    def check_may_send(self, output: OutputState, time: Time) -> None:
        """Raise CapabilityError unless this capability is held, for that output, and early enough."""
        mine = self._held(f"used to send at {time}")
        if mine is not output:
            raise CapabilityError(
                f"operator '{output.operator}' sent on output '{output.name}' with a capability for output "
                f"'{mine.name}'; each output needs a capability of its own."
            )
        if time is self._time:
            return
        output.domain.check(time, f"operator '{output.operator}' sent at")
        if not output.less_equal(self._time, time):
            raise CapabilityError(
                f"operator '{output.operator}' sent at {time} with a capability for {self._time}; a "
                "capability may send at times greater or equal to its own. Keep an earlier capability, or "
                f"send at {self._time} or later."
            )

    def _held(self, act: str) -> OutputState:
        if self._output is None:
            raise CapabilityError(
                f"a dropped capability for {self._time} was {act}; clone it before dropping it, or drop it "
                "later."
            )
        return self._output

    def _check_not_before(self, output: OutputState, time: Time, act: str) -> None:
        output.domain.check(time, f"operator '{output.operator}' has a capability that was {act}")
        if not output.less_equal(self._time, time):
            raise CapabilityError(
                f"operator '{output.operator}' has a capability for {self._time} that was {act} {time}; "
                "capabilities move to greater or equal times only."
            )

    def __enter__(self) -> "Capability":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.drop()

    def __del__(self) -> None:
        output = getattr(self, "_output", None)
        if output is None or output.is_over:
            return
        self.drop()
        if output.reports_loss:
            output.reports_loss = False
            warnings.warn(
                f"operator '{output.operator}' lost a capability for {self._time} on output "
                f"'{output.name}': it was garbage-collected while held and has been released. Call drop() "
                "when you are done with it.",
                PointstampWarning,
                stacklevel=2,
            )

    def __repr__(self) -> str:
        return f"Capability({self._time}{'' if self.is_held else ', dropped'})"
