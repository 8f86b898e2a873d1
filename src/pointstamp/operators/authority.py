"""The permissions of a running operator at this moment.

An operator acts on the authority of something: of the message it received, of the time it is notified of,
or of a capability it holds. The worker says what it acts for (``act_for``) before each call, and takes that
back when the activation ends; requests for notifications, and capabilities that a restored operator has not
retracted, are kept here, too. The operator itself sees none of this: it has a ``Context``, which asks here.
"""

from collections.abc import Callable, Sequence
from typing import Any

from pointstamp.errors import CapabilityError, FlowError
from pointstamp.operators.capability import Capability, hold
from pointstamp.operators.notify import Notifications, Request
from pointstamp.operators.portstate import InputState, Moves, OutputState
from pointstamp.progress.pointstamp import WorkerIndex
from pointstamp.topology.domain import Time
from pointstamp.topology.ports import Location


class Authority:
    """The rights of one operator on one worker; changed by that worker alone."""

    def __init__(
        self,
        operator: str,
        worker: WorkerIndex,
        workers: int,
        inputs: Sequence[InputState],
        outputs: Sequence[OutputState],
        read_frontier: Callable[[Location], Sequence[Time]],
    ) -> None:
        self.operator = operator
        self.worker = worker
        self.workers = workers
        self.inputs = inputs
        self.outputs = outputs
        self.read_frontier = read_frontier
        self.notifications = Notifications()
        self.can_be_notified = True
        """Whether the operator has a method that a notification could call."""
        self.on_asked: Callable[[Time], None] | None = None
        """Receives every new request for a notification, if a trace is recorded."""
        self.regained: list[Capability] = []
        self.input: InputState | None = None
        self.time: Time | None = None

    def act_for(self, port: InputState | None, time: Time | None) -> None:
        """Act from now on for a message at an input, or for a notification that was asked for there.

        Without an input the operator starts, with its first capabilities; without a time it has only what
        it holds.
        """
        self.input = port
        self.time = time

    def take_away(self, *, must_regain: bool) -> None:
        """Drop the capabilities that the operator has not regained; an error if none may be left."""
        left, self.regained = self.regained, []
        times = ", ".join(str(each.time) for each in left)
        for each in left:
            each.drop()
        if left and must_regain:
            raise FlowError(
                f"operator '{self.operator}' held capabilities for {times} when it was saved, but did not "
                "regain them. Call context.regained() in restore() or on_restore(), and drop those that "
                "are no longer needed."
            )

    def is_notifiable(self, time: Time) -> bool:
        """Return whether a request for this time can be served."""
        for port in self.inputs:
            less_equal = port.domain.less_equal
            for lower in self.read_frontier(port.location):
                if less_equal(lower, time):
                    return False
        return True

    def is_first(self, time: Time) -> bool:
        """Whether a request for this time can be served to an operator that takes its times in order."""
        for port in self.inputs:
            sort_key = port.domain.sort_key
            first = sort_key(time)
            # What lies above an element of a frontier has no lesser key than the element itself.
            for lower in self.read_frontier(port.location):
                if sort_key(lower) <= first:
                    return False
        return True

    def ask(self, sort_key: Any, time: Time) -> None:  # noqa: ANN401 - any sort key
        """Ask to be notified at a time, and hold the right to send then; asking again changes nothing."""
        if self.notifications.is_asked(time):
            return
        held = [hold(port, self.least(port, time)) for port in self.outputs if self.reaches(port)]
        self.notifications.ask(sort_key, Request(time, self.input, held))
        if self.on_asked is not None:
            self.on_asked(time)

    def may_come(self, port: InputState, time: Time) -> bool:
        """Return whether something at this time or before it may still arrive at an input."""
        less_equal = port.domain.less_equal
        return any(less_equal(lower, time) for lower in self.read_frontier(port.location))

    def reaches(self, port: OutputState) -> bool:
        """Return whether the handled input can result in output at this port."""
        return self.input is None or self.input.moves[self.outputs.index(port)] != ()

    def least(self, port: OutputState, time: Time) -> Time:
        """Return a lower bound of the output times of input that is handled at a time."""
        return time if self.input is None else self._first(self.input, self.input.moves, port, time)

    def of_rows(self, port: OutputState) -> Time:
        """Return the default output time of a row of the handled input."""
        if self.time is None:
            raise CapabilityError(
                f"operator '{self.operator}' sent on output '{port.name}' without a message, a notification "
                "or a capability for it. Keep a capability with retain() and send with it."
            )
        if self.input is None:
            return self.time
        return self._first(self.input, self.input.row_moves, port, self.time)

    def check(self, port: OutputState, time: object, act: str) -> None:
        """Raise CapabilityError unless what is being handled gives the right to this time at this output."""
        if not port.domain.has(time):
            port.domain.check(time, f"operator '{self.operator}' {act}")
        assert isinstance(time, tuple)
        least: list[Time] = []
        if self.time is not None and self.input is None:
            least = [self.time]
        elif self.time is not None and self.input is not None:
            ways = self.input.moves[self.outputs.index(port)]
            least = [self.time] if ways is None else [t for w in ways if (t := w(self.time)) is not None]
        if not any(port.less_equal(lower, time) for lower in least):
            raise CapabilityError(
                f"operator '{self.operator}' {act} {time} on output '{port.name}' while it was handling "
                f"{self.time}; that allows times at or after {', '.join(map(str, least)) or 'none'}. "
                "Keep an earlier capability, or use a later time."
            )

    def output(self, wanted: object) -> OutputState:
        """An output by its number or name."""
        if isinstance(wanted, int) and 0 <= wanted < len(self.outputs):
            return self.outputs[wanted]
        for port in self.outputs:
            if port.name == wanted:
                return port
        known = ", ".join(repr(port.name) for port in self.outputs) or "none"
        raise FlowError(f"operator '{self.operator}' has no output {wanted!r}; it has {known}.")

    def named_input(self, wanted: object) -> InputState:
        """An input by its number or name."""
        if isinstance(wanted, int) and 0 <= wanted < len(self.inputs):
            return self.inputs[wanted]
        for port in self.inputs:
            if port.name == wanted:
                return port
        known = ", ".join(repr(port.name) for port in self.inputs) or "none"
        raise FlowError(f"operator '{self.operator}' has no input {wanted!r}; it has {known}.")

    def _first(
        self, origin: InputState, moves: Sequence[Moves | None], port: OutputState, time: Time
    ) -> Time:
        """The result of a time on the first path from an input to an output that it can follow."""
        ways = moves[self.outputs.index(port)]
        if ways is None:
            return time
        for way in ways:
            after = way(time)
            if after is not None:
                return after
        raise CapabilityError(
            f"operator '{self.operator}' sent on output '{port.name}' while it was handling input "
            f"'{origin.name}', but declares no summary from that input to that output. Declare one."
        )
