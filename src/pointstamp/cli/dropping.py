"""``pointstamp snapshots --drop-savepoint``: drops a savepoint of a query that is stopped.

It takes the journal over, as a driver does, and so would end a query that runs. A query of this host whose
process is alive is not touched: it can do this itself. Queries on other hosts cannot be seen from here.
"""

import os
import re
import socket
from collections.abc import Mapping, Sequence
from time import time
from typing import Final

from pointstamp.connectors.source import Source
from pointstamp.errors import FlowError, UsageError
from pointstamp.journal.entries import GenerationStarted
from pointstamp.query.savepoints import drop_savepoint
from pointstamp.storage.port import Storage

_OWNER: Final = re.compile(r"process (\d+) on (.*)")  # as a driver calls itself


def drop(
    storage: Storage,
    name: str,
    query: str,
    generations: Sequence[GenerationStarted],
    inputs: Mapping[str, Source],
) -> None:
    """Drop a savepoint, unless a process of this host may be at work on the checkpoint."""
    here = socket.gethostname()
    for last in generations[-1:]:
        found = _OWNER.fullmatch(last.owner)
        if found is not None and found[2] == here and _is_alive(int(found[1])):
            raise UsageError(
                f"snapshots: {last} may be running on {storage.address}, and this command would fence it. "
                f"Stop that process first, or let it drop the savepoint: query.drop_savepoint({name!r})."
            )
    try:
        drop_savepoint(storage, inputs, query, name, owner=f"process {os.getpid()} on {here}", at=time())
    except FlowError as error:
        raise UsageError(f"snapshots: {error}") from error


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass  # it is somebody else's
    return True
