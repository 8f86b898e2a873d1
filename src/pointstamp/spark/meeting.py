"""Where the workers of a job listen, and what must agree before they begin.

In a local session all tasks are processes of the driver's host and user: they listen at unix sockets in a
private folder. Everywhere else they listen at ports of their hosts.
"""

import os
import platform
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.metadata import version
from typing import Final

import pyarrow as pa
from pyspark.sql import SparkSession

from pointstamp.mesh.nearby import SOCKET_PATH_BYTES_MAX
from pointstamp.mesh.places import endpoint_at
from pointstamp.spark.slots import is_connect, is_local
from pointstamp.version import __version__

MEETING_SECONDS_MAX: Final = 60.0

_SOCKET_NAME: Final = "of-"
_SOCKET_NAME_BYTES: Final = 16
"""What a socket adds to the path of its folder, at most."""


@contextmanager
def meeting_folder(spark: SparkSession) -> Iterator[str | None]:
    """A private folder for the sockets of one job; None if its tasks may be on several hosts."""
    # Not where Spark starts failed tasks again (local[n, failures]), as on a cluster.
    if is_connect(spark) or not is_local(spark) or "," in spark.conf.get("spark.master", ","):
        yield None
        return
    folder = tempfile.mkdtemp(prefix="pointstamp-meeting-")
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def versions() -> dict[str, str]:
    """The versions that all workers must share."""
    return {
        "Python": ".".join(platform.python_version_tuple()[:2]),
        "pyarrow": pa.__version__,
        # Not by importing it, which takes long; many a flow never needs it.
        "pandas": version("pandas"),
        "pointstamp": __version__,
    }


def listens_at(folder: str | None, member: int | str, endpoint: str | Callable[[], str]) -> str:
    """Where a member listens: at a unix socket in the private folder, or at a port of its host.

    All members that use one folder are on one host and of one user, and no other user may open it: they
    speak without keys. Where its path is too long for a socket, all of them use ports.
    """
    if folder is None or len(os.fsencode(folder)) + _SOCKET_NAME_BYTES > SOCKET_PATH_BYTES_MAX:
        return endpoint if isinstance(endpoint, str) else endpoint_at(endpoint())
    return f"ipc://{folder}/{_SOCKET_NAME}{member}"
