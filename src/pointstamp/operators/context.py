"""The context that an operator uses while it is active.

Each act is checked where it happens, against what the operator handles and holds
(``pointstamp.operators.authority``), and recorded; when the activation ends, the worker takes the record as
one atomic change of progress.

Two styles are served. Naiad's: ``send(batch, at=time)`` and ``notify_at(time)``. Timely's: ``retain()`` a
capability, watch ``frontier(input)``, and send with the capability when it is time.
"""

from typing import Any

import pyarrow as pa

from pointstamp.arrow.schema import to_batches
from pointstamp.errors import CapabilityError, FlowError
from pointstamp.operators.authority import Authority
from pointstamp.operators.capability import Capability, check_may_send, hold
from pointstamp.order.antichain import Antichain
from pointstamp.progress.pointstamp import WorkerIndex
from pointstamp.topology.domain import Time


class Context:
    """The context of an operator's call; created by its worker, valid during its calls only."""

    __slots__ = ("_authority",)

    def __init__(self, authority: Authority) -> None:
        self._authority = authority

    @property
    def operator(self) -> str:
        """The name of the operator."""
        return self._authority.operator

    @property
    def worker(self) -> WorkerIndex:
        """The number of the worker."""
        return self._authority.worker

    @property
    def workers(self) -> int:
        """The number of workers."""
        return self._authority.workers

    @property
    def output_names(self) -> tuple[str, ...]:
        """The names of the outputs."""
        return tuple(port.name for port in self._authority.outputs)

    def schema(self, output: int | str = 0) -> pa.Schema:
        """Return the schema of an output."""
        return self._authority.output(output).schema

    @property
    def time(self) -> Time:
        """The time of the message or notification that the operator is handling."""
        time = self._authority.time
        if time is None:
            raise FlowError(
                f"operator '{self.operator}' read the time outside of a message or notification, where "
                "none is defined. Use the time of a capability."
            )
        return time

    @property
    def epoch(self) -> Any:  # noqa: ANN401 - the root time, of whatever type the flow has
        """The first coordinate of the time: the epoch, unless the flow has custom times."""
        return self.time[0]

    def send(
        self,
        data: Any,  # noqa: ANN401 - anything that holds rows
        *,
        at: Time | None = None,
        output: int | str = 0,
        capability: Capability | None = None,
    ) -> None:
        """Send rows at the current time, or at a later one.

        Rows are an Arrow batch, or slower a table, a frame, or a list of dictionaries. With a capability they
        are sent on the capability's authority; otherwise on that of the message or notification that is
        being handled. Without rows nothing is sent.
        """
        authority = self._authority
        port = authority.output(output)
        if capability is not None:
            at = check_may_send(port, capability, at)
        elif at is None:
            at = authority.of_rows(port)
        else:
            authority.check(port, at, "sent at")
        if isinstance(data, pa.RecordBatch) and data.schema.equals(port.schema):
            batches = [data]
        else:
            who = f"operator '{self.operator}', output '{port.name}'"
            batches = to_batches(data, port.schema, who)
        port.sent.extend([(at, batch) for batch in batches if batch.num_rows])

    def session(self, capability: Capability, *, at: Time | None = None) -> "SendSession":
        """Open a session that sends with one capability: ``with context.session(capability) as session``.

        At the end of the block the capability is dropped, unless it is kept with ``session.keep()``.
        """
        return SendSession(self, capability, at)

    def retain(self, *, at: Time | None = None, output: int | str = 0) -> Capability:
        """Return a capability to send later, at the current time or a later one."""
        authority = self._authority
        port = authority.output(output)
        if at is None:
            at = authority.of_rows(port)
        else:
            authority.check(port, at, "asked for a capability at")
        return hold(port, at)

    def notify_at(self, time: Time | None = None) -> None:
        """Request a notification for when a time is complete at all inputs.

        An operator that takes its times in order is notified when the time is settled.

        Until then the operator holds the right to send at that time on every output. Asking again for the
        same time changes nothing.
        """
        authority, now = self._authority, self.time
        wanted = now if time is None else time
        domain = (authority.inputs or authority.outputs)[0].domain
        if wanted is not now:
            if not domain.has(wanted):
                domain.check(wanted, f"operator '{self.operator}' asked to be notified at")
            if not domain.less_equal(now, wanted):
                raise CapabilityError(
                    f"operator '{self.operator}' requested at {now} a notification at {wanted}, which is "
                    f"not later. Request one at {now} or a greater time."
                )
        if not authority.can_be_notified:
            raise FlowError(
                f"operator '{self.operator}' requested at {now} a notification at {wanted}, but has no "
                "method on_notify to receive it. Define on_notify."
            )
        authority.ask(domain.sort_key(wanted), wanted)

    def regained(self, output: int | str = 0) -> list[Capability]:
        """Return the capabilities that a restored operator held when it was saved."""
        authority = self._authority
        name, left = authority.output(output).name, authority.regained
        authority.regained = [each for each in left if each.output != name]
        return [each for each in left if each.output == name]

    def frontier(self, input: int | str = 0) -> Antichain[Time]:  # noqa: A002 - the word of the API
        """Return the frontier of an input: rows may arrive at or after these times; empty means complete."""
        port = self._authority.named_input(input)
        return Antichain.of(port.domain, self._authority.read_frontier(port.location))

    def is_complete(self, time: Time, input: int | str | None = None) -> bool:  # noqa: A002 - as above
        """Return whether no more rows can arrive at this time or earlier, at one input or all."""
        authority = self._authority
        ports = authority.inputs if input is None else (authority.named_input(input),)
        for port in ports:
            if not port.domain.has(time):
                port.domain.check(time, f"operator '{self.operator}' asked about")
        return not any(authority.may_come(port, time) for port in ports)

    def is_settled(self, time: Time) -> bool:
        """Return whether no more rows can arrive that precede this time in processing order.

        Times are taken epoch by epoch and in it round by round, outermost first: (1, 0) is settled when
        nothing of epoch 0 can come any more, and (0, 5) need not wait for it. So an operator that takes
        settled times only, the earliest first, takes them in the same order whatever the workers do.
        """
        for port in self._authority.inputs:
            if not port.domain.has(time):
                port.domain.check(time, f"operator '{self.operator}' asked about")
        return self._authority.is_first(time)


class SendSession:
    """Sends with one capability, at its time or a later one."""

    def __init__(self, context: Context, capability: Capability, at: Time | None) -> None:
        self._context = context
        self._capability = capability
        self._at = at
        self._is_kept = False

    def send(self, data: Any) -> None:  # noqa: ANN401 - anything that holds rows
        """Send rows with the capability of the session."""
        held = self._capability
        self._context.send(data, at=self._at, output=held.output, capability=held)

    def keep(self) -> None:
        """Keep the capability after the end of the block."""
        self._is_kept = True

    def __enter__(self) -> "SendSession":
        return self

    def __exit__(self, *_: object) -> None:
        if not self._is_kept:
            self._capability.drop()
