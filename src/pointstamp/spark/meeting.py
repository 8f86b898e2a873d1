"""How the tasks of a gang meet: what each tells the others, and what must agree before they begin."""

import platform
import socket
from collections.abc import Iterable, Mapping
from importlib.metadata import version
from typing import Final

import msgspec
import pyarrow as pa
from pyspark import BarrierTaskContext

from pointstamp.errors import TransportError
from pointstamp.runtime.door import Address
from pointstamp.version import __version__

MEETING_SECONDS_MAX: Final = 60.0

REPORT_DDL: Final = "worker int, report binary"
REPORT: Final = pa.schema([("worker", pa.int32()), ("report", pa.binary())])


class Hello(msgspec.Struct, frozen=True):
    """What each task tells the others when they meet."""

    worker: int
    address: Address
    versions: dict[str, str]


def meet(context: BarrierTaskContext, address: Address, needed: Mapping[str, str]) -> list[Address]:
    """Tell all tasks of the gang this one's address; return everybody's, in the order of their numbers."""
    hello = Hello(context.partitionId(), address, versions())
    said = context.allGather(msgspec.json.encode(hello).decode())
    everybody = sorted((msgspec.json.decode(each, type=Hello) for each in said), key=lambda each: each.worker)
    _check_versions(everybody, needed)
    return [each.address for each in everybody]


def versions() -> dict[str, str]:
    """The versions that all workers must share."""
    return {
        "Python": ".".join(platform.python_version_tuple()[:2]),
        "pyarrow": pa.__version__,
        # Not by importing it, which takes long and can be done while the tasks meet.
        "pandas": version("pandas"),
        "pointstamp": __version__,
    }


def own_address(context: BarrierTaskContext) -> str:
    """The address by which Spark reaches this executor, so that its peers can, too."""
    host = context.getTaskInfos()[context.partitionId()].address.rpartition(":")[0].strip("[]")
    try:
        return socket.gethostbyname(host or socket.gethostname())
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
