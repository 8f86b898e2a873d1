"""How the tasks of a gang meet: what each tells the others, and what must agree before they begin.

Spark brings barrier tasks together with ``allGather``, which always takes a second: each task looks for the
answer, sleeps a second, and looks again. In a local session all tasks are processes of the driver's host and
user, and they meet in milliseconds through the files of a folder that the driver has made for this gang and
that nobody else may open. Everywhere else they meet through Spark.
"""

import os
import platform
import shutil
import socket
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from time import monotonic, sleep
from typing import Final

import msgspec
import pyarrow as pa
from pyspark import BarrierTaskContext
from pyspark.sql import SparkSession

from pointstamp.errors import TransportError
from pointstamp.mesh.door import Address
from pointstamp.mesh.nearby import SOCKET_PATH_BYTES_MAX
from pointstamp.mesh.places import LOOPBACK, address_of, endpoint_at, is_loopback
from pointstamp.rows.columns import binaries, integers
from pointstamp.spark.slots import is_connect, is_local
from pointstamp.version import __version__

MEETING_SECONDS_MAX: Final = 60.0
ARRIVAL_SECONDS_MAX: Final = 600.0
"""How long a task waits in a folder for the others: Spark starts all at once, but Python may take long."""

_LOOK_SECONDS: Final = 0.002
_SOCKET_NAME: Final = "of-"
_SOCKET_NAME_BYTES: Final = 16
"""What a socket adds to the path of its folder, at most."""

REPORT: Final = pa.schema([("worker", pa.int32()), ("report", pa.binary())])


class Hello(msgspec.Struct, frozen=True):
    """What each task tells the others when they meet."""

    worker: int
    address: Address
    versions: dict[str, str]


@contextmanager
def meeting_folder(spark: SparkSession) -> Iterator[str | None]:
    """Where the tasks of one gang meet; None where they may be on several hosts, and meet through Spark."""
    # Not where Spark starts failed tasks again (local[n, failures]): files do not tell who is of which turn.
    if is_connect(spark) or not is_local(spark) or "," in spark.conf.get("spark.master", ","):
        yield None
        return
    folder = tempfile.mkdtemp(prefix="pointstamp-meeting-")
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def meet(
    context: BarrierTaskContext, address: Address, needed: Mapping[str, str], folder: str | None
) -> list[Address]:
    """Tell all tasks of the gang this one's address; return everybody's, in the order of their numbers."""
    hello = msgspec.json.encode(Hello(context.partitionId(), address, versions()))
    if folder is None:
        said: Iterable[str | bytes] = context.allGather(hello.decode())
    else:
        said = gather_in(Path(folder), context.partitionId(), len(context.getTaskInfos()), hello)
    everybody = sorted((msgspec.json.decode(each, type=Hello) for each in said), key=lambda each: each.worker)
    _check_versions(everybody, needed)
    return [each.address for each in everybody]


def gather_in(
    folder: Path, number: int, members: int, content: bytes, *, seconds_max: float = ARRIVAL_SECONDS_MAX
) -> list[bytes]:
    """Leave a member's content in a folder and wait until all members have; return everybody's, in order."""
    new = folder / f".{number}"
    new.write_bytes(content)
    new.replace(folder / str(number))  # a file that is there is whole
    places = [folder / str(member) for member in range(members)]
    awaited = places
    deadline = monotonic() + seconds_max
    while awaited := [place for place in awaited if not place.exists()]:
        if monotonic() > deadline:
            raise TransportError(
                f"worker {number} has waited {seconds_max:g} seconds for worker "
                f"{', '.join(place.name for place in awaited)} of {members}, which Spark has started, but "
                "whose Python process has not reported yet. Look at Spark's log, and check that the host "
                "has memory and cores for so many workers."
            )
        sleep(_LOOK_SECONDS)
    return [place.read_bytes() for place in places]


def report_batch(worker: int, reports: Sequence[bytes]) -> pa.RecordBatch:
    """What a task tells the driver at its end, as the rows of its job."""
    return pa.RecordBatch.from_arrays(
        [integers([worker] * len(reports), pa.int32()), binaries(reports)], schema=REPORT
    )


def versions() -> dict[str, str]:
    """The versions that all workers must share."""
    return {
        "Python": ".".join(platform.python_version_tuple()[:2]),
        "pyarrow": pa.__version__,
        # Not by importing it, which takes long; many a flow never needs it.
        "pandas": version("pandas"),
        "pointstamp": __version__,
    }


def hosts_of(context: BarrierTaskContext) -> list[int]:
    """For each task the first task on its host: who shares a host, as every task knows it alike."""
    names = [info.address.rpartition(":")[0] for info in context.getTaskInfos()]
    return [names.index(name) for name in names]


def listens_at(folder: str | None, member: int | str, endpoint: str | Callable[[], str]) -> str:
    """Where a member listens: at a unix socket in the folder where all meet, or at a port of its host.

    Who is in one folder is on one host and of one user, and nobody else may open it: such members speak
    without keys. Where its path is too long for a socket, all of them use ports.
    """
    if folder is None or len(os.fsencode(folder)) + _SOCKET_NAME_BYTES > SOCKET_PATH_BYTES_MAX:
        return endpoint if isinstance(endpoint, str) else endpoint_at(endpoint())
    return f"ipc://{folder}/{_SOCKET_NAME}{member}"


def own_address(context: BarrierTaskContext, driver: Address | None = None) -> str:
    """The address at which the other tasks (and the driver, if it is a member) reach this one, and no wider.

    Tasks of one executor are on one host, as all are in a local session: they speak through loopback. Others
    use the address by which Spark reaches their executor.
    """
    infos = context.getTaskInfos()
    is_near = driver is None or is_loopback(driver.endpoint)
    if is_near and len({info.address for info in infos}) == 1:
        return LOOPBACK
    host = infos[context.partitionId()].address.rpartition(":")[0]
    try:
        return address_of(host or socket.gethostname())
    except OSError as error:
        raise TransportError(
            f"worker {context.partitionId()} cannot find the address of its own host '{host}': {error}. Set "
            "SPARK_LOCAL_IP on the executors, or make the name known there."
        ) from error


def _check_versions(everybody: Iterable[Hello], needed: Mapping[str, str]) -> None:
    # Everybody looks at everybody, so that all come to the same end at the same moment.
    for other in everybody:
        for package, needs in needed.items():
            if other.versions.get(package) != needs:
                raise TransportError(
                    f"the driver runs {package} {needs} and worker {other.worker} runs "
                    f"{other.versions.get(package)}; driver and executors need the same. Install one "
                    "environment on all of them, or ship one with spark.archives."
                )
