"""A member in a mesh: it follows the driver's orders, works, and sleeps until there is news.

``serve`` is the same in a process and in a Spark task. It ends when the member has done its work, when it is
told to leave, and by an exception when it fails, or when the driver or another member is gone.
"""

import os
import socket
from collections import deque
from contextlib import suppress
from math import inf
from typing import Final

import msgspec

from pointstamp.errors import PointstampError
from pointstamp.mesh.mesh import Mesh, Parcel
from pointstamp.mesh.transport import ZmqTransport
from pointstamp.mesh.wire import MessageCodec, MessageKind, unreadable
from pointstamp.query.member import Member
from pointstamp.query.mission import Mission
from pointstamp.query.observing import Reporter
from pointstamp.query.orders import Ready, Report, TellEvents, decode_order, encode
from pointstamp.query.scribe import ThreadScribe
from pointstamp.running.lookout import Lookout
from pointstamp.worker.ports import EventLog

# How long an idle member sleeps at most; only a bound, everything that matters wakes it.
_SLEEP_SECONDS: Final = 1.0


def serve(mission: Mission, mesh: Mesh, worker: int, *, log: EventLog | None = None) -> Member:
    """Be one member of a crew until its work is done."""
    driver = mission.workers

    def post(report: Report) -> None:
        mesh.post(driver, MessageKind.CONTROL, encode(report))

    reporter = Reporter(post) if mission.is_observed else None
    tell = post if reporter is None else reporter.before(post)
    transport = ZmqTransport(mesh, MessageCodec.of(mission.plan, mission.plan.graph()))
    scribe = ThreadScribe()
    mesh.watch([scribe.fileno()])
    member: Member | None = None
    lookout: Lookout | None = None
    try:
        member = Member(mission, worker, transport, tell, scribe, log=reporter or log)
        lookout = Lookout(member.worker.instances.values(), post)
        tell(Ready(os.getpid(), socket.gethostname()))
        while not member.has_left:
            busy = member.step()
            if transport.control:
                busy = True
                _follow(member, transport.control, reporter)
            if not busy:
                due_seconds = inf if reporter is None else reporter.rest()
                transport.wait(min(due_seconds, _SLEEP_SECONDS))
        return member
    except Exception:
        if reporter is not None:
            with suppress(PointstampError):  # the driver may be gone, too
                reporter.flush()
        raise
    finally:
        if lookout is not None:
            lookout.end()
        if member is not None:
            member.close()
        mesh.watch([])
        scribe.close()


def _follow(member: Member, parcels: deque[Parcel], reporter: Reporter | None) -> None:
    while parcels:
        parcel = parcels.popleft()
        try:
            order = decode_order(parcel.header)
        except msgspec.MsgspecError as error:
            raise unreadable("the driver", str(error)) from error
        if isinstance(order, TellEvents):
            if reporter is not None:
                reporter.answer(order.number)
        else:
            member.follow(order)
