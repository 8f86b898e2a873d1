"""A member in a mesh: it follows the driver's orders, works, and sleeps until there is news.

``serve`` is the same in a process and in a Spark task. It ends when the member has done its work, when it is
told to leave, and by an exception when it fails, or when the driver or another member is gone.
"""

import os
import socket
from collections import deque
from typing import Final

import msgspec

from pointstamp.recovery.member import Member
from pointstamp.recovery.mission import Mission
from pointstamp.recovery.orders import Ready, Report, decode_order, encode
from pointstamp.recovery.scribe import ThreadScribe
from pointstamp.runtime.mesh import Mesh, Parcel, ZmqTransport
from pointstamp.runtime.ports import EventLog
from pointstamp.runtime.wire import Codec, Kind, unreadable

# How long an idle member sleeps at most; only a bound, everything that matters wakes it.
_SLEEP_SECONDS: Final = 1.0


def serve(mission: Mission, mesh: Mesh, worker: int, *, log: EventLog | None = None) -> Member:
    """Be one member of a crew until its work is done."""
    driver = mission.workers

    def tell(report: Report) -> None:
        mesh.post(driver, Kind.CONTROL, encode(report))

    transport = ZmqTransport(mesh, Codec.of(mission.plan, mission.plan.graph()))
    scribe = ThreadScribe()
    mesh.watch([scribe.fileno()])
    try:
        member = Member(mission, worker, transport, tell, scribe, log=log)
        tell(Ready(os.getpid(), socket.gethostname()))
        while not member.has_left:
            busy = member.step()
            if transport.control:
                busy = True
                _follow(member, transport.control)
            if not busy:
                transport.wait(_SLEEP_SECONDS)
        member.close()
        return member
    finally:
        mesh.watch([])
        scribe.close()


def _follow(member: Member, parcels: deque[Parcel]) -> None:
    while parcels:
        parcel = parcels.popleft()
        try:
            order = decode_order(parcel.header)
        except msgspec.MsgspecError as error:
            raise unreadable("the driver", str(error)) from error
        member.follow(order)
