"""Send and receive control messages over a mesh.

What cannot be read is a TransportError that names its sender: all members must run the same version. So is
what can be read and is not said in this kind of run (``unfit``): it is never passed over in silence.
"""

from collections.abc import Sequence
from typing import Final

import msgspec
import pyarrow as pa

from pointstamp.errors import PointstampError, TransportError
from pointstamp.mesh.mesh import Mesh, Parcel
from pointstamp.mesh.wire import BatchFormat, Body, MessageKind, TimeFormat, unreadable
from pointstamp.running.messages import Failed, Order, Report, decode_order, decode_report, encode
from pointstamp.topology.domain import Time

DRIVER: Final = "the driving process"


def post(mesh: Mesh, member: int, said: Order | Report, bodies: Sequence[Body] = ()) -> None:
    """Send an order or a report."""
    mesh.post(member, MessageKind.CONTROL, encode(said), bodies)


def post_failure(mesh: Mesh, member: int, failure: Failed) -> bool:
    """Tell a member that this one has failed; False where that one has gone, or was never met."""
    try:
        post(mesh, member, failure)
    except (PointstampError, KeyError):
        return False
    return True


def order_in(parcel: Parcel) -> Order:
    """Return the order of this member's driver."""
    try:
        order: Order = decode_order(parcel.header)
    except msgspec.MsgspecError as error:
        raise unreadable(DRIVER, str(error)) from error
    return order


def report_in(parcel: Parcel) -> Report:
    """The report that came from a worker."""
    try:
        if parcel.kind != MessageKind.CONTROL:
            raise ValueError(f"kind {parcel.kind}, which only workers take")
        report: Report = decode_report(parcel.header)
    except (msgspec.MsgspecError, ValueError) as error:
        raise unreadable(f"worker {parcel.sender}", str(error)) from error
    return report


def rows_in(bodies: Sequence[Body], rows: BatchFormat, sender: str) -> list[pa.RecordBatch]:
    """The batches that follow an order or a report."""
    try:
        return [rows.decode(body) for body in bodies]
    except (pa.ArrowException, OSError, ValueError) as error:
        raise unreadable(sender, f"{type(error).__name__}: {error}") from error


def time_in(times: TimeFormat, time: object, sender: str) -> Time:
    """A time of an order or a report, exactly as it was sent."""
    try:
        return times.restore(time)
    except ValueError as error:
        raise unreadable(sender, str(error)) from error


def unfit(sender: str, said: Order | Report) -> TransportError:
    """Return the error for a message that does not belong to this kind of run."""
    return unreadable(sender, f"{type(said).__name__}, which is not said in this kind of run")
