"""The context: what an operator may do while it is active, and the record of what it did.

An operator acts on the authority of something: of the message it received, of the time it is notified of,
or of a capability it holds. With it, it sends, keeps capabilities, and asks to be notified. The context
checks each of these where it happens and records all of it; when the activation ends, the worker takes the
record as one atomic change of progress.

Two styles are served. Naiad's: ``send(batch, at=time)`` and ``notify_at(time)``. Timely's: ``retain()`` a
capability, watch ``frontier(input)``, and send with the capability when it is time.
"""

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from pointstamp.dataflow.capability import Capability
from pointstamp.dataflow.notify import Notifications, Request
from pointstamp.dataflow.portstate import InputState, Moves, OutputState
from pointstamp.dataflow.schema import fit, to_batches
from pointstamp.errors import CapabilityError, FlowError
from pointstamp.order.antichain import Antichain
from pointstamp.progress.pointstamp import WorkerIndex
from pointstamp.topology.domain import Time
from pointstamp.topology.ports import Location


class Context:
    """What an operator sees of the world; used by the worker that runs it, one activation at a time."""

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
        self.notifications: Notifications[InputState] = Notifications()
        self._read_frontier = read_frontier
        self._input: InputState | None = None
        self._time: Time | None = None
        self._regained: list[Capability] = []

    @property
    def time(self) -> Time:
        """The time of the message or notification that the operator is handling."""
        if self._time is None:
            raise FlowError(
                f"operator '{self.operator}' asked for the time outside of a message or notification; "
                "there is none then. Use the time of a capability."
            )
        return self._time

    @property
    def epoch(self) -> Any:  # noqa: ANN401 - the root time, of whatever type the flow has
        """The first coordinate of the time: the epoch, unless the flow has times of its own."""
        return self.time[0]

    def send(
        self,
        data: Any,  # noqa: ANN401 - anything that holds rows
        *,
        at: Time | None = None,
        output: int | str = 0,
        capability: Capability | None = None,
    ) -> None:
        """Send rows, at the time that is being handled unless another is given.

        Rows are an Arrow batch, or slower a table, a frame, or a list of dictionaries. With a capability they
        are sent on the capability's authority; otherwise on that of the message or notification that is
        being handled. Without rows nothing is sent.
        """
        port = self._output(output)
        if capability is not None:
            at = capability.time if at is None else at
            capability.check_may_send(port, at)
        elif at is None:
            at = self._least(port)
        else:
            self._check_authority(port, at, "sent at")
        who = f"operator '{self.operator}', output '{port.name}'"
        if isinstance(data, pa.RecordBatch):
            batches = [data if data.schema is port.schema else fit(data, port.schema, who)]
        else:
            batches = to_batches(data, port.schema, who)
        port.sent.extend((at, batch) for batch in batches if batch.num_rows)

    def session(self, capability: Capability, *, at: Time | None = None) -> "Session":
        """Send several times with one capability: ``with context.session(capability) as session``.

        At the end of the block the capability is dropped, unless it is kept with ``session.keep()``.
        """
        return Session(self, capability, at)

    def retain(self, *, at: Time | None = None, output: int | str = 0) -> Capability:
        """Keep the right to send later, at the time that is being handled or a later one."""
        port = self._output(output)
        if at is None:
            at = self._least(port)
        else:
            self._check_authority(port, at, "asked for a capability at")
        return Capability(port, at)

    def notify_at(self, time: Time | None = None) -> None:
        """Ask to be notified when a time is complete: when no input can receive at it any more.

        Until then the operator holds the right to send at that time on every output. Asking again for the
        same time changes nothing.
        """
        now = self.time
        wanted = now if time is None else time
        domain = self.inputs[0].domain if self.inputs else self.outputs[0].domain
        if wanted is not now:
            domain.check(wanted, f"operator '{self.operator}' asked to be notified at")
            if not domain.less_equal(now, wanted):
                raise CapabilityError(
                    f"operator '{self.operator}' asked at {now} to be notified at {wanted}, which is not "
                    f"later; ask for {now} or a greater time."
                )
        if self.notifications.is_asked(wanted):
            return
        held = [
            Capability(port, self._moved(port, wanted)) for port in self.outputs if self._ways(port) != ()
        ]
        self.notifications.ask(domain.sort_key(wanted), Request(wanted, self._input, held))

    def regained(self, output: int | str = 0) -> list[Capability]:
        """When the operator is restored: the capabilities that it held, which are its own again."""
        name = self._output(output).name
        mine = [each for each in self._regained if each.output == name]
        self._regained = [each for each in self._regained if each.output != name]
        return mine

    def frontier(self, input: int | str = 0) -> Antichain[Time]:  # noqa: A002 - the word of the API
        """What may still arrive at an input: times at or above one of these; empty means complete."""
        port = self._named_input(input)
        return Antichain.of(port.domain, self._read_frontier(port.location))

    def is_complete(self, time: Time, input: int | str | None = None) -> bool:  # noqa: A002 - as above
        """Whether nothing at this time or before it can arrive any more, at one input or at all of them."""
        ports = self.inputs if input is None else (self._named_input(input),)
        for port in ports:
            port.domain.check(time, f"operator '{self.operator}' asked about")
        return not any(self._may_come(port, time) for port in ports)

    # What follows is for the worker.

    def give_back(self, capabilities: list[Capability]) -> None:
        """Offer the capabilities that the operator held when it was saved."""
        self._regained = capabilities

    def take_away(self, *, must_regain: bool) -> None:
        """Drop what the operator has not taken back, which is a mistake where nothing is spare."""
        left, self._regained = self._regained, []
        times = ", ".join(str(each.time) for each in left)
        for each in left:
            each.drop()
        if left and must_regain:
            raise FlowError(
                f"operator '{self.operator}' held capabilities for {times} when it was saved and has not "
                "taken them back. Call context.regained() in restore() or on_restore(), and drop what is not "
                "needed any more."
            )

    @property
    def time_or_none(self) -> Time | None:
        """The time that the operator acts for; None where there is none."""
        return self._time

    def act_for(self, port: InputState | None, time: Time | None) -> None:
        """Act from now on for a message at an input, or for a notification that was asked for there.

        Without an input the operator starts, with its first capabilities; without a time it has only what
        it holds.
        """
        self._input = port
        self._time = time

    def is_notifiable(self, time: Time) -> bool:
        """Whether a request for this time can be served."""
        for port in self.inputs:
            less_equal = port.domain.less_equal
            for lower in self._read_frontier(port.location):
                if less_equal(lower, time):
                    return False
        return True

    def _may_come(self, port: InputState, time: Time) -> bool:
        less_equal = port.domain.less_equal
        return any(less_equal(lower, time) for lower in self._read_frontier(port.location))

    def _ways(self, port: OutputState) -> Moves | None:
        return None if self._input is None else self._input.moves[self.outputs.index(port)]

    def _least(self, port: OutputState) -> Time:
        """The time at which what is being handled comes out at this output, if nothing else is said."""
        if self._time is None:
            raise CapabilityError(
                f"operator '{self.operator}' sent on output '{port.name}' without a message, a notification "
                "or a capability for it. Keep a capability with retain() and send with it."
            )
        return self._moved(port, self._time)

    def _moved(self, port: OutputState, time: Time) -> Time:
        ways = self._ways(port)
        if ways is None:
            return time
        for way in ways:
            after = way(time)
            if after is not None:
                return after
        where = self._input.name if self._input else ""
        raise CapabilityError(
            f"operator '{self.operator}' sent on output '{port.name}' what came of input '{where}', but it "
            "declares no way from there to there. Declare a summary for the two."
        )

    def _check_authority(self, port: OutputState, time: Time, act: str) -> None:
        port.domain.check(time, f"operator '{self.operator}' {act}")
        least: list[Time] = []
        if self._time is not None:
            ways = self._ways(port)
            least = [self._time] if ways is None else [t for w in ways if (t := w(self._time)) is not None]
        if not any(port.less_equal(lower, time) for lower in least):
            raise CapabilityError(
                f"operator '{self.operator}' {act} {time} on output '{port.name}' while it was handling "
                f"{self._time}; that allows times at or after {', '.join(map(str, least)) or 'none'}. "
                "Keep an earlier capability, or use a later time."
            )

    def _output(self, output: int | str) -> OutputState:
        if isinstance(output, int) and 0 <= output < len(self.outputs):
            return self.outputs[output]
        for port in self.outputs:
            if port.name == output:
                return port
        known = ", ".join(repr(port.name) for port in self.outputs) or "none"
        raise FlowError(f"operator '{self.operator}' has no output {output!r}; it has {known}.")

    def _named_input(self, wanted: int | str) -> InputState:
        if isinstance(wanted, int) and 0 <= wanted < len(self.inputs):
            return self.inputs[wanted]
        for port in self.inputs:
            if port.name == wanted:
                return port
        known = ", ".join(repr(port.name) for port in self.inputs) or "none"
        raise FlowError(f"operator '{self.operator}' has no input {wanted!r}; it has {known}.")


class Session:
    """Sends with one capability, at its time or a later one."""

    def __init__(self, context: Context, capability: Capability, at: Time | None) -> None:
        self._context = context
        self._capability = capability
        self._at = at
        self._is_kept = False

    def send(self, data: Any) -> None:  # noqa: ANN401 - anything that holds rows
        """Send rows on the capability's authority."""
        held = self._capability
        self._context.send(data, at=self._at, output=held.output, capability=held)

    def keep(self) -> None:
        """Do not drop the capability at the end of the block."""
        self._is_kept = True

    def __enter__(self) -> "Session":
        return self

    def __exit__(self, *_: object) -> None:
        if not self._is_kept:
            self._capability.drop()
