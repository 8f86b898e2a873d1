"""Being a member of a crew in a mesh: the same in a process and in a Spark task.

``be_member`` builds a member with what it needs of this process, a scribe and a transport, and lets it be
served (``running.serving``) until its work is done. It ends by an exception when the member fails, or when
the driver or another member is gone.
"""

import os
import socket
from contextlib import closing
from functools import partial

from pointstamp.mesh.mesh import Mesh
from pointstamp.mesh.transport import ZmqTransport
from pointstamp.mesh.wire import MessageCodec
from pointstamp.query.member import Member, Tell
from pointstamp.query.mission import Mission
from pointstamp.query.scribe import ThreadScribe
from pointstamp.running.board import Sign
from pointstamp.running.messages import Ready
from pointstamp.running.posting import post
from pointstamp.running.serving import serve
from pointstamp.running.telling import EventTeller, TellRows


def be_member(mission: Mission, mesh: Mesh, worker: int, sign: Sign | None = None) -> None:
    """Be one member of a crew until its work is done; ``sign`` shows that it is not stuck in native code."""
    say: TellRows = partial(post, mesh, mission.workers)
    teller = EventTeller(say) if mission.is_observed else None
    tell: Tell = say if teller is None else teller.before(say)
    transport = ZmqTransport(mesh, MessageCodec.of(mission.plan, mission.plan.graph()))
    with closing(ThreadScribe()) as scribe:

        def start() -> Member:
            member = Member(mission, worker, transport, tell, scribe, log=teller)
            tell(Ready(os.getpid(), socket.gethostname()))
            return member

        mesh.watch([scribe.fileno()])
        try:
            serve(start, transport, tell_call=say, teller=teller, sign=sign)
        finally:
            mesh.watch([])
