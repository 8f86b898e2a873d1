"""Capabilities: the right to send at a time (Brun et al. 2021, section 4).

While a capability for a time is held, no operator downstream is notified that the time is complete. It can be
cloned, delayed to a later time, downgraded (made later in place) and dropped. One that is garbage-collected
while held is released, and reported once per operator, because a flow that depends on the garbage collector
completes when it pleases.

A capability is a ticket: what counts is the record of the output that gave it (``OutputState.rights``). Every
use is checked against that record, so that an object which was copied, altered, dropped or made up, or which
another operator, worker or run holds, gives no right. ``hold`` is the one place where capabilities are made.
"""

from collections.abc import Callable
from types import TracebackType
from typing import NoReturn, SupportsIndex

from pointstamp.errors import CapabilityError
from pointstamp.operators.portstate import OutputState
from pointstamp.topology.domain import Time


class Capability:
    """The right to send on one output at ``time`` or later; changed by the operator that holds it.

    ``context.retain()`` gives one. As a context manager it drops itself at the end of the block.
    """

    __slots__ = ("__weakref__", "_output", "_time")

    _output: OutputState | None
    _time: Time

    def __init__(self, *_: object, **__: object) -> None:
        raise CapabilityError(
            "ps.timely.Capability(...): only the runtime creates capabilities. Call context.retain() while "
            "you handle a message or a notification, or clone() a capability that you hold."
        )

    @property
    def time(self) -> Time:
        """The least time at which this capability can send."""
        return self._time

    @property
    def output(self) -> str:
        """The name of its output."""
        return self._held("asked for its output").name

    @property
    def is_held(self) -> bool:
        """Whether the capability can still be used."""
        return _holder(self) is not None

    def clone(self) -> "Capability":
        """Return a second capability for the same time."""
        return hold(self._held("cloned"), self._time)

    def delayed(self, time: Time) -> "Capability":
        """Return a second capability for a later time."""
        output = _holder(self)
        if output is None:
            raise CapabilityError(_why_not_held(self, f"delayed to {time}"))
        self._check_not_before(output, time, "delayed to")
        return hold(output, time)

    def downgrade(self, time: Time) -> None:
        """Move the capability to a later time."""
        output = _holder(self)
        if output is None:
            raise CapabilityError(_why_not_held(self, f"downgraded to {time}"))
        self._check_not_before(output, time, "downgraded to")
        if time != self._time:
            output.move(self, time)
            _set_time(self, time)

    def drop(self) -> None:
        """Drop the capability; dropping it again does nothing."""
        output = getattr(self, "_output", None)
        if isinstance(output, OutputState) and output.release(self):
            _set_output(self, None)

    def _held(self, act: str) -> OutputState:
        output = _holder(self)
        if output is None:
            raise CapabilityError(_why_not_held(self, act))
        return output

    def _check_not_before(self, output: OutputState, time: Time, act: str) -> None:
        if not output.domain.has(time):
            output.domain.check(time, f"operator '{output.operator}' has a capability that was {act}")
        if not output.less_equal(self._time, time):
            raise CapabilityError(
                f"operator '{output.operator}' has a capability for {self._time} that was {act} {time}; a "
                "capability can only move to a greater or equal time. Clone it before it moves."
            )

    def __enter__(self) -> "Capability":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.drop()

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise CapabilityError(
            f"attribute '{name}' of a capability was set to {value!r}, but capabilities are immutable. "
            "Call downgrade(time) to move one to a later time."
        )

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        output = getattr(self, "_output", None)
        who = f"operator '{output.operator}'" if isinstance(output, OutputState) else "an operator"
        raise CapabilityError(
            f"{who} has a capability for {getattr(self, '_time', None)} that was copied or pickled, and a "
            "copy is not valid. Call clone() for a second one. Snapshots save capabilities "
            "automatically; context.regained() returns them."
        )

    def __repr__(self) -> str:
        return f"Capability({getattr(self, '_time', None)}{'' if self.is_held else ', not held'})"


# The two attributes are set past __setattr__, by their slots, because capabilities come and go all the time.
_set_output: Callable[[Capability, OutputState | None], None] = Capability.__dict__["_output"].__set__
_set_time: Callable[[Capability, Time], None] = Capability.__dict__["_time"].__set__


def hold(output: OutputState, time: Time) -> Capability:
    """A new capability, entered into the record of its output. The caller has checked the right to it."""
    capability = object.__new__(Capability)
    _set_output(capability, output)
    _set_time(capability, time)
    output.give(capability, time)
    return capability


def move_on(output: OutputState, capability: Capability, time: Time) -> None:
    """Let a held capability stand for a later time. The caller has checked both."""
    output.move(capability, time)
    _set_time(capability, time)


def check_may_send(output: OutputState, capability: object, time: Time | None) -> Time:
    """The time to send at; CapabilityError unless this is held, for that output, and early enough."""
    right = output.rights.get(id(capability))
    if right is None or not isinstance(capability, Capability) or _holder(capability) is not output:
        raise CapabilityError(_why_not_here(output, capability, time))
    held = right.time
    if time is None or time is held:
        return held
    output.domain.check(time, f"operator '{output.operator}' sent at")
    if not output.less_equal(held, time):
        raise CapabilityError(
            f"operator '{output.operator}' sent at {time} with a capability for {held}; a capability may "
            f"send at times greater or equal to its own. Keep an earlier capability, or send at {held} or "
            "later."
        )
    return time


def _holder(capability: Capability) -> OutputState | None:
    """The output in whose record a capability stands as it says; None where there is none."""
    output = getattr(capability, "_output", None)
    if not isinstance(output, OutputState):
        return None
    right = output.rights.get(id(capability))
    return output if right is not None and right.time is capability.time else None


def _why_not_held(capability: Capability, act: str) -> str:
    time = getattr(capability, "_time", None)
    if time is not None and getattr(capability, "_output", None) is None:
        return f"a dropped capability for {time} was {act}; clone it before dropping it, or drop it later."
    return (
        f"a capability for {time} was {act}, but it was altered or copied, and its operator holds no such "
        "right. Use what context.retain() gave as it is; clone() makes a second one, downgrade() a later one."
    )


def _why_not_here(output: OutputState, capability: object, time: Time | None) -> str:
    """The reason why something gives no right to send on an output."""
    who = f"operator '{output.operator}' sent"
    if not isinstance(capability, Capability):
        return (
            f"{who} with {capability!r}, which is not a capability. Pass one that context.retain() gave, or "
            "none, to send for the message or notification that is handled."
        )
    holder = _holder(capability)
    if holder is None:
        return _why_not_held(capability, "used to send" if time is None else f"used to send at {time}")
    if holder.operator != output.operator:
        return (
            f"{who} with a capability for {capability.time} that operator '{holder.operator}' holds; each "
            "operator needs a capability of its own."
        )
    if holder.name != output.name:
        return (
            f"{who} on output '{output.name}' with a capability for output '{holder.name}'; each output "
            "needs a capability of its own."
        )
    return (
        f"{who} with a capability for {capability.time} that it holds on another worker or in another run. "
        "Keep capabilities in attributes of the operator, of which every worker has a copy of its own."
    )
